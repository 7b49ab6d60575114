//! Element by element over tensors whose rows have a stride: spans of elements that lie one behind
//! the other.

use std::ops::Range;

use crate::kernels::pieces::copy_pieces;
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
    let spans = Spans { len, to, sizes: [size_of::<T>(), size_of::<U>()] };
    let inputs =
        inputs.map(|Along { rows, from, moves }| Along { rows: rows.bytes(), from, moves });
    spans.each(inputs, output.bytes(), &mut |inputs, output| {
        each(inputs.map(In::cast), output.cast())
    })
}

/// What is done to a span of some inputs and the output, as bytes.
type Each<'f, const N: usize> = dyn FnMut([In<'_, u8>; N], Out<'_, u8>) -> Result<(), String> + 'f;

/// The elements that [`each_span`] goes over, whatever their type: rows are of bytes, and so is
/// what becomes of them. It is compiled once for all functions of elements.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// How many elements.
    pub len: usize,
    /// The first of the output.
    pub to: usize,
    /// Bytes of an element of the inputs, and of one of the output: powers of two.
    pub sizes: [usize; 2],
}

/// Bytes of an element, as a shift.
#[derive(Clone, Copy, Debug)]
struct Width(u32);

impl Width {
    #[inline(always)]
    fn bytes(self, elements: usize) -> usize {
        elements << self.0
    }

    #[inline(always)]
    fn range(self, elements: Range<usize>) -> Range<usize> {
        self.bytes(elements.start)..self.bytes(elements.end)
    }
}

impl Spans {
    /// As [`each_span`].
    ///
    /// # Errors
    /// The first that `each` gives, or the run is to end.
    #[inline(never)]
    pub fn each<const N: usize>(
        self,
        inputs: [Along<'_, u8>; N],
        output: Rows<Out<'_, u8>>,
        each: &mut Each<'_, N>,
    ) -> Result<(), String> {
        let is_one_piece = |it: &Along<'_, u8>| !it.moves || it.rows.is_one_piece();
        if output.is_one_piece() && inputs.iter().all(is_one_piece) {
            return in_chunks(self.len, |part| {
                each(inputs.map(|it| self.part(it, part.clone())), self.result(output, part))
            });
        }
        let widest = self.sizes[0].max(self.sizes[1]);
        match self.whole_rows(&inputs, output) {
            Some(row) if self.len > FEW_ROWS * row => {
                // Clearing blocks that stay empty would take as long as a few rows.
                match self.len * widest {
                    0..=SMALL => self.in_blocks::<N, SMALL>(row, inputs, output, each),
                    _ if widest == 1 => self.in_blocks::<N, BLOCK>(row, inputs, output, each),
                    _ => self.in_blocks::<N, { 4 * BLOCK }>(row, inputs, output, each),
                }
            }
            _ => self.in_rows(inputs, output, each),
        }
    }

    /// Elements of the rows of all operands that lie apart, which are of as many, if whole rows are
    /// asked for and they are short.
    #[inline]
    fn whole_rows<const N: usize>(
        self,
        inputs: &[Along<'_, u8>; N],
        output: Rows<Out<'_, u8>>,
    ) -> Option<usize> {
        let [width, width_out] = self.widths();
        let mut row = whole_row(output, self.to, width_out);
        for it in inputs.iter().filter(|it| it.moves) {
            row = match (row, whole_row(it.rows, it.from, width)) {
                (Some(0), other) | (other, Some(0)) => other,
                (one, other) => one.filter(|_| one == other),
            };
        }
        row.filter(|&row| row < LONG && row > 0 && self.len.is_multiple_of(row))
    }

    /// Row by row, as far as rows of all operands reach.
    #[inline(never)]
    fn in_rows<const N: usize>(
        self,
        inputs: [Along<'_, u8>; N],
        output: Rows<Out<'_, u8>>,
        each: &mut Each<'_, N>,
    ) -> Result<(), String> {
        let (Self { len, to, .. }, [width, width_out]) = (self, self.widths());
        let mut at = 0;
        while at < len {
            poll::work(BLOCK * ELEMENT_NS)?;
            let count = inputs
                .iter()
                .filter(|it| it.moves)
                .map(|it| it.rows.left(width.bytes(it.from + at)) >> width.0)
                .fold(output.left(width_out.bytes(to + at)) >> width_out.0, usize::min)
                .min(len - at);
            let here = at..at + count;
            each(inputs.map(|it| self.part(it, here.clone())), self.result(output, here))?;
            at += count;
        }
        Ok(())
    }

    fn widths(self) -> [Width; 2] {
        self.sizes.map(|size| Width(size.trailing_zeros()))
    }

    #[inline(always)]
    fn part<'a>(self, operand: Along<'a, u8>, part: Range<usize>) -> In<'a, u8> {
        let Along { rows, from, moves } = operand;
        let part = if moves { from + part.start..from + part.end } else { from..from + 1 };
        rows.piece(self.widths()[0].range(part))
    }

    #[inline(always)]
    fn result<'a>(self, output: Rows<Out<'a, u8>>, part: Range<usize>) -> Out<'a, u8> {
        output.piece(self.widths()[1].range(self.to + part.start..self.to + part.end))
    }

    /// `BYTES` of an operand at a time, where its rows, of `row` elements, lie apart.
    #[inline(never)]
    fn in_blocks<const N: usize, const BYTES: usize>(
        self,
        row: usize,
        inputs: [Along<'_, u8>; N],
        output: Rows<Out<'_, u8>>,
        each: &mut Each<'_, N>,
    ) -> Result<(), String> {
        let (Self { len, to, .. }, [width, width_out]) = (self, self.widths());
        let block = BYTES >> width.0.max(width_out.0);
        let (mut sources, mut results) = ([[0; BYTES]; N], [0; BYTES]);
        // Of rows alike as many as fit.
        let most = (block / row.max(1) * row).max(1);
        for at in (0..len).step_by(most) {
            poll::work(BLOCK * ELEMENT_NS)?;
            let here = at..len.min(at + most);
            let mut buffers = sources.iter_mut();
            let from = inputs.map(|it| match buffers.next() {
                Some(buffer) if it.moves && !it.rows.is_one_piece() => {
                    let part = width.range(it.from + here.start..it.from + here.end);
                    let buffer = &mut buffer[..part.len()];
                    copy_rows(it.rows, part, Out::of(buffer).into(), 0);
                    In::of(buffer)
                }
                _ => self.part(it, here.clone()),
            });
            if output.is_one_piece() {
                each(from, self.result(output, here))?;
            } else {
                let bytes = width_out.bytes(here.len());
                each(from, Out::of(&mut results[..bytes]))?;
                let made: Rows<In<'_, u8>> = In::of(&results[..bytes]).into();
                copy_rows(made, 0..bytes, output, width_out.bytes(to + at));
            }
        }
        Ok(())
    }
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
    let mut start = 0;
    loop {
        let end = len.min(start + poll::CHUNK);
        poll::work((end - start) * ELEMENT_NS)?;
        each(start..end)?;
        start = end;
        if start >= len {
            return Ok(());
        }
    }
}

