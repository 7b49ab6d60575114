//! One cache file: a header of fixed size and a body behind it, wherever the descriptor's offset
//! stands.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::stat::SFlag;
use nix::sys::uio::{pread, pwrite};
use nix::unistd::{Pid, ftruncate};
use nnburst_executor::{AlignedBytes, Snapshot};
use nnburst_hal::process::without_signals;
use nnburst_hal::{
    Access, Budget, CACHE_TOKEN_BYTES, FileStatus, HalError, Mapping, Memory, MemoryError, Result,
    Still, View, check_file_size, gather_pages, try_filled,
};

use super::checksum::{BLOCK, Checksum};
use super::stripe_sum::StripeSum;

/// The block that one thread reads at a time, with a checksum of its own.
const _: () = assert!(BLOCK == AlignedBytes::PAGE);

/// Raised with every change of what is written.
const FORMAT: u32 = 4;

/// From this many pages on, threads share them: starting one costs as much as reading a quarter of
/// a page.
const SHARED_PAGES: usize = 2;

/// From so many bytes on a body is left where it lies: a lease, a mapping and a thread that copies
/// it later take as long as copying less.
const STILL_FROM: usize = 1 << 20;

/// No body is longer, whatever its file says.
const MAX_BODY: u64 = 4 << 30;

/// A piece of a body, which one thread reads.
struct Page<'a> {
    from: Source<'a>,
    sum: &'a mut u64,
    /// True if it has a huge page.
    taken: bool,
}

/// The place of a piece.
enum Source<'a> {
    /// Where nobody changes it.
    Still(&'a [u8]),
    /// Somewhere else, from where it is to be copied.
    Shared(View<'a>, &'a mut [u8]),
}

/// The role of a file among the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Model,
    Data,
}

impl Role {
    const fn magic(self) -> [u8; 8] {
        match self {
            Self::Model => *b"nnbcachM",
            Self::Data => *b"nnbcachD",
        }
    }

    /// Bytes of the file with a body of this length. One with data ends with a whole huge page
    /// where it fills half of it: it would be mapped in hundreds of small ones else, which takes a
    /// tenth of a millisecond, and again to undo.
    fn file_bytes(self, length: u64) -> Option<u64> {
        let bytes = length.checked_add(Header::BYTES)?;
        let page = u64::try_from(AlignedBytes::PAGE).ok()?;
        match self {
            Self::Data if bytes.checked_rem(page)? >= page / 2 => {
                bytes.checked_next_multiple_of(page)
            }
            _ => Some(bytes),
        }
    }
}

/// The header of either file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) role: Role,
    pub(super) identity: u64,
    pub(super) token: [u8; CACHE_TOKEN_BYTES],
    /// Bytes of the body.
    pub(super) length: u64,
    /// Of the bodies of model and data file.
    pub(super) sums: [u64; 2],
}

impl Header {
    /// A multiple of 64, so that weights in a file start where they may in memory.
    pub(super) const BYTES: u64 = 128;

    /// Magic, format, identity, token, length, both sums; zeros; the header's own sum at the end.
    pub(super) fn to_bytes(self) -> [u8; 128] {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&self.role.magic());
        bytes.extend_from_slice(&u64::from(FORMAT).to_le_bytes());
        bytes.extend_from_slice(&self.identity.to_le_bytes());
        bytes.extend_from_slice(&self.token);
        for number in [self.length].iter().chain(&self.sums) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(120, 0);
        bytes.extend_from_slice(&Checksum::of(&bytes).to_le_bytes());
        let mut header = [0; 128];
        header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        header
    }

    /// Bytes of the file.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.role.file_bytes(self.length)
    }

    /// `None` for anything but what [`Header::to_bytes`] gives.
    fn parse(role: Role, bytes: &[u8; 128]) -> Option<Self> {
        let rest = bytes.strip_prefix(&role.magic())?;
        let (words, token) = (rest.get(..16)?, rest.get(16..48)?);
        let numbers = rest.get(48..72)?;
        let number = |bytes: &[u8], at: usize| {
            let (words, _) = bytes.as_chunks::<8>();
            words.get(at).map(|word| u64::from_le_bytes(*word))
        };
        let header = Self {
            role,
            identity: number(words, 1)?,
            token: token.try_into().ok()?,
            length: number(numbers, 0)?,
            sums: [number(numbers, 1)?, number(numbers, 2)?],
        };
        // Everything else is fixed, so what gives other bytes is not ours.
        (header.to_bytes() == *bytes).then_some(header)
    }
}

