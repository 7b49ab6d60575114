//! Reads FlatBuffers and verifies them on the way.
//!
//! A FlatBuffer is a web of offsets, and a hostile one points anywhere. So nothing is followed that
//! was not compared with the file's length first, and every failure names the field it happened in.
//!
//! ```text
//!   [u32 root] ["TFL3"]  ..  [vtable: u16 size, u16 table size, u16 field offsets..]
//!                            [table: i32 back to its vtable, fields inline or u32 forward offsets]
//! ```
//!
//! Offsets to tables, vectors and strings lead forward only, hence there are no cycles. What is
//! left is amplification: a million entries may lead to one long vector. Therefore whatever is
//! copied out of the file is paid for from a [`Budget`] in proportion to the file.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod error;
mod scalar;

use std::cell::Cell;
use std::ops::Range;

use crate::file_bytes::FileBytes;
pub use error::{FormatError, Problem};
pub(crate) use scalar::Scalar;

/// A field of a table: its slot in the vtable and the name that errors give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    slot: usize,
    name: &'static str,
}

impl Field {
    pub(crate) const fn new(slot: usize, name: &'static str) -> Self {
        Self { slot, name }
    }

    pub(crate) fn fails(self, problem: Problem) -> FormatError {
        FormatError { field: self.name, problem }
    }
}

/// The number of bytes that may still be copied out of a file.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    /// Sixteen times the file and a mebibyte: what honest files need is about the size of the file,
    /// without their weights, for those are not copied.
    pub(crate) fn of_file(bytes: &FileBytes) -> Self {
        Self(Cell::new(bytes.len().saturating_mul(16).saturating_add(1 << 20)))
    }

    /// Takes bytes that no field of the file holds; false, and nothing is taken, if there are not
    /// as many.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or_else(|| self.0.get()));
        left.is_some()
    }

    fn pay(&self, field: Field, count: usize, each: usize) -> Result<(), FormatError> {
        let left = count.checked_mul(each).and_then(|bytes| self.0.get().checked_sub(bytes));
        self.0.set(left.ok_or_else(|| field.fails(Problem::Amplified { count }))?);
        Ok(())
    }
}

