//! Rows that are shorter than a block of an auto-vectorised loop, many of them together.
//!
//! A loop over one row of 32 elements has no vectors: what is left of a row behind its last whole
//! block is computed element by element. The results of neighbouring rows lie side by side, and
//! only what they are computed from does not, so that it is copied together. That is done to bytes:
//! once for all functions of elements of a size.

use super::plain::BLOCK;
use crate::tensor::{In, Out, poll};

/// What is done to a span of two operands and the output, as bytes.
pub type EachRow<'f> = dyn FnMut(In<'_, u8>, In<'_, u8>, Out<'_, u8>) -> Result<(), String> + 'f;

/// Rows of results from two operands, of which each row is as long or one element for all.
///
/// Results lie side by side, a row behind the other. An operand that has their shape may be written
/// over by them, one that is repeated may not.
#[derive(Debug)]
pub struct ShortRows<'a> {
    /// The operands, whose elements have 1, 2, 4 or 8 bytes.
    pub operands: [In<'a, u8>; 2],
    /// The bytes of an element of the operands, and of one of the results.
    pub sizes: [usize; 2],
    /// The results.
    pub output: Out<'a, u8>,
    /// Elements of a row, for which [`fits`] returns true.
    pub len: usize,
    /// True for each operand that has one element for all of a row.
    pub repeats: [bool; 2],
}

/// Returns whether so many rows of `len` elements are computed together: there are several in a
/// block, and they fill most of it.
pub fn fits(len: usize, rows: usize) -> bool {
    len > 1 && len <= BLOCK / 2 && len * rows.min(BLOCK / len) >= BLOCK / 4 * 3
}

/// Bytes of an operand that are computed together.
const BYTES: usize = 1024;

impl ShortRows<'_> {
    /// Calls `each` with whole blocks of elements that lie side by side. `starts` are the elements
    /// of both operands that the rows start at; `each` also computes elements that belong to no
    /// row.
    ///
    /// # Errors
    /// The first that `each` gives, or the run is to end.
    pub fn each_block(
        self,
        starts: impl ExactSizeIterator<Item = [usize; 2]>,
        each: &mut EachRow<'_>,
    ) -> Result<(), String> {
        match self.sizes[0] {
            1 => self.blocks::<1>(starts, each),
            2 => self.blocks::<2>(starts, each),
            4 => self.blocks::<4>(starts, each),
            _ => self.blocks::<8>(starts, each),
        }
    }

    /// As [`ShortRows::each_block`], for operands of `SIZE` bytes an element.
    fn blocks<const SIZE: usize>(
        self,
        mut starts: impl ExactSizeIterator<Item = [usize; 2]>,
        each: &mut EachRow<'_>,
    ) -> Result<(), String> {
        let Self { operands: [a, b], sizes: [_, size_out], output, len, repeats } = self;
        let most = BYTES / SIZE.max(size_out) / BLOCK * BLOCK;
        let together = most / len;
        let (mut xs, mut ys, mut zs) = ([0; BYTES], [0; BYTES], [0; BYTES]);
        let mut at = 0;
        while starts.len() > 0 {
            let rows = xs.chunks_exact_mut(len * SIZE).zip(ys.chunks_exact_mut(len * SIZE));
            // The rows come first: an item that finds no room would be lost.
            let mut count = 0;
            for ((xs, ys), start) in rows.take(together).zip(&mut starts) {
                gather::<SIZE>(a, start[0], repeats[0], xs);
                gather::<SIZE>(b, start[1], repeats[1], ys);
                count += len;
            }
            let whole = count.next_multiple_of(BLOCK);
            poll::work(whole + count / len * ROW_NS)?;
            let (xs, ys) = (In::of(&xs[..whole * SIZE]), In::of(&ys[..whole * SIZE]));
            let to = output.slice(at..at + count * size_out);
            if whole == count {
                each(xs, ys, to)?;
            } else {
                let made = Out::of(&mut zs[..whole * size_out]);
                each(xs, ys, made)?;
                to.copy_from(made.as_in().slice(0..to.len()));
            }
            at += to.len();
        }
        Ok(())
    }
}

