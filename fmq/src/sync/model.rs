//! loom's atomics, and a futex made of its mutex and condvar.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use super::Ordering;

pub(crate) type AtomicU32 = loom::sync::atomic::AtomicU32;
pub(crate) type AtomicU64 = loom::sync::atomic::AtomicU64;
pub(crate) type Mutex<T> = loom::sync::Mutex<T>;

/// One look per turn: more of the same would only multiply the states to explore.
pub(crate) const POLLS_PER_CLOCK_READING: u32 = 1;

pub(crate) fn spin_loop() {
    loom::thread::yield_now();
}

pub(crate) fn fence(order: Ordering) {
    loom::sync::atomic::fence(order);
}

/// Time does not pass in a model: deadlines and polling windows count as over the first time they
/// are asked about.
pub(crate) mod clock {
    use std::time::{Duration, Instant};

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn since(_start: Instant) -> Duration {
        Duration::MAX
    }
}

/// A word on which threads can sleep, as the kernel defines it: compare and go to sleep are one
/// step to wakers.
#[derive(Debug, Default)]
pub(crate) struct FutexWord {
    word: AtomicU32,
    /// Stands for the kernel's hash bucket and its lock: the mask of each sleeper, and the sleeper.
    bucket: Mutex<Vec<(u32, Arc<Thread>)>>,
}

/// A thread that sleeps, perhaps on several words.
#[derive(Debug, Default)]
struct Thread {
    woken: Mutex<bool>,
    roused: loom::sync::Condvar,
}

impl FutexWord {
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    pub(crate) fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
    }

    pub(crate) fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.word.fetch_or(bits, order)
    }

    pub(crate) fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
        self.word.fetch_and(bits, order)
    }

    /// Sleeps until a wake of one of the words. A sleep with a deadline ends at once: see
    /// [`clock`].
    pub(crate) fn wait<'words>(
        &'words self,
        expected: u32,
        mask: NonZeroU32,
        others: impl Iterator<Item = &'words Self>,
        deadline: Option<Instant>,
    ) {
        if deadline.is_some() {
            return;
        }
        let others: Vec<&Self> = others.collect();
        // Who waits for several words is woken by any bit.
        let mask = if others.is_empty() { mask.get() } else { u32::MAX };
        let me = Arc::new(Thread::default());
        let words: Vec<_> =
            [(self, expected)].into_iter().chain(others.into_iter().map(|w| (w, 0))).collect();
        if words.iter().all(|(word, expected)| word.enqueue(*expected, mask, &me)) {
            let mut woken = super::lock(&me.woken);
            while !*woken {
                woken = me.roused.wait(woken).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
        for (word, _) in words {
            super::lock(&word.bucket).retain(|(_, thread)| !Arc::ptr_eq(thread, &me));
        }
    }

    /// Returns whether the word is `expected`; then `thread` is among its sleepers.
    fn enqueue(&self, expected: u32, mask: u32, thread: &Arc<Thread>) -> bool {
        let mut bucket = super::lock(&self.bucket);
        // The kernel reads the word under its bucket's lock, which wakers take after they changed
        // the word.
        if self.word.load(Ordering::SeqCst) != expected {
            return false;
        }
        bucket.push((mask, Arc::clone(thread)));
        true
    }

    pub(crate) fn wake(&self, mask: NonZeroU32) {
        for (theirs, thread) in super::lock(&self.bucket).iter() {
            if theirs & mask.get() != 0 {
                *super::lock(&thread.woken) = true;
                thread.roused.notify_all();
            }
        }
    }

    pub(crate) fn wake_threads(&self) {
        self.wake(NonZeroU32::MAX);
    }
}
