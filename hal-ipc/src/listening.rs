//! A socket that listens in the directory of services.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, renameat};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use nnburst_hal::trusted::{Owners, TrustError, TrustedDir, proc_path};
use nnburst_hal::{FileIdentity, FileStatus};

use crate::directory::{connect_to, socket_path};
use crate::socket::is_answered;

/// The time to wait for a name that is held by a process which doesn't answer. A service that was
/// killed has its socket until the last of its threads is dead, and whoever starts services starts
/// the next one before.
const PARTING: Duration = Duration::from_secs(2);

/// The period of the tries.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket that listens in the directory of services; its file goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// `None` where the file is somebody else's to remove.
    _file: Option<SocketFile>,
    /// The lock that owning the name means; the system lifts it when the process is gone.
    _lock: Option<NameLock>,
}

impl Listening {
    /// Listens as `name`. A socket nobody listens on any more is replaced; of two who come at a
    /// time one gets the name.
    pub(crate) fn bind(dir: &Path, name: &str) -> io::Result<Self> {
        let path = socket_path(dir, name)?;
        let dir = Arc::new(own_directory(dir)?);
        let name_of_socket = OsString::from(path.file_name().unwrap_or_default());
        let lock = own(&dir, &format!(".{name}.lock").into(), &name_of_socket)?;
        // A name of our own first, then renamed: the file has its mode before anybody can find it,
        // and replacing a dead socket is one step.
        let passing = format!(".{name}.{}", std::process::id());
        let _ = unlinkat(&dir, passing.as_str(), UnlinkatFlags::NoRemoveDir);
        let (family, kind) = (AddressFamily::Unix, SockType::Stream);
        let listener = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
        let address = UnixAddr::new(&proc_path(dir.as_fd()).join(&passing))?;
        bind(listener.as_raw_fd(), &address)?;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        fchmodat(&dir, passing.as_str(), mode, FchmodatFlags::FollowSymlink)?;
        listen(&listener, Backlog::new(BACKLOG)?)?;
        renameat(&dir, passing.as_str(), &dir, name_of_socket.as_os_str())?;
        let file = SocketFile {
            identity: FileStatus::of_name(&dir, name_of_socket.as_os_str())?.identity,
            dir,
            name: name_of_socket,
        };
        Ok(Self { listener: listener.into(), path, _file: Some(file), _lock: Some(lock) })
    }

    /// A socket that listens already; its file is its maker's.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from(socket);
        // The manager's may be set not to wait; ours waits in a thread of its own.
        listener.set_nonblocking(false)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().map(Path::to_owned).unwrap_or_default();
        Ok(Self { listener, path, _file: None, _lock: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

/// The file of a socket of ours.
#[derive(Debug)]
struct SocketFile {
    dir: Arc<TrustedDir>,
    name: OsString,
    /// Tells our file from a successor's of the same name.
    identity: FileIdentity,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = FileStatus::of_name(&self.dir, self.name.as_os_str());
        if found.is_ok_and(|found| found.identity == self.identity) {
            let _ = unlinkat(&self.dir, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Owns a name in the directory. Its file goes when it is dropped, and stays where its owner was
/// killed.
#[derive(Debug)]
struct NameLock {
    file: std::fs::File,
    dir: Arc<TrustedDir>,
    name: OsString,
}

impl NameLock {
    /// `None` while somebody else has it.
    fn take(dir: &Arc<TrustedDir>, name: &OsString) -> io::Result<Option<Self>> {
        let file = dir.file(name, OFlag::O_RDWR | OFlag::O_CREAT)?;
        if file.try_lock().is_err() {
            return Ok(None);
        }
        let lock = Self { file, dir: Arc::clone(dir), name: name.clone() };
        // Whoever had it took the file along: locked is one that nobody finds any more.
        if lock.is_there() { Ok(Some(lock)) } else { Ok(None) }
    }

    /// Returns whether the file of that name is the one that is locked.
    fn is_there(&self) -> bool {
        let found = FileStatus::of_name(&self.dir, self.name.as_os_str());
        match (found, FileStatus::of(&self.file)) {
            (Ok(found), Ok(ours)) => found.identity == ours.identity,
            _ => false,
        }
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = unlinkat(&self.dir, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Opens the directory, which is made with mode 0700 if need be and must be this user's own.
fn own_directory(dir: &Path) -> io::Result<TrustedDir> {
    let dir = TrustedDir::create(dir, Owners::own()).map_err(|error| {
        let error = io::Error::from(error);
        let cure = "name one that this user may make with service-dir (NNBURST_SERVICE_DIR)";
        match error.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::NotFound => io::Error::new(error.kind(), format!("{error}; {cure}")),
            _ => error,
        }
    })?;
    let (owner, uid) = (dir.owner(), geteuid().as_raw());
    if owner == uid {
        return Ok(dir);
    }
    let (path, expected) = (dir.path().to_owned(), format!("uid {uid}"));
    Err(TrustError::Owner { path, owner, expected }.into())
}

/// Takes the lock of a name whose socket nobody listens on.
///
/// # Errors
/// `AddrInUse` at once if somebody answers there, and in a while if somebody is there and doesn't.
fn own(dir: &Arc<TrustedDir>, lock_name: &OsString, socket: &OsString) -> io::Result<NameLock> {
    let end = Instant::now() + PARTING;
    loop {
        let lock = NameLock::take(dir, lock_name)?;
        let left = end.saturating_duration_since(Instant::now());
        let taken = match (presence(dir, socket, left.max(POLL_INTERVAL)), lock) {
            (Presence::Nobody, Some(lock)) => return Ok(lock),
            (Presence::Answers, _) => "served already",
            _ if left.is_zero() => "taken by a process that doesn't answer",
            _ => {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
        };
        let reason = format!("{} is {taken}", dir.path().join(socket).display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
}

/// The listener on a socket.
enum Presence {
    Nobody,
    /// A service.
    Answers,
    /// Somebody who hung up without a word, or is silent: dead in a moment, for all we know.
    Silent,
}

fn presence(dir: &TrustedDir, socket: &OsString, patience: Duration) -> Presence {
    // Who is stuck may have a full queue of those who want to connect.
    let is_answered = match connect_to(&proc_path(dir.as_fd()).join(socket), POLL_INTERVAL) {
        Ok(socket) => is_answered(socket, patience),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        Err(_) => return Presence::Nobody,
    };
    if is_answered { Presence::Answers } else { Presence::Silent }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::directory::services;

    #[test]
    fn a_socket_is_private_replaceable_once_dead_and_gone_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("services");
        let first = Listening::bind(&dir, "one").unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::metadata(first.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(services(&dir).unwrap(), ["one"]);
        let refused = Listening::bind(&dir, "one").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("doesn't answer"), "nobody accepts: {refused}");
        // What a killed service leaves: a file that nobody listens on.
        drop(UnixListener::bind(dir.join("dead.sock")).unwrap());
        let second = Listening::bind(&dir, "dead").unwrap();
        assert_eq!(services(&dir).unwrap(), ["dead", "one"]);
        drop(second);
        assert_eq!(services(&dir).unwrap(), ["one"]);
        drop(first);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "locks go too");
    }

    #[test]
    fn a_directory_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Listening::bind(dir.path(), "one").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("mode 0777"), "{refused}");
    }

    #[test]
    fn a_long_path_is_no_longer_than_an_address() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("long".repeat(20)).join("long".repeat(20));
        drop(Listening::bind(&dir, "one").unwrap());
    }
}
