//! The error type on every HAL boundary: the interface's status, and in words what was wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::ErrorStatus;

/// The result of a HAL call.
pub type Result<T> = std::result::Result<T, HalError>;

/// A HAL status other than `NONE`, with the reason in words.
///
/// The interface knows the status alone; the reason travels beside it so that bad input gets an
/// answer that names what was wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HalError {
    /// The status of the interface; never [`ErrorStatus::None`].
    pub status: ErrorStatus,
    /// Lower case, without a full stop; names the operand, operation or rule.
    pub reason: String,
}

impl HalError {
    /// An error of the given status.
    pub fn new(status: ErrorStatus, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }

    /// [`ErrorStatus::InvalidArgument`]: the caller's argument breaks a rule.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::new(ErrorStatus::InvalidArgument, reason)
    }

    /// [`ErrorStatus::GeneralFailure`]: the arguments are fine, the work failed.
    pub fn failure(reason: impl Into<String>) -> Self {
        Self::new(ErrorStatus::GeneralFailure, reason)
    }

    /// The status of a call that the system refused: [`ErrorStatus::ResourceExhaustedTransient`]
    /// where it is out of descriptors, memory or threads, of which others may give some back, else
    /// [`ErrorStatus::GeneralFailure`].
    pub fn status_of_errno(errno: i32) -> ErrorStatus {
        use nix::errno::Errno::{EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOMEM};
        match [EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN].iter().any(|it| *it as i32 == errno) {
            true => ErrorStatus::ResourceExhaustedTransient,
            false => ErrorStatus::GeneralFailure,
        }
    }

    /// [`ErrorStatus::ResourceExhaustedTransient`]: there is none left now, and may be later.
    pub fn exhausted(reason: impl Into<String>) -> Self {
        Self::new(ErrorStatus::ResourceExhaustedTransient, reason)
    }

    /// [`ErrorStatus::DeviceUnavailable`]: the driver is gone or not reachable.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(ErrorStatus::DeviceUnavailable, reason)
    }

    /// The same error as a caller of an interface before 1.3 may see it: the four statuses of 1.3
    /// become `GENERAL_FAILURE`.
    #[must_use]
    pub fn before_v1_3(mut self) -> Self {
        self.status = self.status.before_v1_3();
        self
    }
}

impl fmt::Display for HalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.name(), self.reason)
    }
}

impl std::error::Error for HalError {}
