//! [`QueueMemory`] over plain addresses: a mapping of shared memory, or private memory.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::copy;
use crate::sync::{AtomicU64, FutexWord};

/// The owner of the addresses of a [`QueueMemory`] valid: they stay so until it is dropped.
pub(crate) trait Backing: Send + Sync + fmt::Debug {}

/// The addresses of the parts of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) read: NonNull<u64>,
    pub(crate) written: NonNull<u64>,
    pub(crate) flag: Option<NonNull<u32>>,
    pub(crate) ring: NonNull<u8>,
    pub(crate) ring_bytes: usize,
}

/// A handle to the memory of a queue; see the [module](super).
#[derive(Clone, Debug)]
pub(crate) struct QueueMemory {
    parts: Parts,
    _backing: Arc<dyn Backing>,
}

// SAFETY: the addresses are valid in every thread while `_backing` lives, counters and flag are
// atomics, and the ring is touched only by `copy_in` and `copy_out`, whose callers own the bytes
// they name.
unsafe impl Send for QueueMemory {}
// SAFETY: as above.
unsafe impl Sync for QueueMemory {}

impl QueueMemory {
    /// # Safety
    /// While `backing` lives: the counters are readable 64-bit words aligned to 8, the flag a
    /// readable and writable 32-bit word aligned to 4, the ring `ring_bytes` readable bytes aligned
    /// to 8; none overlap, and all of them are accessed by this process only through `QueueMemory`.
    /// Where a side's role writes, they are writable too.
    pub(crate) unsafe fn new(parts: Parts, backing: Arc<dyn Backing>) -> Self {
        Self { parts, _backing: backing }
    }

    /// Bytes read since the start: the consumer's counter.
    #[inline(always)]
    pub(crate) fn read(&self) -> &AtomicU64 {
        // SAFETY: `new` was promised an aligned word that lives as long as `self` and is accessed
        // atomically only. Not `from_ptr`, which asks for memory that can be written: a reader of
        // the unsynchronised flavour's can't be.
        unsafe { self.parts.read.cast::<AtomicU64>().as_ref() }
    }

    /// Bytes written since the start: the producer's counter.
    #[inline(always)]
    pub(crate) fn written(&self) -> &AtomicU64 {
        // SAFETY: as in `read`.
        unsafe { self.parts.written.cast::<AtomicU64>().as_ref() }
    }

    /// A handle to the event-flag word, if the queue has one.
    pub(crate) fn flag(&self) -> Option<Flag> {
        let word = self.parts.flag?.cast();
        Some(Flag { word, _backing: Arc::clone(&self._backing) })
    }

    /// Bytes in the ring.
    #[inline(always)]
    pub(crate) fn ring_bytes(&self) -> usize {
        self.parts.ring_bytes
    }

    /// The `bytes` from byte `position` of the ring on, as far as the ring goes: up to its end, and
    /// from its start.
    #[inline(always)]
    pub(crate) fn regions(&self, position: usize, bytes: usize) -> [Region; 2] {
        let (ring, ring_bytes) = (self.parts.ring.as_ptr(), self.parts.ring_bytes);
        let position = position.min(ring_bytes);
        let first = bytes.min(ring_bytes - position);
        let second = (bytes - first).min(position);
        // Within the ring, or at its end.
        let first = Region { address: ring.wrapping_add(position), bytes: first };
        [first, Region { address: ring, bytes: second }]
    }

    /// The address of byte `position` of the ring.
    ///
    /// # Safety
    /// `position` is below `ring_bytes`.
    #[inline(always)]
    pub(crate) unsafe fn slot(&self, position: usize) -> *mut u8 {
        // SAFETY: the caller stays within the ring, which is one mapped object.
        unsafe { self.parts.ring.as_ptr().add(position) }
    }

    /// Copies `items` into the ring at byte `position`.
    ///
    /// # Safety
    /// `position + items.len()` is at most `ring_bytes`, and by the protocol these bytes are the
    /// caller's to write.
    #[inline(always)]
    pub(crate) unsafe fn copy_in(&self, position: usize, items: &[u8]) {
        // SAFETY: within the ring, which stays mapped as long as `self`.
        unsafe { copy::store(self.parts.ring.as_ptr().add(position), items) };
    }

    /// Copies bytes of the ring from byte `position` on into `items`.
    ///
    /// # Safety
    /// `position + items.len()` is at most `ring_bytes`, and by the protocol these bytes are the
    /// caller's to read.
    #[inline(always)]
    pub(crate) unsafe fn copy_out(&self, position: usize, items: &mut [u8]) {
        // SAFETY: within the ring, which stays mapped as long as `self`.
        unsafe { copy::load(items, self.parts.ring.as_ptr().add(position)) };
    }

    /// Asks for the cache line of byte `position`, without waiting for it. A hint: nothing is read
    /// by it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, position: usize) {
        copy::prefetch(self.parts.ring.as_ptr().wrapping_add(position));
    }

    /// Takes the cache lines of `bytes` bytes from byte `position` on, as far as [`TAKEN_BACK`] and
    /// the ring's end, without waiting for them: by writing into each, since a prefetch for writing
    /// does nothing for a line of which this core has a copy still. What was there is lost.
    ///
    /// # Safety
    /// `position` is below `ring_bytes`, and by the protocol the bytes (those before the ring's
    /// end) are the caller's to write.
    #[inline(never)]
    pub(crate) unsafe fn take_back(&self, position: usize, bytes: usize) {
        let end = position.saturating_add(bytes.min(TAKEN_BACK)).min(self.parts.ring_bytes);
        for at in (position..end).step_by(super::CACHE_LINE) {
            // SAFETY: below the ring's end; the caller's to write.
            unsafe { self.slot(at).write_volatile(0) };
        }
    }
}

/// Adjacent bytes of the ring. They stay shared memory, which a hostile peer may write at any time.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "an address and a length")]
pub struct Region {
    /// The first byte.
    pub address: *mut u8,
    /// Length in bytes; may be 0.
    pub bytes: usize,
}

/// A handle to an event-flag word: a queue's, or one of somebody else's.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    word: NonNull<FutexWord>,
    _backing: Arc<dyn Backing>,
}

// SAFETY: the word is an atomic that is valid in every thread while `_backing` lives.
unsafe impl Send for Flag {}
// SAFETY: as above.
unsafe impl Sync for Flag {}

impl Flag {
    /// # Safety
    /// As long as this handle or a clone of it lives, `word` is a readable and writable 32-bit
    /// word, aligned to 4, that is accessed atomically only.
    pub(crate) unsafe fn foreign(word: NonNull<u32>) -> Self {
        Self { word: word.cast(), _backing: Arc::new(Foreign) }
    }
}

impl Deref for Flag {
    type Target = FutexWord;

    #[inline(always)]
    fn deref(&self) -> &FutexWord {
        // SAFETY: an aligned word that lives as long as `self` and is accessed atomically only, by
        // `QueueMemory::new` or `foreign`; a `FutexWord` is a transparent `AtomicU32`.
        unsafe { self.word.as_ref() }
    }
}

/// The backing of a word for whose life its owner vouches.
#[derive(Debug)]
struct Foreign;

impl Backing for Foreign {}

/// The most bytes that are taken back at a time: half of what a core can have under way.
const TAKEN_BACK: usize = 1024;
