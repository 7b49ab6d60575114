//! The places of a queue's parts: libfmq's packed layout, our spaced one, and the check of a
//! foreign process's.
//!
//! A part's place is said by its [`Grantor`], so any arrangement can be read by any peer, libfmq
//! included:
//!
//! ```text
//! packed (libfmq's allocator)        spaced (ours)               ring in a second file
//! 0   read counter   u64             0    read counter        file 0: 0 read, 8 written, 16 flag
//! 8   write counter  u64             128  write counter       file 1: 0 ring
//! 16  ring                           256  event flag
//! .. align8: event flag u32          384  ring
//! ```
//!
//! Spaced keeps each word that one side writes and the other polls on cache lines of its own (128
//! bytes: CPUs fetch lines in pairs); packed puts both counters and the first items on one line,
//! which both sides then fight for.

use crate::descriptor::Grantor;
use crate::{Part, SetupError};

/// Offsets in the spaced layout.
pub(crate) const READ_AT: u32 = 0;
pub(crate) const WRITTEN_AT: u32 = 128;
pub(crate) const FLAG_AT: u32 = 256;
pub(crate) const RING_AT: u32 = 384;

/// Offsets in libfmq's packed layout, and of the flag when the ring has a file of its own.
const PACKED_WRITTEN_AT: u32 = 8;
const PACKED_RING_AT: u32 = 16;

/// Largest extent and offset of a part: libfmq's limit, an `int` less a page.
pub(crate) const LIMIT: u64 = i32::MAX as u64 - 4096;

/// Grantors by index, and how long each file must be.
#[derive(Debug)]
pub(crate) struct Arrangement {
    pub(crate) grantors: Vec<Grantor>,
    /// Bytes of the file that we allocate, before rounding up to pages.
    pub(crate) bytes: u64,
}

/// The layout of a new queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Spaced,
    Packed,
    /// The ring is all of the second file.
    TwoFiles,
}

/// Bytes of a ring of `capacity` items.
pub(crate) fn ring_bytes(capacity: usize, quantum: usize) -> Result<u64, SetupError> {
    if capacity == 0 {
        return Err(SetupError::NoCapacity);
    }
    if quantum == 0 || i32::try_from(quantum).is_err() {
        return Err(SetupError::ItemSize { bytes: quantum });
    }
    let bytes = (capacity as u64).saturating_mul(quantum as u64);
    if bytes > LIMIT { Err(SetupError::TooLarge { bytes, limit: LIMIT }) } else { Ok(bytes) }
}

/// Lays out a new queue. `ring` has been through [`ring_bytes`].
pub(crate) fn arrange(
    style: Style,
    ring: u64,
    event_flag: bool,
) -> Result<Arrangement, SetupError> {
    let too_large = SetupError::TooLarge { bytes: ring, limit: LIMIT };
    let grantor = |fd_index, offset, extent| Grantor { flags: 0, fd_index, offset, extent };
    let (written_at, ring_file, ring_at, flag_at) = match style {
        Style::Spaced => (WRITTEN_AT, 0, RING_AT, u64::from(FLAG_AT)),
        Style::Packed => (
            PACKED_WRITTEN_AT,
            0,
            PACKED_RING_AT,
            (u64::from(PACKED_RING_AT) + ring).next_multiple_of(8),
        ),
        Style::TwoFiles => (PACKED_WRITTEN_AT, 1, 0, u64::from(PACKED_RING_AT)),
    };
    let mut grantors =
        vec![grantor(0, READ_AT, 8), grantor(0, written_at, 8), grantor(ring_file, ring_at, ring)];
    if event_flag {
        let flag_at = u32::try_from(flag_at).map_err(|_| too_large)?;
        grantors.push(grantor(0, flag_at, 4));
    }
    let end = |grantor: &Grantor| u64::from(grantor.offset) + grantor.extent;
    let bytes = grantors.iter().filter(|g| g.fd_index == 0).map(end).max().unwrap_or(0);
    Ok(Arrangement { grantors, bytes })
}

/// A part's place, checked against every rule that can be checked without the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartSpan {
    pub(crate) part: Part,
    pub(crate) file: usize,
    pub(crate) offset: u64,
    pub(crate) extent: u64,
}

impl PartSpan {
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.extent)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// The places of all parts of a queue; the flag's is absent where there is none.
#[derive(Debug)]
pub(crate) struct PartSpans {
    pub(crate) read: PartSpan,
    pub(crate) written: PartSpan,
    pub(crate) ring: PartSpan,
    pub(crate) flag: Option<PartSpan>,
}

impl PartSpans {
    pub(crate) fn all(&self) -> impl Iterator<Item = &PartSpan> {
        [&self.read, &self.written, &self.ring].into_iter().chain(&self.flag)
    }
}

/// Checks another process's grantors: file index, alignment, extents, ring a multiple of
/// `quantum`.
/// Grantors after the fourth are ignored, as libfmq does.
pub(crate) fn check(
    grantors: &[Grantor],
    files: usize,
    quantum: u64,
) -> Result<PartSpans, SetupError> {
    let [read, written, ring, rest @ ..] = grantors else {
        return Err(SetupError::Grantors { count: grantors.len() });
    };
    let flag = rest.first().map(|flag| place(Part::EventFlag, flag, files)).transpose()?;
    let places = PartSpans {
        read: place(Part::ReadCounter, read, files)?,
        written: place(Part::WriteCounter, written, files)?,
        ring: place(Part::Ring, ring, files)?,
        flag,
    };
    let extent = places.ring.extent;
    if quantum == 0 || extent == 0 || !extent.is_multiple_of(quantum) {
        return Err(refuse(Part::Ring, "extent", extent, "not a positive multiple of the quantum"));
    }
    Ok(places)
}

fn place(part: Part, grantor: &Grantor, files: usize) -> Result<PartSpan, SetupError> {
    let Grantor { fd_index, offset, extent, .. } = *grantor;
    let file = usize::try_from(fd_index).ok().filter(|&file| file < files);
    let Some(file) = file else {
        return Err(refuse(part, "fd index", u64::from(fd_index), "no such descriptor"));
    };
    let least = match part {
        Part::ReadCounter | Part::WriteCounter => 8,
        Part::EventFlag => 4,
        Part::Ring => 1,
    };
    if !offset.is_multiple_of(8) {
        return Err(refuse(part, "offset", u64::from(offset), "not a multiple of 8"));
    }
    if u64::from(offset) > LIMIT {
        return Err(refuse(part, "offset", u64::from(offset), "beyond the limit of an int"));
    }
    if extent < least {
        return Err(refuse(part, "extent", extent, "too short"));
    }
    if extent > LIMIT {
        return Err(refuse(part, "extent", extent, "beyond the limit of an int"));
    }
    // Of a counter or flag only the word is used, however much is granted: that is what may not
    // overlap.
    let used = if part == Part::Ring { extent } else { least };
    Ok(PartSpan { part, file, offset: u64::from(offset), extent: used })
}

fn refuse(part: Part, field: &'static str, value: u64, why: &'static str) -> SetupError {
    SetupError::Grantor { part, field, value: i128::from(value), why }
}
