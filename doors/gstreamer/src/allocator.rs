//! Buffers that the driver reads where upstream wrote them.
//!
//! [`MemfdAllocator`] is offered upstream with the ALLOCATION query. Each of its memories is a
//! sealed memfd, which a burst maps once and then knows by its identity. The identity stays with
//! the `GstMemory` as qdata: a pool hands the same memories out again and again, so a ring of
//! buffers costs nothing after its first turn. Memories of other allocators that lie in a file
//! descriptor (a camera's dma-bufs) are remembered in the same way at their first frame.

use std::os::fd::{BorrowedFd, IntoRawFd};
use std::sync::{LazyLock, Mutex, PoisonError};

use gst::glib;
use gst::glib::translate::IntoGlib;
use gst_allocators::prelude::*;
use nnburst::hal::Memory;
use nnburst_doors_common::guarded;

use crate::{CAT, log};

glib::wrapper! {
    /// Allocates memfds that a driver can map.
    pub struct MemfdAllocator(ObjectSubclass<imp::MemfdAllocator>)
        @extends gst_allocators::FdAllocator, gst::Allocator, gst::Object;
}

impl Default for MemfdAllocator {
    fn default() -> Self {
        glib::Object::new()
    }
}

/// A memory that a driver can map, and the place of a buffer's bytes in it.
#[derive(Debug)]
pub(crate) struct FdSpan {
    pub(crate) memory: Memory,
    /// Bytes before the first one of the buffer.
    pub(crate) offset: u64,
}

/// Returns what lies behind a memory of a buffer, if that is a file descriptor.
pub(crate) fn shared(memory: &gst::MemoryRef) -> Option<FdSpan> {
    let fd = memory.downcast_memory_ref::<gst_allocators::FdMemory>()?.fd();
    let offset = u64::try_from(memory.offset()).ok()?;
    // A part of a memory lies in the descriptor of the whole, at an offset from its start.
    let whole = memory.parent().unwrap_or(memory);
    if let Some(memory) = remembered(whole) {
        return Some(FdSpan { memory, offset });
    }
    // SAFETY: the descriptor belongs to the memory, which outlives this call.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok()?;
    let size = u64::try_from(whole.maxsize()).ok()?;
    match Memory::from_fd(fd, 0, size, false) {
        Ok(memory) => Some(FdSpan { memory: remember(whole, memory), offset }),
        Err(error) => {
            gst::debug!(CAT, "a memory in a descriptor that can't be shared: {error}");
            None
        }
    }
}

static KEY: LazyLock<glib::Quark> = LazyLock::new(|| glib::Quark::from_str("nnburst-memory"));

/// Returns what [`remember`] left with a memory.
fn remembered(memory: &gst::MemoryRef) -> Option<Memory> {
    let object = memory.as_ptr().cast::<gst::ffi::GstMiniObject>().cast_mut();
    // SAFETY: `memory` is a live mini object; its qdata is behind a lock of its own.
    let kept = unsafe { gst::ffi::gst_mini_object_get_qdata(object, KEY.into_glib()) };
    // SAFETY: only `remember` sets this key, to a `Memory` that stays until the object is freed.
    unsafe { kept.cast::<Memory>().as_ref() }.cloned()
}

/// Keeps a memory's identity with it for as long as it lives, and returns the one that is kept.
fn remember(memory: &gst::MemoryRef, shared: Memory) -> Memory {
    // What is kept is never replaced, since others may be looking at it.
    static SETTING: Mutex<()> = Mutex::new(());
    let _setting = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = remembered(memory) {
        return kept;
    }
    let object = memory.as_ptr().cast::<gst::ffi::GstMiniObject>().cast_mut();
    let kept = Box::into_raw(Box::new(shared.clone()));
    // SAFETY: `memory` is a live mini object, and `forget` fits what is kept.
    unsafe {
        gst::ffi::gst_mini_object_set_qdata(object, KEY.into_glib(), kept.cast(), Some(forget));
    }
    shared
}

unsafe extern "C" fn forget(kept: glib::ffi::gpointer) {
    // SAFETY: `kept` comes from `Box::into_raw` in `remember`, and GStreamer calls this once.
    drop(unsafe { Box::from_raw(kept.cast::<Memory>()) });
}

mod imp {
    use gst::subclass::prelude::*;
    use gst_allocators::subclass::prelude::*;

    use super::*;

    #[derive(Debug, Default)]
    pub struct MemfdAllocator;

    #[glib::object_subclass]
    impl ObjectSubclass for MemfdAllocator {
        const NAME: &'static str = "NnburstMemfdAllocator";
        type Type = super::MemfdAllocator;
        type ParentType = gst_allocators::FdAllocator;
    }

