//! A memory's bytes in this process.

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use nix::fcntl::SealFlag;
use nix::sys::mman::{MmapAdvise, ProtFlags, madvise, munmap};

use super::backing::is_dma_buf;
use super::dma_buf::{DmaBuf, Moment};
use super::error::MemoryError;
use super::guard::Guard;
use super::huge::map_file;
use super::view::{View, ViewMut};
use crate::budget::{Budget, Charge, Resource};
use crate::sys::{page_size, seals};

/// The access that a mapping is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looking.
    Read,
    /// Looking and writing.
    ReadWrite,
}

/// A range of a file, mapped shared. Unmapped when dropped.
///
/// Other processes may write the bytes at any time, so the only ways to them are [`View`] and
/// [`ViewMut`]; and they may take pages away if the file isn't sealed: then [`Mapping::lost_pages`]
/// turns true and zeros of this process stand where all of the bytes were.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    mapped: usize,
    /// From `base` to the first byte asked for: mappings start at a page, memories anywhere.
    skew: usize,
    len: usize,
    access: Access,
    guard: Option<Guard>,
    dma_buf: Option<DmaBuf>,
    /// The charge to the budget of the memory's owner.
    _charge: Option<Charge>,
}

// SAFETY: a mapping is an address range; nothing about it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; the bytes are reached through views alone, which promise nothing about them.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        offset: u64,
        size: u64,
        access: Access,
        budget: Option<&Arc<Budget>>,
    ) -> Result<Self, MemoryError> {
        let page = u64::try_from(page_size()).unwrap_or(4096);
        let skew = offset % page;
        let len = usize::try_from(size).map_err(|_| MemoryError::TooLarge { size })?;
        if len == 0 {
            return Ok(Self::empty(access));
        }
        let total = size
            .checked_add(skew)
            .filter(|&total| isize::try_from(total).is_ok())
            .ok_or(MemoryError::TooLarge { size })?;
        let mapped = usize::try_from(total).map_err(|_| MemoryError::TooLarge { size })?;
        let is_sealed = is_sealed_against_shrinking(fd);
        let is_dma_buf = !is_sealed && is_dma_buf(fd);
        let charge = budget.map(|budget| {
            let guards = u64::from(!is_sealed);
            budget.take_all(&[
                // The system may have joined it with its neighbours, of which the guard takes it
                // out.
                (Resource::Mappings, guards.saturating_add(1)),
                (Resource::AddressSpace, total),
                (Resource::GuardedMappings, guards),
                (Resource::Descriptors, u64::from(is_dma_buf)),
            ])
        });
        let charge = charge.transpose()?;
        let protection = match access {
            Access::Read => ProtFlags::PROT_READ,
            Access::ReadWrite => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        };
        let base = map_file(mapped, protection, fd, offset.saturating_sub(skew))
            .map_err(MemoryError::system("mmap"))?;
        let base = base.cast::<u8>();
        let skew = usize::try_from(skew).unwrap_or(0);
        let (guard, dma_buf) = (None, None);
        let mut mapping = Self { base, mapped, skew, len, access, guard, dma_buf, _charge: charge };
        if is_dma_buf {
            mapping.dma_buf = Some(DmaBuf::of(fd)?);
        }
        if !is_sealed {
            // From here on the mapping unmaps itself if the guard can't be had.
            mapping.guard = Some(Guard::watch(base.as_ptr() as usize, mapped)?);
        }
        Ok(mapping)
    }

    fn empty(access: Access) -> Self {
        let base = NonNull::dangling();
        let (guard, dma_buf) = (None, None);
        Self { base, mapped: 0, skew: 0, len: 0, access, guard, dma_buf, _charge: None }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Start and length of the pages that the bytes lie in.
    pub(super) fn pages(&self) -> (*const u8, usize) {
        (self.base.as_ptr(), self.mapped.next_multiple_of(page_size()))
    }

    /// Returns whether the file can be cut short under the mapping, so that it is watched.
    pub(super) fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Returns whether pages went away while somebody looked: from then on zeros are read in place
    /// of all bytes, and what is written is lost. Stays true, so a mapping with lost pages is of no
    /// use to any later execution.
    #[inline]
    pub fn lost_pages(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::tripped)
    }

    /// Returns whether devices share the memory, so that every access has to be said; see
    /// [`Mapping::begin_access`].
    #[inline]
    pub fn is_dma_buf(&self) -> bool {
        self.dma_buf.is_some()
    }

    /// Begins an access by the processor, which ends when what this returns is dropped. A dma-buf
    /// is made to hold what devices wrote, which takes a system call; other memory always does, and
    /// nothing happens.
    ///
    /// # Errors
    /// The buffer's device refused.
    #[inline]
    pub fn begin_access(&self, access: Access) -> Result<ProcessorAccess<'_>, MemoryError> {
        if let Some(dma_buf) = &self.dma_buf {
            dma_buf.sync(access, Moment::Start)?;
        }
        Ok(ProcessorAccess { dma_buf: self.dma_buf.as_ref(), access })
    }

    /// A part of the bytes to look at; `None` if it isn't within the mapping.
    #[inline]
    pub fn view(&self, range: Range<usize>) -> Option<View<'_>> {
        let (start, len) = self.part(range)?;
        // SAFETY: `part` vouches for the range; the mapping outlives the borrow.
        Some(unsafe { View::from_raw(start, len) })
    }

    /// A part of the bytes to look at and write; `None` if it isn't within the mapping or that is
    /// read-only. Several may overlap: the bytes belong to nobody.
    #[inline]
    pub fn view_mut(&self, range: Range<usize>) -> Option<ViewMut<'_>> {
        if self.access == Access::Read {
            return None;
        }
        let (start, len) = self.part(range)?;
        // SAFETY: `part` vouches for the range; the mapping is writable and outlives the borrow.
        Some(unsafe { ViewMut::from_raw(start, len) })
    }

    #[inline]
    fn part(&self, range: Range<usize>) -> Option<(*mut u8, usize)> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        let from_base = self.skew.checked_add(range.start)?;
        // SAFETY: `skew + len` bytes are mapped from `base` on, and `range` is within `len`.
        Some((unsafe { self.base.as_ptr().add(from_base) }, len))
    }
}

