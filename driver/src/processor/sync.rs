//! The one door to the words, the lock and the clock by which executions take turns: std's, or
//! loom's under `cfg(loom)`, so that loom explores the code that ships. There no time passes, so
//! that a wake-up that is lost is lost for good.

#[cfg(not(loom))]
mod doors {
    use std::time::{Duration, Instant};

    pub(crate) use std::sync::atomic::{AtomicBool as Flag, AtomicU64 as Word, fence};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

    /// The time since then.
    pub(crate) fn elapsed(since: Instant) -> Duration {
        since.elapsed()
    }
}

#[cfg(loom)]
mod doors {
    use std::time::{Duration, Instant};

    pub(crate) use loom::sync::atomic::{AtomicBool as Flag, AtomicU64 as Word, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

    pub(crate) fn elapsed(_: Instant) -> Duration {
        Duration::ZERO
    }
}

pub(crate) use doors::*;