    impl ObjectImpl for MemfdAllocator {}
    impl GstObjectImpl for MemfdAllocator {}
    impl FdAllocatorImpl for MemfdAllocator {}

    // SAFETY: `alloc` returns a memory with one reference, made by the parent class, which also
    // frees it; or null where there is none to be had.
    unsafe impl AllocatorImpl for MemfdAllocator {
        unsafe fn alloc(
            &self,
            size: usize,
            params: &gst::AllocationParams,
        ) -> *mut gst::ffi::GstMemory {
            let none = std::ptr::null_mut();
            guarded(&log::of_door(), none, || match self.memory(size, params) {
                Ok(memory) => {
                    let pointer = memory.as_ptr().cast_mut();
                    std::mem::forget(memory); // the caller's reference from here on
                    pointer
                }
                Err(error) => {
                    gst::error!(CAT, imp = self, "{size} bytes of shared memory: {error}");
                    none
                }
            })
        }
    }

    impl MemfdAllocator {
        fn memory(
            &self,
            size: usize,
            params: &gst::AllocationParams,
        ) -> Result<gst::Memory, Box<dyn std::error::Error>> {
            /// Sizes are whole pages, so that whatever alignment is asked for in a page holds.
            const PAGE: usize = 4096;
            let padded = [params.prefix(), params.padding(), PAGE - 1]
                .into_iter()
                .try_fold(size, usize::checked_add)
                .ok_or("the size is too large")?;
            let whole = padded / PAGE * PAGE;
            let shared = Memory::ashmem(u64::try_from(whole)?)?;
            let fd = shared.fd().try_clone_to_owned()?;
            let flags = gst_allocators::FdMemoryFlags::KEEP_MAPPED;
            // SAFETY: the descriptor is the memory's own from here on, and a memfd of `whole` bytes
            // that can't be cut short.
            let mut memory = unsafe { self.obj().alloc_fd(fd.into_raw_fd(), whole, flags) }?;
            let ours = memory.get_mut().ok_or("shared already")?;
            ours.resize(params.prefix()..params.prefix() + size);
            remember(ours, shared);
            Ok(memory)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator() -> MemfdAllocator {
        gst::init().unwrap();
        MemfdAllocator::default()
    }

    #[test]
    fn memories_are_shared_with_their_identity() {
        let memory = allocator().alloc(1000, None).unwrap();
        assert_eq!((memory.size(), memory.offset()), (1000, 0));
        let first = shared(&memory).unwrap();
        let again = shared(&memory).unwrap();
        assert!(first.memory == again.memory, "the same each time");
        let part = memory.share(100..200);
        let part = shared(&part).unwrap();
        assert!(first.memory == part.memory && part.offset == 100);
    }

    #[test]
    fn prefix_padding_and_alignment_are_kept() {
        let params = gst::AllocationParams::new(gst::MemoryFlags::empty(), 63, 64, 32);
        let mut memory = allocator().alloc(5000, Some(&params)).unwrap();
        assert_eq!((memory.offset(), memory.size()), (64, 5000));
        assert!(memory.maxsize() >= 64 + 5000 + 32);
        let map = memory.get_mut().unwrap().map_writable().unwrap();
        assert_eq!(map.as_ptr().addr() % 64, 0);
    }

    #[test]
    fn what_is_written_is_what_the_driver_sees() {
        let mut memory = allocator().alloc(16, None).unwrap();
        memory.get_mut().unwrap().map_writable().unwrap().copy_from_slice(b"sixteen letters!");
        let shared = shared(&memory).unwrap();
        let mapping = shared.memory.mapped().unwrap();
        assert_eq!(mapping.view(0..16).unwrap().to_vec(), b"sixteen letters!");
    }

    #[test]
    fn memory_of_others_is_shared_only_if_it_lies_in_a_descriptor() {
        gst::init().unwrap();
        let plain = gst::Memory::with_size(64);
        assert!(shared(&plain).is_none());
        let theirs = Memory::ashmem(4096).unwrap();
        let fd = theirs.fd().try_clone_to_owned().unwrap().into_raw_fd();
        let other = gst_allocators::FdAllocator::new();
        let flags = gst_allocators::FdMemoryFlags::NONE;
        // SAFETY: the descriptor is of 4096 bytes, and handed over.
        let memory = unsafe { other.alloc_fd(fd, 4096, flags) }.unwrap();
        let first = shared(&memory).unwrap();
        assert!(first.memory == shared(&memory).unwrap().memory, "remembered");
    }
}
