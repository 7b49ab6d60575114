//! Where services are found: a directory of sockets, `<instance>.sock`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const VARIABLE: &str = "NNBURST_SERVICE_DIR";
const SUFFIX: &str = ".sock";

/// The directory of services: `NNBURST_SERVICE_DIR`, else `nnburst` in the user's runtime directory,
/// else a directory of the user's own in /tmp.
pub fn service_dir() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = set(VARIABLE) {
        return dir.into();
    }
    match set("XDG_RUNTIME_DIR") {
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
}

impl Listening {
    /// Listens as `name`. A socket nobody listens on any more is replaced.
    pub(crate) fn bind(dir: &Path, name: &str) -> io::Result<Self> {
        let path = socket_path(dir, name)?;
        make_private(dir)?;
        // A name of our own first, then renamed: the file has its mode before anybody can find it,
        // and replacing a dead socket is one step.
        if UnixStream::connect(&path).is_ok() {
            let reason = format!("{} is served already", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
        }
        let passing = dir.join(format!(".{name}.{}", std::process::id()));
        let _ = std::fs::remove_file(&passing);
        let listener = UnixListener::bind(&passing)?;
        std::fs::set_permissions(&passing, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&passing, &path)?;
        let inode = std::fs::symlink_metadata(&path)?.ino();
        Ok(Self { listener, path, inode: Some(inode) })
    }

    /// A socket that listens already; its file is its maker's.
    pub(crate) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from(socket);
        // The manager's may be set not to wait; ours waits in a thread of its own.
        listener.set_nonblocking(false)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().map(Path::to_owned).unwrap_or_default();
        Ok(Self { listener, path, inode: None })
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
        assert_eq!(Listening::bind(&dir, "one").unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // What a killed service leaves: a file that nobody listens on.
        drop(UnixListener::bind(dir.join("dead.sock")).unwrap());
        let second = Listening::bind(&dir, "dead").unwrap();
        assert_eq!(services(&dir), ["dead", "one"]);
        drop(second);
        assert_eq!(services(&dir), ["one"]);
    }

    #[test]
    fn a_directory_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Listening::bind(dir.path(), "one").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
