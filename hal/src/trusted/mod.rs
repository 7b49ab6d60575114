//! Files and directories that no other user can change.
//!
//! ```text
//!   /            root's                     every component: opened without following links, then
//!   /tmp         root's, sticky, shared     examined by its descriptor; the next is opened in it
//!   /tmp/mine    ours, only we may write    below a shared directory: no links at all
//! ```
//!
//! A path is walked from `/`. Each directory on the way belongs to root, to this process's user or
//! to a user who is named, and nobody else may write it. Whoever can't write a directory can't put
//! another file at its names, so that what was examined is what is used. Sticky directories of
//! root's that everybody may write, such as `/tmp`, are passed through: what is in them must be a
//! trusted user's own. Symbolic links are followed only where root made them in a directory that
//! root alone writes, never below a shared directory.

mod error;
mod owners;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, mkdirat};

use crate::FileStatus;

pub use error::TrustError;
pub use owners::Owners;

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// The bits that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// A directory that nobody but trusted users can change, and neither can they any directory on the
/// way to it.
#[derive(Debug)]
pub struct TrustedDir {
    fd: OwnedFd,
    path: PathBuf,
    owner: u32,
    mode: u32,
    owners: Owners,
    /// True if it, or a directory on the way, is one that everybody may write.
    shared: bool,
}

impl TrustedDir {
    /// Opens a directory of one of `owners`.
    ///
    /// # Errors
    /// It, or a directory on the way, isn't there, isn't theirs, or can be written by others.
    pub fn open(path: &Path, owners: Owners) -> Result<Self, TrustError> {
        Self::walked(path, owners, false)?.not_shared()
    }

    /// As [`TrustedDir::open`]; what isn't there yet is made, with mode 0700.
    ///
    /// # Errors
    /// As for [`TrustedDir::open`], and where a directory can't be made.
    pub fn create(path: &Path, owners: Owners) -> Result<Self, TrustError> {
        Self::walked(path, owners, true)?.not_shared()
    }

    /// As [`TrustedDir::open`], but may be a sticky directory of root's, such as `/tmp`: for files
    /// in it that are examined themselves.
    fn open_shared(path: &Path, owners: Owners) -> Result<Self, TrustError> {
        Self::walked(path, owners, false)
    }

    fn walked(path: &Path, owners: Owners, make: bool) -> Result<Self, TrustError> {
        let step = walk(path, owners, make)?;
        if !step.is_directory() {
            return Err(TrustError::Kind { path: step.path, expected: "directory" });
        }
        let (owner, mode) = (step.stat.owner, step.stat.mode);
        let shared = step.shared || mode & OTHERS_WRITE != 0;
        Ok(Self { fd: step.fd, path: step.path, owner, mode, owners, shared })
    }

    fn not_shared(self) -> Result<Self, TrustError> {
        match self.mode & OTHERS_WRITE {
            0 => Ok(self),
            _ => Err(TrustError::Writable { path: self.path, mode: self.mode }),
        }
    }

    /// The path that was walked, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user it belongs to.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The mode's permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The names in it, in no order.
    ///
    /// # Errors
    /// It can't be read.
    pub fn names(&self) -> Result<Vec<OsString>, TrustError> {
        let entries = std::fs::read_dir(proc_path(self.as_fd()));
        entries
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
            .map_err(|source| TrustError::System { path: self.path.clone(), source })
    }

    /// Opens a regular file in it, as `flags` say, without following a link; made with mode 0600
    /// where they have [`OFlag::O_CREAT`]. [`OFlag::O_TRUNC`] is not for here: the file is examined
    /// after it was opened.
    ///
    /// # Errors
    /// It isn't a trusted user's, others may write it, it has further names (hard links), or can't
    /// be opened.
    pub fn file(&self, name: &OsStr, flags: OFlag) -> Result<File, TrustError> {
        let path = self.path.join(name);
        // Not waiting for whoever has the other end of a FIFO.
        let safe = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let fd = openat(&self.fd, name, flags | safe, mode).map_err(|errno| match errno {
            Errno::ELOOP => TrustError::Link { path: path.clone() },
            errno => TrustError::system(&path, errno),
        })?;
        let stat = FileStatus::of(&fd).map_err(|errno| TrustError::system(&path, errno))?;
        let step = Step { fd, path, stat, shared: self.shared };
        step.check_file(self.owners)?;
        if flags.intersects(OFlag::O_WRONLY | OFlag::O_RDWR) {
            step.check_links()?;
        }
        Ok(step.fd.into())
    }

