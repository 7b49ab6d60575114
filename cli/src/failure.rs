//! The failure of a command: one line, and the exit code that says what kind of failure it was.

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
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), code: 128 + SIGPIPE };
        }
        Self::check(error.to_string())
    }
}

/// Prints a warning, which doesn't end the command.
pub(crate) fn warn(message: &str) {
    eprintln!("nnburst: {message}");
}
