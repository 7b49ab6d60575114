//! Sync fences: descriptors to wait for with `poll`.
//!
//! A fence is readable once it signals (an eventfd, a pipe, a kernel's sync_file alike), and hung up
//! or in error where it never will. Ours are pipes: a byte when the task is done, and the pipe closed
//! without one when it failed, or when the driver died over it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nnburst_hal::{HalError, Result, wait_for_fence};
use rustix::pipe::PipeFlags;

/// The end of a fence that signals. Dropped without a signal, it puts the fence in error.
#[derive(Debug)]
pub(crate) struct Signal(OwnedFd);

impl Signal {
    /// A fence and its signal.
    pub(crate) fn new() -> Result<(OwnedFd, Self)> {
        let (fence, signal) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .map_err(|errno| HalError::failure(format!("pipe2: {errno}")))?;
        Ok((fence, Self(signal)))
    }

    /// The task is done.
    pub(crate) fn signal(self) {
        // A pipe of our own has room for one byte; if nobody holds the fence any more, so be it.
        let _ = rustix::io::write(&self.0, &[1]);
    }
}

/// Whether a fence has signalled.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is in error already.
pub(crate) fn check(fence: &OwnedFd) -> Result<bool> {
    wait_for_fence(fence.as_fd(), Some(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use nnburst_hal::ErrorStatus;

    use super::*;

    #[test]
    fn a_fence_signals_or_ends_in_error() {
        let (fence, signal) = Signal::new().unwrap();
        assert_eq!(check(&fence), Ok(false));
        signal.signal();
        assert_eq!(check(&fence), Ok(true));
        assert_eq!(check(&fence), Ok(true), "and stays signalled");

        let (fence, signal) = Signal::new().unwrap();
        drop(signal);
        assert_eq!(check(&fence).unwrap_err().status, ErrorStatus::InvalidArgument);
    }
}
