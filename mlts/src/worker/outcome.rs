//! The outcome of a worker's piece of work.

use serde_json::Value;

use super::client::CallError;

/// The end of a piece of work short of its result.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// A wrong answer, an error, a broken limit; the detail is the failing case.
    Failed(String, Value),
    /// The driver doesn't offer what is needed.
    Skipped(String),
}

impl From<CallError> for Stopped {
    fn from(error: CallError) -> Self {
        // Most reasons begin with the status in the HAL's spelling.
        let has_status = error.status.is_empty() || error.reason.starts_with(&error.hal_name());
        let status = if has_status { String::new() } else { format!("{}: ", error.status) };
        Self::Failed(format!("{status}{error}"), Value::Null)
    }
}

impl Stopped {
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into(), Value::Null)
    }

    /// The failure, saying what was there before it.
    pub(crate) fn after(self, what: impl std::fmt::Display) -> Self {
        match self {
            Self::Failed(reason, detail) => Self::Failed(format!("{reason}; {what}"), detail),
            skipped @ Self::Skipped(_) => skipped,
        }
    }

    /// The failure, saying what was being done.
    pub(crate) fn during(self, what: impl std::fmt::Display) -> Self {
        match self {
            Self::Failed(reason, detail) => Self::Failed(format!("{what}: {reason}"), detail),
            skipped @ Self::Skipped(_) => skipped,
        }
    }
}

/// The result of a piece of work.
pub(crate) type Outcome<T> = Result<T, Stopped>;