/// Nanoseconds that an element of the slower functions takes at most, about.
const ELEMENT_NS: usize = 8;

/// Elements of an operand at a time, if they are of up to 4 bytes.
const BLOCK: usize = 512;

/// So many rows are sooner taken one by one than through a block.
const FEW_ROWS: usize = 4;

/// Bytes of an operand below which blocks are small.
const SMALL: usize = 512;

/// Rows of so many elements are worth a call.
const LONG: usize = 256;

/// Elements of its rows, 0 where it is in one piece; `None` where `from` isn't the start of
/// one.
fn whole_row<P: Piece>(rows: Rows<P>, from: usize, width: Width) -> Option<usize> {
    let row = if rows.is_one_piece() { 0 } else { rows.row_len() >> width.0 };
    (row == 0 || from.is_multiple_of(row)).then_some(row)
}

/// Copies some bytes, whole rows of those that lie apart, to where byte `to` of an output is.
fn copy_rows(input: Rows<In<'_, u8>>, part: Range<usize>, output: Rows<Out<'_, u8>>, to: usize) {
    let row = if input.is_one_piece() { output.row_len() } else { input.row_len() };
    // From one row to the next: a division for each of them would take longer than what it has.
    let step = |is_one_piece, stride| if is_one_piece { row } else { stride };
    let from_step = step(input.is_one_piece(), input.row_stride());
    let to_step = step(output.is_one_piece(), output.row_stride());
    let (from, to) = (input.place(part.start), output.place(to));
    let pieces = (0..part.len() / row.max(1)).map(|at| (from + at * from_step, to + at * to_step));
    copy_pieces(Isa::Scalar, input.all(), output.all(), row, pieces);
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
