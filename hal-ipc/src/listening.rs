//! A socket that listens in the directory of services.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, renameat};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
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

/// Why a name can't be taken over whose socket the process that serves did not make.
const MANAGED: &str = "served on a socket that a service manager made: reload or restart it there";

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket that listens in the directory of services; its file goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// `None` where the file is somebody else's to remove.
    file: Option<SocketFile>,
    /// The lock that owning the name means; the system lifts it when the process is gone.
    lock: Mutex<Option<NameLock>>,
}

/// Whose name it is that a service is to listen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nobody's.
    Free,
    /// Nobody's, or that of a process that serves it: which clients no longer find from then on,
    /// and which is to serve those that it has until they go.
    TakeOver,
}

impl Listening {
    /// Listens as `name`. A socket nobody listens on any more is replaced; of two who come at a
    /// time one gets the name, or, where both take it over, the other has it in the end.
    pub(crate) fn bind(dir: &Path, name: &str, claim: Claim) -> io::Result<Self> {
        let path = socket_path(dir, name)?;
        let dir = Arc::new(own_directory(dir)?);
        let name_of_socket = OsString::from(path.file_name().unwrap_or_default());
        let name_of_lock: OsString = format!(".{name}.lock").into();
        // Who listens without the lock has the socket of somebody else.
        let is_free = claim == Claim::Free || NameLock::take(&dir, &name_of_lock)?.is_some();
        let answered = if claim == Claim::Free { "served already" } else { MANAGED };
        let owned = match is_free {
            true => Some(own(&dir, &name_of_lock, &name_of_socket, answered)?),
            false => None,
        };
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
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        // Known and watched from before the name is ours, so that no successor goes unseen, or is
        // taken for us.
        let identity = FileStatus::of_name(&dir, passing.as_str())?.identity;
        let changes = changes(&dir).ok();
        renameat(&dir, passing.as_str(), &dir, name_of_socket.as_os_str())?;
        let lock = owned.or_else(|| inherit(&dir, &name_of_lock));
        let file = SocketFile { identity, changes, dir, name: name_of_socket, lock: name_of_lock };
        Ok(Self { listener, path, file: Some(file), lock: Mutex::new(lock) })
    }

    /// A socket that listens already; its file is its maker's.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().map(Path::to_owned).unwrap_or_default();
        Ok(Self { listener, path, file: None, lock: Mutex::new(None) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket, which doesn't wait for clients.
    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Returns whether nobody else has the socket, such as a service manager for the next process.
    pub(crate) fn is_ours_alone(&self) -> bool {
        self.file.is_some()
    }

    /// Returns whether it is told when it is taken over, and has the lock of its name. Else it is
    /// to look now and then ([`is_taken_over`](Self::is_taken_over)).
    pub(crate) fn is_settled(&self) -> bool {
        let Some(file) = &self.file else { return true };
        file.changes.is_some() && self.locked().is_some()
    }

    fn locked(&self) -> MutexGuard<'_, Option<NameLock>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes readable when names in the directory change; `None` where the system has no
    /// more of its kind.
    pub(crate) fn changes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_ref()?.changes.as_ref()?.as_fd())
    }

    /// Returns whether the name leads to another's socket, once it has taken note of the changes.
    /// While it doesn't, a lock that the process before kept for too long is taken where it is free
    /// by now.
    pub(crate) fn is_taken_over(&self) -> bool {
        let Some(file) = &self.file else { return false };
        if file.is_replaced() {
            return true;
        }
        let mut lock = self.locked();
        if lock.is_none() {
            *lock = NameLock::take(&file.dir, &file.lock).ok().flatten();
        }
        false
    }

    /// Gives the name up; the socket goes on listening for those who found it before.
    pub(crate) fn give_up_name(&self) {
        drop(self.locked().take());
    }
}

