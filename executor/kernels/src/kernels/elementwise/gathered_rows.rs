//! Rows by their number: the table of an embedding, or any tensor along its first axis.
//!
//! Numbers come from memory that may change meanwhile: each is read once, checked, used.

use super::pieces::{ByBlocks, LONG, PIECE_NS, REPORT_NS, by_blocks, copy_piece};
use super::plain::Loop;
use crate::simd::Isa;
use crate::tensor::{In, Out, poll};

/// A table of rows, and the numbers of those to copy.
#[derive(Clone, Copy, Debug)]
pub struct GatheredRows<'a> {
    /// The rows, one behind the other.
    pub table: In<'a, u8>,
    /// The number of rows.
    pub rows: usize,
    /// Bytes of a row.
    pub len: usize,
    /// A number for each row of the result.
    pub numbers: In<'a, i32>,
}

impl GatheredRows<'_> {
    /// Copies the rows one behind the other; once the run is to end, no more of them.
    ///
    /// # Errors
    /// The first number that no row has; what is before it was copied.
    pub fn copy(self, isa: Isa, output: Out<'_, u8>) -> Result<(), i32> {
        let mut outside = None;
        isa.run(Copying { all: self, output, outside: &mut outside });
        outside.map_or(Ok(()), Err)
    }
}

struct Copying<'a, 'o> {
    all: GatheredRows<'a>,
    output: Out<'a, u8>,
    outside: &'o mut Option<i32>,
}

impl Loop for Copying<'_, '_> {
    #[inline(always)]
    fn run(self) {
        match self.all.len {
            1..=LONG => by_blocks(self.all.len, self),
            // None at all, or as many as are copied and reported by themselves.
            _ => self.by::<0>(),
        }
    }
}

impl ByBlocks for Copying<'_, '_> {
    /// Each row by itself where `N` is 0.
    #[inline(always)]
    fn by<const N: usize>(self) {
        let Self { all: GatheredRows { table, rows, len, numbers }, output, outside } = self;
        let together = (REPORT_NS / len.saturating_add(PIECE_NS)).max(1);
        for first in (0..numbers.len()).step_by(together) {
            let end = numbers.len().min(first + together);
            if poll::work((end - first) * if N == 0 { PIECE_NS } else { len + PIECE_NS }).is_err() {
                return;
            }
            for at in first..end {
                let number = numbers.get(at);
                let Some(row) = usize::try_from(number).ok().filter(|&row| row < rows) else {
                    *outside = Some(number);
                    return;
                };
                if N == 0 {
                    let to = output.slice(at * len..(at + 1) * len);
                    to.copy_from(table.slice(row * len..(row + 1) * len));
                } else {
                    copy_piece::<N>(table, row * len, output, at * len, len);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_arrive_up_to_the_first_that_is_not_there() {
        let bytes: Vec<u8> = (0..=250).cycle().take(5 * 300).collect();
        for isa in Isa::all() {
            for len in (0..=130).chain([255, 300]) {
                let table = In::of(&bytes[..5 * len]);
                for (numbers, want) in [
                    (&[4, 0, 0, 3, 1, 2][..], Ok(())),
                    (&[2, 5, 1], Err(5)),
                    (&[0, -1], Err(-1)),
                    (&[i32::MIN], Err(i32::MIN)),
                    (&[], Ok(())),
                ] {
                    let gathered = GatheredRows { table, rows: 5, len, numbers: In::of(numbers) };
                    let mut got = vec![0; 6 * len + 1];
                    assert_eq!(gathered.copy(isa, Out::of(&mut got[..6 * len])), want);
                    let good = numbers.iter().map_while(|&row| usize::try_from(row).ok());
                    let mut rows: Vec<u8> = good
                        .take_while(|&row| row < 5)
                        .flat_map(|row| &bytes[row * len..(row + 1) * len])
                        .copied()
                        .collect();
                    rows.resize(6 * len + 1, 0);
                    assert_eq!(got, rows, "{isa:?}, {len} bytes, {numbers:?}");
                }
            }
        }
    }
}