/// An access by the processor that is underway; see [`Mapping::begin_access`].
#[derive(Debug)]
#[must_use = "the access ends when this is dropped"]
pub struct ProcessorAccess<'a> {
    dma_buf: Option<&'a DmaBuf>,
    access: Access,
}

impl Drop for ProcessorAccess<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(dma_buf) = self.dma_buf {
            // A device that refuses has lost the buffer: nobody is left to see what was written.
            let _ = dma_buf.sync(self.access, Moment::End);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The guard first: it must not watch an address range that is somebody else's by then.
        self.guard = None;
        if self.mapped > 0 {
            // SAFETY: `base` and `mapped` are what mmap gave; views borrow the mapping, so none is
            // left. An error would mean that the range is not mapped: nothing to release then.
            unsafe { unmap(self.base.cast::<c_void>(), self.mapped) };
        }
    }
}

/// Unmaps a mapping, giving its pages up little by little first: while the system does that, no
/// thread of the process can map or unmap anything, for tens of milliseconds where it is large.
///
/// # Safety
/// The mapping is the caller's, and nothing refers to it any more.
unsafe fn unmap(base: NonNull<c_void>, len: usize) {
    /// What the system gives up in a tenth of a millisecond or two.
    const PIECE: usize = 2 << 20;
    for at in (0..len).step_by(PIECE).filter(|_| len > 2 * PIECE) {
        let bytes = len.saturating_sub(at).min(PIECE);
        // SAFETY: as the caller promises; the piece lies within the mapping.
        let _ = unsafe { madvise(base.byte_add(at), bytes, MmapAdvise::MADV_DONTNEED) };
    }
    // SAFETY: as the caller promises.
    let _ = unsafe { munmap(base, len) };
}

fn is_sealed_against_shrinking(fd: BorrowedFd<'_>) -> bool {
    seals(fd).is_ok_and(|seals| seals.contains(SealFlag::F_SEAL_SHRINK))
}

#[cfg(test)]
mod tests {
    use crate::memory::{Access, Memory};

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let memory = Memory::ashmem(100).unwrap();
        let writer = memory.map(Access::ReadWrite).unwrap();
        let reader = memory.map(Access::Read).unwrap();
        writer.view_mut(90..100).unwrap().copy_from_slice(&[7; 10]);
        let mut out = [0; 12];
        reader.view(88..100).unwrap().copy_to_slice(&mut out);
        assert_eq!(out, [0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        assert!(reader.view_mut(0..1).is_none(), "a read-only mapping is not written");
        assert!(reader.view(0..101).is_none(), "past the end");
        assert!(!reader.lost_pages());
    }

    #[test]
    fn sealed_memory_is_mapped_once_and_other_memory_while_somebody_has_it() {
        let sealed = Memory::ashmem(100).unwrap();
        let first = sealed.mapped().unwrap();
        assert!(std::sync::Arc::ptr_eq(&first, &sealed.mapped().unwrap()));
        assert!(first.view_mut(0..100).is_some());
        let file = tempfile_in_memory(100);
        let other = Memory::from_fd(file.into(), 0, 100, false).unwrap();
        let first = other.mapped().unwrap();
        assert!(std::sync::Arc::ptr_eq(&first, &other.mapped().unwrap()));
        assert!(first.view_mut(0..1).is_none(), "read-only");
        let gone = std::sync::Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none(), "nobody has it");
    }

