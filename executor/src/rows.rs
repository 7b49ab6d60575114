//! Tensors whose rows lie apart: some channels of each pixel of a wider image, say, read and
//! written where they are.
//!
//! A tensor in one piece is rows of any length, one behind the other, so whatever takes rows takes
//! it as well. What a row is, the plan knows ([`Apart`]); kernels that go through raw memory say
//! how many rows of how many elements they will touch, once per call, and get an address and a
//! distance ([`Pitched`]) in return.

use std::ops::Range;

use crate::element::Element;
use crate::io::{In, Out};
use crate::kernels::plain::copy_pieces;
use crate::kernels::{Isa, check_lengths};
use crate::poll;

/// How rows lie: bytes of one, and from one to the next. None is empty, and they don't overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Apart {
    pub(crate) row: usize,
    pub(crate) pitch: usize,
}

impl Apart {
    /// Bytes from the first of `len` bytes in such rows to the last.
    #[inline]
    pub(crate) fn span(self, len: usize) -> usize {
        let gaps = (len / self.row.max(1)).saturating_sub(1);
        gaps.saturating_mul(self.pitch).saturating_add(len.min(self.row))
    }
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Input(usize),
    Output,
}

/// Elements that lie one behind the other.
pub(crate) trait Piece: Copy {
    fn len(self) -> usize;
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
pub(crate) struct Rows<P> {
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
    pub(crate) fn new(all: P, apart: Apart, size: usize) -> Self {
        Self { all, row: apart.row / size, pitch: apart.pitch / size }
    }

    /// How many elements the rows have.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        if self.row == self.pitch {
            return self.all.len();
        }
        (self.all.len() + self.pitch - self.row) / self.pitch * self.row
    }

    /// Whether all of it lies in one piece.
    #[inline(always)]
    pub(crate) fn is_one_piece(self) -> bool {
        self.row == self.pitch
    }

    /// Elements of its rows, 0 where it is in one piece; `None` where `from` isn't the start of
    /// one.
    fn whole_row(self, from: usize) -> Option<usize> {
        let row = if self.is_one_piece() { 0 } else { self.row };
        (row == 0 || from.is_multiple_of(row)).then_some(row)
    }

    /// Elements from `at` on that lie in one piece.
    #[inline(always)]
    pub(crate) fn left(self, at: usize) -> usize {
        if self.row == self.pitch { usize::MAX } else { self.row - at % self.row }
    }

    /// Elements that lie in one piece; none where they aren't within.
    #[inline(always)]
    pub(crate) fn piece(self, range: Range<usize>) -> P {
        let start = self.place(range.start);
        self.all.slice(start..start + range.len())
    }

    /// Where element `at` lies, counted in elements from the first.
    #[inline(always)]
    pub(crate) fn place(self, at: usize) -> usize {
        if self.row == self.pitch { at } else { at / self.row * self.pitch + at % self.row }
    }

    /// All of it, with what lies between the rows.
    #[inline(always)]
    pub(crate) fn all(self) -> P {
        self.all
    }

    /// Elements from one of `rows` rows of `len` elements to the next, where this is at least as
    /// many.
    ///
    /// # Errors
    /// It is less, or its rows are of another length.
    pub(crate) fn pitch(self, rows: usize, len: usize) -> Result<usize, String> {
        let pitch = if self.row == self.pitch { len } else { self.pitch };
        if pitch != len && self.row != len {
            return Err(format!("rows of {} elements where {len} are needed", self.row));
        }
        check_lengths(self.all.len(), rows.checked_sub(1).map_or(0, |gaps| gaps * pitch + len))?;
        Ok(pitch)
    }
}

impl<'a, T: Element> Rows<In<'a, T>> {
    /// Copies some elements, whole rows of those that lie apart, to where element `to` of an output
    /// is.
    fn copy(self, part: Range<usize>, output: Rows<Out<'_, T>>, to: usize) {
        let row = if self.is_one_piece() { output.row } else { self.row };
        let size = size_of::<T>();
        // Bytes from one row to the next: a division for each of them would take longer than what
        // it has.
        let step = |is_one_piece, pitch| if is_one_piece { row * size } else { pitch * size };
        let from_step = step(self.is_one_piece(), self.pitch);
        let to_step = step(output.is_one_piece(), output.pitch);
        let (from, to) = (self.place(part.start) * size, output.place(to) * size);
        let pieces =
            (0..part.len() / row.max(1)).map(|at| (from + at * from_step, to + at * to_step));
        copy_pieces(Isa::Scalar, self.all.bytes(), output.all.bytes(), row * size, pieces);
    }

