//! Sync fences: descriptors to wait for with `poll`.
//!
//! A fence is readable once it signals (an eventfd, a pipe, a kernel's sync_file alike), and hung up
//! or in error where it never will. Ours are pipes: a byte when the task is done, and the pipe closed
//! without one when it failed, or when the driver died over it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nnburst_hal::{ErrorStatus, HalError, Result, TimePoint, wait_for_fence};
use rustix::pipe::PipeFlags;

/// How often a wait looks whether its client is still there.
const GLANCE: Duration = Duration::from_millis(100);

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

/// Waits for a fence until the deadline.
///
/// # Errors
/// The fence turned to error, the deadline passed, or the client is gone.
pub(crate) fn wait(fence: &OwnedFd, deadline: Option<TimePoint>, gone: &AtomicBool) -> Result<()> {
    loop {
        let left = deadline.map_or(GLANCE, |deadline| deadline.remaining().min(GLANCE));
        match wait_for_fence(fence.as_fd(), Some(left)) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(HalError::failure(error.reason)),
        }
        if deadline.is_some_and(TimePoint::has_passed) {
            let status = ErrorStatus::MissedDeadlineTransient;
            return Err(HalError::new(status, "the deadline passed before the fences signalled"));
        }
        // Acquire: pairs with the release of whoever saw the client go.
        if gone.load(Ordering::Acquire) {
            return Err(HalError::failure("the client is gone"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_signals_or_ends_in_error() {
        let gone = AtomicBool::new(false);
        let (fence, signal) = Signal::new().unwrap();
        assert_eq!(check(&fence), Ok(false));
        let missed = wait(&fence, Some(TimePoint::now()), &gone).unwrap_err();
        assert_eq!(missed.status, ErrorStatus::MissedDeadlineTransient);
        signal.signal();
        assert_eq!(check(&fence), Ok(true));
        wait(&fence, None, &gone).unwrap();
        wait(&fence, None, &gone).unwrap();

        let (fence, signal) = Signal::new().unwrap();
        drop(signal);
        assert_eq!(check(&fence).unwrap_err().status, ErrorStatus::InvalidArgument);
        assert_eq!(wait(&fence, None, &gone).unwrap_err().status, ErrorStatus::GeneralFailure);

        let (fence, _signal) = Signal::new().unwrap();
        gone.store(true, Ordering::Release);
        assert!(wait(&fence, None, &gone).is_err(), "nobody waits for it any more");
    }
}
