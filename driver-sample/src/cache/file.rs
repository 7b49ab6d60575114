//! One cache file: a header of fixed size and a body behind it, wherever the descriptor's offset stands.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::hash::Hasher;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use nnburst_executor::{AlignedBytes, Snapshot};
use nnburst_hal::{CACHE_TOKEN_BYTES, HalError, Result};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite};
use twox_hash::XxHash3_64;

use super::checksum::{BLOCK, Checksum};

/// Raised with every change of what is written.
const FORMAT: u32 = 2;

/// Read at a time, so that the sum is made of what is still in the cache.
const CHUNK: usize = 256 << 10;

/// From this many pages on, threads share them: starting one costs as much as reading a quarter of a block.
const SHARED_PAGES: usize = 2;

/// No body is longer, whatever its file says.
const MAX_BODY: u64 = 4 << 30;

/// A piece of a body, which one thread reads.
struct Page<'a> {
    bytes: &'a mut [u8],
    /// Of its blocks.
    sums: &'a mut [u64],
    /// Where it is in the file.
    place: u64,
    /// Whether it has a huge page.
    taken: bool,
}

/// Which of the two files.
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
}

/// What stands in front of either file.
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
    /// # Errors
    /// `INVALID_ARGUMENT` for what is no file, or can't be both read and written.
    pub(super) fn new(file: &'a OwnedFd) -> Result<Self> {
        let kind = fstat(file).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if kind != Ok(FileType::RegularFile) {
            return Err(HalError::invalid("a cache file is no regular file"));
        }
        match fcntl_getfl(file).map(|flags| flags & OFlags::RWMODE) {
            Ok(OFlags::RDWR) => Ok(Self(file)),
            _ => Err(HalError::invalid("a cache file isn't open for both reading and writing")),
        }
    }

    /// Cuts the file to nothing. An empty one is let be: ext4 takes the cut for the start of a replacement, and
    /// sends such a file to the disk when it is closed, which takes milliseconds.
    pub(super) fn clear(&self) -> Result<()> {
        match fstat(self.0).map_err(failed("fstat"))?.st_size {
            0 => Ok(()),
            _ => ftruncate(self.0, 0).map_err(failed("ftruncate")),
        }
    }

    pub(super) fn write(&self, offset: u64, mut bytes: &[u8]) -> Result<()> {
        let mut at = offset;
        while !bytes.is_empty() {
            let count = match pwrite(self.0, bytes, at) {
                Ok(0) => return Err(HalError::failure("the cache file takes no more")),
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(failed("pwrite")(errno)),
            };
            bytes = bytes.get(count..).unwrap_or_default();
            at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Writes the body of a data file: every entry's weights at its offset, zeros between.
    pub(super) fn write_weights(&self, snapshot: &Snapshot) -> Result<Written> {
        let mut written = Written { length: 0, sum: 0 };
        let mut sum = Checksum::default();
        for (entry, weights) in snapshot.entries.iter().zip(snapshot.weights()) {
            let at = Header::BYTES.saturating_add(entry.offset);
            self.write(at, weights)?;
            // Zeros up to the next entry, as in the file.
            sum.add(weights);
            let end = entry.offset.saturating_add(entry.length);
            written.length = end.next_multiple_of(64);
            let zeros = usize::try_from(written.length.saturating_sub(end)).unwrap_or(0);
            sum.add([0; 64].get(..zeros).unwrap_or_default());
        }
        ftruncate(self.0, Header::BYTES.saturating_add(written.length))
            .map_err(failed("ftruncate"))?;
        written.sum = sum.finish();
        Ok(written)
    }

    /// # Errors
    /// `GENERAL_FAILURE` if the file doesn't start with a header of ours and go on for as long as that says.
    pub(super) fn header(&self, role: Role) -> Result<Header> {
        let refused = |what: &str| HalError::failure(format!("the {role:?} cache {what}"));
        let mut bytes = [0; 128];
        self.read(0, &mut bytes).map_err(|_| refused("is too short"))?;
        let header = Header::parse(role, &bytes).ok_or_else(|| refused("is not ours"))?;
        let length = fstat(self.0).map_or(0, |stat| stat.st_size.unsigned_abs());
        // Before the length sizes an allocation.
        if header.length > MAX_BODY || Some(length) != header.length.checked_add(Header::BYTES) {
            return Err(refused("has another length than it says"));
        }
        Ok(header)
    }

    /// A copy of the body, whose sum must be this.
    ///
    /// # Errors
    /// `GENERAL_FAILURE` for another sum, or a file that grew short meanwhile.
    pub(super) fn read_body(&self, header: &Header, sum: u64) -> Result<AlignedBytes> {
        let ((), body) = self.read_body_beside(header, sum, || Ok(()))?;
        Ok(body)
    }

    /// As [`CacheFile::read_body`], and does `other` in the meantime.
    ///
    /// # Errors
    /// `other`'s too.
    pub(super) fn read_body_beside<T>(
        &self,
        header: &Header,
        sum: u64,
        other: impl FnOnce() -> Result<T>,
    ) -> Result<(T, AlignedBytes)> {
        let bytes = usize::try_from(header.length).ok().and_then(AlignedBytes::try_untouched);
        let mut bytes = bytes.ok_or_else(|| HalError::failure("no memory for the cached model"))?;
        let mut sums = vec![0; bytes.len().div_ceil(BLOCK)];
        let places = (Header::BYTES..).step_by(AlignedBytes::PAGE);
        let sums_by_page = sums.chunks_mut(AlignedBytes::PAGE / BLOCK);
        let pages = bytes.as_mut_slice().chunks_mut(AlignedBytes::PAGE).zip(sums_by_page);
        let page = |((bytes, sums), place)| Page { bytes, sums, place, taken: false };
        let mut pages: Vec<_> = pages.zip(places).map(page).collect();
        let done = self.read_pages(&mut pages, other)?;
        let taken = pages.iter().take_while(|page| page.taken).count();
        bytes.took(taken);
        if Checksum::of_blocks(&sums) != sum {
            let role = header.role;
            return Err(HalError::failure(format!("the {role:?} cache was changed")));
        }
        Ok((done, bytes))
    }

    /// Reads the pages of a body. The time goes into moving bytes and clearing fresh pages, which memory has the
    /// breadth for to do for several cores: with many pages other threads lend a hand, from the end on, while this
    /// one does `other`.
    fn read_pages<T>(
        &self,
        pages: &mut [Page<'_>],
        other: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let helpers = if pages.len() < SHARED_PAGES { 0 } else { helpers() };
        let pages = Mutex::new(pages.iter_mut());
        let left = || pages.lock().unwrap_or_else(PoisonError::into_inner);
        let help = || -> Result<()> {
            loop {
                let Some(page) = left().next_back() else { return Ok(()) };
                self.read_page(page)?;
            }
        };
        std::thread::scope(|scope| {
            let spawn = || {
                std::thread::Builder::new().name("nnburst-read".into()).spawn_scoped(scope, help)
            };
            // Where there is no thread to be had, fewer do it.
            let helping: Vec<_> = (0..helpers).map_while(|_| spawn().ok()).collect();
            let mut done = other();
            while done.is_ok() {
                let Some(page) = left().next() else { break };
                if let Err(error) = self.read_page(page) {
                    done = Err(error);
                }
            }
            if done.is_err() {
                // Nobody needs the rest.
                left().by_ref().for_each(drop);
            }
            helping.into_iter().fold(done, |done, helper| {
                let helped = helper.join().unwrap_or_else(|_| Err(HalError::failure("a panic")));
                done.and_then(|done| helped.map(|()| done))
            })
        })
    }

    fn read_page(&self, page: &mut Page<'_>) -> Result<()> {
        page.taken = AlignedBytes::take_page(page.bytes);
        let places = (page.place..).step_by(BLOCK);
        for ((block, sum), place) in page.bytes.chunks_mut(BLOCK).zip(&mut *page.sums).zip(places) {
            *sum = self.read_block(place, block)?;
        }
        Ok(())
    }

    fn read_block(&self, start: u64, block: &mut [u8]) -> Result<u64> {
        let (mut sum, mut at) = (XxHash3_64::default(), start);
        for chunk in block.chunks_mut(CHUNK) {
            self.read(at, chunk)?;
            sum.write(chunk);
            at = at.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        }
        Ok(sum.finish())
    }

    fn read(&self, offset: u64, mut bytes: &mut [u8]) -> Result<()> {
        let mut at = offset;
        while !bytes.is_empty() {
            let count = match pread(self.0, &mut *bytes, at) {
                Ok(0) => return Err(HalError::failure("the cache file ends early")),
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(failed("pread")(errno)),
            };
            bytes = bytes.get_mut(count..).unwrap_or_default();
            at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// Threads besides the caller's that read: up to three, where there are as many processors.
fn helpers() -> usize {
    // Asking reads files of the system's.
    static HELPERS: OnceLock<usize> = OnceLock::new();
    let count = || std::thread::available_parallelism().map_or(1, usize::from);
    *HELPERS.get_or_init(|| count().min(4).saturating_sub(1))
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> HalError {
    move |errno| HalError::failure(format!("a cache file: {call}: {errno}"))
}
