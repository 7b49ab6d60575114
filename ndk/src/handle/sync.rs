//! The one door to what threads race on in the table of handles: std's, or loom's under
//! `cfg(loom)`, so that loom explores the code that ships.

#[cfg(not(loom))]
mod doors {
    use crossbeam_utils::Backoff;

    pub(crate) use atomic_wait::{wait, wake_all};
    pub(crate) use std::sync::MutexGuard;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

    pub(crate) use nnburst::hal::process::{PerProcess, id as process_id};

    /// Places of the first chunk.
    pub(crate) const FIRST_CHUNK: usize = 64;

    /// The pauses of one who waits for another thread, before it sleeps: polls, then lets others
    /// run.
    pub(crate) struct Pause(Backoff);

    impl Pause {
        pub(crate) fn new() -> Self {
            Self(Backoff::new())
        }

        pub(crate) fn is_over(&self) -> bool {
            self.0.is_completed()
        }

        pub(crate) fn wait(&self) {
            self.0.snooze();
        }
    }

    /// A cell with the interface of loom's.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
            work(self.0.get())
        }
    }
}

#[cfg(loom)]
mod doors {
    use loom::sync::Mutex;

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

    /// Few, since a model makes them anew each time; a second chunk is soon needed.
    pub(crate) const FIRST_CHUNK: usize = 1;

    pub(crate) fn process_id() -> u64 {
        1
    }

    /// A model has one process.
    pub(crate) struct PerProcess<T>(Mutex<T>);

    impl<T: Default> PerProcess<T> {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(T::default()))
        }

        pub(crate) fn get(&self) -> &Mutex<T> {
            &self.0
        }
    }

    pub(crate) struct Pause;

    impl Pause {
        pub(crate) fn new() -> Self {
            Self
        }

        /// At once: sleeping is what there is to explore.
        pub(crate) fn is_over(&self) -> bool {
            true
        }

        pub(crate) fn wait(&self) {}
    }

    /// Loom has no futex: a yield has it run whoever holds the place.
    pub(crate) fn wait(_: &AtomicU32, _: u32) {
        loom::thread::yield_now();
    }

    pub(crate) fn wake_all(_: *const AtomicU32) {}
}

pub(crate) use doors::*;
