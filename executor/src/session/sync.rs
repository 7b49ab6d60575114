//! The one door to the atomics, cells and sleep that a session's threads race on: std's, or
//! loom's under `cfg(loom)`, so that loom explores the code that ships.
//!
//! | here | native | under loom |
//! |---|---|---|
//! | atomics, fence | `std` | `loom` |
//! | [`Sleeper`] | a futex (`atomic-wait`) | a flag and loom's `Notify` |
//! | [`spin_loop`] | the CPU's pause | a yield: loom must run the other side |
//! | [`CHECK_EVERY`], [`is_hot`] | some polls, the clock | every poll; all time has passed |

#[cfg(not(loom))]
mod doors {
    use std::time::Instant;

    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, fence};
    pub(crate) use std::thread::yield_now;

    use std::sync::atomic::{AtomicU32, Ordering};

    /// One thread that sleeps until it is woken, for no deadline.
    #[derive(Debug)]
    pub(crate) struct Sleeper(AtomicU32);

    impl Sleeper {
        pub(crate) const fn new() -> Self {
            Self(AtomicU32::new(AWAKE))
        }

        /// Says that the thread is about to sleep. Relaxed: the caller's fence orders it.
        pub(crate) fn announce(&self) {
            self.0.store(ASLEEP, Ordering::Relaxed);
        }

        /// Takes it back.
        pub(crate) fn stay_awake(&self) {
            self.0.store(AWAKE, Ordering::Relaxed);
        }

        /// Sleeps until [`Sleeper::wake`] since the announcement, or for no reason.
        pub(crate) fn sleep(&self) {
            atomic_wait::wait(&self.0, ASLEEP);
        }

        pub(crate) fn is_asleep(&self) -> bool {
            self.0.load(Ordering::Relaxed) == ASLEEP
        }

        /// Ends the sleep. The word changes first: who is yet to sleep on it doesn't.
        pub(crate) fn wake(&self) {
            self.0.store(AWAKE, Ordering::Relaxed);
            atomic_wait::wake_one(&raw const self.0);
        }
    }

    const AWAKE: u32 = 0;
    const ASLEEP: u32 = 1;

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

    use loom::sync::Notify;
    use loom::sync::atomic::Ordering;

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
    pub(crate) use loom::thread::{yield_now, yield_now as spin_loop};

    pub(crate) struct Sleeper {
        asleep: AtomicBool,
        woken: Notify,
    }

    impl Sleeper {
        pub(crate) fn new() -> Self {
            Self { asleep: AtomicBool::new(false), woken: Notify::new() }
        }

        pub(crate) fn announce(&self) {
            self.asleep.store(true, Ordering::Relaxed);
        }

        pub(crate) fn stay_awake(&self) {
            self.asleep.store(false, Ordering::Relaxed);
        }

        pub(crate) fn sleep(&self) {
            if self.is_asleep() {
                self.woken.wait();
            }
        }

        pub(crate) fn is_asleep(&self) -> bool {
            self.asleep.load(Ordering::Relaxed)
        }

        pub(crate) fn wake(&self) {
            self.asleep.store(false, Ordering::Relaxed);
            self.woken.notify();
        }
    }

    pub(crate) const CHECK_EVERY: u32 = 1;

    pub(crate) fn is_hot(_: Instant) -> bool {
        false
    }
}

pub(crate) use doors::*;

/// The time that a worker polls before it sleeps: longer than the pause between the steps of a plan
/// and than the time a client takes to send the next frame back to back, shorter than what a
/// battery notices.
#[cfg(not(loom))]
const HOT: std::time::Duration = std::time::Duration::from_millis(2);
