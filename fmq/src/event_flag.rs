//! The event flag: 32 bits on which two processes wait for each other, as libfmq does it.
//!
//! A set bit says "this has happened since somebody last waited for it". Waiting clears the bits it
//! waits for and sleeps if none was set; waking sets bits and calls the kernel only if one of them
//! was clear, since only then can somebody sleep. So bits left over by nobody waiting cost one
//! early return, and traffic without sleepers costs no system call.
//!
//! # The two ways to wake
//!
//! - **Unconditional**, libfmq's: `fetch_or`, then the system call if a bit was clear. Safe against
//!   any waiter.
//! - **Looking first**: a full fence, a plain load, and only if a bit is clear the same `fetch_or`.
//!   While nobody sleeps the word's cache line stays shared, and traffic is 1.4 to 2 times as fast.
//!
//! Looking first is a store-buffer pattern and needs a full fence on both sides: the waker between
//! its publishing store and its look at the bits, the waiter between its clearing of the bits and
//! its look at the counters. Ours has one ([`clear`]). libfmq's waiter has a sequentially
//! consistent `fetch_and` followed by an acquire load, which is as good on x86-64 (a locked
//! instruction is a full barrier) but not by the C++ model nor on Arm, where the load may pass the
//! store of the bits. Hence [`Notify::Look`] on x86-64, and for pairs of one process (both sides
//! are ours); [`Notify::Always`] for a peer elsewhere.
//!
//! # Orderings
//!
//! | edge | waker | waiter | forbids |
//! |---|---|---|---|
//! | `sleep` | publish; fence SeqCst; load, fetch_or | fetch_and; fence SeqCst; load | lost wake |
//! | `bits` | fetch_or Release | fetch_and finds the bit; fence SeqCst | bit before the news |

use std::num::NonZeroU32;
#[cfg(not(loom))]
use std::ptr::NonNull;
use std::time::Instant;

use crate::interrupt::{Cancel, Interrupts};
use crate::memory::Flag;
use crate::sync::{FutexWord, Ordering, clock, fence};
use crate::{PeerWatch, QueueError};

/// The bit a consumer sets when it has made room, and a producer waits for.
pub const NOT_FULL: u32 = 0x1;
/// The bit a producer sets when it has published items, and a consumer waits for.
pub const NOT_EMPTY: u32 = 0x2;

/// The way in which a side announces; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    /// libfmq's way, safe against every peer.
    Always,
    /// Fence and look first: only where the waiter is known to have a full barrier.
    Look,
}

impl Notify {
    /// For a peer of whom nothing is known but that it follows libfmq's protocol. (In models always
    /// the unconditional form, so that both are explored.)
    pub(crate) const UNKNOWN_PEER: Self =
        if cfg!(all(target_arch = "x86_64", not(loom))) { Self::Look } else { Self::Always };
}

/// Sets the bits of `mask`, and wakes who sleeps on them.
#[inline(always)]
pub(crate) fn wake(word: &FutexWord, mask: NonZeroU32, notify: Notify) {
    if notify == Notify::Look {
        // edge sleep (waker): the store that published must not pass the look at the bits.
        fence(Ordering::SeqCst);
        // Relaxed: nothing is handed over; whoever clears the bit later looks at the counters after
        // its own fence.
        if word.load(Ordering::Relaxed) & mask.get() == mask.get() {
            return;
        }
    }
    // edge sleep, edge bits: SeqCst as in libfmq; the full barrier of the unconditional form.
    let before = word.fetch_or(mask.get(), Ordering::SeqCst);
    if before & mask.get() != mask.get() {
        word.wake(mask);
    }
}

/// Clears the bits of `mask`; returns the word as it was before.
#[inline]
pub(crate) fn clear(word: &FutexWord, mask: NonZeroU32) -> u32 {
    // Relaxed: the fence that follows orders it, and makes it an acquire of what the setter of a
    // bit released (edge bits).
    let before = word.fetch_and(!mask.get(), Ordering::Relaxed);
    // edge sleep (waiter): the look at the counters that follows must not pass the clearing.
    fence(Ordering::SeqCst);
    before
}

