//! A queue's memory on the heap: for two threads of one process, for Miri, and for tests.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Backing, Parts, QueueMemory};
use crate::SetupError;
use crate::layout::{FLAG_AT, READ_AT, RING_AT, WRITTEN_AT};

/// As [`Layout`] has it: the alignment of the block, hence of each part at its offset.
const ALIGN: usize = 128;

#[derive(Debug)]
struct Heap {
    block: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is owned, and what is in it is reached through `QueueMemory` only.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Backing for Heap {}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated in `memory` with this layout, and freed only here.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}

/// A zeroed queue of `ring_bytes`, laid out as in a region of our own.
pub(crate) fn memory(
    ring_bytes: usize,
    _quantum: usize,
    event_flag: bool,
) -> Result<QueueMemory, SetupError> {
    let too_large = || SetupError::TooLarge { bytes: ring_bytes as u64, limit: isize::MAX as u64 };
    let size = ring_bytes.checked_add(RING_AT as usize).ok_or_else(too_large)?;
    let layout = Layout::from_size_align(size, ALIGN).map_err(|_| too_large())?;
    // SAFETY: the layout is not empty: it has at least the counters.
    let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?;
    // SAFETY: every offset is below `RING_AT`, which is at most the block's size.
    let at = |offset: u32| unsafe { block.add(offset as usize) };
    let parts = Parts {
        read: at(READ_AT).cast(),
        written: at(WRITTEN_AT).cast(),
        flag: event_flag.then(|| at(FLAG_AT).cast()),
        ring: at(RING_AT),
        ring_bytes,
    };
    // SAFETY: offsets and sizes as `QueueMemory` wants them by the constants of `layout`; the block
    // lives in the backing.
    Ok(unsafe { QueueMemory::new(parts, Arc::new(Heap { block, layout })) })
}
