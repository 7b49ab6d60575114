//! std's atomics and the kernel's shared futex.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the door")]

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::Ordering;
pub(crate) use crate::sys::{Sharing, WaitWord};
use crate::sys::{futex_wait, futex_waitv, futex_wake, futex_wake_threads};

pub(crate) type AtomicU32 = std::sync::atomic::AtomicU32;
pub(crate) type AtomicU64 = std::sync::atomic::AtomicU64;
pub(crate) type Mutex<T> = std::sync::Mutex<T>;

/// Polls between two readings of the clock. A poll is a pause of some 20-60 ns on current machines,
/// so deadlines are kept to about 3 microseconds and the clock costs a poller next to nothing.
pub(crate) const POLLS_PER_CLOCK_READING: u32 = 64;

#[inline(always)]
pub(crate) fn spin_loop() {
    std::hint::spin_loop();
}

#[inline(always)]
pub(crate) fn fence(order: Ordering) {
    std::sync::atomic::fence(order);
}

/// The monotonic clock, read from user space (vDSO).
pub(crate) mod clock {
    use std::time::{Duration, Instant};

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn since(start: Instant) -> Duration {
        start.elapsed()
    }
}

/// A 32-bit word in memory that other processes may share, on which threads can sleep.
///
/// The futexes are the shared kind: the kernel finds the waiters by the page behind the address,
/// whichever process mapped it where. Layout: exactly the `u32` of libfmq.
#[repr(transparent)]
#[derive(Debug, Default)]
pub(crate) struct FutexWord(AtomicU32);

impl FutexWord {
    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    #[inline(always)]
    pub(crate) fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.0.fetch_or(bits, order)
    }

    #[inline(always)]
    pub(crate) fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
        self.0.fetch_and(bits, order)
    }

    #[inline(always)]
    pub(crate) fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    /// Changes the word: for one that stands for a version.
    pub(crate) fn bump(&self) {
        // Release: pairs with the load of those who then look at what has changed.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// The word's address, for those who have a protocol of their own on it.
    pub(crate) fn address(&self) -> *mut u32 {
        self.0.as_ptr()
    }

    /// Sleeps while the word is `expected` and each of `others` is 0, until a wake of one of them
    /// (for the word: whose bits meet `mask`), the deadline, a signal, or no reason. `others` are
    /// private to the process, and at most
    /// [`MOST_OTHERS`]: more are left out.
    ///
    /// The caller looks at its condition after every return, so the reason is not handed back.
    pub(crate) fn wait<'words>(
        &'words self,
        expected: u32,
        mask: NonZeroU32,
        others: impl Iterator<Item = &'words Self>,
        deadline: Option<Instant>,
    ) {
        let mut words = [WaitWord::NONE; 1 + MOST_OTHERS];
        let mut count = 0;
        let shared = self.in_a_vector(expected, Sharing::Processes);
        let private = others.map(|other| other.in_a_vector(0, Sharing::Threads));
        for (slot, word) in words.iter_mut().zip([shared].into_iter().chain(private)) {
            *slot = word;
            count += 1;
        }
        let words = words.get(..count).unwrap_or(&words);
        if count == 1 || !wait_for_any(words, deadline) {
            // Linux before 5.16, or a sandbox that doesn't know the call: looks at `others` by and
            // by.
            let look = (count > 1).then(|| Instant::now().checked_add(LONGEST_UNATTENDED_SLEEP));
            let until = deadline.into_iter().chain(look.flatten()).min();
            // Every error (changed word, interrupted, timed out) means the same to the caller: look
            // again.
            let _ = futex_wait(&self.0, expected, mask, until.map(Into::into));
        }
    }

    /// The word as the kernel's vectored wait wants it.
    pub(crate) fn in_a_vector(&self, expected: u32, sharing: Sharing) -> WaitWord {
        WaitWord::new(&self.0, expected, sharing)
    }

    /// Wakes every sleeper of this process that sleeps on the word as one of its private `others`.
    #[cold]
    pub(crate) fn wake_threads(&self) {
        // Fails only for an address that is not mapped or not aligned: this one is both.
        let _ = futex_wake_threads(&self.0);
    }

    /// Wakes every sleeper whose mask meets `mask`.
    #[cold]
    pub(crate) fn wake(&self, mask: NonZeroU32) {
        // Fails only for an address that is not mapped or not aligned: this one is both.
        let _ = futex_wake(&self.0, mask);
    }
}

/// Words beside the first that a sleep ends by: one of a cancellation, one of a death.
const MOST_OTHERS: usize = 2;

/// Sleeps until one of `words` is woken or differs, or the deadline; `false` if the kernel doesn't
/// know the call.
pub(crate) fn wait_for_any(words: &[WaitWord], deadline: Option<Instant>) -> bool {
    let slept = futex_waitv(words, deadline.map(Into::into));
    !matches!(slept, Err(Errno::ENOSYS | Errno::EPERM))
}

/// The longest sleep between two looks at cancellation and death where the kernel can't wait for
/// several words.
pub(crate) const LONGEST_UNATTENDED_SLEEP: Duration = Duration::from_millis(10);
