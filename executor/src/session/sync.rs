//! The one door to the atomics, cells and parking that a session's threads race on: std's, or
//! loom's under `cfg(loom)`, so that loom explores the code that ships.
//!
//! | here | native | under loom |
//! |---|---|---|
//! | atomics, fence, parking | `std` | `loom` |
//! | [`spin_loop`] | the CPU's pause | a yield: loom must run the other side |
//! | [`CHECK_EVERY`], [`is_hot`] | some polls, the clock | every poll; all time has passed |

#[cfg(not(loom))]
mod doors {
    use std::time::Instant;

    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, fence};
    pub(crate) use std::thread::{park, yield_now};

    /// Polls between two readings of the clock.
    pub(crate) const CHECK_EVERY: u32 = 256;

    /// Returns whether a worker that had its last job then goes on polling.
    pub(crate) fn is_hot(since: Instant) -> bool {
        since.elapsed() < super::HOT
    }

    /// A cell with the interface of loom's.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(loom)]
mod doors {
    use std::time::Instant;

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
    pub(crate) use loom::thread::{park, yield_now, yield_now as spin_loop};

    pub(crate) const CHECK_EVERY: u32 = 1;

    pub(crate) fn is_hot(_: Instant) -> bool {
        false
    }
}

pub(crate) use doors::*;

/// The time that a worker polls before it parks: longer than the pause between the steps of a plan
/// and than the time a client takes to send the next frame back to back, shorter than what a
/// battery notices.
#[cfg(not(loom))]
const HOT: std::time::Duration = std::time::Duration::from_millis(2);