/// Nanoseconds that finding a row takes at most, about.
const ROW_NS: usize = 16;

#[inline(always)]
fn gather<const SIZE: usize>(from: In<'_, u8>, start: usize, repeats: bool, row: &mut [u8]) {
    let start = start * SIZE;
    if repeats {
        row.as_chunks_mut::<SIZE>().0.fill(from.block(start));
    } else {
        from.slice(start..start + row.len()).copy_to(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::plain::zip;
    use crate::simd::Isa;
    use crate::tensor::Element;

    fn by_rows<T: Element, U: Element>(
        isa: Isa,
        operands: [In<'_, T>; 2],
        output: Out<'_, U>,
        len: usize,
        repeats: [bool; 2],
        starts: impl ExactSizeIterator<Item = [usize; 2]>,
        each: impl Fn(T, T) -> U,
    ) {
        let sizes = [size_of::<T>(), size_of::<U>()];
        let [a, b] = operands.map(In::bytes);
        let rows = ShortRows { operands: [a, b], sizes, output: output.bytes(), len, repeats };
        rows.each_block(starts, &mut |a, b, output| {
            zip(isa, a.cast(), b.cast(), output.cast(), &each);
            Ok(())
        })
        .unwrap();
    }

    /// All ways in which two operands have rows, of every length that fits.
    #[test]
    fn rows_give_what_their_elements_give_in_place_too() {
        for isa in Isa::all() {
            for (len, rows) in (2..=BLOCK).flat_map(|len| [(len, 1), (len, 40), (len, 67)]) {
                if !fits(len, rows) {
                    continue;
                }
                let all: Vec<i16> = (0..).map(|i: i16| i * 7 - 900).take(len * rows).collect();
                let few: Vec<i16> = (0..).map(|i: i16| 3 - i * 5).take(len.max(rows)).collect();
                for repeats in [false, true] {
                    let of_b = |row: usize| if repeats { row } else { 0 };
                    let mut want = Vec::new();
                    for (row, xs) in all.chunks_exact(len).enumerate() {
                        let y = |i: usize| few[if repeats { row } else { i }];
                        want.extend(xs.iter().enumerate().map(|(i, x)| i32::from(x - 2 * y(i))));
                    }
                    let mut got = vec![0i32; len * rows + 1];
                    let to = Out::of(&mut got).slice(0..len * rows);
                    let (a, b) = (In::of(&all), In::of(&few));
                    let starts = (0..rows).map(|row| [row * len, of_b(row)]);
                    let each = |x: i16, y: i16| i32::from(x - 2 * y);
                    let repeats = [false, repeats];
                    by_rows(isa, [a, b], to, len, repeats, starts, each);
                    assert_eq!(got[..len * rows], want, "{isa:?}, {rows} rows of {len}");
                    assert_eq!(got[len * rows], 0, "{isa:?}, behind {rows} rows of {len}");
                    let mut got = all.clone();
                    let output = Out::of(&mut got);
                    let starts = (0..rows).map(|row| [of_b(row), row * len]);
                    let repeats = [repeats[1], false];
                    let each = |y: i16, x: i16| x - 2 * y;
                    let (a, b) = (b, output.as_in());
                    by_rows(isa, [a, b], output, len, repeats, starts, each);
                    let got: Vec<i32> = got.into_iter().map(i32::from).collect();
                    assert_eq!(got, want, "{isa:?}, {rows} rows of {len} in place");
                }
            }
        }
    }

    #[test]
    fn long_rows_and_few_elements_are_left_to_other_loops() {
        for (len, rows, want) in
            [(32, 44, true), (32, 1, false), (33, 99, false), (1, 999, false), (3, 16, true)]
        {
            assert_eq!(fits(len, rows), want, "{rows} rows of {len}");
        }
    }
}
