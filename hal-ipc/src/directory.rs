//! Where services are found: a directory of sockets, `<instance>.sock`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::socket::is_answered;

const SUFFIX: &str = ".sock";

/// How long a name is waited for that is taken by somebody who doesn't answer. A service that was killed has its
/// socket until the last of its threads is dead, and whoever starts services starts the next one before.
const PARTING: Duration = Duration::from_secs(2);

/// How often it is tried.
const GLANCE: Duration = Duration::from_millis(5);

/// The directory of services: that of the setting `service-dir` (`NNBURST_SERVICE_DIR`, or a line of the file of
/// settings), else `nnburst` in the user's runtime directory,
/// else a directory of the user's own in /tmp.
pub fn service_dir() -> PathBuf {
    if let Some(dir) = nnburst_hal::setting("service-dir") {
        return dir.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        Some(dir) => Path::new(&dir).join("nnburst"),
        None => {
            std::env::temp_dir().join(format!("nnburst-{}", rustix::process::geteuid().as_raw()))
        }
    }
}

/// The names of the services in a directory, sorted; an absent directory has none.
pub fn services(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()))
        .filter(|name| is_name(name))
        .collect();
    names.sort();
    names
}

/// The socket of a service.
///
/// # Errors
/// The name is none that a service can have.
pub fn socket_path(dir: &Path, name: &str) -> io::Result<PathBuf> {
    if is_name(name) {
        Ok(dir.join(format!("{name}{SUFFIX}")))
    } else {
        let reason = format!("{name:?} is no name of a service: letters, digits, '-', '_' and '.'");
        Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// A socket that listens in the directory of services; its file goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Tells our file from a successor's of the same name; `None` where the file is somebody else's to remove.
    inode: Option<u64>,
    /// What owning the name means; the system lifts it when the process is gone.
    _lock: Option<NameLock>,
}

/// Owns a name in the directory. Its file goes when it is dropped, and stays where its owner was killed.
#[derive(Debug)]
struct NameLock {
    file: OwnedFd,
    path: PathBuf,
}

impl NameLock {
    /// `None` while somebody else has it.
    fn take(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let lock = Self { file, path: path.to_owned() };
        // Whoever had it took the file along: locked is one that nobody finds any more.
        if lock.is_there() { Ok(Some(lock)) } else { Ok(None) }
    }

    /// Whether the file of that path is the one that is locked.
    fn is_there(&self) -> bool {
        let found = std::fs::symlink_metadata(&self.path).map(|file| (file.dev(), file.ino()));
        let ours = rustix::fs::fstat(&self.file).map(|file| (file.st_dev, file.st_ino));
        matches!((found, ours), (Ok(found), Ok(ours)) if found == ours)
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listening {
    /// Listens as `name`. A socket nobody listens on any more is replaced; of two who come at a time one gets the name.
    pub(crate) fn bind(dir: &Path, name: &str) -> io::Result<Self> {
        let path = socket_path(dir, name)?;
        make_private(dir)?;
        let lock = own(&dir.join(format!(".{name}.lock")), &path)?;
        // A name of our own first, then renamed: the file has its mode before anybody can find it,
        // and replacing a dead socket is one step.
        let passing = dir.join(format!(".{name}.{}", std::process::id()));
        let _ = std::fs::remove_file(&passing);
        let listener = UnixListener::bind(&passing)?;
        std::fs::set_permissions(&passing, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&passing, &path)?;
        let inode = std::fs::symlink_metadata(&path)?.ino();
        Ok(Self { listener, path, inode: Some(inode), _lock: Some(lock) })
    }

    /// A socket that listens already; its file is its maker's.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from(socket);
        // The manager's may be set not to wait; ours waits in a thread of its own.
        listener.set_nonblocking(false)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().map(Path::to_owned).unwrap_or_default();
        Ok(Self { listener, path, inode: None, _lock: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let ours = |inode| std::fs::symlink_metadata(&self.path).is_ok_and(|f| f.ino() == inode);
        if self.inode.is_some_and(ours) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Takes the lock of a name whose socket nobody listens on.
///
/// # Errors
/// `AddrInUse` at once if somebody answers there, and in a while if somebody is there and doesn't.
fn own(path: &Path, socket: &Path) -> io::Result<NameLock> {
    let end = Instant::now() + PARTING;
    loop {
        let lock = NameLock::take(path)?;
        let left = end.saturating_duration_since(Instant::now());
        let taken = match (presence(socket, left.max(GLANCE))?, lock) {
            (Presence::Nobody, Some(lock)) => return Ok(lock),
            (Presence::Answers, _) => "served already",
            _ if left.is_zero() => "taken by a process that doesn't answer",
            _ => {
                std::thread::sleep(GLANCE);
                continue;
            }
        };
        let reason = format!("{} is {taken}", socket.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
}

/// Who listens on a socket.
enum Presence {
    Nobody,
    /// A service.
    Answers,
    /// Somebody who hung up without a word, or is silent: dead in a moment, for all we know.
    Silent,
}

fn presence(path: &Path, patience: Duration) -> io::Result<Presence> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    // Without blocking: who is stuck may have a full queue of those who want to connect.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) if is_answered(socket, patience) => Ok(Presence::Answers),
        Ok(()) | Err(rustix::io::Errno::AGAIN) => Ok(Presence::Silent),
        Err(_) => Ok(Presence::Nobody),
    }
}

/// Makes the directory with mode 0700, or accepts one that is ours alone to write.
fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let found = std::fs::symlink_metadata(dir)?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_dir() || !ours || found.mode() & 0o022 != 0 {
        let reason =
            format!("{} is not a directory that only its owner, us, may write", dir.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}

/// Connects to a service's socket.
pub(crate) fn connect(path: &Path) -> io::Result<OwnedFd> {
    Ok(UnixStream::connect(path)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_directory() {
        for name in ["", "..", ".hidden", "a/b", "../up", "nul\0", &"long".repeat(17)] {
            assert!(socket_path(Path::new("/run"), name).is_err(), "{name:?}");
        }
        let path = socket_path(Path::new("/run"), "nnapi-sample_all").unwrap();
        assert_eq!(path, Path::new("/run/nnapi-sample_all.sock"));
    }

    #[test]
    fn a_socket_is_private_replaceable_once_dead_and_gone_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("services");
        let first = Listening::bind(&dir, "one").unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::metadata(first.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(services(&dir), ["one"]);
        let refused = Listening::bind(&dir, "one").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("doesn't answer"), "nobody accepts: {refused}");
        // What a killed service leaves: a file that nobody listens on.
        drop(UnixListener::bind(dir.join("dead.sock")).unwrap());
        let second = Listening::bind(&dir, "dead").unwrap();
        assert_eq!(services(&dir), ["dead", "one"]);
        drop(second);
        assert_eq!(services(&dir), ["one"]);
        drop(first);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "locks go too");
    }

    #[test]
    fn a_directory_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Listening::bind(dir.path(), "one").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