/// A table whose vtable and extent were found to lie within the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    file: &'a FileBytes,
    budget: &'a Budget,
    /// First byte of the table.
    start: usize,
    /// Bytes of the table that hold fields.
    size: usize,
    /// Offsets of the fields within the table, two bytes each; 0 where a field is left out.
    slots: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table that the file starts from.
    pub(crate) fn root(
        file: &'a FileBytes,
        budget: &'a Budget,
        identifier: [u8; 4],
    ) -> Result<Self, FormatError> {
        const ROOT: Field = Field::new(0, "root");
        const IDENTIFIER: Field = Field::new(0, "file identifier");
        let found = file.get(4..8).ok_or_else(|| IDENTIFIER.fails(Problem::OutOfFile { at: 4 }))?;
        if found != identifier {
            return Err(IDENTIFIER.fails(Problem::Mismatch));
        }
        Self::at(file, budget, ROOT, follow(file, ROOT, 0)?)
    }

    fn at(
        file: &'a FileBytes,
        budget: &'a Budget,
        field: Field,
        start: usize,
    ) -> Result<Self, FormatError> {
        let outside = || field.fails(Problem::OutOfFile { at: start });
        let back = i64::from(number::<i32>(file, start).ok_or_else(outside)?);
        let vtable = i64::try_from(start).ok().and_then(|start| start.checked_sub(back));
        let vtable = vtable.and_then(|at| usize::try_from(at).ok()).ok_or_else(outside)?;
        let bad_vtable = || field.fails(Problem::BadVtable { at: vtable });
        let bytes = usize::from(number::<u16>(file, vtable).ok_or_else(bad_vtable)?);
        let size = usize::from(
            vtable.checked_add(2).and_then(|at| number::<u16>(file, at)).ok_or_else(bad_vtable)?,
        );
        let slots = part(file, vtable, bytes)
            .and_then(|vtable| vtable.get(4..))
            .filter(|slots| slots.len() % 2 == 0)
            .ok_or_else(bad_vtable)?;
        if size < 4 || !has(file, start, size) {
            return Err(bad_vtable());
        }
        Ok(Self { file, budget, start, size, slots })
    }

    /// Returns the place in the file of a field of so many bytes; `None` if it is left out.
    fn locate(&self, field: Field, bytes: usize) -> Result<Option<usize>, FormatError> {
        let slot = field.slot.checked_mul(2).and_then(|at| u16::read(self.slots, at)).unwrap_or(0);
        let slot = usize::from(slot);
        if slot == 0 {
            return Ok(None);
        }
        let end = slot.checked_add(bytes).filter(|&end| slot >= 4 && end <= self.size);
        let at = end.and_then(|_| self.start.checked_add(slot));
        at.map(Some).ok_or_else(|| field.fails(Problem::OutOfTable { slot, size: self.size }))
    }

    /// A scalar, or what stands for it when it is left out.
    pub(crate) fn scalar<T: Scalar>(&self, field: Field, default: T) -> Result<T, FormatError> {
        let Some(at) = self.locate(field, T::BYTES)? else { return Ok(default) };
        number::<T>(self.file, at).ok_or_else(|| field.fails(Problem::OutOfFile { at }))
    }

    /// A table.
    pub(crate) fn table(&self, field: Field) -> Result<Option<Self>, FormatError> {
        let Some(at) = self.locate(field, 4)? else { return Ok(None) };
        let start = follow(self.file, field, at)?;
        Self::at(self.file, self.budget, field, start).map(Some)
    }

    /// The first element and the count of a vector of elements of so many bytes.
    fn vector(&self, field: Field, each: usize) -> Result<Option<(usize, usize)>, FormatError> {
        let Some(at) = self.locate(field, 4)? else { return Ok(None) };
        let start = follow(self.file, field, at)?;
        let outside = || field.fails(Problem::OutOfFile { at: start });
        let count = number::<u32>(self.file, start).and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or_else(outside)?;
        let first = start.checked_add(4).ok_or_else(outside)?;
        let bytes = count.checked_mul(each);
        if !bytes.is_some_and(|bytes| has(self.file, first, bytes)) {
            return Err(field.fails(Problem::TooLong { count, at: start }));
        }
        Ok(Some((first, count)))
    }

    /// Returns the place in the file of the bytes of a vector of bytes; `None` if it is left out.
    pub(crate) fn byte_range(&self, field: Field) -> Result<Option<Range<usize>>, FormatError> {
        let vector = self.vector(field, 1)?;
        Ok(vector.map(|(first, count)| first..first.saturating_add(count)))
    }

    /// A string; bytes that are no UTF-8 are replaced, for names are shown and nothing else.
    pub(crate) fn string(&self, field: Field) -> Result<Option<String>, FormatError> {
        let Some(range) = self.byte_range(field)? else { return Ok(None) };
        let bytes = self.file.get(range).unwrap_or_default();
        self.budget.pay(field, bytes.len(), 3)?;
        // Names of ASCII are many bytes at a time so, and one by one where any may be wrong.
        let text = std::str::from_utf8(bytes).map(str::to_owned);
        Ok(Some(text.unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned())))
    }

    /// A vector of scalars; empty if it is left out.
    pub(crate) fn scalars<T: Scalar>(&self, field: Field) -> Result<Vec<T>, FormatError> {
        let Some((first, count)) = self.vector(field, T::BYTES)? else { return Ok(Vec::new()) };
        self.budget.pay(field, count, T::BYTES)?;
        let bytes = part(self.file, first, count.saturating_mul(T::BYTES)).unwrap_or_default();
        Ok(bytes.chunks_exact(T::BYTES).filter_map(|chunk| T::read(chunk, 0)).collect())
    }

    /// A vector of tables, each read by `read`; empty if it is left out.
    pub(crate) fn tables<T>(
        &self,
        field: Field,
        mut read: impl FnMut(Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let Some((first, count)) = self.vector(field, 4)? else { return Ok(Vec::new()) };
        self.budget.pay(field, count, size_of::<T>())?;
        let entries = (first..).step_by(4).take(count);
        entries
            .map(|at| {
                let start = follow(self.file, field, at)?;
                read(Self::at(self.file, self.budget, field, start)?)
            })
            .collect()
    }
}

/// The bytes `at .. at + len`, if the file has them.
fn part(file: &FileBytes, at: usize, len: usize) -> Option<&[u8]> {
    file.get(at..at.checked_add(len)?)
}

/// Returns whether the file has the bytes `at .. at + len`, which are not looked at.
fn has(file: &FileBytes, at: usize, len: usize) -> bool {
    at.checked_add(len).is_some_and(|end| end <= file.len())
}

/// The number at `at`, if the file reaches that far.
fn number<T: Scalar>(file: &FileBytes, at: usize) -> Option<T> {
    T::read(part(file, at, T::BYTES)?, 0)
}

/// Returns the target of the forward offset at `at`.
fn follow(file: &FileBytes, field: Field, at: usize) -> Result<usize, FormatError> {
    let offset = number::<u32>(file, at).ok_or_else(|| field.fails(Problem::OutOfFile { at }))?;
    usize::try_from(offset)
        .ok()
        .filter(|&offset| offset != 0)
        .and_then(|offset| at.checked_add(offset))
        .filter(|&target| target < file.len())
        .ok_or_else(|| field.fails(Problem::BadOffset { at, offset }))
}
