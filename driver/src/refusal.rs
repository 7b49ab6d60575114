//! Errors that several of the driver's calls answer with.

use nnburst_hal::{ErrorStatus, HalError, ValidationError};

/// The client has as many threads as it may, or the system gives none.
pub(crate) fn no_thread(task: &str) -> HalError {
    let status = ErrorStatus::ResourceExhaustedTransient;
    HalError::new(
        status,
        format!(
            "no thread for {task}: the client has as many as it may, or the driver's process gets no \
         more (ulimit -u, ulimit -v)"
        ),
    )
}

/// The answer to what breaks a rule of the interface.
pub(crate) fn invalid(error: &ValidationError) -> HalError {
    HalError::invalid(error.to_string())
}
