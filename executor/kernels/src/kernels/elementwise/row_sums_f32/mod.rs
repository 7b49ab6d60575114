//! Sums of rows of floats, four rows at a time: the lanes of one alone would be added up for as
//! long as reading 64 elements takes.
//!
//! Every variant adds in one order, which is MEAN's: each sixteenth element of the whole blocks of
//! a row by itself, the upper half of these sixteen sums to the lower one until one is left, then
//! the elements behind the last block.

mod vectors;

use self::vectors::RowSumVectors;
use super::four_rows::{Itself, LANES, sum};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, check_lengths, poll};

/// Rows one behind the other, and where their sums go, at any alignment.
#[derive(Clone, Copy, Debug)]
struct Rows {
    input: *const f32,
    /// Elements of a row.
    len: usize,
    /// Rows.
    count: usize,
    sums: *mut f32,
}

/// # Safety
/// `count` rows of `len` floats are readable, `count` floats writable; the machine has the
/// instruction set.
type Run = unsafe fn(&Rows);

/// Best first.
const VARIANTS: Variants<Run> = variants!(RowSumVectors, scalar);

/// Sums of rows in their best variant.
#[derive(Clone, Copy, Debug)]
pub struct RowSums(Variant<Run>);

impl RowSums {
    /// Takes the best variant up to `isa`.
    pub fn new(isa: Isa) -> Self {
        Self(VARIANTS.best(isa))
    }

    /// The variant that was chosen.
    pub fn isa(self) -> Isa {
        self.0.isa
    }

    /// Computes the sum of each of `sums.len()` rows, which lie one behind the other.
    ///
    /// # Errors
    /// The input has other elements than those of as many rows, or the run is to end.
    pub fn compute(self, input: In<'_, f32>, sums: &mut [f32]) -> Result<(), String> {
        let len = input.len().checked_div(sums.len()).unwrap_or(0);
        check_lengths(len * sums.len(), input.len())?;
        // As many rows as are added between two reports of work.
        let together = (poll::CHUNK / (len + LANES)).max(1);
        for (at, sums) in sums.chunks_mut(together).enumerate() {
            poll::work(sums.len() * (len + LANES))?;
            let first = at * together * len;
            let input = input.slice(first..first + sums.len() * len).as_ptr();
            let rows = Rows { input, len, count: sums.len(), sums: sums.as_mut_ptr() };
            // SAFETY: lengths as checked; `best` chose what the machine has.
            unsafe { (self.0.run)(&rows) };
        }
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(&Rows { input, len, count, sums }: &Rows) {
    for row in 0..count {
        // SAFETY: within the rows; a float for each.
        unsafe { sums.add(row).write_unaligned(sum::<Itself>(input.add(row * len), len, 0.0)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_gives_the_bits_of_the_reference() {
        let numbers: Vec<f32> =
            (0..1500).map(|at| (at * 7919 % 1009) as f32 / 37.0 - 13.0).collect();
        for variant in VARIANTS.all() {
            for (count, len) in (0..=9).flat_map(|count| (0..=70).map(move |len| (count, len))) {
                let input = In::of(&numbers[3..3 + count * len]);
                let mut want = vec![0.0; count];
                RowSums(Variant { isa: Isa::Scalar, run: scalar as Run })
                    .compute(input, &mut want)
                    .unwrap();
                for (row, sum) in want.iter().enumerate() {
                    let row = &numbers[3 + row * len..][..len];
                    assert!((sum - row.iter().sum::<f32>()).abs() < 1e-3, "{count} of {len}");
                }
                let mut got = vec![9.0; count + 1];
                RowSums(variant).compute(input, &mut got[..count]).unwrap();
                assert_eq!(got[..count], want, "{:?}, {count} of {len}", variant.isa);
                assert_eq!(got[count], 9.0, "{:?} wrote behind the end", variant.isa);
            }
        }
        let input = In::of(&numbers[..7]);
        assert!(RowSums::new(Isa::best()).compute(input, &mut [0.0; 2]).is_err());
    }
}
