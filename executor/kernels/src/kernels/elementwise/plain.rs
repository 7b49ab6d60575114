//! Loops in plain Rust, compiled for every instruction set: where the compiler finds the vectors by
//! itself, one loop says all that a kernel of each would say.
//!
//! Elements go through blocks of our own: an operand that is written over may not be told from one
//! that merely overlaps, which would keep the compiler from making vectors at all.

use crate::simd::{Isa, Neon};
use crate::tensor::{Element, In, Out, poll};

/// The loop to run. Its body must be `#[inline(always)]`, as it is compiled where it ends up.
pub trait Loop {
    /// Runs the loop.
    fn run(self);
}

impl Isa {
    /// The instruction set that a loop is compiled for when it is run for this one.
    pub fn of_loops(self) -> Self {
        match self {
            Self::Avx512Vbmi(isa) => Self::Avx512(isa.avx512()),
            // On aarch64 plain code is compiled for Advanced SIMD.
            isa => Neon::detect().map_or(isa, Self::Neon),
        }
    }

    /// Runs a loop as compiled for this instruction set.
    pub fn run(self, work: impl Loop) {
        match self {
            // SAFETY: the value proves the instruction set.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) | Self::Avx512Vbmi(_) => unsafe { avx512(work) },
            // SAFETY: the value proves the instruction set.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => unsafe { avx2(work) },
            _ => scalar(work),
        }
    }
}

/// Out of line, as the others have to be: one copy of a loop for all that run it.
#[inline(never)]
fn scalar(work: impl Loop) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512(work: impl Loop) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(work: impl Loop) {
    work.run();
}

/// Elements of a block.
pub(super) const BLOCK: usize = 64;

/// Elements on the stack, where a vector that lay across two lines would take several times as long
/// to be read back.
#[repr(align(64))]
struct Aligned<T>([T; BLOCK]);

/// Elements that take less time one by one than a block that is filled up.
const FEW: usize = 8;

/// Each element of `output` from the one of `input` at its place, which it may be written over.
pub fn map<T: Element, U: Element>(
    isa: Isa,
    input: In<'_, T>,
    output: Out<'_, U>,
    each: impl Fn(T) -> U,
) {
    isa.run(Map { input, output, each });
}

struct Map<'a, T, U, F> {
    input: In<'a, T>,
    output: Out<'a, U>,
    each: F,
}

impl<T: Element, U: Element, F: Fn(T) -> U> Loop for Map<'_, T, U, F> {
    #[inline(always)]
    fn run(self) {
        let Self { input, output, each } = self;
        let len = input.len().min(output.len());
        if len <= FEW {
            return (0..len).for_each(|at| output.set(at, each(input.get(at))));
        }
        // The last block lies over the one before, or is filled up: read before any is written. It
        // takes its turn in the loop, as a function that is called from more places isn't inlined.
        let last = len.saturating_sub(BLOCK);
        let mut last_xs = Aligned([input.get(0); BLOCK]);
        input.slice(last..len).copy_to(&mut last_xs.0);
        let mut at = 0;
        loop {
            let is_last = at >= last;
            let (from, place) = if is_last { (In::of(&last_xs.0[..]), 0) } else { (input, at) };
            let xs = Aligned(from.block(place));
            let mut ys = Aligned([U::default(); BLOCK]);
            ys.0.iter_mut().zip(&xs.0).for_each(|(y, &x)| *y = each(x));
            if is_last {
                return match len {
                    BLOCK.. => output.set_block(last, ys.0),
                    _ => output.copy_from(In::of(&ys.0[..len])),
                };
            }
            output.set_block(at, ys.0);
            at += BLOCK;
        }
    }
}

/// A row of results from two operands, each a row as long or one number for all; of a row that is
/// read, each element may be written over.
#[derive(Debug)]
pub struct Zip<'a, T, U, F> {
    /// The first operand.
    pub a: In<'a, T>,
    /// The second operand.
    pub b: In<'a, T>,
    /// The results.
    pub output: Out<'a, U>,
    /// The function.
    pub each: F,
}

impl<T: Element, U: Element, F: Fn(T, T) -> U> Loop for Zip<'_, T, U, F> {
    #[inline(always)]
    fn run(self) {
        let Self { a, b, output, each } = self;
        let len = output.len();
        let block = |of: In<'_, T>, at: usize| {
            Aligned(if of.len() == len { of.block(at) } else { [of.get(0); BLOCK] })
        };
        let one = |of: In<'_, T>, at: usize| of.get(if of.len() == len { at } else { 0 });
        let whole = len / BLOCK * BLOCK;
        for at in (0..whole).step_by(BLOCK) {
            let (xs, ys) = (block(a, at), block(b, at));
            let mut zs = Aligned([U::default(); BLOCK]);
            zs.0.iter_mut().zip(&xs.0).zip(&ys.0).for_each(|((z, &x), &y)| *z = each(x, y));
            output.set_block(at, zs.0);
        }
        (whole..len).for_each(|at| output.set(at, each(one(a, at), one(b, at))));
    }
}

