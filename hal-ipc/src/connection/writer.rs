//! Turns of writing to the socket.

use std::sync::{Condvar, Mutex, PoisonError};

use nnburst_hal::TimePoint;

/// Whose turn it is to write: a lock that may pass to another thread, and for which one need not
/// wait for ever.
#[derive(Debug, Default)]
pub(super) struct Writer {
    is_busy: Mutex<bool>,
    free: Condvar,
}

impl Writer {
    /// Waits until nobody writes; `false` where that is not before the deadline.
    pub(super) fn take(&self, deadline: Option<TimePoint>) -> bool {
        let mut is_busy = self.is_busy.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_busy {
            is_busy = match deadline {
                None => self.free.wait(is_busy).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) if deadline.has_passed() => return false,
                Some(deadline) => {
                    let waited = self.free.wait_timeout(is_busy, deadline.remaining());
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *is_busy = true;
        true
    }

    pub(super) fn give_back(&self) {
        *self.is_busy.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.free.notify_one();
    }
}
