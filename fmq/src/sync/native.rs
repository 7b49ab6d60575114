//! std's atomics and the kernel's shared futex.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the door")]

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::Ordering;

pub(crate) type AtomicBool = std::sync::atomic::AtomicBool;
pub(crate) type AtomicU32 = std::sync::atomic::AtomicU32;
pub(crate) type AtomicU64 = std::sync::atomic::AtomicU64;
pub(crate) type Mutex<T> = std::sync::Mutex<T>;

/// How often a poller looks between two glances at the clock. A turn is a pause of some 20-60 ns on current machines,
/// so deadlines are kept to about 3 microseconds and the clock costs a poller next to nothing.
pub(crate) const TURNS_PER_GLANCE: u32 = 64;

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
/// The futexes are the shared kind: the kernel finds the waiters by the page behind the address, whichever process
/// mapped it where. Layout: exactly the `u32` of libfmq.
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

    /// Changes the word: for one that stands for a version.
    pub(crate) fn bump(&self) {
        // Release: pairs with the load of those who then look at what has changed.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// The word as the kernel's vectored wait wants it.
    pub(crate) fn address(&self) -> *mut std::ffi::c_void {
        self.0.as_ptr().cast()
    }

    /// Sleeps while the word is `expected`, until a wake whose bits meet `mask`, the deadline, a signal, or no reason.
    ///
    /// The caller looks at its condition after every return, so the reason is not handed back.
    pub(crate) fn wait(&self, expected: u32, mask: NonZeroU32, deadline: Option<Instant>) {
        let until = deadline.map(absolute);
        // Every error (changed word, interrupted, timed out) means the same to the caller: look again.
        let _ = futex::wait_bitset(&self.0, futex::Flags::empty(), expected, until.as_ref(), mask);
    }

    /// Wakes every sleeper whose mask meets `mask`.
    #[cold]
    pub(crate) fn wake(&self, mask: NonZeroU32) {
        // Fails only for an address that is not mapped or not aligned: this one is both.
        // The kernel takes the count as an int: i32::MAX means all.
        let _ = futex::wake_bitset(&self.0, futex::Flags::empty(), i32::MAX.cast_unsigned(), mask);
    }
}

/// The futex calls count absolute time on `CLOCK_MONOTONIC`, and an [`Instant`] does not give its reading away.
pub(crate) fn absolute(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    let now = clock_gettime(ClockId::Monotonic);
    let far = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };
    Timespec::try_from(left).ok().and_then(|left| now.checked_add(left)).unwrap_or(far)
}

/// The longest sleep between two looks at cancellation and death, when a wait can be interrupted.
///
/// An interruption wakes the sleeper at once; this is the bound that a peer can't break even if it clears bits of
/// the shared word in just the wrong nanosecond.
pub(crate) const LONGEST_UNATTENDED_SLEEP: Duration = Duration::from_millis(100);