/// The file of a socket of ours.
#[derive(Debug)]
struct SocketFile {
    dir: Arc<TrustedDir>,
    name: OsString,
    /// Tells our file from a successor's of the same name.
    identity: FileIdentity,
    changes: Option<Inotify>,
    /// The name of its lock.
    lock: OsString,
}

impl SocketFile {
    fn is_replaced(&self) -> bool {
        // They say no more than that there were any.
        while self.changes.as_ref().is_some_and(|changes| changes.read_events().is_ok()) {}
        self.found().is_some_and(|found| found != self.identity)
    }

    /// The file that has our name.
    fn found(&self) -> Option<FileIdentity> {
        let status = FileStatus::of_name(&self.dir, self.name.as_os_str());
        status.ok().map(|status| status.identity)
    }
}

/// Watches the names of a directory for new ones.
fn changes(dir: &TrustedDir) -> Result<Inotify, Errno> {
    let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    let appearing = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE;
    changes.add_watch(&proc_path(dir.as_fd()), appearing)?;
    Ok(changes)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.found() == Some(self.identity) {
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
/// `AddrInUse` at once if somebody answers there, which is told as `answered`, and in a while if
/// somebody is there and doesn't.
fn own(
    dir: &Arc<TrustedDir>,
    lock_name: &OsString,
    socket: &OsString,
    answered: &str,
) -> io::Result<NameLock> {
    let end = Instant::now() + PARTING;
    loop {
        let lock = NameLock::take(dir, lock_name)?;
        let left = end.saturating_duration_since(Instant::now());
        let taken = match (presence(dir, socket, left.max(POLL_INTERVAL)), lock) {
            (Presence::Nobody, Some(lock)) => return Ok(lock),
            (Presence::Answers, _) => answered,
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

/// Takes the lock of a name whose socket is ours already, from whoever had the name before: that
/// process gives it up once it has noticed. `None` if it doesn't; it may be stopped.
fn inherit(dir: &Arc<TrustedDir>, lock_name: &OsString) -> Option<NameLock> {
    let end = Instant::now() + PARTING;
    while Instant::now() < end {
        if let Ok(Some(lock)) = NameLock::take(dir, lock_name) {
            return Some(lock);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    tracing::warn!(lock = ?dir.path().join(lock_name), "the process before keeps its lock");
    None
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
        let first = Listening::bind(&dir, "one", Claim::Free).unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::metadata(first.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(services(&dir).unwrap(), ["one"]);
        let refused = Listening::bind(&dir, "one", Claim::Free).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("doesn't answer"), "nobody accepts: {refused}");
        // What a killed service leaves: a file that nobody listens on.
        drop(UnixListener::bind(dir.join("dead.sock")).unwrap());
        let second = Listening::bind(&dir, "dead", Claim::Free).unwrap();
        assert_eq!(services(&dir).unwrap(), ["dead", "one"]);
        drop(second);
        assert_eq!(services(&dir).unwrap(), ["one"]);
        drop(first);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "locks go too");
    }

    #[test]
    fn a_name_is_had_at_once_and_its_lock_when_the_process_before_notices() {
        let dir = tempfile::tempdir().unwrap();
        let first = Listening::bind(dir.path(), "one", Claim::Free).unwrap();
        assert!(first.is_settled() && !first.is_taken_over());
        // The first is stopped for now.
        let second = Listening::bind(dir.path(), "one", Claim::TakeOver).unwrap();
        assert!(!second.is_settled() && !second.is_taken_over());
        assert!(first.is_taken_over());
        first.give_up_name();
        assert!(!second.is_taken_over() && second.is_settled());
        drop(first);
        assert!(second.path().exists(), "it is the second's");
        drop(second);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Listening::bind(dir.path(), "one", Claim::Free).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("mode 0777"), "{refused}");
    }

    #[test]
    fn a_long_path_is_no_longer_than_an_address() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("long".repeat(20)).join("long".repeat(20));
        drop(Listening::bind(&dir, "one", Claim::Free).unwrap());
    }
}
