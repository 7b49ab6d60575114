//! Sync fences: any descriptor that becomes readable once it signals, such as an eventfd or the
//! kernel's own sync_file.
//!
//! A fence that never will signal is hung up or in error. Those of this workspace are pipes: a byte
//! when the execution is over, and the pipe closed without one when it failed, or when the driver
//! died over it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::{pipe2, write};

use crate::error::{HalError, Result};
use crate::traits::{FencedExecution, FencedExecutionCallback, FencedTiming};
use crate::types::{ErrorStatus, TimePoint};

/// Waits until a fence signals, as long as `timeout` says; false if that passes first.
///
/// # Errors
/// `INVALID_ARGUMENT` for a fence in error: the other end hung up, or it is no descriptor to wait
/// for.
pub fn wait_for_fence(fence: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<bool> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut fds = [PollFd::new(fence, PollFlags::POLLIN)];
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        // A duration beyond the kernel's range is as good as none.
        let left = left.filter(|left| i64::try_from(left.as_secs()).is_ok()).map(TimeSpec::from);
        match ppoll(&mut fds, left, None) {
            Ok(0) => return Ok(false),
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(errno) => {
                let error = io::Error::from(errno);
                return Err(HalError::failure(format!("poll on a fence: {error}")));
            }
        }
    }
    // A pipe that is written and closed meanwhile may look as if it had been closed alone: the
    // kernel reads what is in it before it reads whether anybody writes. Once nobody does, what is
    // in it stays the same.
    if has_signalled(&fds) || (poll(&mut fds, PollTimeout::ZERO).is_ok() && has_signalled(&fds)) {
        Ok(true)
    } else {
        Err(HalError::invalid("a fence is in error"))
    }
}

