//! Tensors whose rows lie apart: some channels of each pixel of a wider image, say, read and
//! written where they are.
//!
//! A tensor in one piece is rows of any length, one behind the other, so whatever takes rows takes
//! it as well. What a row is, the plan knows ([`Apart`]); kernels that go through raw memory say
//! how many rows of how many elements they will touch, once per call, and get an address and a
//! distance ([`Pitched`]) in return.

use std::ops::Range;

use super::check_lengths;
use crate::tensor::{Element, In, Out};

/// The layout of rows: bytes of one, and from one to the next. None is empty or overlaps another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Bytes of a row.
    pub row: usize,
    /// Bytes from the start of a row to that of the next.
    pub pitch: usize,
}

impl Apart {
    /// Bytes from the first of `len` bytes in such rows to the last.
    pub fn span(self, len: usize) -> usize {
        let gaps = (len / self.row.max(1)).saturating_sub(1);
        gaps.saturating_mul(self.pitch).saturating_add(len.min(self.row))
    }
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The input of this position.
    Input(usize),
    /// The first output.
    Output,
}

/// Elements that lie one behind the other.
#[expect(clippy::len_without_is_empty, reason = "nobody asks")]
pub trait Piece: Copy {
    /// Number of elements.
    fn len(self) -> usize;
    /// A part; empty if it is not within.
    fn slice(self, range: Range<usize>) -> Self;
}

impl<T: Element> Piece for In<'_, T> {
    #[inline(always)]
    fn len(self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn slice(self, range: Range<usize>) -> Self {
        self.slice(range)
    }
}

impl<T: Element> Piece for Out<'_, T> {
    #[inline(always)]
    fn len(self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn slice(self, range: Range<usize>) -> Self {
        self.slice(range)
    }
}

/// A tensor to read (of [`In`]) or to write (of [`Out`]): in one piece, or in rows that lie apart.
#[derive(Clone, Copy, Debug)]
pub struct Rows<P> {
    /// From the first element to the last, with what lies between the rows.
    all: P,
    /// Elements of a row and from one to the next; both the same where the tensor is in one piece,
    /// which is then one row.
    row: usize,
    pitch: usize,
}

impl<P: Piece> From<P> for Rows<P> {
    #[inline(always)]
    fn from(all: P) -> Self {
        Self { all, row: all.len(), pitch: all.len() }
    }
}

impl<P: Piece> Rows<P> {
    /// Rows that lie as `apart` says, elements being of `size` bytes.
    #[inline(always)]
    pub fn new(all: P, apart: Apart, size: usize) -> Self {
        Self { all, row: apart.row / size, pitch: apart.pitch / size }
    }

    /// Elements of a row; all of them where the tensor is in one piece.
    #[inline(always)]
    pub fn row_len(self) -> usize {
        self.row
    }

    /// Elements from one row to the next; as [`Rows::row_len`] where the tensor is in one piece.
    #[inline(always)]
    pub fn row_stride(self) -> usize {
        self.pitch
    }

    /// Returns the number of elements of the rows.
    #[inline(always)]
    pub fn len(self) -> usize {
        if self.row == self.pitch {
            return self.all.len();
        }
        (self.all.len() + self.pitch - self.row) / self.pitch * self.row
    }

    /// Returns whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether all of it lies in one piece.
    #[inline(always)]
    pub fn is_one_piece(self) -> bool {
        self.row == self.pitch
    }

    /// Elements from `at` on that lie in one piece.
    #[inline(always)]
    pub fn left(self, at: usize) -> usize {
        if self.row == self.pitch { usize::MAX } else { self.row - at % self.row }
    }

    /// Elements that lie in one piece; none where they aren't within.
    #[inline(always)]
    pub fn piece(self, range: Range<usize>) -> P {
        let start = self.place(range.start);
        self.all.slice(start..start + range.len())
    }

    /// Returns the place of element `at`, counted in elements from the first.
    #[inline(always)]
    pub fn place(self, at: usize) -> usize {
        if self.row == self.pitch { at } else { at / self.row * self.pitch + at % self.row }
    }

    /// All of it, with what lies between the rows.
    #[inline(always)]
    pub fn all(self) -> P {
        self.all
    }

    /// Elements from one of `rows` rows of `len` elements to the next, where this is at least as
    /// many.
    ///
    /// # Errors
    /// It is less, or its rows are of another length.
    pub fn pitch(self, rows: usize, len: usize) -> Result<usize, String> {
        let pitch = if self.row == self.pitch { len } else { self.pitch };
        if pitch != len && self.row != len {
            return Err(format!("rows of {} elements where {len} are needed", self.row));
        }
        let span = |gaps: usize| gaps.saturating_mul(pitch).saturating_add(len);
        check_lengths(self.all.len(), rows.checked_sub(1).map_or(0, span))?;
        Ok(pitch)
    }
}

