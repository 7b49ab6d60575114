//! Raw shared memory for the probes and models: words and spans in a memfd. All of the lab's
//! `unsafe` about memory.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use crate::Result;

/// A mapped memfd, shared by its [`SharedWord`]s and [`Span`]s.
#[derive(Clone)]
pub struct Shared(Arc<Mapping>);

struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
    fd: OwnedFd,
    /// Unmaps it at the end.
    _mapped: MmapRaw,
}

// SAFETY: a mapping is the process's; what is in it is reached through atomics and `Span`'s copies.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("bytes", &self.0.bytes).finish()
    }
}

impl Shared {
    /// New memory of `bytes` zeros.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(bytes: usize) -> Result<Self> {
        let fd = memfd_create(c"lab", MFdFlags::MFD_CLOEXEC)?;
        ftruncate(&fd, i64::try_from(bytes)?)?;
        Self::attach(fd, bytes)
    }

    /// Maps memory that [`Self::create`] made in another process.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn attach(fd: OwnedFd, bytes: usize) -> Result<Self> {
        let mapped = MmapOptions::new().len(bytes).map_raw(fd.as_raw_fd())?;
        let at = NonNull::new(mapped.as_mut_ptr()).ok_or("mapped at address zero")?;
        Ok(Self(Arc::new(Mapping { at, bytes, fd, _mapped: mapped })))
    }

    /// The file, to send it.
    #[must_use]
    pub fn fd(&self) -> impl AsFd + '_ {
        self.0.fd.as_fd()
    }

    /// The word at byte `offset`.
    ///
    /// # Errors
    /// If it is not aligned to 8 or lies outside.
    pub fn word(&self, offset: usize) -> Result<SharedWord> {
        let span = self.span(offset, 8)?;
        if offset.is_multiple_of(8) {
            Ok(SharedWord(span))
        } else {
            Err("a word off its place".into())
        }
    }

    /// `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// If they lie outside.
    pub fn span(&self, offset: usize, bytes: usize) -> Result<Span> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.0.bytes) {
            return Err(format!("{bytes} bytes at {offset} of {}", self.0.bytes).into());
        }
        // SAFETY: within the mapping, as just checked.
        let at = unsafe { self.0.at.add(offset) };
        Ok(Span { at, bytes, shared: self.clone() })
    }
}

/// An aligned 64-bit word, the lower half of which can serve as futex.
#[derive(Clone, Debug)]
pub struct SharedWord(Span);

impl SharedWord {
    /// The word.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> &AtomicU64 {
        // SAFETY: 8 mapped bytes, aligned, which the lab's code reaches through atomics only.
        unsafe { AtomicU64::from_ptr(self.0.at.as_ptr().cast()) }
    }

    /// The lower half (on little-endian machines). Use either this or [`Self::get`] for one word.
    #[inline(always)]
    #[must_use]
    pub fn half(&self) -> &AtomicU32 {
        // SAFETY: 4 mapped bytes, aligned, which the lab's code reaches through atomics only.
        unsafe { AtomicU32::from_ptr(self.0.at.as_ptr().cast()) }
    }
}

/// Bytes that are copied in and out.
#[derive(Clone, Debug)]
pub struct Span {
    at: NonNull<u8>,
    bytes: usize,
    shared: Shared,
}

// SAFETY: the address is valid while `shared` lives, in every thread.
unsafe impl Send for Span {}
// SAFETY: as above; shared access copies, and the transports order their copies by their counters.
unsafe impl Sync for Span {}

impl Span {
    /// The memory it lies in.
    #[must_use]
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Copies `from` to byte `offset`; what does not fit is left out.
    #[inline(always)]
    pub fn store(&self, offset: usize, from: &[u8]) {
        let bytes = from.len().min(self.bytes.saturating_sub(offset));
        // SAFETY: `offset + bytes` is at most the span's length; private memory never overlaps a
        // mapping.
        unsafe { self.at.as_ptr().add(offset.min(self.bytes)).copy_from(from.as_ptr(), bytes) };
    }

    /// Copies from byte `offset` on to `to`; what is not there is left as it was.
    #[inline(always)]
    pub fn load(&self, offset: usize, to: &mut [u8]) {
        let bytes = to.len().min(self.bytes.saturating_sub(offset));
        // SAFETY: `offset + bytes` is at most the span's length; private memory never overlaps a
        // mapping.
        unsafe { to.as_mut_ptr().copy_from(self.at.as_ptr().add(offset.min(self.bytes)), bytes) };
        compiler_fence(Ordering::SeqCst);
    }
}

/// Returns the positions of the two sides of a queue, in bytes: its read and its write counter.
///
/// # Errors
/// If the queue can't be mapped, or its counters lie in the ring's file.
pub fn counters(descriptor: &nnburst_fmq::Descriptor) -> Result<(u64, u64)> {
    let [read, written, ..] = descriptor.data.grantors.as_slice() else {
        return Err("a queue without counters".into());
    };
    let fd = descriptor.fds.first().ok_or("a queue without a file")?.try_clone()?;
    let shared = Shared::attach(fd, 4096)?;
    // Acquire: what is counted has happened.
    let count = |offset: u32| -> Result<u64> {
        Ok(shared.word(usize::try_from(offset)?)?.get().load(Ordering::Acquire))
    };
    // The reader's first, which is never ahead of the other one.
    Ok((count(read.offset)?, count(written.offset)?))
}
