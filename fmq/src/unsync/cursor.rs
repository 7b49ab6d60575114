//! The two ends of the flavour over bytes: what [`Writer`](super::Writer) and
//! [`Reader`](super::Reader) are for items of a type, and [`erased`](crate::erased)'s for items of
//! a size.

use crate::memory::QueueMemory;
#[cfg(not(loom))]
use crate::memory::Region;
use crate::ring::{Quantum, put, take, usize_of, wrap};
use crate::sync::{Ordering, fence};
use crate::{Lie, LieKind, QueueError, SetupError};

/// The ring, in items: the same for both ends.
#[derive(Debug)]
pub(crate) struct Ring<Q> {
    pub(crate) memory: QueueMemory,
    quantum: Q,
}

impl<Q: Quantum> Ring<Q> {
    /// Bytes per item.
    pub(crate) fn quantum(&self) -> usize {
        self.quantum.bytes()
    }

    /// Items that it holds.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.ring_bytes() / self.quantum.bytes()
    }

    /// Refuses batches that it can never hold.
    fn holds(&self, bytes: usize) -> Result<(), QueueError> {
        if bytes <= self.memory.ring_bytes() {
            return Ok(());
        }
        let asked = bytes / self.quantum.bytes();
        Err(QueueError::TooLarge { asked, capacity: self.capacity() })
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct WriteCursor<Q> {
    ring: Ring<Q>,
    /// Bytes written since the start, as the shared counter says.
    written: u64,
    position: usize,
    /// The mark: the end of what was begun to be written, at most a ring after `written`. It never
    /// goes back, whoever set it.
    begun: u64,
}

impl<Q: Quantum> WriteCursor<Q> {
    /// The writer of a new queue.
    pub(crate) fn fresh(memory: QueueMemory, quantum: Q) -> Self {
        Self { ring: Ring { memory, quantum }, written: 0, position: 0, begun: 0 }
    }

    /// A writer that goes on where the last one stopped, which may have died in mid batch.
    pub(crate) fn attach(memory: QueueMemory, quantum: Q) -> Result<Self, SetupError> {
        // Relaxed, both: the last writer is gone, and nothing that it did is relied on.
        let written = memory.written().load(Ordering::Relaxed);
        let mark = memory.read().load(Ordering::Relaxed);
        let ring_bytes = memory.ring_bytes() as u64;
        let bytes = quantum.bytes() as u64;
        if !written.is_multiple_of(bytes) {
            return Err(SetupError::Counters { read: mark, written, ring_bytes });
        }
        // Any other mark is one of no writer that makes marks: libfmq's of before 2025 leave the
        // word at 0. They may have overwritten anything.
        let ahead = mark.wrapping_sub(written);
        let trusted = ahead <= ring_bytes && ahead.is_multiple_of(bytes);
        let begun = if trusted { mark } else { written.wrapping_add(ring_bytes) };
        if begun != mark {
            // Relaxed: readers look at it after a copy, and it is fenced before the next item goes
            // over an old one.
            memory.read().store(begun, Ordering::Relaxed);
        }
        let position = usize_of(written % ring_bytes);
        Ok(Self { ring: Ring { memory, quantum }, written, position, begun })
    }

    pub(crate) fn ring(&self) -> &Ring<Q> {
        &self.ring
    }

    /// Claims the next `bytes`: from here on readers take nothing any more from the slots that they
    /// go over.
    pub(crate) fn begin(&mut self, bytes: usize) -> Result<(), QueueError> {
        self.ring.holds(bytes)?;
        // edge doom (writer): what lies a ring before the mark is about to be overwritten. Never
        // less than before: a batch that was begun and not published has done its damage.
        let ahead = (bytes as u64).max(self.begun.wrapping_sub(self.written));
        self.begun = self.written.wrapping_add(ahead);
        self.ring.memory.read().store(self.begun, Ordering::Relaxed);
        fence(Ordering::Release);
        Ok(())
    }

    /// Copies `items` to the bytes from `at` bytes after the cursor on.
    ///
    /// # Safety
    /// `at + items.len()` bytes are begun.
    pub(crate) unsafe fn fill(&self, at: usize, items: &[u8]) {
        let start = wrap(self.position + at, self.ring.memory.ring_bytes());
        // SAFETY: `start` is in the ring, the items are no more than it, and the writer owns every
        // slot; readers drop what they copied from slots that were doomed.
        unsafe { put(&self.ring.memory, start, items) };
    }

    /// The regions of the next `bytes`; see [`QueueMemory::regions`].
    #[cfg(not(loom))]
    pub(crate) fn regions(&self, bytes: usize) -> [Region; 2] {
        self.ring.memory.regions(self.position, bytes)
    }

    /// Publishes the next `bytes`.
    ///
    /// # Safety
    /// As many are begun.
    pub(crate) unsafe fn publish(&mut self, bytes: usize) {
        self.position = wrap(self.position + bytes, self.ring.memory.ring_bytes());
        self.written = self.written.wrapping_add(bytes as u64);
        // edge publish (release): pairs with `ReadCursor::look`.
        self.ring.memory.written().store(self.written, Ordering::Release);
    }
}

/// A reader's end.
#[derive(Debug)]
pub(crate) struct ReadCursor<Q> {
    ring: Ring<Q>,
    read: u64,
    /// The write counter as last seen.
    written: u64,
    lie: Option<Lie>,
}

impl<Q: Quantum> ReadCursor<Q> {
    /// A reader at the beginning of the history.
    pub(crate) fn new(memory: QueueMemory, quantum: Q) -> Self {
        Self { ring: Ring { memory, quantum }, read: 0, written: 0, lie: None }
    }

    pub(crate) fn ring(&self) -> &Ring<Q> {
        &self.ring
    }

    /// Items that can be read now, at most the capacity; after an overflow, what its report will
    /// leave.
    pub(crate) fn available(&mut self) -> Result<usize, QueueError> {
        let ahead = self.look()?;
        let kept = if ahead > self.ring_bytes() { self.half() } else { ahead };
        Ok(usize_of(kept) / self.ring.quantum())
    }

    /// Makes sure that `bytes` have been written that were not overwritten so far.
    pub(crate) fn begin(&mut self, bytes: usize) -> Result<(), QueueError> {
        self.ring.holds(bytes)?;
        let ahead = self.look()?;
        if ahead > self.ring_bytes() {
            return Err(self.lose(0));
        }
        if bytes as u64 > ahead {
            let quantum = self.ring.quantum();
            let available = usize_of(ahead) / quantum;
            return Err(QueueError::Empty { asked: bytes / quantum, available });
        }
        Ok(())
    }

    /// Copies the bytes from `at` bytes after the cursor on. What is copied counts once
    /// [`Self::commit`] has vouched for it.
    ///
    /// # Safety
    /// `at + items.len()` bytes are begun.
    pub(crate) unsafe fn drain(&self, at: usize, items: &mut [u8]) {
        let start = wrap(self.position() + at, self.ring.memory.ring_bytes());
        // SAFETY: `start` is in the ring and the items are no more than it. The writer may
        // overwrite them meanwhile: then `items` holds a mixture, and `commit` doesn't vouch for
        // it.
        unsafe { take(&self.ring.memory, start, items) };
    }

    /// The regions of the next `bytes`; see [`QueueMemory::regions`].
    #[cfg(not(loom))]
    pub(crate) fn regions(&self, bytes: usize) -> [Region; 2] {
        self.ring.memory.regions(self.position(), bytes)
    }

    /// Moves on by `bytes` that were begun, if none of what was copied since had been overwritten.
    pub(crate) fn commit(&mut self, bytes: usize) -> Result<(), QueueError> {
        // edge doom (reader): the copy must not pass the look at the mark.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        let begun = self.ring.memory.read().load(Ordering::Relaxed);
        let ahead = self.look()?;
        // A writer that makes no marks leaves the word at 0, behind everyone: a negative distance.
        // No honest mark dooms more than what is published, as far as that is seen here.
        let begun = u64::try_from(begun.wrapping_sub(self.read).cast_signed()).unwrap_or(0);
        let gone = begun.saturating_sub(self.ring_bytes()).min(ahead);
        if ahead > self.ring_bytes() || gone > 0 {
            return Err(self.lose(gone));
        }
        self.read = self.read.wrapping_add(bytes as u64);
        Ok(())
    }

    fn position(&self) -> usize {
        usize_of(self.read % self.ring_bytes())
    }

    fn ring_bytes(&self) -> u64 {
        self.ring.memory.ring_bytes() as u64
    }

    /// Bytes of the half of the history that is kept after an overflow, in whole items.
    fn half(&self) -> u64 {
        (self.ring.capacity() / 2 * self.ring.quantum()) as u64
    }

    /// Returns how far the writer is ahead, in bytes: more than the ring after an overflow.
    fn look(&mut self) -> Result<u64, QueueError> {
        if let Some(lie) = self.lie {
            return Err(QueueError::Poisoned(lie));
        }
        // Relaxed, and a fence: of memory that is mapped for reading alone, std allows no load but
        // a relaxed one.
        let seen = self.ring.memory.written().load(Ordering::Relaxed);
        // edge publish (acquire): pairs with `WriteCursor::publish`; the items below are visible
        // from here on.
        fence(Ordering::Acquire);
        let ahead = seen.wrapping_sub(self.read);
        if ahead < self.written.wrapping_sub(self.read) {
            return Err(self.poison(LieKind::Backwards, seen));
        }
        if !ahead.is_multiple_of(self.ring.quantum() as u64) {
            return Err(self.poison(LieKind::Misaligned, seen));
        }
        self.written = seen;
        Ok(ahead)
    }

    /// Moves on to the newer half of the history, past at least `gone` bytes.
    fn lose(&mut self, gone: u64) -> QueueError {
        let ahead = self.written.wrapping_sub(self.read);
        let skipped = ahead.saturating_sub(self.half()).max(gone);
        // Whole items, whatever the mark said.
        let quantum = self.ring.quantum() as u64;
        let lost = skipped.div_ceil(quantum);
        self.read = self.read.wrapping_add(lost.saturating_mul(quantum));
        QueueError::Lost { lost }
    }

    #[cold]
    fn poison(&mut self, kind: LieKind, seen: u64) -> QueueError {
        let lie = Lie { kind, seen, ours: self.read, ring_bytes: self.ring_bytes() };
        self.lie = Some(lie);
        QueueError::PeerLied(lie)
    }
}
