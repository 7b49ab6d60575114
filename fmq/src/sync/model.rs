//! loom's atomics, and a futex made of its mutex and condvar.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::Ordering;

pub(crate) type AtomicBool = loom::sync::atomic::AtomicBool;
pub(crate) type AtomicU32 = loom::sync::atomic::AtomicU32;
pub(crate) type AtomicU64 = loom::sync::atomic::AtomicU64;
pub(crate) type Mutex<T> = loom::sync::Mutex<T>;

/// One look per turn: more of the same would only multiply the states to explore.
pub(crate) const TURNS_PER_GLANCE: u32 = 1;

pub(crate) fn spin_loop() {
    loom::thread::yield_now();
}

pub(crate) fn fence(order: Ordering) {
    loom::sync::atomic::fence(order);
}

/// Time does not pass in a model: deadlines and polling windows count as over the first time they are asked about.
pub(crate) mod clock {
    use std::time::{Duration, Instant};

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn since(_start: Instant) -> Duration {
        Duration::MAX
    }
}

/// A word on which threads can sleep, as the kernel defines it: compare and go to sleep are one step to wakers.
#[derive(Debug, Default)]
pub(crate) struct FutexWord {
    word: AtomicU32,
    /// Stands for the lock of the kernel's hash bucket; holds the mask of each sleeper and whether it was woken.
    sleepers: Mutex<Vec<(u32, bool)>>,
    roused: loom::sync::Condvar,
}

impl FutexWord {
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    pub(crate) fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.word.fetch_or(bits, order)
    }

    pub(crate) fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
        self.word.fetch_and(bits, order)
    }

    /// Sleeps until a wake meets `mask`. A sleep with a deadline ends at once: see [`clock`].
    pub(crate) fn wait(&self, expected: u32, mask: NonZeroU32, deadline: Option<Instant>) {
        let mut sleepers = super::lock(&self.sleepers);
        // The kernel reads the word under its bucket's lock, which wakers take after they changed the word.
        if self.word.load(Ordering::SeqCst) != expected || deadline.is_some() {
            return;
        }
        let me = sleepers.len();
        sleepers.push((mask.get(), false));
        while sleepers.get(me).is_some_and(|(_, woken)| !woken) {
            sleepers =
                self.roused.wait(sleepers).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    pub(crate) fn wake(&self, mask: NonZeroU32) {
        let mut sleepers = super::lock(&self.sleepers);
        for (theirs, woken) in sleepers.iter_mut() {
            *woken |= *theirs & mask.get() != 0;
        }
        self.roused.notify_all();
    }
}

/// Interruptions must wake a sleeper by themselves in a model, so no sleep there ends for want of them.
pub(crate) const LONGEST_UNATTENDED_SLEEP: Duration = Duration::MAX;
