//! A row beside which all rows of another operand stand: numbers of each channel beside an image.
//!
//! A loop over a row of 16 elements takes little longer than finding it. The rows of the wide
//! operand and of the results lie side by side, so that the short one is written down as often as
//! fits, once, and the loop runs over many rows at a time, which are not moved.

use super::plain::BLOCK;
use super::short_rows::EachRow;
use super::spans::{Along, Spans};
use crate::tensor::rows::Rows;
use crate::tensor::{In, Out, poll};

/// Results from a wide operand and a row that repeats, as bytes.
///
/// The wide operand may be written over by the results, the row may not.
#[derive(Debug)]
pub struct RepeatedRows<'a> {
    /// The wide operand, and its first element.
    pub wide: Rows<In<'a, u8>>,
    /// See `wide`.
    pub from: usize,
    /// The row, all of it.
    pub row: In<'a, u8>,
    /// True if the row is the first operand of the function.
    pub is_row_first: bool,
    /// The bytes of an element of the operands, and of one of the results.
    pub sizes: [usize; 2],
    /// The results, and the first of them.
    pub output: Rows<Out<'a, u8>>,
    /// See `output`.
    pub to: usize,
    /// How many results: whole rows.
    pub count: usize,
}

/// Bytes of the row as often as it is written down.
const BYTES: usize = 2048;

/// Bytes of all results' operands that are few.
const FEW_BYTES: usize = 256;

/// Returns whether a row of so many elements of `size` bytes is written down several times.
pub fn fits(len: usize, rows: usize, size: usize) -> bool {
    len > 0 && rows > 1 && len.saturating_mul(size) <= BYTES / 4
}

impl RepeatedRows<'_> {
    /// Calls `each` with many rows at a time.
    ///
    /// # Errors
    /// The first that `each` gives, or the run is to end.
    pub fn each(self, each: &mut EachRow<'_>) -> Result<(), String> {
        // To clear room for many rows takes longer than a few of them.
        match self.count * self.sizes[0] {
            0..=FEW_BYTES => self.in_room_of::<FEW_BYTES>(each),
            _ => self.in_room_of::<BYTES>(each),
        }
    }

    fn in_room_of<const ROOM: usize>(self, each: &mut EachRow<'_>) -> Result<(), String> {
        let Self { wide, row, is_row_first, sizes, output, count, .. } = self;
        let mut copies = [0; ROOM];
        // As often as it fits, and no more than there are rows.
        let rows = count * sizes[0] / row.len().max(1);
        let most = (ROOM / row.len().max(1)).min(rows);
        // Whole blocks, where as many rows make one and not all of them fit.
        let is_block = |rows: &usize| (rows * row.len() / sizes[0]).is_multiple_of(BLOCK);
        let in_blocks = (1..=most).rev().find(|many| most == rows || is_block(many));
        let bytes = row.len() * in_blocks.unwrap_or(most);
        for copy in copies[..bytes].chunks_exact_mut(row.len().max(1)) {
            row.copy_to(copy);
        }
        let (copies, together) = (Rows::from(In::of(&copies[..bytes])), bytes / sizes[0]);
        for at in (0..count).step_by(together.max(1)) {
            let len = together.min(count - at);
            poll::work(len)?;
            let spans = Spans { len, to: self.to + at, sizes };
            let wide = Along { rows: wide, from: self.from + at, moves: true };
            let row = Along { rows: copies, from: 0, moves: true };
            let inputs = if is_row_first { [row, wide] } else { [wide, row] };
            spans.each(inputs, output, &mut |[a, b], to| each(a, b, to))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::plain::zip;
    use crate::simd::Isa;

    /// Rows of every length, in place too, with the row on either side.
    #[test]
    fn results_are_those_of_each_row() {
        for (len, rows) in (1..130).flat_map(|len| [(len, 2), (len, 67)]) {
            let wide: Vec<i32> = (0..).map(|i| i * 7 - 900).take(len * rows).collect();
            let row: Vec<i32> = (0..).map(|i| 3 - i * 5).take(len).collect();
            assert!(fits(len, rows, 4) || len > BYTES / 16);
            for is_row_first in [false, true] {
                let of = |x: i32, y: i32| x * 3 - y;
                let pairs = wide.iter().zip(row.iter().cycle());
                let want: Vec<i32> =
                    pairs.map(|(&x, &y)| if is_row_first { of(y, x) } else { of(x, y) }).collect();
                let mut got = wide.clone();
                let output = Out::of(&mut got);
                let repeated = RepeatedRows {
                    wide: output.as_in().bytes().into(),
                    from: 0,
                    row: In::of(&row).bytes(),
                    is_row_first,
                    sizes: [4; 2],
                    output: output.bytes().into(),
                    to: 0,
                    count: want.len(),
                };
                repeated
                    .each(&mut |a, b, output| {
                        let (a, b, output) = (a.cast(), b.cast(), output.cast());
                        zip(Isa::best(), a, b, output, of);
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(got, want, "{rows} rows of {len}");
            }
        }
    }
}