/// Copies pieces of `len` bytes each: from where in the input to where in the output. A call for
/// each piece, as of `memcpy`, would take longer than the few bytes that a pixel has.
pub fn copy_pieces(
    isa: Isa,
    input: In<'_, u8>,
    output: Out<'_, u8>,
    len: usize,
    pieces: impl Iterator<Item = (usize, usize)>,
) {
    if len > SHORT {
        for (from, to) in pieces {
            if copy_long(input, from, output, to, len).is_err() {
                return;
            }
        }
        return;
    }
    isa.run(Pieces { input, output, len, pieces });
}

/// Copies a piece by a call, and reports it.
fn copy_long(
    input: In<'_, u8>,
    from: usize,
    output: Out<'_, u8>,
    to: usize,
    len: usize,
) -> Result<(), poll::Halted> {
    if len <= LONG {
        poll::work(len / 8 + PIECE_NS)?;
    }
    output.slice(to..to + len).copy_from(input.slice(from..from + len));
    Ok(())
}

/// What is done by blocks of bytes of a known width.
pub(super) trait ByBlocks {
    /// By `N` bytes.
    fn by<const N: usize>(self);
}

/// By the widest blocks of which a piece of `len` bytes has one.
#[inline(always)]
pub(super) fn by_blocks(len: usize, work: impl ByBlocks) {
    match len {
        0 => {}
        1 => work.by::<1>(),
        2 | 3 => work.by::<2>(),
        4..8 => work.by::<4>(),
        8..16 => work.by::<8>(),
        16..32 => work.by::<16>(),
        32..64 => work.by::<32>(),
        _ => work.by::<64>(),
    }
}

/// Pieces that lie regularly: those of each row and column of a grid.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Bytes of a piece.
    pub len: usize,
    /// How many rows, and bytes of the input from one to the next.
    pub rows: (usize, isize),
    /// Columns of a row, likewise.
    pub columns: (usize, isize),
}

impl Grid {
    /// Copies its pieces, from the one at byte `from` of the input on, to where they lie one behind
    /// the other from byte `to` of the output on. Found by loops, a piece takes a quarter of the
    /// time that it takes from an iterator.
    pub fn copy(self, isa: Isa, input: In<'_, u8>, from: isize, output: Out<'_, u8>, to: usize) {
        let Self { len, rows, columns } = self;
        if len > SHORT {
            for row in 0..rows.0 {
                for column in 0..columns.0 {
                    let from = place(from, (row, rows.1), (column, columns.1));
                    let to = to + (row * columns.0 + column) * len;
                    if copy_long(input, from, output, to, len).is_err() {
                        return;
                    }
                }
            }
            return;
        }
        isa.run(GridPieces { input, from, output, to, grid: self });
    }
}

/// The place of a row's column.
#[inline(always)]
fn place(first: isize, row: (usize, isize), column: (usize, isize)) -> usize {
    let (down, across) = (row.0.cast_signed() * row.1, column.0.cast_signed() * column.1);
    (first + down + across).cast_unsigned()
}

struct GridPieces<'a> {
    input: In<'a, u8>,
    from: isize,
    output: Out<'a, u8>,
    to: usize,
    grid: Grid,
}

impl Loop for GridPieces<'_> {
    #[inline(always)]
    fn run(self) {
        by_blocks(self.grid.len, self);
    }
}

impl ByBlocks for GridPieces<'_> {
    #[inline(always)]
    fn by<const N: usize>(self) {
        let Self { input, from, output, mut to, grid: Grid { len, rows, columns } } = self;
        // As many pieces as are copied between two reports.
        let together = (REPORT_NS / (len + PIECE_NS)).max(1);
        for row in 0..rows.0 {
            for first in (0..columns.0).step_by(together) {
                let end = columns.0.min(first + together);
                if poll::work((end - first) * (len + PIECE_NS)).is_err() {
                    return;
                }
                for column in first..end {
                    let from = place(from, (row, rows.1), (column, columns.1));
                    copy_piece::<N>(input, from, output, to, len);
                    to += len;
                }
            }
        }
    }
}

