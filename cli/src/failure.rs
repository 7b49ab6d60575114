//! The failure of a command: one line, and the exit code that says what kind of failure it was.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nnburst::RuntimeError;

/// The number of the signal for writing to a pipe that nobody reads.
const SIGPIPE: u8 = 13;

/// The exit code where a deadline was missed.
const DEADLINE: u8 = 4;

/// Why a command ends with another code than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One line for standard error; none where nobody wants to hear more.
    pub(crate) message: String,
    /// The exit code of the process.
    pub(crate) code: u8,
}

impl Failure {
    /// A check failed, or the work did.
    pub(crate) fn check(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// The command can't be carried out as it was given.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 2 }
    }

    /// A deadline was missed.
    pub(crate) fn deadline(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: DEADLINE }
    }

    /// Returns whether a deadline was missed.
    pub(crate) fn is_deadline(&self) -> bool {
        self.code == DEADLINE
    }

    /// The same failure, saying what was being done.
    #[must_use]
    pub(crate) fn during(mut self, what: impl std::fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        let code = match &error {
            lost if lost.is_device_lost() => 3,
            late if late.is_deadline_missed() => DEADLINE,
            RuntimeError::UnknownDevice { .. } => 2,
            _ => 1,
        };
        Self { message: error.to_string(), code }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Whoever read our output has enough: as if we had died of the signal, quietly.
        if error.kind() == ErrorKind::BrokenPipe {
            return Self { message: String::new(), code: 128 + SIGPIPE };
        }
        Self::check(error.to_string())
    }
}

/// A file that can't be made, with what its folder has to be.
pub(crate) fn not_writable(path: &Path, error: &std::io::Error) -> Failure {
    let (shown, folder) = (path.display(), folder_of(path).display());
    // Of a passing file the name is of no interest.
    let inner = error.get_ref().and_then(|inner| inner.source());
    let said = inner.map_or_else(|| error.to_string(), ToString::to_string);
    let cure = match error.kind() {
        ErrorKind::NotFound if folder_of(path).is_dir() => "choose another folder".to_owned(),
        ErrorKind::NotFound => format!("make {folder} first"),
        ErrorKind::PermissionDenied => format!("{folder} is to be this user's to write in"),
        ErrorKind::NotADirectory => format!("a part of {folder} is a file: choose another folder"),
        ErrorKind::IsADirectory => "this is a folder: name a file in it".to_owned(),
        ErrorKind::StorageFull => "make room, or choose another disk".to_owned(),
        _ => "choose another place".to_owned(),
    };
    Failure::usage(format!("{shown}: {said}; {cure}"))
}

/// A file that can't be read, with what can be done about it.
pub(crate) fn not_readable(path: &Path, error: &std::io::Error) -> Failure {
    let cure = match error.kind() {
        ErrorKind::NotFound => "; see whether its name is right".to_owned(),
        ErrorKind::PermissionDenied => owner_of(path),
        ErrorKind::IsADirectory => "; name a file in it".to_owned(),
        _ => String::new(),
    };
    Failure::usage(format!("{}: {error}{cure}", path.display()))
}

/// The user who can let others read a file.
fn owner_of(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(file) => format!(
            "; it is of uid {}, mode {:04o}: its owner can let you read it (chmod, or a common group)",
            file.uid(),
            file.mode() & 0o7777
        ),
        // Not even its folder lets us look.
        Err(_) => format!("; {} is another user's: copy it from there", folder_of(path).display()),
    }
}

/// A folder that can't be made.
pub(crate) fn not_made(folder: &Path, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::AlreadyExists => {
            let folder = folder.display();
            Failure::usage(format!("{folder}: this is a file; name another folder, or remove it"))
        }
        _ => not_writable(folder, error),
    }
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

/// Prints a warning, which doesn't end the command.
pub(crate) fn warn(message: &str) {
    eprintln!("nnburst: {message}");
}