    /// Its address, for kernels that read `rows` rows of `len` elements.
    ///
    /// # Errors
    /// As for [`Rows::pitch`].
    pub(crate) fn pitched(self, rows: usize, len: usize) -> Result<Pitched<*const T>, String> {
        Ok(Pitched { start: self.all.as_ptr(), pitch: self.pitch(rows, len)? })
    }
}

impl<'a, T: Element> Rows<Out<'a, T>> {
    /// The same elements, to read.
    pub(crate) fn as_in(self) -> Rows<In<'a, T>> {
        Rows { all: self.all.as_in(), row: self.row, pitch: self.pitch }
    }

    /// Its address, for kernels that write `rows` rows of `len` elements.
    ///
    /// # Errors
    /// As for [`Rows::pitch`].
    pub(crate) fn pitched(self, rows: usize, len: usize) -> Result<Pitched<*mut T>, String> {
        Ok(Pitched { start: self.all.as_mut_ptr(), pitch: self.pitch(rows, len)? })
    }
}

/// An operand of what is computed element by element: where it starts, and whether it moves along
/// or repeats one element.
pub(crate) type Along<'a, T> = (Rows<In<'a, T>>, usize, bool);

/// Calls `each` for stretches of `len` elements of some inputs and an output, in order. Short rows
/// that lie apart come and go by blocks near the registers: a call for each would take longer than
/// its elements.
///
/// # Errors
/// The first that `each` gives.
#[inline(always)]
pub(crate) fn each_stretch<T: Element, U: Element, const N: usize>(
    len: usize,
    inputs: [Along<'_, T>; N],
    (output, to): (Rows<Out<'_, U>>, usize),
    mut each: impl FnMut([In<'_, T>; N], Out<'_, U>) -> Result<(), String>,
) -> Result<(), String> {
    let is_one_piece = |&(rows, _, moves): &Along<'_, T>| !moves || rows.is_one_piece();
    if output.is_one_piece() && inputs.iter().all(is_one_piece) {
        return in_chunks(len, |part| {
            let inputs = inputs.map(|it| stretch(it, part.clone()));
            each(inputs, output.piece(to + part.start..to + part.end))
        });
    }
    in_blocks(len, inputs, (output, to), &mut each)
}

/// Calls `each` for as many elements at a time as are worked on between two reports of work.
///
/// # Errors
/// The first that `each` gives, or the run is to end.
#[inline(always)]
pub(crate) fn in_chunks(
    len: usize,
    mut each: impl FnMut(Range<usize>) -> Result<(), String>,
) -> Result<(), String> {
    if len <= poll::CHUNK {
        poll::work(len * ELEMENT_NS)?;
        return each(0..len);
    }
    for start in (0..len).step_by(poll::CHUNK) {
        let end = len.min(start + poll::CHUNK);
        poll::work((end - start) * ELEMENT_NS)?;
        each(start..end)?;
    }
    Ok(())
}

/// What an element of the slower functions takes at most, about.
const ELEMENT_NS: usize = 8;

/// Elements of an operand at a time.
const BLOCK: usize = 512;

/// Rows of so many elements are worth a call.
const LONG: usize = 256;

#[inline(never)]
fn in_blocks<T: Element, U: Element, const N: usize>(
    len: usize,
    inputs: [Along<'_, T>; N],
    (output, to): (Rows<Out<'_, U>>, usize),
    each: &mut impl FnMut([In<'_, T>; N], Out<'_, U>) -> Result<(), String>,
) -> Result<(), String> {
    let (mut sources, mut results) = ([[T::default(); BLOCK]; N], [U::default(); BLOCK]);
    let (mut at, mut row) = (0, output.whole_row(to));
    for &(rows, from, _) in inputs.iter().filter(|it| it.2) {
        row = match (row, rows.whole_row(from)) {
            (Some(0), other) | (other, Some(0)) => other,
            (one, other) => one.filter(|_| one == other),
        };
    }
    let row = row.filter(|&row| row < LONG && len.is_multiple_of(row));
    while at < len {
        poll::work(BLOCK * ELEMENT_NS)?;
        let count = match row {
            // Of rows alike as many as fit.
            Some(row) => (BLOCK / row * row).min(len - at),
            None => inputs
                .iter()
                .filter(|it| it.2)
                .map(|(rows, from, _)| rows.left(from + at))
                .fold(output.left(to + at), usize::min)
                .min(len - at),
        };
        let here = at..at + count;
        let near = row.is_some();
        let mut buffers = sources.iter_mut();
        let from = inputs.map(|it| match buffers.next() {
            Some(buffer) if near && it.2 && !it.0.is_one_piece() => {
                let start = it.1 + at;
                it.0.copy(start..start + count, Out::of(&mut buffer[..count]).into(), 0);
                In::of(&buffer[..count])
            }
            _ => stretch(it, here.clone()),
        });
        if near && !output.is_one_piece() {
            each(from, Out::of(&mut results[..count]))?;
            let made: Rows<In<'_, U>> = In::of(&results[..count]).into();
            made.copy(0..count, output, to + at);
        } else {
            each(from, output.piece(to + at..to + at + count))?;
        }
        at += count;
    }
    Ok(())
}

#[inline(always)]
fn stretch<'a, T: Element>((rows, from, moves): Along<'a, T>, part: Range<usize>) -> In<'a, T> {
    if moves { rows.piece(from + part.start..from + part.end) } else { rows.piece(from..from + 1) }
}

/// The address of the first of some rows, and elements from one to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pitched<P> {
    pub(crate) start: P,
    pub(crate) pitch: usize,
}

impl<T> Pitched<*const T> {
    /// Where row `at` is, or would be.
    #[inline(always)]
    pub(crate) fn row(self, at: usize) -> *const T {
        self.start.wrapping_add(at * self.pitch)
    }

    /// The same rows of elements of another size.
    pub(crate) fn cast<U>(self) -> Pitched<*const U> {
        Pitched { start: self.start.cast(), pitch: self.pitch * size_of::<T>() / size_of::<U>() }
    }
}

impl<T> Pitched<*mut T> {
    /// Where row `at` is, or would be.
    #[inline(always)]
    pub(crate) fn row(self, at: usize) -> *mut T {
        self.start.wrapping_add(at * self.pitch)
    }

    /// The same rows of elements of another size.
    pub(crate) fn cast<U>(self) -> Pitched<*mut U> {
        Pitched { start: self.start.cast(), pitch: self.pitch * size_of::<T>() / size_of::<U>() }
    }

    /// The same rows, to read.
    pub(crate) fn as_const(self) -> Pitched<*const T> {
        Pitched { start: self.start.cast_const(), pitch: self.pitch }
    }
}

/// Sees that `compute` gives the same for rows that lie apart, of `channels` elements in and
/// `columns` out, and writes nothing between them; `want` is what it makes of `image` in one piece.
#[cfg(test)]
pub(crate) fn check_apart<T: Element + PartialEq + std::fmt::Debug>(
    (image, channels): (&[T], usize),
    (want, columns): (&[T], usize),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_lie_apart_are_walked_as_one_tensor() {
        let numbers: Vec<i32> = (0..12).collect();
        let apart = Apart { row: 8, pitch: 20 };
        let rows = Rows::new(In::of(&numbers).slice(1..1 + apart.span(16) / 4), apart, 4);
        assert_eq!(rows.len(), 4);
        let mut got = [0; 6];
        let output = Rows::new(Out::of(&mut got), Apart { row: 4, pitch: 8 }, 4);
        let (input, output) = ((rows, 0, true), (output, 0));
        each_stretch(3, [input], output, |[from], to| {
            to.copy_from(from);
            Ok(())
        })
        .unwrap();
        assert_eq!(got, [1, 0, 2, 0, 6, 0]);
    }
}