fn has_signalled([fd]: &[PollFd<'_>; 1]) -> bool {
    fd.revents().is_some_and(|seen| seen.contains(PollFlags::POLLIN))
}

/// The time after which the driver of a fence is asked whether it is there.
const ASKED_AFTER: Duration = Duration::from_secs(5);

/// [`wait_for_fence`], for the fence of an execution: as long as the driver that is to signal it is
/// there.
///
/// # Errors
/// As for [`wait_for_fence`]; `DEVICE_UNAVAILABLE` for a driver that is lost or silent.
pub fn wait_for_driver(
    fence: BorrowedFd<'_>,
    timeout: Option<Duration>,
    callback: &dyn FencedExecutionCallback,
) -> Result<bool> {
    let end = timeout.map(TimePoint::after);
    loop {
        let left = end.map_or(ASKED_AFTER, TimePoint::remaining);
        if wait_for_fence(fence, Some(left.min(ASKED_AFTER)))? {
            return Ok(true);
        }
        if end.is_some_and(TimePoint::has_passed) {
            return Ok(false);
        }
        callback.check_driver()?;
    }
}

/// The fences among these that are yet to signal.
///
/// # Errors
/// `INVALID_ARGUMENT` for one in error.
pub fn unsignalled_fences(fences: Vec<OwnedFd>) -> Result<Vec<OwnedFd>> {
    let mut pending = Vec::new();
    for fence in fences {
        if !wait_for_fence(fence.as_fd(), Some(Duration::ZERO))? {
            pending.push(fence);
        }
    }
    Ok(pending)
}

/// Waits until every fence has signalled.
///
/// # Errors
/// `INVALID_ARGUMENT` for a fence in error; `MISSED_DEADLINE_TRANSIENT` if the deadline passes
/// first.
pub fn wait_for_fences(fences: &[OwnedFd], deadline: Option<TimePoint>) -> Result<()> {
    for fence in fences {
        if !wait_for_fence(fence.as_fd(), deadline.map(TimePoint::remaining))? {
            let status = ErrorStatus::MissedDeadlineTransient;
            return Err(HalError::new(status, "the deadline passed before the fences signalled"));
        }
    }
    Ok(())
}

/// The end of a fence that signals. Dropped without a signal, it puts the fence in error.
#[derive(Debug)]
pub struct FenceSignal(OwnedFd);

impl FenceSignal {
    /// A fence and its signal.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED_TRANSIENT` where no pipe can be had.
    pub fn new() -> Result<(OwnedFd, Self)> {
        let (fence, signal) = pipe2(OFlag::O_CLOEXEC).map_err(|errno| {
            let error = io::Error::from(errno);
            HalError::new(ErrorStatus::ResourceExhaustedTransient, format!("pipe2: {error}"))
        })?;
        Ok((fence, Self(signal)))
    }

    /// Signals.
    pub fn signal(self) {
        // Where nobody holds the fence any more, a byte would be answered with SIGPIPE, which ends
        // programs that don't ignore it.
        let mut ends = [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
        let polled = poll(&mut ends, PollTimeout::ZERO);
        let [end] = &ends;
        let seen = end.revents().unwrap_or(PollFlags::empty());
        if polled.is_ok() && seen.contains(PollFlags::POLLERR) {
            return;
        }
        // A pipe of our own has room for one byte.
        let _ = write(&self.0, &[1]);
    }
}

/// The reporter of a fenced execution's end: once, also if nobody gets to it.
#[derive(Debug)]
pub struct FencedEnd {
    info: Arc<FencedInfo>,
    signal: Option<FenceSignal>,
}

impl FencedEnd {
    /// A fenced execution as its client sees it, and its end.
    ///
    /// # Errors
    /// As for [`FenceSignal::new`].
    pub fn new() -> Result<(FencedExecution, Self)> {
        let (sync_fence, signal) = FenceSignal::new()?;
        let info = Arc::new(FencedInfo::default());
        let callback = Arc::clone(&info);
        let launched = FencedExecution { sync_fence: Some(sync_fence), callback };
        Ok((launched, Self { info, signal: Some(signal) }))
    }

    /// Reports how the execution went: its fence signals, or is in error from here on.
    pub fn report(mut self, result: Result<FencedTiming>) {
        self.set(result);
    }

    fn set(&mut self, result: Result<FencedTiming>) {
        let Some(signal) = self.signal.take() else { return };
        let good = result.is_ok();
        *self.info.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        // Without a signal the fence turns to error.
        if good {
            signal.signal();
        }
    }
}

impl Drop for FencedEnd {
    fn drop(&mut self) {
        let status = ErrorStatus::ResourceExhaustedTransient;
        self.set(Err(HalError::new(status, "no thread took the execution up")));
    }
}

/// The result of a fenced execution, once it is over.
#[derive(Debug, Default)]
struct FencedInfo(Mutex<Option<Result<FencedTiming>>>);

impl FencedExecutionCallback for FencedInfo {
    fn execution_info(&self) -> Result<FencedTiming> {
        let info = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        info.clone().unwrap_or_else(|| Err(HalError::failure("the execution is not over yet")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fence: &OwnedFd) -> Result<bool> {
        wait_for_fence(fence.as_fd(), Some(Duration::ZERO))
    }

    /// The byte of a signal and the end of its pipe come at about the same time.
    #[test]
    fn a_signal_is_seen_however_soon_its_end_is_closed() {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<FenceSignal>(1);
        let signals =
            std::thread::spawn(move || receiver.into_iter().for_each(FenceSignal::signal));
        for _ in 0..20_000 {
            let (fence, signal) = FenceSignal::new().unwrap();
            sender.send(signal).unwrap();
            while !check(&fence).unwrap() {
                std::thread::yield_now();
            }
        }
        drop(sender);
        signals.join().unwrap();
    }

    #[test]
    fn a_fence_signals_or_ends_in_error() {
        let (fence, signal) = FenceSignal::new().unwrap();
        assert_eq!(check(&fence), Ok(false));
        signal.signal();
        assert_eq!(check(&fence), Ok(true));
        assert_eq!(check(&fence), Ok(true), "and stays signalled");

        let (fence, signal) = FenceSignal::new().unwrap();
        drop(signal);
        assert_eq!(check(&fence).unwrap_err().status, ErrorStatus::InvalidArgument);
    }

    #[test]
    fn those_that_have_signalled_are_not_waited_for() {
        let (done, signal) = FenceSignal::new().unwrap();
        signal.signal();
        let (open, _signal) = FenceSignal::new().unwrap();
        assert_eq!(unsignalled_fences(vec![done, open]).unwrap().len(), 1);
        let (open, _signal) = FenceSignal::new().unwrap();
        let missed = wait_for_fences(&[open], Some(TimePoint::after(Duration::ZERO))).unwrap_err();
        assert_eq!(missed.status, ErrorStatus::MissedDeadlineTransient);
    }

    #[test]
    fn the_end_is_reported_once_even_by_nobody() {
        let (launched, end) = FencedEnd::new().unwrap();
        launched.callback.execution_info().unwrap_err();
        end.report(Ok(FencedTiming::default()));
        assert_eq!(check(launched.sync_fence.as_ref().unwrap()), Ok(true));
        assert_eq!(launched.callback.execution_info(), Ok(FencedTiming::default()));

        let (launched, end) = FencedEnd::new().unwrap();
        drop(end);
        check(launched.sync_fence.as_ref().unwrap()).unwrap_err();
        launched.callback.execution_info().unwrap_err();
    }
}
