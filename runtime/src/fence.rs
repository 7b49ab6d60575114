//! Sync fences: descriptors that become readable when they signal.

use std::os::fd::{AsFd, OwnedFd};

use nnburst_hal::HalError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::error::Result;

/// Waits until a fence signals.
///
/// # Errors
/// The fence is in error.
pub(crate) fn wait(fence: &OwnedFd) -> Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(fence.as_fd(), PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(HalError::failure(format!("poll on a fence: {errno}")).into()),
        }
    }
    let [fd] = &fds;
    if fd.revents().contains(PollFlags::IN) {
        Ok(())
    } else {
        Err(HalError::failure("a fence ended in error").into())
    }
}