/// Length and sum of what was written.
pub(super) struct Written {
    pub(super) length: u64,
    pub(super) sum: u64,
}

/// An open cache file.
pub(super) struct CacheFile<'a>(&'a OwnedFd);

impl<'a> CacheFile<'a> {
    /// A file to be written, and cleared again.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for what is no file, or can't be both read and written.
    pub(super) fn to_write(file: &'a OwnedFd) -> Result<Self> {
        match Self::opened(file)? {
            OFlag::O_RDWR => Ok(Self(file)),
            _ => Err(HalError::invalid("a cache file isn't open for both reading and writing")),
        }
    }

    /// A file to be read: caches are installed on read-only systems too.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for what is no file, or can't be read.
    pub(super) fn to_read(file: &'a OwnedFd) -> Result<Self> {
        match Self::opened(file)? {
            OFlag::O_RDWR | OFlag::O_RDONLY => Ok(Self(file)),
            _ => Err(HalError::invalid("a cache file isn't open for reading")),
        }
    }

    /// What a regular file is open for.
    fn opened(file: &OwnedFd) -> Result<OFlag> {
        let kind = FileStatus::of(file).map(|status| status.kind);
        if kind != Ok(SFlag::S_IFREG) {
            return Err(HalError::invalid("a cache file is no regular file"));
        }
        let flags = fcntl(file, FcntlArg::F_GETFL).map_err(failed("F_GETFL"))?;
        // One of `O_PATH` says so beside: it can be neither read nor written.
        Ok(OFlag::from_bits_retain(flags) & (OFlag::O_ACCMODE | OFlag::O_PATH))
    }

    /// Cuts the file to nothing. An empty one is let be: ext4 takes the cut for the start of a
    /// replacement, and sends such a file to the disk when it is closed, which takes milliseconds.
    pub(super) fn clear(&self) -> Result<()> {
        match FileStatus::of(self.0).map_err(failed("statx"))?.size {
            0 => Ok(()),
            _ => ftruncate(self.0, 0).map_err(failed("ftruncate")),
        }
    }