    #[test]
    fn an_odd_offset_into_a_file_is_fine() {
        let whole = Memory::ashmem(20_000).unwrap();
        whole
            .map(Access::ReadWrite)
            .unwrap()
            .view_mut(8_191..8_194)
            .unwrap()
            .copy_from_slice(b"abc");
        let fd = whole.fd().try_clone_to_owned().unwrap();
        let part = Memory::from_fd(fd, 8_191, 3, false).unwrap();
        let mut out = [0; 3];
        part.map(Access::Read).unwrap().view(0..3).unwrap().copy_to_slice(&mut out);
        assert_eq!(&out, b"abc");
        assert!(part.map(Access::ReadWrite).is_err(), "asked for as read-only");
    }

    #[test]
    fn a_file_cut_short_under_a_mapping_costs_a_mark_and_no_process() {
        let file = tempfile_in_memory(8192);
        let memory = Memory::from_fd(file.try_clone().unwrap().into(), 0, 8192, true).unwrap();
        let mapping = memory.map(Access::ReadWrite).unwrap();
        let mut out = [1; 4];
        mapping.view(4096..4100).unwrap().copy_to_slice(&mut out);
        assert!(!mapping.lost_pages());
        file.set_len(0).unwrap();
        mapping.view(4096..4100).unwrap().copy_to_slice(&mut out);
        assert_eq!(out, [0; 4]);
        mapping.view_mut(0..4).unwrap().copy_from_slice(&[1; 4]);
        assert!(mapping.lost_pages());
        assert!(memory.map(Access::Read).is_err(), "the file is too short by now");
    }

    /// The lines of `/proc/self/maps` for these addresses.
    fn parts_of(start: usize, len: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let address = |text: &str| usize::from_str_radix(text, 16).unwrap();
        let ranges =
            maps.lines().map(|line| line.split(' ').next().unwrap().split_once('-').unwrap());
        ranges.filter(|(first, end)| address(first) < start + len && address(end) > start).count()
    }

    #[test]
    fn a_sparse_file_cut_short_costs_one_mapping_however_much_of_it_is_read() {
        let len = 64 << 20;
        let file = tempfile_in_memory(len);
        let memory = Memory::from_fd(file.try_clone().unwrap().into(), 0, len, false).unwrap();
        let mapping = memory.map(Access::Read).unwrap();
        let len = usize::try_from(len).unwrap();
        let start = mapping.view(0..len).unwrap().as_ptr().addr();
        file.set_len(0).unwrap();
        for at in (0..len).step_by(8192) {
            let mut byte = [1];
            mapping.view(at..at + 1).unwrap().copy_to_slice(&mut byte);
            assert_eq!(byte, [0]);
        }
        assert!(mapping.lost_pages());
        // Neighbours may have been joined with it.
        assert_eq!(parts_of(start, len), 1);
    }

    /// More than a chunk of the guard's list, all of which find their mapping.
    #[test]
    fn more_memories_than_a_chunk_are_watched_at_once() {
        let file = tempfile_in_memory(4096);
        let memory = Memory::from_fd(file.try_clone().unwrap().into(), 0, 4096, false).unwrap();
        let mappings: Vec<_> = (0..1100).map(|_| memory.map(Access::Read).unwrap()).collect();
        file.set_len(0).unwrap();
        let mut byte = [1];
        for mapping in mappings.iter().rev() {
            assert!(!mapping.lost_pages());
            mapping.view(0..1).unwrap().copy_to_slice(&mut byte);
            assert!(mapping.lost_pages());
        }
    }

    /// An unsealed file that nobody finds.
    fn tempfile_in_memory(len: u64) -> std::fs::File {
        let fd =
            nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
        let file = std::fs::File::from(fd);
        file.set_len(len).unwrap();
        file
    }
}
