//! A queue's memory in files that other processes map too: made by us, or handed over by another
//! process.
//!
//! A file that can be shortened under a mapping raises `SIGBUS` in whoever touches the lost pages,
//! so files are sealed against that before they are mapped: ours at birth, those of others if they
//! are not yet. What can't be sealed is refused, unless the caller vouches for it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::{Backing, Parts, QueueMemory};
use crate::file::{FileIdentity, FileStatus, check_file_size};
use crate::layout::{self, LIMIT, PartSpan, PartSpans};
use crate::sys::{errno, failed, page_size};
use crate::{Part, SetupError};

/// The accesses of this side to the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Both counters' sides, and event flags.
    ReadWrite,
    /// Readers of the unsynchronised flavour, which write nothing.
    ReadOnly,
}

/// Rules for another process's files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) access: Access,
    /// Map files that can't be sealed against shrinking.
    pub(crate) allow_unsealed: bool,
}

/// Makes a memfd of at least `bytes` bytes, sealed against shrinking and growing.
pub(crate) fn create(bytes: u64, more_seals: SealFlag) -> Result<OwnedFd, SetupError> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create("MessageQueue", flags).map_err(failed("memfd_create"))?;
    let size = bytes.checked_next_multiple_of(page_size()).unwrap_or(u64::MAX);
    check_file_size(size).map_err(failed("ftruncate"))?;
    let size = libc::off_t::try_from(size).unwrap_or(libc::off_t::MAX);
    ftruncate(&fd, size).map_err(failed("ftruncate"))?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | more_seals;
    add_seals(fd.as_fd(), seals).map_err(failed("fcntl(F_ADD_SEALS)"))?;
    Ok(fd)
}

/// Forbids what `seals` name, for good.
pub(crate) fn add_seals(fd: BorrowedFd<'_>, seals: SealFlag) -> Result<(), Errno> {
    fcntl(fd, FcntlArg::F_ADD_SEALS(seals)).map(drop)
}

/// Seals the file against shrinking, or says that it is so already.
pub(crate) fn seal(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // Ask first: a file whose seals are sealed takes no more, not even one that it has.
    let seals = SealFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GET_SEALS)?);
    if seals.contains(SealFlag::F_SEAL_SHRINK) {
        return Ok(());
    }
    add_seals(fd, SealFlag::F_SEAL_SHRINK)
}

/// Maps the parts of a queue, after the checks that need the files: seals, sizes, overlaps.
pub(crate) fn map(
    places: &PartSpans,
    fds: &[OwnedFd],
    policy: Policy,
) -> Result<QueueMemory, SetupError> {
    let mut files: Vec<File<'_>> = Vec::new();
    for place in places.all() {
        // `layout::check` has compared the index with the number of files.
        let Some(fd) = fds.get(place.file) else { continue };
        let identity = identity(fd)?;
        match files.iter_mut().find(|file| file.identity == identity) {
            Some(file) => file.places.push(*place),
            None => files.push(File { identity, fd: fd.as_fd(), places: vec![*place] }),
        }
    }
    let mut mappings = Mappings(Vec::new());
    let mut found = Vec::new();
    for file in &files {
        file.check(policy.allow_unsealed)?;
        let mapping = file.map(policy.access)?;
        for place in &file.places {
            let at =
                mapping.bytes.as_mut_ptr().wrapping_add(to_usize(place.offset - mapping.start));
            found.extend(NonNull::new(at).map(|at| (place.part, at)));
        }
        mappings.0.push(mapping);
    }
    let address = |part| found.iter().find(|(of, _)| *of == part).map(|(_, at)| *at);
    let (Some(read), Some(written), Some(ring)) =
        (address(Part::ReadCounter), address(Part::WriteCounter), address(Part::Ring))
    else {
        return Err(SetupError::Grantors { count: found.len() });
    };
    let parts = Parts {
        read: read.cast(),
        written: written.cast(),
        flag: match policy.access {
            Access::ReadWrite => address(Part::EventFlag).map(NonNull::cast),
            Access::ReadOnly => None,
        },
        ring,
        ring_bytes: to_usize(places.ring.extent),
    };
    // SAFETY: places are aligned to 8 in page-aligned mappings, lie within files that can't shrink
    // (or for which the caller vouched), do not overlap, and stay mapped while `mappings` lives.
    Ok(unsafe { QueueMemory::new(parts, Arc::new(mappings)) })
}

/// One file and the parts that lie in it. Two descriptors of one file count as one.
struct File<'fds> {
    identity: FileIdentity,
    fd: BorrowedFd<'fds>,
    places: Vec<PartSpan>,
}

impl File<'_> {
    /// Seals, then looks at the size: in this order the size can only be what it will stay at
    /// least.
    fn check(&self, allow_unsealed: bool) -> Result<(), SetupError> {
        let part = self.places.first().map_or(Part::Ring, |place| place.part);
        if let Err(source) = seal(self.fd)
            && !allow_unsealed
        {
            return Err(SetupError::Unsealed { part, source });
        }
        let size = FileStatus::of(self.fd).map_err(failed("statx"))?.size;
        for (i, place) in self.places.iter().enumerate() {
            if place.end() > size {
                return Err(SetupError::PastEnd { part: place.part, end: place.end(), size });
            }
            if let Some(other) = self.places.iter().skip(i + 1).find(|other| place.overlaps(other))
            {
                return Err(SetupError::Overlap { first: place.part, second: other.part });
            }
        }
        Ok(())
    }

    /// Maps the file from the page of its first part to the end of its last.
    fn map(&self, access: Access) -> Result<Mapping, SetupError> {
        let page = page_size();
        let start = self.places.iter().map(|place| place.offset).min().unwrap_or(0) / page * page;
        let end = self.places.iter().map(PartSpan::end).max().unwrap_or(0);
        if end - start > LIMIT {
            return Err(SetupError::TooLarge { bytes: end - start, limit: LIMIT });
        }
        let length = to_usize(end - start);
        let (fd, mut options) = (self.fd.as_raw_fd(), MmapOptions::new());
        options.offset(start).len(length);
        let mapped = match access {
            Access::ReadWrite => options.map_raw(fd),
            Access::ReadOnly => options.map_raw_read_only(fd),
        };
        let bytes = mapped.map_err(|error| failed("mmap")(errno(&error)))?;
        Ok(Mapping { bytes, start })
    }
}

fn identity(fd: &OwnedFd) -> Result<FileIdentity, SetupError> {
    Ok(FileStatus::of(fd).map_err(failed("statx"))?.identity)
}

/// Every file's mapping; dropped with the last handle to the memory.
#[derive(Debug)]
struct Mappings(Vec<Mapping>);

impl Backing for Mappings {}

/// A file, mapped from byte `start` on.
#[derive(Debug)]
struct Mapping {
    bytes: MmapRaw,
    start: u64,
}

/// Checks another process's grantors and maps them.
pub(crate) fn attach(
    descriptor: &crate::Descriptor,
    quantum: u64,
    policy: Policy,
) -> Result<QueueMemory, SetupError> {
    let places = layout::check(&descriptor.data.grantors, descriptor.fds.len(), quantum)?;
    map(&places, &descriptor.fds, policy)
}

/// Spans are below [`LIMIT`], which a `usize` can hold on every Linux.
#[expect(clippy::cast_possible_truncation, reason = "bounded by LIMIT, see above")]
fn to_usize(bytes: u64) -> usize {
    bytes as usize
}
