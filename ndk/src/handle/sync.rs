//! The one door to what threads race on in the table of handles: std's, or loom's under
//! `cfg(loom)`, so that loom explores the code that ships.

#[cfg(not(loom))]
mod doors {
    use std::time::Duration;

    use crossbeam_utils::Backoff;

    pub(crate) use std::sync::MutexGuard;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

    pub(crate) use nnburst::hal::process::{PerProcess, id as process_id};

    /// Places of the first chunk.
    pub(crate) const FIRST_CHUNK: usize = 64;

    /// The pauses of one who waits for another thread: polls, then lets others run, then sleeps.
    pub(crate) struct Pause(Backoff);

    impl Pause {
        pub(crate) fn new() -> Self {
            Self(Backoff::new())
        }

        pub(crate) fn wait(&self) {
            if self.0.is_completed() {
                std::thread::sleep(Duration::from_micros(50));
            } else {
                self.0.snooze();
            }
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

        pub(crate) fn wait(&self) {
            loom::thread::yield_now();
        }
    }
}

pub(crate) use doors::*;