/// A handle to a queue's event-flag word, for bits of one's own meaning or a protocol of one's own.
///
/// A bit must have at most one waiter: all sleepers on it are woken, and the first one clears it. A
/// handle that an end gives has the end's cancellation and watch; clones have those of the handle.
#[derive(Clone, Debug)]
pub struct EventFlag {
    word: Flag,
    interrupts: Interrupts,
}

impl EventFlag {
    pub(crate) fn new(word: Flag, interrupts: Interrupts) -> Self {
        Self { word, interrupts }
    }

    /// A flag over a word of somebody else's: in private memory, for threads, or in memory that
    /// processes share.
    ///
    /// ```
    /// use std::{ptr::NonNull, sync::atomic::AtomicU32};
    /// use nnburst_fmq::EventFlag;
    ///
    /// let word = Box::leak(Box::new(AtomicU32::new(0b10)));
    /// // SAFETY: an atomic that lives as long as the program.
    /// let flag = unsafe { EventFlag::over(NonNull::from(word).cast()) };
    /// assert_eq!(flag.wait(0b11, None)?, 0b10);
    /// # Ok::<(), nnburst_fmq::QueueError>(())
    /// ```
    ///
    /// # Safety
    /// As long as the handle, a clone of it, or an end that was given one of them lives, `word` is
    /// a readable and writable 32-bit word, aligned to 4, that is accessed atomically only.
    #[cfg(not(loom))]
    #[must_use]
    pub unsafe fn over(word: NonNull<u32>) -> Self {
        // SAFETY: by the caller's word.
        Self::new(unsafe { Flag::foreign(word) }, Interrupts::default())
    }

    /// The word's address, valid as long as the handle. Others may change the word at any time:
    /// access it atomically.
    #[cfg(not(loom))]
    #[must_use]
    pub fn address(&self) -> *mut u32 {
        self.word.address()
    }

    /// From now on `cancel` ends the waits of this handle.
    pub fn set_cancel(&mut self, cancel: &Cancel) {
        self.interrupts.set_cancel(cancel);
    }

    /// From now on the peer's death ends the waits of this handle.
    pub fn set_peer(&mut self, peer: &PeerWatch) {
        peer.attach(&mut self.interrupts);
    }

    pub(crate) fn word(&self) -> &Flag {
        &self.word
    }

    /// Sets the bits of `mask` and wakes those who wait for one of them. A system call only if one
    /// of them was clear.
    ///
    /// # Errors
    /// [`QueueError::NoBits`] if `mask` is 0.
    pub fn wake(&self, mask: u32) -> Result<(), QueueError> {
        let mask = NonZeroU32::new(mask).ok_or(QueueError::NoBits)?;
        wake(&self.word, mask, Notify::Always);
        Ok(())
    }

    /// Waits until a bit of `mask` is set, or was since the last wait; clears and returns those
    /// that were.
    ///
    /// # Errors
    /// [`QueueError::NoBits`] if `mask` is 0, [`QueueError::Cancelled`], [`QueueError::PeerDied`]
    /// or [`QueueError::TimedOut`] once the one is the case without a bit: the bits are looked at
    /// first, so a deadline in the past, or a peer that has died, still leaves those that are set.
    pub fn wait(&self, mask: u32, deadline: Option<Instant>) -> Result<u32, QueueError> {
        let mask = NonZeroU32::new(mask).ok_or(QueueError::NoBits)?;
        self.interrupts.follow_fork();
        loop {
            let before = clear(&self.word, mask);
            let set = before & mask.get();
            if set != 0 {
                return Ok(set);
            }
            self.interrupts.check()?;
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                return Err(QueueError::TimedOut);
            }
            // Spurious returns (other bits changed, a signal) and timeouts alike: look again.
            self.interrupts.sleep(&self.word, before, mask, deadline);
        }
    }

    /// The bits that are set now. They may have changed by the time you look.
    #[must_use]
    pub fn bits(&self) -> u32 {
        // Relaxed: a snapshot for the eye; nothing is handed over.
        self.word.load(Ordering::Relaxed)
    }
}
