//! [`QueueMemory`] for loom: its atomics, and a ring of cells, one per item, in which it sees every
//! race.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use crate::SetupError;
use crate::sync::{AtomicU64, FutexWord, Ordering};

/// A handle to the memory of a queue; see the [module](super).
#[derive(Clone, Debug)]
pub(crate) struct QueueMemory(Arc<Words>);

#[derive(Debug)]
struct Words {
    read: AtomicU64,
    written: AtomicU64,
    flag: Option<Flag>,
    ring: Ring,
    quantum: usize,
}

/// A handle to an event-flag word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flag(Arc<FutexWord>);

impl std::ops::Deref for Flag {
    type Target = FutexWord;

    fn deref(&self) -> &FutexWord {
        &self.0
    }
}

/// The slots, one per item.
#[derive(Debug)]
enum Ring {
    /// Of the synchronised flavour: whoever touches a slot has it alone, and loom panics if not.
    Owned(Vec<UnsafeCell<Vec<u8>>>),
    /// Of the other flavour, which copies first and asks later: 8-byte items, each copied in one
    /// step.
    Racy(Vec<AtomicU64>),
}

// SAFETY: loom checks each access to the cells of `ring` against every other one.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

/// Stands in for the heap-backed memory of the native build.
pub(crate) fn memory(
    ring_bytes: usize,
    quantum: usize,
    event_flag: bool,
) -> Result<QueueMemory, SetupError> {
    let ring = (0..ring_bytes / quantum).map(|_| UnsafeCell::new(vec![0; quantum])).collect();
    Ok(words(Ring::Owned(ring), quantum, event_flag))
}

/// The memory of an unsynchronised queue.
pub(crate) fn racy(ring_bytes: usize, quantum: usize) -> QueueMemory {
    words(
        Ring::Racy((0..ring_bytes / quantum).map(|_| AtomicU64::new(0)).collect()),
        quantum,
        false,
    )
}

fn words(ring: Ring, quantum: usize, event_flag: bool) -> QueueMemory {
    QueueMemory(Arc::new(Words {
        read: AtomicU64::new(0),
        written: AtomicU64::new(0),
        flag: event_flag.then(Flag::default),
        ring,
        quantum,
    }))
}

impl QueueMemory {
    pub(crate) fn read(&self) -> &AtomicU64 {
        &self.0.read
    }

    pub(crate) fn written(&self) -> &AtomicU64 {
        &self.0.written
    }

    pub(crate) fn flag(&self) -> Option<Flag> {
        self.0.flag.clone()
    }

    pub(crate) fn ring_bytes(&self) -> usize {
        let slots = match &self.0.ring {
            Ring::Owned(ring) => ring.len(),
            Ring::Racy(ring) => ring.len(),
        };
        slots * self.0.quantum
    }

    /// # Safety
    /// As in the native build; here a breach is a panic of loom's.
    pub(crate) unsafe fn copy_in(&self, position: usize, items: &[u8]) {
        let first = position / self.0.quantum;
        match &self.0.ring {
            Ring::Owned(ring) => {
                for (cell, item) in ring.iter().skip(first).zip(items.chunks(self.0.quantum)) {
                    // SAFETY: loom panics if anybody else is at this cell.
                    cell.with_mut(|slot| unsafe { (*slot).copy_from_slice(item) });
                }
            }
            Ring::Racy(ring) => {
                for (word, item) in ring.iter().skip(first).zip(items.as_chunks().0) {
                    word.store(u64::from_ne_bytes(*item), Ordering::Relaxed);
                }
            }
        }
    }

    /// # Safety
    /// As in the native build; here a breach is a panic of loom's.
    pub(crate) unsafe fn copy_out(&self, position: usize, items: &mut [u8]) {
        let first = position / self.0.quantum;
        match &self.0.ring {
            Ring::Owned(ring) => {
                for (cell, item) in ring.iter().skip(first).zip(items.chunks_mut(self.0.quantum)) {
                    // SAFETY: loom panics if anybody is writing this cell.
                    cell.with(|slot| unsafe { item.copy_from_slice(&*slot) });
                }
            }
            Ring::Racy(ring) => {
                for (word, item) in ring.iter().skip(first).zip(items.as_chunks_mut().0) {
                    *item = word.load(Ordering::Relaxed).to_ne_bytes();
                }
            }
        }
    }

    /// Cells have no caches.
    pub(crate) fn prefetch(&self, _position: usize) {}

    /// Cells have no caches; what is left of taking lines back is that they are written, which is
    /// what may race.
    ///
    /// # Safety
    /// As in the native build; here a breach is a panic of loom's.
    pub(crate) unsafe fn take_back(&self, position: usize, bytes: usize) {
        let end = position.saturating_add(bytes).min(self.ring_bytes());
        for at in (position..end).step_by(super::CACHE_LINE) {
            match &self.0.ring {
                // SAFETY: loom panics if anybody else is at this cell.
                Ring::Owned(ring) => {
                    ring[at / self.0.quantum].with_mut(|slot| unsafe { (&mut *slot).fill(0) })
                }
                Ring::Racy(ring) => ring[at / self.0.quantum].store(0, Ordering::Relaxed),
            }
        }
    }
}
