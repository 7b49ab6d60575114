//! Errors as the exceptions of `nnburst.errors`, which are written in Python: some have two bases.

use std::path::{Path, PathBuf};

use nnburst::RuntimeError;
use nnburst_doors_common::{Death, OptionError};
use nnburst_tflite::{ImportError, UnsupportedOperator};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The failure of a call of this package.
#[derive(Debug)]
pub(crate) enum Error {
    /// The runtime's error, and the driver's death where it stands for that.
    Runtime(RuntimeError, Option<Death>),
    /// An argument is wrong.
    Argument(String),
    /// Operators that the device doesn't take, or that have no place in a model at all.
    Unsupported(Vec<UnsupportedOperator>),
    /// A file can't be read.
    Io(std::io::Error, Option<PathBuf>),
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        Self::Runtime(error, None)
    }
}

impl From<OptionError> for Error {
    fn from(error: OptionError) -> Self {
        Self::Argument(error.to_string())
    }
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Unsupported { operators } => Self::Unsupported(operators),
            ImportError::Io(error) => Self::Io(error, None),
            error => Self::Argument(error.to_string()),
        }
    }
}

impl Error {
    /// The exception, made with the interpreter's lock held.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        let (class, message) = match &self {
            Self::Runtime(error, Some(death)) => ("DeviceLost", format!("{death}: {error}")),
            Self::Runtime(error, None) => (class_of(error), error.to_string()),
            Self::Argument(message) => ("InvalidArgument", message.clone()),
            Self::Unsupported(operators) => ("UnsupportedModel", summary(operators)),
            Self::Io(error, path) => return io_error(error, path.as_deref()),
        };
        self.make(py, class, &message).unwrap_or_else(|error| error)
    }

    /// The same error, with the file that it is about.
    pub(crate) fn of_file(self, path: &Path) -> Self {
        match self {
            Self::Io(error, _) => Self::Io(error, Some(path.to_owned())),
            Self::Argument(why) => Self::Argument(format!("{}: {why}", path.display())),
            error => error,
        }
    }

    fn make(&self, py: Python<'_>, class: &str, message: &str) -> PyResult<PyErr> {
        let class = py.import("nnburst.errors")?.getattr(class)?;
        let options = PyDict::new(py);
        match self {
            Self::Runtime(error, _) => {
                options.set_item("code", format!("{:?}", error.code()))?;
            }
            Self::Unsupported(operators) => {
                let operators = operators.iter().map(|it| (it.index, &*it.name, &*it.why));
                options.set_item("operators", operators.collect::<Vec<_>>())?;
            }
            Self::Argument(_) | Self::Io(..) => {}
        }
        Ok(PyErr::from_value(class.call((message,), Some(&options))?))
    }
}

fn class_of(error: &RuntimeError) -> &'static str {
    match error {
        _ if error.is_deadline_missed() => "DeadlineMissed",
        _ if error.is_device_lost() || matches!(error, RuntimeError::DeviceDied(_)) => "DeviceLost",
        RuntimeError::Argument(_)
        | RuntimeError::Model(_)
        | RuntimeError::State(_)
        | RuntimeError::UnknownDevice { .. } => "InvalidArgument",
        RuntimeError::OutputTooSmall { .. } => "OutputTooSmall",
        _ => "NnburstError",
    }
}

/// All operators in one message, the first few with their reasons.
fn summary(operators: &[UnsupportedOperator]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> = operators.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = match operators.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more in .operators"),
    };
    format!("{} operators are not supported: {}{more}", operators.len(), shown.join("; "))
}

/// The `OSError` of Python's own; with a number and a path Python makes the fitting class of it.
fn io_error(error: &std::io::Error, path: Option<&Path>) -> PyErr {
    let path = path.map(|path| path.display().to_string());
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or_default().to_owned();
    match (error.raw_os_error(), path) {
        (Some(number), Some(path)) => PyOSError::new_err((number, reason, path)),
        (Some(number), None) => PyOSError::new_err((number, reason)),
        (None, Some(path)) => PyOSError::new_err(format!("{path}: {text}")),
        (None, None) => PyOSError::new_err(text),
    }
}

/// A result of the runtime's as one of Python's.
pub(crate) trait OrRaise<T> {
    /// # Errors
    /// The exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.into().raise(py))
    }
}

/// An `InvalidArgument`.
pub(crate) fn wrong(py: Python<'_>, message: impl Into<String>) -> PyErr {
    Error::Argument(message.into()).raise(py)
}

/// The exception for a panic on a thread of ours, which is a mistake in this package.
pub(crate) fn panicked() -> PyErr {
    PyRuntimeError::new_err("nnburst: internal error: a thread of the package panicked")
}
