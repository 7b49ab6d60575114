//! Why the suite can't be run as asked.

use std::path::PathBuf;

/// The suite could not be run, or its data is wrong. What a driver does wrong is no error but a
/// part of the [`Report`](crate::Report).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MltsError {
    /// The options contradict each other, or name what there is not.
    #[error("{0}")]
    Usage(String),
    /// A file of the data can't be read, or is not what its manifest says.
    #[error("{}: {why}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// The mistake.
        why: String,
    },
    /// The driver could not be started or reached in the first place.
    #[error("{target}: {why}")]
    Unreachable {
        /// The name of the target.
        target: String,
        /// The system's or the driver's reason.
        why: String,
    },
    /// A file or process of the suite's own failed.
    #[error("{what}: {error}")]
    System {
        /// The operation.
        what: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The verdict of a run whose success was asked for.
    #[error("{0}")]
    Failed(String),
}

impl MltsError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::System { what, error }
    }

    pub(crate) fn data(path: impl Into<PathBuf>, why: impl std::fmt::Display) -> Self {
        Self::Data { path: path.into(), why: why.to_string() }
    }

    /// The exit code of a command that fails so: 2 for options and data, 3 where the driver is out
    /// of reach, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Data { .. } => 2,
            Self::Unreachable { .. } => 3,
            Self::System { .. } | Self::Failed(_) => 1,
        }
    }
}
