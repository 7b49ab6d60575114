//! The bytes of a .tflite file: in memory, or on disk and read where somebody looks.
//!
//! Nearly all of a file are the constants of its model. Whoever executes it reads them from the
//! file once more, so that an import that read them all would take as long as TFLite's interpreter,
//! which maps its file, takes for everything.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of a file. Each is read once: who writes to the file meanwhile changes what was not
/// read yet.
#[derive(Debug, Default)]
pub(crate) struct FileBytes {
    len: usize,
    /// One behind the other, from the first byte to the last.
    pieces: Vec<Piece>,
    /// The piece that was asked for last: tables, and what they name, lie together.
    recent: AtomicUsize,
    /// The file on disk; `None` where the bytes came without one.
    file: Option<File>,
    /// All of them, once somebody asked for that.
    whole: OnceLock<Vec<u8>>,
    /// Why bytes could not be read, the first time: they are missing from then on.
    failure: OnceLock<io::Error>,
}

#[derive(Debug)]
struct Piece {
    range: Range<usize>,
    bytes: OnceLock<Vec<u8>>,
}

impl Piece {
    fn unread(range: Range<usize>) -> Self {
        Self { range, bytes: OnceLock::new() }
    }
}

/// A piece that a constant has for itself has as many bytes at least.
const LARGE: usize = 64 << 10;

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len(), whole: bytes.into(), ..Self::default() }
    }
}

impl FileBytes {
    /// The first `len` bytes of a file, which is looked at to find its large constants.
    pub(crate) fn of_file(file: File, len: usize) -> Self {
        Self::with_large(file, len, LARGE)
    }

    /// The same, where constants are large from so many bytes on.
    pub(crate) fn with_large(file: File, len: usize, large: usize) -> Self {
        let mut constants = constants(&file, len).unwrap_or_default();
        constants.retain(|range| range.len() >= large);
        Self::with_pieces(file, len, constants)
    }

    fn with_pieces(file: File, len: usize, mut constants: Vec<Range<usize>>) -> Self {
        constants.retain(|range| range.end <= len);
        constants.sort_unstable_by_key(|range| range.start);
        let (mut pieces, mut end) = (Vec::new(), 0);
        for constant in constants {
            // Those that overlap with one before are read in part with that, or with all.
            if constant.start >= end {
                pieces.push(Piece::unread(end..constant.start));
                end = constant.end;
                pieces.push(Piece::unread(constant));
            }
        }
        pieces.push(Piece::unread(end..len));
        Self { len, pieces, file: Some(file), ..Self::default() }
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The file on disk.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// A part; `None` if the file has no such part, or it can't be read.
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        if let Some(whole) = self.whole.get() {
            return whole.get(range);
        }
        match self.piece_at(range.start) {
            Some(piece) if range.end <= piece.range.end => {
                let first = range.start.checked_sub(piece.range.start)?;
                let bytes = piece.bytes.get_or_init(|| self.read(piece.range.clone()));
                bytes.get(first..first.checked_add(range.len())?)
            }
            _ if range.is_empty() => Some(&[]),
            _ => self.whole().get(range),
        }
    }

    /// The piece that has a byte; `None` behind the last.
    fn piece_at(&self, at: usize) -> Option<&Piece> {
        // Relaxed: any number will do, as it is only where to look first.
        let recent = self.pieces.get(self.recent.load(Ordering::Relaxed));
        if let Some(piece) = recent.filter(|piece| piece.range.contains(&at)) {
            return Some(piece);
        }
        let found = self.pieces.partition_point(|piece| piece.range.end <= at);
        self.recent.store(found, Ordering::Relaxed);
        self.pieces.get(found)
    }

    /// All of them; none where they can't be read.
    pub(crate) fn whole(&self) -> &[u8] {
        self.whole.get_or_init(|| self.read(0..self.len))
    }

    /// Why bytes could not be read, whoever asked for them: nothing that was made of the others is
    /// right, then or later.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let error = self.failure.get()?;
        let again = || io::Error::new(error.kind(), error.to_string());
        Some(error.raw_os_error().map_or_else(again, io::Error::from_raw_os_error))
    }

    /// Reads a part of the file; nothing where that fails, which is noted.
    fn read(&self, range: Range<usize>) -> Vec<u8> {
        let read = || {
            let file = self.file.as_ref().ok_or(ErrorKind::UnexpectedEof)?;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(range.len())?;
            bytes.resize(range.len(), 0);
            let start = u64::try_from(range.start).map_err(|_| ErrorKind::UnexpectedEof)?;
            file.read_exact_at(&mut bytes, start)?;
            Ok(bytes)
        };
        read().unwrap_or_else(|error: io::Error| {
            let _ = self.failure.set(error);
            Vec::new()
        })
    }
}

/// The most constants that are looked for.
const MOST: u32 = 1 << 16;

