//! The wakers for frames that may be back.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Wakes a task and an event loop.
#[derive(Debug)]
pub(super) struct WakeBoth {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) waker: Option<Waker>,
}

impl Wake for WakeBoth {
    fn wake(self: Arc<Self>) {
        // Fails only if the counter is at its end, when it is readable anyway.
        let _ = nix::unistd::write(&self.fd, &1u64.to_ne_bytes());
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}