/// Copies a piece, `N` bytes at a time, of which it has as many at least: the last overlap those
/// before.
#[inline(always)]
pub(super) fn copy_piece<const N: usize>(
    input: In<'_, u8>,
    from: usize,
    output: Out<'_, u8>,
    to: usize,
    len: usize,
) {
    for at in (0..len - N).step_by(N) {
        output.set_block(to + at, input.block::<N>(from + at));
    }
    output.set_block(to + len - N, input.block::<N>(from + len - N));
}

/// Nanoseconds that finding a piece takes at most, about; a byte takes less than one.
pub(super) const PIECE_NS: usize = 8;

/// Pieces of more bytes take less time in a call each.
const SHORT: usize = 256;

/// Pieces of more bytes are reported one by one where they are copied.
pub(super) const LONG: usize = 1 << 20;

/// Nanoseconds that are reported at a time.
pub(super) const REPORT_NS: usize = 1 << 14;

struct Pieces<'a, P> {
    input: In<'a, u8>,
    output: Out<'a, u8>,
    len: usize,
    pieces: P,
}

impl<P: Iterator<Item = (usize, usize)>> Loop for Pieces<'_, P> {
    #[inline(always)]
    fn run(self) {
        by_blocks(self.len, self);
    }
}

impl<P: Iterator<Item = (usize, usize)>> ByBlocks for Pieces<'_, P> {
    #[inline(always)]
    fn by<const N: usize>(self) {
        let Self { input, output, len, mut pieces } = self;
        let mut unreported = 0;
        // Where pieces come from nested iterators, these become nested loops inside of them: asked
        // for each piece they take 6 ns.
        let _ = pieces.try_for_each(|(from, to)| {
            unreported += len + PIECE_NS;
            if unreported > REPORT_NS {
                poll::work(std::mem::take(&mut unreported))?;
            }
            copy_piece::<N>(input, from, output, to, len);
            Ok::<(), poll::Halted>(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_arrive() {
        let bytes: Vec<u8> = (0..=255).cycle().take(3 * 300).collect();
        for isa in Isa::all() {
            for len in (0..=130).chain([255, 300]) {
                let mut got = vec![0; 3 * 300];
                let places = [(0, 600), (300, 0), (600, 300)];
                copy_pieces(isa, In::of(&bytes), Out::of(&mut got), len, places.into_iter());
                let mut want = vec![0; 3 * 300];
                for (from, to) in places {
                    want[to..to + len].copy_from_slice(&bytes[from..from + len]);
                }
                assert_eq!(got, want, "{isa:?}, {len} bytes");
            }
        }
    }

    #[test]
    fn pieces_of_a_grid_arrive() {
        let bytes: Vec<u8> = (0..=255).cycle().take(4000).collect();
        for isa in Isa::all() {
            for len in (0..=130).chain([255]) {
                let grid = Grid { len, rows: (3, -300), columns: (2, 400) };
                let mut got = vec![0; 6 * len + 2];
                grid.copy(isa, In::of(&bytes), 900, Out::of(&mut got), 1);
                let mut want = vec![0];
                for from in [900, 1300, 600, 1000, 300, 700] {
                    want.extend(&bytes[from..from + len]);
                }
                want.push(0);
                assert_eq!(got, want, "{isa:?}, {len} bytes");
            }
        }
    }

    #[test]
    fn every_variant_gives_the_same_in_place_too() {
        let numbers: Vec<i32> = (0..200).map(|i| i * i - 700).collect();
        for isa in Isa::all() {
            for len in (0..=130).chain([200]) {
                let want: Vec<i32> = numbers[..len].iter().map(|x| x * 3 + 1).collect();
                let mut got = numbers[..len].to_vec();
                let output = Out::of(&mut got);
                map(isa, output.as_in(), output, |x: i32| x * 3 + 1);
                assert_eq!(got, want, "{isa:?}");
                let want: Vec<i32> = numbers[..len].iter().zip(&want).map(|(x, y)| x - y).collect();
                let output = Out::of(&mut got);
                let b = output.as_in();
                isa.run(Zip {
                    a: In::of(&numbers[..len]),
                    b,
                    output,
                    each: |x: i32, y: i32| x - y,
                });
                assert_eq!(got, want, "{isa:?}");
                let want: Vec<i32> = want.iter().map(|y| 5 * y).collect();
                let output = Out::of(&mut got);
                let b = output.as_in();
                isa.run(Zip { a: In::of(&[5]), b, output, each: |x: i32, y: i32| x * y });
                assert_eq!(got, want, "{isa:?}");
            }
        }
    }
}