/// Where the buffers of a model lie: a guess, which decides about the order of reading alone.
/// `None` where the file is not as it should be, which whoever reads it tells.
fn constants(file: &File, len: usize) -> Option<Vec<Range<usize>>> {
    const BUFFERS: u64 = 4;
    const DATA: u64 = 0;
    const OFFSET: u64 = 1;
    const SIZE: u64 = 2;
    let mut peek = Peek { file, pages: Vec::new(), oldest: 0 };
    let root = peek.target(0)?;
    let vector = peek.field(root, BUFFERS)?;
    let vector = peek.target(vector)?;
    let count = peek.u32(vector)?;
    let mut found = Vec::new();
    for at in 0..u64::from(count.min(MOST)) {
        let table = peek.target(vector.checked_add(4)?.checked_add(at.checked_mul(4)?)?)?;
        let range = match peek.field(table, DATA) {
            Some(data) => {
                let data = peek.target(data)?;
                (data.checked_add(4)?, u64::from(peek.u32(data)?))
            }
            // Behind the FlatBuffer.
            None => match (peek.field(table, OFFSET), peek.field(table, SIZE)) {
                (Some(offset), Some(size)) => (peek.u64(offset)?, peek.u64(size)?),
                _ => continue,
            },
        };
        let start = usize::try_from(range.0).ok()?;
        let end = start.checked_add(usize::try_from(range.1).ok()?)?;
        if end <= len {
            found.push(start..end);
        }
    }
    Some(found)
}

/// A file that is looked at here and there.
struct Peek<'a> {
    file: &'a File,
    /// Pages by their number, and the one that makes room next.
    pages: Vec<(u64, Vec<u8>)>,
    oldest: usize,
}

impl Peek<'_> {
    /// Bytes that are read at a time.
    const PAGE: u64 = 4096;

    /// Pages that are kept: offsets, tables and what describes tables lie in pages of their own.
    const PAGES: usize = 8;

    fn byte(&mut self, at: u64) -> Option<u8> {
        let number = at.checked_div(Self::PAGE)?;
        let known = self.pages.iter().position(|(page, _)| *page == number);
        let page = match known {
            Some(known) => known,
            None => self.read(number)?,
        };
        let first = usize::try_from(at.checked_rem(Self::PAGE)?).ok()?;
        self.pages.get(page)?.1.get(first).copied()
    }

    /// Reads a page; returns its place.
    fn read(&mut self, number: u64) -> Option<usize> {
        let mut bytes = vec![0; usize::try_from(Self::PAGE).ok()?];
        let count = self.file.read_at(&mut bytes, number.checked_mul(Self::PAGE)?).ok()?;
        bytes.truncate(count);
        if self.pages.len() < Self::PAGES {
            self.pages.push((number, bytes));
            return self.pages.len().checked_sub(1);
        }
        self.oldest = self.oldest.wrapping_add(1).checked_rem(Self::PAGES)?;
        *self.pages.get_mut(self.oldest)? = (number, bytes);
        Some(self.oldest)
    }

    fn bytes<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for (byte, at) in bytes.iter_mut().zip(at..) {
            *byte = self.byte(at)?;
        }
        Some(bytes)
    }

    fn u32(&mut self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn u64(&mut self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Where the forward offset at `at` leads.
    fn target(&mut self, at: u64) -> Option<u64> {
        at.checked_add(self.u32(at)?.into())
    }

    /// The place of a table's field; `None` where it is left out.
    fn field(&mut self, table: u64, slot: u64) -> Option<u64> {
        let back = i64::from(self.bytes(table).map(i32::from_le_bytes)?);
        let vtable = u64::try_from(i64::try_from(table).ok()?.checked_sub(back)?).ok()?;
        let in_vtable = slot.checked_mul(2)?.checked_add(4)?;
        if u64::from(self.bytes(vtable).map(u16::from_le_bytes)?) < in_vtable.checked_add(2)? {
            return None;
        }
        let slot = self.bytes(vtable.checked_add(in_vtable)?).map(u16::from_le_bytes)?;
        table.checked_add(slot.into()).filter(|_| slot != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    #[test]
    fn parts_are_those_of_the_file_wherever_constants_are() {
        let bytes: Vec<u8> = (0..=250).cycle().take(10 * LARGE + 77).collect();
        let len = bytes.len();
        for constants in [
            &[][..],
            &[5..LARGE + 5, 0..0],
            &[3 * LARGE..5 * LARGE, 0..LARGE, 4 * LARGE..7 * LARGE, 8 * LARGE..len],
            &[0..0, 0..len],
            &[LARGE..len + 1, 5..9],
        ] {
            let file = FileBytes::with_pieces(file_of(&bytes), len, constants.to_vec());
            for range in [
                0..0,
                0..8,
                4..LARGE,
                LARGE - 1..LARGE + 6,
                3 * LARGE..5 * LARGE,
                6 * LARGE - 2..8 * LARGE + 1,
                len - 1..len,
                len..len,
                0..len,
            ] {
                let want = bytes.get(range.clone());
                assert_eq!(file.get(range.clone()), want, "{range:?}, {constants:?}");
            }
            for range in [len..len + 1, 0..len + 1, len + 1..len + 1, usize::MAX..usize::MAX] {
                assert_eq!(file.get(range), None);
            }
            assert_eq!(file.whole(), bytes);
            assert!(file.failure().is_none());
        }
        assert_eq!(FileBytes::from(bytes.clone()).get(7..9), Some(&bytes[7..9]));
        assert_eq!(FileBytes::default().get(0..0), Some(&[][..]));
    }

    #[test]
    fn what_a_file_has_no_more_is_told() {
        let file = file_of(&[1; 4]);
        let bytes = FileBytes::of_file(file.try_clone().unwrap(), 4 * LARGE);
        assert_eq!(bytes.get(0..4), None, "its piece ends behind the file");
        for _ in 0..2 {
            assert_eq!(bytes.failure().unwrap().kind(), ErrorKind::UnexpectedEof);
        }
    }
}
