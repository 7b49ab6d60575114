//! Rows that are shorter than a block of an auto-vectorised loop, several of them in one block.
//!
//! A loop over one row of 32 elements has no vectors: what is left of a row behind its last whole
//! block is computed element by element. The results of neighbouring rows lie side by side, and
//! only what they are computed from does not, so that it is copied together.

use super::plain::{BLOCK, Loop};
use crate::tensor::{Element, In, Out, poll};

/// Rows of results from two operands, of which each row is as long or one element for all.
///
/// Results lie side by side, a row behind the other. An operand that has their shape may be written
/// over by them, one that is repeated may not.
#[derive(Debug)]
pub struct ZipRows<'a, T, U, F, I> {
    /// The first operand.
    pub a: In<'a, T>,
    /// The second operand.
    pub b: In<'a, T>,
    /// The results: `len` elements for each item of `starts`.
    pub output: Out<'a, U>,
    /// Elements of a row, for which [`fits`] returns true.
    pub len: usize,
    /// True for each operand that has one element for all of a row.
    pub repeats: [bool; 2],
    /// Where the rows start in both operands.
    pub starts: I,
    /// The function. It is also computed of elements that belong to no row.
    pub each: F,
}

/// Returns whether so many rows of `len` elements are computed together: there are several in a
/// block, and they fill most of it.
pub fn fits(len: usize, rows: usize) -> bool {
    len > 1 && len <= BLOCK / 2 && len * rows.min(BLOCK / len) >= BLOCK / 4 * 3
}

impl<T: Element, U: Element, F, I> Loop for ZipRows<'_, T, U, F, I>
where
    F: Fn(T, T) -> U,
    I: ExactSizeIterator<Item = [usize; 2]>,
{
    #[inline(always)]
    fn run(self) {
        let Self { a, b, output, len, repeats, mut starts, each } = self;
        let together = BLOCK / len;
        let (mut xs, mut ys) = ([T::default(); BLOCK], [T::default(); BLOCK]);
        let (mut at, mut unreported) = (0, 0);
        while starts.len() > 0 {
            let count = together.min(starts.len()) * len;
            let rows = xs.chunks_exact_mut(len).zip(ys.chunks_exact_mut(len));
            // The rows come first: an item that finds no room would be lost.
            for ((xs, ys), start) in rows.zip(&mut starts) {
                gather(a, start[0], repeats[0], xs);
                gather(b, start[1], repeats[1], ys);
            }
            let mut zs = [U::default(); BLOCK];
            zs.iter_mut().zip(&xs).zip(&ys).for_each(|((z, &x), &y)| *z = each(x, y));
            if count == BLOCK {
                output.set_block(at, zs);
            } else {
                output.slice(at..at + count).fill(zs);
            }
            at += count;
            unreported += BLOCK + together * ROW_NS;
            if unreported > poll::CHUNK {
                if poll::work(unreported).is_err() {
                    return;
                }
                unreported = 0;
            }
        }
    }
}

/// Nanoseconds that finding a row takes at most, about.
const ROW_NS: usize = 16;

#[inline(always)]
fn gather<T: Element>(from: In<'_, T>, start: usize, repeats: bool, row: &mut [T]) {
    if repeats {
        row.fill(from.get(start));
    } else {
        from.slice(start..start + row.len()).copy_to(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;

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
                    isa.run(ZipRows { a, b, output: to, len, repeats, starts, each });
                    assert_eq!(got[..len * rows], want, "{isa:?}, {rows} rows of {len}");
                    assert_eq!(got[len * rows], 0, "{isa:?}, behind {rows} rows of {len}");
                    let mut got = all.clone();
                    let output = Out::of(&mut got);
                    let starts = (0..rows).map(|row| [of_b(row), row * len]);
                    let repeats = [repeats[1], false];
                    let each = |y: i16, x: i16| x - 2 * y;
                    let (a, b) = (b, output.as_in());
                    isa.run(ZipRows { a, b, output, len, repeats, starts, each });
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