impl<'a, T: Element> Rows<In<'a, T>> {
    /// The same memory as bytes.
    #[inline(always)]
    pub fn bytes(self) -> Rows<In<'a, u8>> {
        let size = size_of::<T>();
        Rows { all: self.all.bytes(), row: self.row * size, pitch: self.pitch * size }
    }

    /// Its address, for kernels that read `rows` rows of `len` elements.
    ///
    /// # Errors
    /// As for [`Rows::pitch`].
    pub fn pitched(self, rows: usize, len: usize) -> Result<Pitched<*const T>, String> {
        Ok(Pitched { start: self.all.as_ptr(), pitch: self.pitch(rows, len)? })
    }
}

impl<'a, T: Element> Rows<Out<'a, T>> {
    /// The same memory as bytes.
    #[inline(always)]
    pub fn bytes(self) -> Rows<Out<'a, u8>> {
        let size = size_of::<T>();
        Rows { all: self.all.bytes(), row: self.row * size, pitch: self.pitch * size }
    }

    /// The same elements, to read.
    pub fn as_in(self) -> Rows<In<'a, T>> {
        Rows { all: self.all.as_in(), row: self.row, pitch: self.pitch }
    }

    /// Its address, for kernels that write `rows` rows of `len` elements.
    ///
    /// # Errors
    /// As for [`Rows::pitch`].
    pub fn pitched(self, rows: usize, len: usize) -> Result<Pitched<*mut T>, String> {
        Ok(Pitched { start: self.all.as_mut_ptr(), pitch: self.pitch(rows, len)? })
    }
}

/// The address of the first of some rows, and elements from one to the next.
#[derive(Clone, Copy, Debug)]
pub struct Pitched<P> {
    /// Address of the first element.
    pub start: P,
    /// Elements from one row to the next.
    pub pitch: usize,
}

impl<T> Pitched<*const T> {
    /// Returns the address of row `at`, or the one it would have.
    #[inline(always)]
    pub fn row(self, at: usize) -> *const T {
        self.start.wrapping_add(at * self.pitch)
    }

    /// The same rows of elements of another size.
    pub fn cast<U>(self) -> Pitched<*const U> {
        Pitched { start: self.start.cast(), pitch: self.pitch * size_of::<T>() / size_of::<U>() }
    }
}

impl<T> Pitched<*mut T> {
    /// Returns the address of row `at`, or the one it would have.
    #[inline(always)]
    pub fn row(self, at: usize) -> *mut T {
        self.start.wrapping_add(at * self.pitch)
    }

    /// The same rows of elements of another size.
    pub fn cast<U>(self) -> Pitched<*mut U> {
        Pitched { start: self.start.cast(), pitch: self.pitch * size_of::<T>() / size_of::<U>() }
    }

    /// The same rows, to read.
    pub fn as_const(self) -> Pitched<*const T> {
        Pitched { start: self.start.cast_const(), pitch: self.pitch }
    }
}

/// Sees that `compute` gives the same for rows that lie apart, of `channels` elements in and
/// `columns` out, and writes nothing between them; `want` is what it makes of `image` in one piece.
#[cfg(test)]
pub(crate) fn check_apart<T: Element + PartialEq + std::fmt::Debug>(
    image: &[T],
    channels: usize,
    want: &[T],
    columns: usize,
    between: T,
    compute: impl Fn(Rows<In<'_, T>>, Rows<Out<'_, T>>),
) {
    let size = size_of::<T>();
    let apart = |row: usize, gap: usize| Apart { row: row * size, pitch: (row + gap) * size };
    // Of whole floats too, where elements are their bytes.
    let (from, to) = (apart(channels, 20), apart(columns, 12));
    let mut wide = Vec::new();
    for row in image.chunks_exact(channels) {
        wide.extend(row);
        wide.extend([between; 20]);
    }
    wide.truncate(from.span(size_of_val(image)) / size);
    let mut got = vec![between; to.span(size_of_val(want)) / size];
    compute(Rows::new(In::of(&wide), from, size), Rows::new(Out::of(&mut got), to, size));
    for (got, want) in got.chunks(columns + 12).zip(want.chunks(columns)) {
        assert_eq!(&got[..columns], want);
        assert!(got[columns..].iter().all(|x| *x == between), "wrote between rows");
    }
}