    pub(super) fn write(&self, offset: u64, mut bytes: &[u8]) -> Result<()> {
        let mut at = offset;
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        check_file_size(end).map_err(failed("pwrite"))?;
        while !bytes.is_empty() {
            let count = match pwrite(self.0, bytes, offset_of(at)?) {
                Ok(0) => return Err(HalError::failure("the cache file takes no more")),
                Ok(count) => count,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(failed("pwrite")(errno)),
            };
            bytes = bytes.get(count..).unwrap_or_default();
            at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Writes the body of a data file: every entry's weights at its offset, zeros between.
    pub(super) fn write_weights(&self, snapshot: &Snapshot) -> Result<Written> {
        let (mut length, mut sum) = (0, Checksum::default());
        for (entry, weights) in snapshot.entries.iter().zip(snapshot.weights()) {
            let at = Header::BYTES.saturating_add(entry.offset);
            self.write(at, weights)?;
            sum.add(weights);
            length = entry.offset.saturating_add(entry.length).next_multiple_of(64);
        }
        let bytes = Role::Data.file_bytes(length);
        let bytes = bytes.ok_or_else(|| HalError::failure("too many weights for a file"))?;
        let size = offset_of(bytes)?;
        check_file_size(bytes)
            .and_then(|()| ftruncate(self.0, size))
            .map_err(failed("ftruncate"))?;
        // It will be read again and again.
        gather_pages(self.0.as_fd(), bytes);
        Ok(Written { length, sum: sum.finish() })
    }

    /// # Errors
    /// `GENERAL_FAILURE` if the file doesn't start with a header of ours and go on for as long as
    /// that says.
    pub(super) fn header(&self, role: Role) -> Result<Header> {
        let refused = |what: &str| HalError::failure(format!("the {role:?} cache {what}"));
        let mut bytes = [0; 128];
        self.read(0, &mut bytes).map_err(|_| refused("is too short"))?;
        let header = Header::parse(role, &bytes).ok_or_else(|| refused("is not ours"))?;
        let length = FileStatus::of(self.0).map_or(0, |status| status.size);
        // Before the length sizes an allocation.
        if header.length > MAX_BODY || Some(length) != header.file_bytes() {
            return Err(refused("has another length than it says"));
        }
        Ok(header)
    }

    /// A copy of the body, whose sum must be this: for a short one, which mapping would take
    /// longer.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` for another sum, or a file that grew short meanwhile.
    pub(super) fn read_body(
        &self,
        header: &Header,
        sum: u64,
        budget: Option<&Arc<Budget>>,
    ) -> Result<AlignedBytes> {
        let length = usize::try_from(header.length).map_err(|_| no_memory())?;
        let mut bytes = AlignedBytes::charged(length, budget)?;
        self.read(Header::BYTES, bytes.as_mut_slice())?;
        if Checksum::of(bytes.as_slice()) != sum {
            return Err(changed(header));
        }
        Ok(bytes)
    }

    /// As [`CacheFile::read_body`] for a long one, and does `other` in the meantime. Where nobody
    /// else can change the file now, the body is not copied: it is the reader's to settle.
    ///
    /// # Errors
    /// `other`'s too.
    pub(super) fn read_body_beside<T>(
        &self,
        header: &Header,
        sum: u64,
        budget: Option<&Arc<Budget>>,
        other: impl FnOnce() -> Result<T>,
    ) -> Result<(T, AlignedBytes)> {
        let length = usize::try_from(header.length).map_err(|_| no_memory())?;
        let behind = Self::mapped_bytes(header);
        let still = (length >= STILL_FROM)
            .then(|| Still::of(self.0.as_fd(), Header::BYTES, behind, budget))
            .flatten();
        let still = still.map(|still| AlignedBytes::still(still, length, budget));
        if let Some(bytes) = still.transpose()?.flatten() {
            let mut sums = try_filled(0, bytes.len().div_ceil(BLOCK))?;
            let parts = bytes.as_slice().chunks(BLOCK).zip(&mut sums);
            let page = |(from, sum)| Page { from: Source::Still(from), sum, taken: false };
            let done = self.read_pages(&mut parts.map(page).collect::<Vec<_>>(), budget, other)?;
            if bytes.is_corrupt() || Checksum::of_blocks(&sums) != sum {
                return Err(changed(header));
            }
            return Ok((done, bytes));
        }
        let mut bytes = AlignedBytes::charged_untouched(length, budget)?;
        let whole = self.map(behind)?;
        let mut sums = try_filled(0, bytes.len().div_ceil(BLOCK))?;
        let parts = bytes.as_mut_slice().chunks_mut(BLOCK).zip(&mut sums).enumerate();
        let page = |(at, (to, sum)): (usize, (_, _))| {
            let to: &mut [u8] = to;
            let start = at.checked_mul(BLOCK)?;
            let from = whole.view(start..start.checked_add(to.len())?)?;
            Some(Page { from: Source::Shared(from, to), sum, taken: false })
        };
        let mut pages: Vec<_> = parts.map_while(page).collect();
        let done = self.read_pages(&mut pages, budget, other)?;
        let taken = pages.iter().take_while(|page| page.taken).count();
        bytes.took(taken);
        // What was lost was read as zeros.
        if whole.lost_pages() || Checksum::of_blocks(&sums) != sum {
            return Err(changed(header));
        }
        Ok((done, bytes))
    }

    /// Bytes of a body and of what is behind it.
    fn mapped_bytes(header: &Header) -> u64 {
        let behind = header.file_bytes().and_then(|bytes| bytes.checked_sub(Header::BYTES));
        behind.unwrap_or(0)
    }

    /// The body where it lies, and what is behind it: copied from there it passes through the core
    /// once, being summed up meanwhile.
    fn map(&self, length: u64) -> Result<Mapping> {
        let failed = |error: MemoryError| HalError::failure(format!("a cache file: {error}"));
        let file = self.0.try_clone().map_err(|error| HalError::failure(error.to_string()))?;
        let body = Memory::from_fd(file, Header::BYTES, length, false).map_err(failed)?;
        body.map(Access::Read).map_err(failed)
    }

    /// Reads the pages of a body. The time goes into moving bytes and clearing fresh pages, which
    /// memory has the breadth for to do for several cores: with many pages other threads lend a
    /// hand, from the end on, while this one does `other`. Where there are none it does that
    /// afterwards: what it makes is then near for whoever goes on.
    fn read_pages<T>(
        &self,
        pages: &mut [Page<'_>],
        budget: Option<&Arc<Budget>>,
        other: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let helpers = if pages.len() < SHARED_PAGES { 0 } else { helpers() };
        if helpers == 0 {
            pages.iter_mut().for_each(read_page);
            return other();
        }
        let pages = Mutex::new(pages.iter_mut());
        let left = || pages.lock().unwrap_or_else(PoisonError::into_inner);
        let help = || {
            loop {
                let Some(page) = left().next_back() else { return };
                read_page(page);
            }
        };
        std::thread::scope(|scope| {
            let spawn = || {
                let charge = budget.map(Budget::take_thread).transpose().ok()?;
                let help = &help;
                let help = move || {
                    help();
                    drop(charge);
                };
                let thread = std::thread::Builder::new().name("nnburst-read".into());
                without_signals(|| thread.spawn_scoped(scope, help)).ok()
            };
            // Where there is no thread to be had, fewer do it.
            let helping: Vec<_> = (0..helpers).map_while(|_| spawn()).collect();
            let done = other();
            while done.is_ok() {
                let Some(page) = left().next() else { break };
                read_page(page);
            }
            if done.is_err() {
                // Nobody needs the rest.
                left().by_ref().for_each(drop);
            }
            let helped = helping.into_iter().all(|helper| helper.join().is_ok());
            done.and_then(|done| helped.then_some(done).ok_or_else(|| HalError::failure("a panic")))
        })
    }

    fn read(&self, offset: u64, mut bytes: &mut [u8]) -> Result<()> {
        let mut at = offset;
        while !bytes.is_empty() {
            let count = match pread(self.0, bytes, offset_of(at)?) {
                Ok(0) => return Err(HalError::failure("the cache file ends early")),
                Ok(count) => count,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(failed("pread")(errno)),
            };
            bytes = bytes.get_mut(count..).unwrap_or_default();
            at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

fn read_page(page: &mut Page<'_>) {
    let mut sum = StripeSum::default();
    match &mut page.from {
        Source::Still(from) => sum.add(from),
        Source::Shared(from, to) => {
            page.taken = AlignedBytes::take_page(to);
            sum.add_copy(*from, to);
        }
    }
    *page.sum = sum.finish();
}

/// Threads besides the caller's that read: up to three, where it may run on as many processors.
fn helpers() -> usize {
    let usable = sched_getaffinity(Pid::from_raw(0));
    let processors = usable.map_or(1, |set| {
        (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count()
    });
    processors.min(4).saturating_sub(1)
}

fn no_memory() -> HalError {
    HalError::failure("no memory for the cached model")
}

fn changed(header: &Header) -> HalError {
    HalError::failure(format!("the {:?} cache was changed", header.role))
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> HalError {
    move |errno| HalError::failure(format!("a cache file: {call}: {}", io::Error::from(errno)))
}

fn offset_of(at: u64) -> Result<libc::off_t> {
    libc::off_t::try_from(at).map_err(|_| HalError::failure("no file is as long as that"))
}
