//! The errors of an application's calls to a device.

use nnburst_hal::{ErrorStatus, ExecutionFailure, HalError, MemoryError, OutputShape};

/// The result of this crate's calls.
pub type Result<T> = std::result::Result<T, RuntimeError>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The device answered with a status and a reason.
    #[error("{0}")]
    Device(#[from] HalError),
    /// The driver's process died, or its connection broke: what it made is of no use any more.
    #[error("{0}")]
    DeviceDied(HalError),
    /// At least one output buffer is too small; `shapes` says what every output would need.
    #[error("{error}")]
    OutputTooSmall {
        /// Status and reason.
        error: HalError,
        /// One entry per output; those with `is_sufficient` false need more room.
        shapes: Vec<OutputShape>,
    },
    /// There is no such device.
    #[error("no device is called {name:?}; known are {}", known.join(", "))]
    UnknownDevice {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A driver could not be started, reached or served.
    #[error("{what}: {why}")]
    Driver {
        /// The operation that failed.
        what: String,
        /// Why it failed.
        why: String,
    },
    /// A model that was built by hand breaks a rule.
    #[error("{0}")]
    Model(String),
    /// An argument of an execution doesn't fit the model.
    #[error("{0}")]
    Argument(String),
    /// The call comes at the wrong time.
    #[error("{0}")]
    State(String),
    /// As many frames are in flight, or answered and not taken, as the burst allows.
    #[error("{depth} frames of the burst are in flight or not taken yet")]
    Busy {
        /// The burst's depth.
        depth: usize,
    },
    /// Memory could not be had or mapped.
    #[error("{0}")]
    Memory(#[from] MemoryError),
}

impl RuntimeError {
    pub(crate) fn driver(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Driver { what: what.into(), why: why.to_string() }
    }

    /// The device's status, where it was the device that answered.
    pub fn status(&self) -> Option<ErrorStatus> {
        match self {
            Self::Device(error) | Self::DeviceDied(error) | Self::OutputTooSmall { error, .. } => {
                Some(error.status)
            }
            _ => None,
        }
    }

    /// Returns the C library's code for it.
    pub fn code(&self) -> ResultCode {
        match self {
            Self::Device(error) | Self::OutputTooSmall { error, .. } => error.status.into(),
            Self::DeviceDied(_) => ResultCode::DeadObject,
            Self::UnknownDevice { .. } | Self::Driver { .. } => ResultCode::UnavailableDevice,
            Self::Model(_) | Self::Argument(_) => ResultCode::BadData,
            Self::State(_) => ResultCode::BadState,
            Self::Busy { .. } => ResultCode::ResourceExhaustedTransient,
            Self::Memory(MemoryError::System { .. }) => ResultCode::OutOfMemory,
            Self::Memory(_) => ResultCode::Unmappable,
        }
    }

    /// Returns whether the device is gone: its process died, its connection closed.
    pub fn is_device_lost(&self) -> bool {
        self.status() == Some(ErrorStatus::DeviceUnavailable)
    }

    /// Returns whether a deadline was missed.
    pub fn is_deadline_missed(&self) -> bool {
        matches!(
            self.status(),
            Some(ErrorStatus::MissedDeadlineTransient | ErrorStatus::MissedDeadlinePersistent)
        )
    }
}

/// The result codes of NNAPI, by their names and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names are those of the interface")]
pub enum ResultCode {
    NoError = 0,
    OutOfMemory = 1,
    Incomplete = 2,
    UnexpectedNull = 3,
    BadData = 4,
    OpFailed = 5,
    BadState = 6,
    Unmappable = 7,
    OutputInsufficientSize = 8,
    UnavailableDevice = 9,
    MissedDeadlineTransient = 10,
    MissedDeadlinePersistent = 11,
    ResourceExhaustedTransient = 12,
    ResourceExhaustedPersistent = 13,
    DeadObject = 14,
}

impl From<ErrorStatus> for ResultCode {
    fn from(status: ErrorStatus) -> Self {
        match status {
            ErrorStatus::None => Self::NoError,
            ErrorStatus::DeviceUnavailable => Self::UnavailableDevice,
            ErrorStatus::GeneralFailure => Self::OpFailed,
            ErrorStatus::OutputInsufficientSize => Self::OutputInsufficientSize,
            ErrorStatus::InvalidArgument => Self::BadData,
            ErrorStatus::MissedDeadlineTransient => Self::MissedDeadlineTransient,
            ErrorStatus::MissedDeadlinePersistent => Self::MissedDeadlinePersistent,
            ErrorStatus::ResourceExhaustedTransient => Self::ResourceExhaustedTransient,
            ErrorStatus::ResourceExhaustedPersistent => Self::ResourceExhaustedPersistent,
        }
    }
}

impl From<ExecutionFailure> for RuntimeError {
    fn from(failure: ExecutionFailure) -> Self {
        if failure.error.status == ErrorStatus::OutputInsufficientSize {
            Self::OutputTooSmall { error: failure.error, shapes: failure.output_shapes }
        } else {
            Self::Device(failure.error)
        }
    }
}
