//! Copies of many pieces of a few bytes each, which calls of `memcpy` would take longer for.

use super::plain::Loop;
use crate::simd::Isa;
use crate::tensor::{In, Out, poll};

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
}
