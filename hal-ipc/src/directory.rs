//! The directories of services: a directory of sockets, `<instance>.sock`, that no other user can
//! change.
//!
//! Whoever owns a service's socket gets models and memories and gives the answers, so that a
//! directory is walked as [`nnburst_hal::trusted`] says, a socket is connected to by what was
//! examined and not by its name, and the server's user is looked at (`SO_PEERCRED`) before a byte
//! is sent.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, getsockopt, setsockopt, socket, sockopt,
};
use nix::unistd::geteuid;
use nnburst_hal::trusted::{Owners, TrustError, TrustedDir, proc_path};
use nnburst_hal::{environment, setting};

use crate::client::service_timeout;
use crate::socket::socket_timeout;

const SUFFIX: &str = ".sock";

/// Why there is no directory of services, or no service in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// No place for sockets is this user's own.
    #[error(
        "there is no directory for services: neither XDG_RUNTIME_DIR nor HOME is set, and {} is not \
         this user's with mode 0700; set NNBURST_SERVICE_DIR",
        runtime.display()
    )]
    NoHome {
        /// The user's runtime directory, as it would be called.
        runtime: PathBuf,
    },
    /// The setting `service-user` names nobody.
    #[error("service-user is {user:?}, expected a uid or a name in /etc/passwd")]
    NoUser {
        /// Its value.
        user: String,
    },
    /// Others than trusted users have, or could have, a say in the directory or the socket.
    #[error("{}{}", .0, cure_of(.0))]
    Untrusted(#[from] TrustError),
    /// The server is another user's process.
    #[error("{} is not used: served by uid {uid}, expected {expected}", path.display())]
    OtherServer {
        /// The socket.
        path: PathBuf,
        /// The server's effective user.
        uid: u32,
        /// The users that would be right.
        expected: String,
    },
    /// No service can be called that, or nobody can be connected to.
    #[error("{}: {source}", path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn cure_of(error: &TrustError) -> String {
    match error {
        TrustError::System { path, source } => cure(path, source),
        _ => String::new(),
    }
}

/// The remedy where a service can't be reached.
pub(crate) fn cure(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => match std::fs::metadata(path) {
            Ok(dir) if dir.is_dir() => format!(
                "; it is of uid {}, mode {:04o}: have its owner serve where both may look \
                 (service-dir)",
                dir.uid(),
                dir.mode() & 0o7777
            ),
            Ok(socket) => format!(
                "; its owner (uid {}) lets users of group {} in (mode {:04o}): become one of them",
                socket.uid(),
                socket.gid(),
                socket.mode() & 0o7777
            ),
            Err(_) => {
                let dir = path.parent().unwrap_or(path).display();
                format!(
                    "; {dir} is another user's alone: have it serve where both may look \
                         (service-dir)"
                )
            }
        },
        ErrorKind::NotFound => {
            "; start it with `nnburst serve`, or see with `nnburst devices` which there are".into()
        }
        ErrorKind::ConnectionRefused => "; it has ended: start it with `nnburst serve`".into(),
        _ => String::new(),
    }
}

impl From<DirectoryError> for io::Error {
    fn from(error: DirectoryError) -> Self {
        let kind = match &error {
            DirectoryError::System { source, .. } => source.kind(),
            DirectoryError::Untrusted(TrustError::System { source, .. }) => source.kind(),
            DirectoryError::NoHome { .. } => ErrorKind::NotFound,
            DirectoryError::NoUser { .. } => ErrorKind::InvalidInput,
            _ => ErrorKind::PermissionDenied,
        };
        Self::new(kind, error)
    }
}

/// The directory of services. The first of these that says anything:
///
/// 1. the setting `service-dir` (`NNBURST_SERVICE_DIR`, or a line of the file of settings);
/// 2. `nnburst` in `XDG_RUNTIME_DIR`;
/// 3. `nnburst` in `/run/user/UID`, if that is this user's own with mode 0700;
/// 4. `nnburst/services` in the user's directory for state (`XDG_STATE_HOME`, `~/.local/state`).
///
/// It need not be there, and is examined when it is used.
///
/// # Errors
/// [`DirectoryError::NoHome`] where none says anything.
pub fn service_dir() -> Result<PathBuf, DirectoryError> {
    if let Some(dir) = setting("service-dir") {
        return Ok(dir.into());
    }
    if let Some(dir) = environment("XDG_RUNTIME_DIR") {
        return Ok(Path::new(&dir).join("nnburst"));
    }
    let uid = geteuid().as_raw();
    let runtime = Path::new("/run/user").join(uid.to_string());
    let is_private = |dir: TrustedDir| dir.owner() == uid && dir.mode() & 0o077 == 0;
    if TrustedDir::open(&runtime, Owners::own()).is_ok_and(is_private) {
        return Ok(runtime.join("nnburst"));
    }
    state_home().map(|dir| dir.join("nnburst/services")).ok_or(DirectoryError::NoHome { runtime })
}