    /// A handle (`O_PATH`) on a socket in it, which can be connected to by [`proc_path`].
    ///
    /// # Errors
    /// It isn't a socket, or not a trusted user's.
    pub fn socket(&self, name: &OsStr) -> Result<OwnedFd, TrustError> {
        let step = self.step(name)?;
        step.check_owner(self.owners)?;
        match step.kind() {
            SFlag::S_IFSOCK => Ok(step.fd),
            SFlag::S_IFLNK => Err(TrustError::Link { path: step.path }),
            _ => Err(TrustError::Kind { path: step.path, expected: "socket" }),
        }
    }

    /// Returns the entry of this name, without following it.
    fn step(&self, name: &OsStr) -> Result<Step, TrustError> {
        Step::open(self.fd.as_fd(), self.path.join(name), name, self.shared)
    }
}

impl AsFd for TrustedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The text of a regular file of one of `owners`, which nobody else can change.
///
/// # Errors
/// The file, or a directory on the way, isn't there, isn't theirs, or can be written by others; it
/// is no text.
pub fn read_trusted(path: &Path, owners: Owners) -> Result<String, TrustError> {
    let step = walk(path, owners, false)?;
    step.check_file(owners)?;
    let failed = |source: io::Error| TrustError::System { path: step.path.clone(), source };
    let mut file = File::open(proc_path(step.fd.as_fd())).map_err(failed)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Opens a file to append to, made with mode 0600 where it isn't there. Its directory may be a
/// shared one, such as `/tmp`; the file itself must be a trusted user's.
///
/// # Errors
/// As for [`TrustedDir::file`] and [`TrustedDir::open`].
pub fn append_trusted(path: &Path, owners: Owners) -> Result<File, TrustError> {
    let path = absolute(path)?;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(TrustError::Kind { path, expected: "file" });
    };
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT;
    TrustedDir::open_shared(dir, owners)?.file(name, flags)
}

/// The canonical path of a program that nobody but `owners` can change or replace.
///
/// # Errors
/// As for [`read_trusted`]; the path is not absolute.
pub fn trusted_program(path: &Path, owners: Owners) -> Result<PathBuf, TrustError> {
    if !path.is_absolute() {
        return Err(TrustError::Relative { path: path.to_owned() });
    }
    let step = walk(path, owners, false)?;
    step.check_file(owners)?;
    Ok(step.path)
}

