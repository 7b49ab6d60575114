//! Sync fences: any descriptor that becomes readable once it signals, such as an eventfd or the kernel's
//! own sync_file.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{HalError, Result};

/// Waits until a fence signals, as long as `timeout` says; false if that passes first.
///
/// # Errors
/// `INVALID_ARGUMENT` for a fence in error: the other end hung up, or it is no descriptor to wait for.
pub fn wait_for_fence(fence: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<bool> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut fds = [PollFd::from_borrowed_fd(fence, PollFlags::IN)];
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        // A duration beyond the kernel's range is as good as none.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(HalError::failure(format!("poll on a fence: {errno}"))),
        }
    }
    let [fd] = &fds;
    if fd.revents().contains(PollFlags::IN) {
        Ok(true)
    } else {
        Err(HalError::invalid("a fence is in error"))
    }
}