/// The user's directory for state.
fn state_home() -> Option<PathBuf> {
    let own = || Some(PathBuf::from(environment("HOME")?).join(".local/state"));
    environment("XDG_STATE_HOME").map(PathBuf::from).or_else(own)
}

/// The users whose directories, sockets and servers are trusted: root, this user, and the one that
/// the setting `service-user` names, by uid or name, for a service of the system's that runs as a
/// user of its own.
///
/// # Errors
/// [`DirectoryError::NoUser`] where the setting names nobody.
pub fn service_owners() -> Result<Owners, DirectoryError> {
    let Some(user) = setting("service-user") else { return Ok(Owners::own()) };
    let user = user.to_string_lossy().into_owned();
    let users = || std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match user.parse().ok().or_else(|| uid_of(&user, &users())) {
        Some(uid) => Ok(Owners::own().and(Some(uid))),
        None => Err(DirectoryError::NoUser { user }),
    }
}

/// A user in the text of `/etc/passwd`.
fn uid_of(user: &str, users: &str) -> Option<u32> {
    let mut fields = users.lines().map(|line| line.split(':'));
    let mut fields =
        fields.find_map(|mut fields| (fields.next() == Some(user)).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

/// The names of the services in a directory, sorted; an absent directory has none.
///
/// # Errors
/// Others than trusted users have, or could have, a say in the directory, or it can't be read.
pub fn services(dir: &Path) -> Result<Vec<String>, DirectoryError> {
    let dir = match TrustedDir::open(dir, service_owners()?) {
        Err(error) if error.is_absent() => return Ok(Vec::new()),
        dir => dir?,
    };
    let names = dir.names()?.into_iter();
    let mut names: Vec<_> = names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(SUFFIX)?.to_owned()))
        .filter(|name| is_name(name))
        .collect();
    names.sort();
    Ok(names)
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
        Err(io::Error::new(ErrorKind::InvalidInput, reason))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Returns whether somebody listens on a service's socket.
///
/// # Errors
/// Others than trusted users have, or could have, a say in who does.
pub fn is_served(socket: &Path) -> Result<bool, DirectoryError> {
    match connect(socket, service_timeout()) {
        Ok(_) => Ok(true),
        Err(
            DirectoryError::System { .. } | DirectoryError::Untrusted(TrustError::System { .. }),
        ) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Connects to a service's socket, and makes sure whose it is.
///
/// # Errors
/// Directory, socket or server is another user's, or nobody listens, or nobody accepts within
/// `patience`.
pub(crate) fn connect(path: &Path, patience: Duration) -> Result<OwnedFd, DirectoryError> {
    let owners = service_owners()?;
    let failed = |source: io::Error| DirectoryError::System { path: path.to_owned(), source };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(ErrorKind::InvalidInput.into()));
    };
    let socket = TrustedDir::open(dir, owners)?.socket(name)?;
    let connected = connect_to(&proc_path(socket.as_fd()), patience).map_err(failed)?;
    let server = getsockopt(&connected, sockopt::PeerCredentials);
    let uid = server.map_err(|errno| failed(errno.into()))?.uid();
    if owners.has(uid) {
        return Ok(connected);
    }
    Err(DirectoryError::OtherServer { path: path.to_owned(), uid, expected: owners.to_string() })
}

/// Connects without more ado. `patience` is for a listener whose queue of those who want to connect
/// is full.
pub(crate) fn connect_to(path: &Path, patience: Duration) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Unix, SockType::Stream);
    let connected = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    let patience = socket_timeout(patience.max(Duration::from_millis(1)));
    setsockopt(&connected, sockopt::SendTimeout, &patience)?;
    nix::sys::socket::connect(connected.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(connected)
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
    fn users_are_found_by_name() {
        let users = "root:x:0:0::/root:/bin/sh\nbroken\nnn:x:99:98::/:/bin/false\n";
        assert_eq!(uid_of("nn", users), Some(99));
        assert_eq!(uid_of("root", users), Some(0));
        assert_eq!(uid_of("broken", users), None);
        assert_eq!(uid_of("n", users), None);
    }

    #[test]
    fn a_service_that_accepts_nobody_is_waited_for_no_longer_than_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("full.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let brief = Duration::from_millis(1);
        let mut waiting = Vec::new();
        let refused = loop {
            match connect(&path, brief) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(io::Error::from(refused).kind(), ErrorKind::WouldBlock);
    }
}
