//! Why a file or directory is not used.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Why a file or directory is not used: others than the user and root have, or could have, a say in
/// it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// It belongs to another user.
    #[error("{} is not used: owned by uid {owner}, expected {expected}", path.display())]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The owners that would be right.
        expected: String,
    },
    /// Others than its owner may write it.
    #[error(
        "{} is not used: mode {mode:04o} lets others write, expected at most 0755 (chmod go-w)",
        path.display()
    )]
    Writable {
        /// The file or directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is a symbolic link, and not one of root's in a directory of root's.
    #[error("{} is not used: a symbolic link, expected the file or directory itself", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// It has further names, which may be in other users' directories.
    #[error("{} is not used: {links} hard links, expected 1", path.display())]
    Links {
        /// The file.
        path: PathBuf,
        /// Its names.
        links: u32,
    },
    /// It is of another kind.
    #[error("{} is not used: not a {expected}", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// The kind that would be right.
        expected: &'static str,
    },
    /// A program is named by less than its whole path.
    #[error("{} is not used: a relative path, expected an absolute one", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl TrustError {
    pub(super) fn system(path: &Path, errno: Errno) -> Self {
        Self::System { path: path.to_owned(), source: errno.into() }
    }

    /// Returns whether nothing is there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<TrustError> for io::Error {
    fn from(error: TrustError) -> Self {
        let kind = match &error {
            TrustError::System { source, .. } => source.kind(),
            _ => io::ErrorKind::PermissionDenied,
        };
        Self::new(kind, error)
    }
}
