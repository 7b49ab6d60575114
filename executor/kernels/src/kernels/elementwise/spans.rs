//! Element by element over tensors whose rows have a stride: spans of elements that lie one behind
//! the other.

use std::ops::Range;

use crate::kernels::plain::copy_pieces;
use crate::simd::Isa;
use crate::tensor::rows::{Piece, Rows};
use crate::tensor::{Element, In, Out, poll};

/// An operand of what is computed element by element: where it starts, and whether it moves along
/// or repeats one element.
#[derive(Clone, Copy, Debug)]
pub struct Along<'a, T> {
    /// Rows of the whole operand.
    pub rows: Rows<In<'a, T>>,
    /// The first element.
    pub from: usize,
    /// Elements follow one another; otherwise the first stands for all.
    pub moves: bool,
}

/// Calls `each` for spans of `len` elements of some inputs and an output, in order. Short rows
/// that lie apart come and go by blocks near the registers: a call for each would take longer than
/// its elements.
///
/// # Errors
/// The first that `each` gives.
#[inline(always)]
pub fn each_span<T: Element, U: Element, const N: usize>(
    len: usize,
    inputs: [Along<'_, T>; N],
    output: Rows<Out<'_, U>>,
    to: usize,
    mut each: impl FnMut([In<'_, T>; N], Out<'_, U>) -> Result<(), String>,
) -> Result<(), String> {
    let is_one_piece = |it: &Along<'_, T>| !it.moves || it.rows.is_one_piece();
    if output.is_one_piece() && inputs.iter().all(is_one_piece) {
        return in_chunks(len, |part| {
            let inputs = inputs.map(|it| span(it, part.clone()));
            each(inputs, output.piece(to + part.start..to + part.end))
        });
    }
    in_blocks(len, inputs, output, to, &mut each)
}

/// Calls `each` for as many elements at a time as are worked on between two reports of work.
///
/// # Errors
/// The first that `each` gives, or the run is to end.
#[inline(always)]
pub fn in_chunks(
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

/// Nanoseconds that an element of the slower functions takes at most, about.
const ELEMENT_NS: usize = 8;

/// Elements of an operand at a time.
const BLOCK: usize = 512;

/// Rows of so many elements are worth a call.
const LONG: usize = 256;

#[inline(never)]
fn in_blocks<T: Element, U: Element, const N: usize>(
    len: usize,
    inputs: [Along<'_, T>; N],
    output: Rows<Out<'_, U>>,
    to: usize,
    each: &mut impl FnMut([In<'_, T>; N], Out<'_, U>) -> Result<(), String>,
) -> Result<(), String> {
    let (mut sources, mut results) = ([[T::default(); BLOCK]; N], [U::default(); BLOCK]);
    let (mut at, mut row) = (0, whole_row(output, to));
    for it in inputs.iter().filter(|it| it.moves) {
        row = match (row, whole_row(it.rows, it.from)) {
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
                .filter(|it| it.moves)
                .map(|it| it.rows.left(it.from + at))
                .fold(output.left(to + at), usize::min)
                .min(len - at),
        };
        let here = at..at + count;
        let near = row.is_some();
        let mut buffers = sources.iter_mut();
        let from = inputs.map(|it| match buffers.next() {
            Some(buffer) if near && it.moves && !it.rows.is_one_piece() => {
                let start = it.from + at;
                let near = Out::of(&mut buffer[..count]).into();
                copy_rows(it.rows, start..start + count, near, 0);
                In::of(&buffer[..count])
            }
            _ => span(it, here.clone()),
        });
        if near && !output.is_one_piece() {
            each(from, Out::of(&mut results[..count]))?;
            let made: Rows<In<'_, U>> = In::of(&results[..count]).into();
            copy_rows(made, 0..count, output, to + at);
        } else {
            each(from, output.piece(to + at..to + at + count))?;
        }
        at += count;
    }
    Ok(())
}

#[inline(always)]
fn span<T: Element>(operand: Along<'_, T>, part: Range<usize>) -> In<'_, T> {
    let Along { rows, from, moves } = operand;
    if moves { rows.piece(from + part.start..from + part.end) } else { rows.piece(from..from + 1) }
}

/// Elements of its rows, 0 where it is in one piece; `None` where `from` isn't the start of
/// one.
fn whole_row<P: Piece>(rows: Rows<P>, from: usize) -> Option<usize> {
    let row = if rows.is_one_piece() { 0 } else { rows.row_len() };
    (row == 0 || from.is_multiple_of(row)).then_some(row)
}

/// Copies some elements, whole rows of those that lie apart, to where element `to` of an output
/// is.
fn copy_rows<T: Element>(
    input: Rows<In<'_, T>>,
    part: Range<usize>,
    output: Rows<Out<'_, T>>,
    to: usize,
) {
    let row = if input.is_one_piece() { output.row_len() } else { input.row_len() };
    let size = size_of::<T>();
    // Bytes from one row to the next: a division for each of them would take longer than what
    // it has.
    let step = |is_one_piece, pitch| if is_one_piece { row * size } else { pitch * size };
    let from_step = step(input.is_one_piece(), input.row_stride());
    let to_step = step(output.is_one_piece(), output.row_stride());
    let (from, to) = (input.place(part.start) * size, output.place(to) * size);
    let pieces = (0..part.len() / row.max(1)).map(|at| (from + at * from_step, to + at * to_step));
    copy_pieces(Isa::Scalar, input.all().bytes(), output.all().bytes(), row * size, pieces);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::rows::Apart;

    #[test]
    fn rows_that_lie_apart_are_walked_as_one_tensor() {
        let numbers: Vec<i32> = (0..12).collect();
        let apart = Apart { row: 8, pitch: 20 };
        let rows = Rows::new(In::of(&numbers).slice(1..1 + apart.span(16) / 4), apart, 4);
        assert_eq!(rows.len(), 4);
        let mut got = [0; 6];
        let output = Rows::new(Out::of(&mut got), Apart { row: 4, pitch: 8 }, 4);
        let input = Along { rows, from: 0, moves: true };
        each_span(3, [input], output, 0, |[from], to| {
            to.copy_from(from);
            Ok(())
        })
        .unwrap();
        assert_eq!(got, [1, 0, 2, 0, 6, 0]);
    }
}