/// A path that leads to what a descriptor refers to, wherever that has moved.
pub fn proc_path(fd: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

/// The state of the walk.
struct Step {
    fd: OwnedFd,
    path: PathBuf,
    stat: FileStatus,
    /// True if a directory on the way is one that everybody may write.
    shared: bool,
}

impl Step {
    fn open(
        dir: BorrowedFd<'_>,
        path: PathBuf,
        name: &(impl NixPath + ?Sized),
        shared: bool,
    ) -> Result<Self, TrustError> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened =
            openat(dir, name, flags, Mode::empty()).and_then(|fd| Ok((FileStatus::of(&fd)?, fd)));
        match opened {
            Ok((stat, fd)) => Ok(Self { fd, path, stat, shared }),
            Err(errno) => Err(TrustError::system(&path, errno)),
        }
    }

    fn kind(&self) -> SFlag {
        self.stat.kind
    }

    fn is_directory(&self) -> bool {
        self.kind() == SFlag::S_IFDIR
    }

    /// Returns whether root alone decides what is here.
    fn is_roots(&self, owners: Owners) -> bool {
        let alone = self.stat.mode & OTHERS_WRITE == 0 || self.kind() == SFlag::S_IFLNK;
        !self.shared && alone && owners.is_root(self.stat.owner, self.shared)
    }

    fn check_owner(&self, owners: Owners) -> Result<(), TrustError> {
        let owner = self.stat.owner;
        if owners.has(owner) || owners.is_root(owner, self.shared) {
            return Ok(());
        }
        Err(TrustError::Owner { path: self.path.clone(), owner, expected: owners.to_string() })
    }

    /// A directory on the way; one that is shared must be root's and sticky.
    fn check_directory(&self, owners: Owners) -> Result<(), TrustError> {
        self.check_owner(owners)?;
        let mode = self.stat.mode;
        let sticky = mode & 0o1000 != 0 && owners.is_root(self.stat.owner, self.shared);
        if mode & OTHERS_WRITE != 0 && !sticky {
            return Err(TrustError::Writable { path: self.path.clone(), mode });
        }
        Ok(())
    }

    fn check_file(&self, owners: Owners) -> Result<(), TrustError> {
        match self.kind() {
            SFlag::S_IFREG => {}
            SFlag::S_IFLNK => return Err(TrustError::Link { path: self.path.clone() }),
            _ => return Err(TrustError::Kind { path: self.path.clone(), expected: "file" }),
        }
        self.check_owner(owners)?;
        let mode = self.stat.mode;
        if mode & OTHERS_WRITE != 0 {
            return Err(TrustError::Writable { path: self.path.clone(), mode });
        }
        // Root's files may be linked by who installed them.
        if self.is_roots(owners) { Ok(()) } else { self.check_links() }
    }

    /// In a shared directory others may give a file of ours a name of their choice.
    fn check_links(&self) -> Result<(), TrustError> {
        match self.stat.links {
            1 => Ok(()),
            links => Err(TrustError::Links { path: self.path.clone(), links }),
        }
    }
}

/// Opens what a path leads to, and examines every directory on the way.
fn walk(path: &Path, owners: Owners, make: bool) -> Result<Step, TrustError> {
    let mut ahead = components(&absolute(path)?);
    let root = Step::open(AT_FDCWD, PathBuf::from("/"), c"/", false)?;
    root.check_directory(owners)?;
    let (mut way, mut at, mut links) = (Vec::new(), root, 0usize);
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at = way.pop().unwrap_or(at);
            continue;
        }
        if !at.is_directory() {
            return Err(TrustError::Kind { path: at.path, expected: "directory" });
        }
        let shared = at.shared || at.stat.mode & OTHERS_WRITE != 0;
        let path = at.path.join(&name);
        let next = || Step::open(at.fd.as_fd(), path.clone(), name.as_os_str(), shared);
        let step = match next() {
            Err(TrustError::System { source, .. })
                if make && source.kind() == io::ErrorKind::NotFound =>
            {
                match mkdirat(&at.fd, name.as_os_str(), Mode::S_IRWXU) {
                    Ok(()) | Err(Errno::EEXIST) => next()?,
                    Err(errno) => return Err(TrustError::system(&path, errno)),
                }
            }
            step => step?,
        };
        match step.kind() {
            SFlag::S_IFLNK => {
                links = links.saturating_add(1);
                if links > MOST_LINKS || !at.is_roots(owners) || !step.is_roots(owners) {
                    return Err(TrustError::Link { path: step.path });
                }
                let target = readlinkat(&step.fd, c"")
                    .map_err(|errno| TrustError::system(&step.path, errno))?;
                let target = PathBuf::from(target);
                if target.is_absolute() {
                    // Back to the root, which is at the beginning of the way.
                    way.truncate(1);
                    at = way.pop().unwrap_or(at);
                }
                let mut replaced = components(&target);
                replaced.append(&mut ahead);
                ahead = replaced;
            }
            SFlag::S_IFDIR => {
                step.check_directory(owners)?;
                way.push(std::mem::replace(&mut at, step));
            }
            _ => way.push(std::mem::replace(&mut at, step)),
        }
    }
    Ok(at)
}

fn absolute(path: &Path) -> Result<PathBuf, TrustError> {
    std::path::absolute(path).map_err(|source| TrustError::System { path: path.to_owned(), source })
}

/// The names of a path; `..` is one.
fn components(path: &Path) -> VecDeque<OsString> {
    let named = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        _ => None,
    };
    path.components().filter_map(named).collect()
}

#[cfg(test)]
mod tests;
