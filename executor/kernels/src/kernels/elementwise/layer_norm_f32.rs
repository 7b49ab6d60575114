//! Layer normalisation of rows of floats, as converters write it in eleven operators: each row less
//! its mean and over its standard deviation, by a factor and with a shift for each column.
//!
//! Every form gives the bits of those operators one by one: sums in sixteen lanes as of MEAN, each
//! product and sum rounded by itself.

use super::plain::Loop;
use crate::simd::Isa;
use crate::tensor::{In, Out, check_lengths, poll};

/// Layer normalisation of rows of so many columns.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    isa: Isa,
    columns: usize,
    /// What is added to the variance.
    little: f32,
}

impl LayerNorm {
    /// Of rows of `columns` columns, with what is added to the variance. `None` without columns.
    pub fn new(isa: Isa, columns: usize, little: f32) -> Option<Self> {
        (columns > 0).then_some(Self { isa: isa.of_loops(), columns, little })
    }

    /// The instruction set that the loops are compiled for.
    pub fn isa(self) -> Isa {
        self.isa
    }

    /// Normalises whole rows; `factors` and `shifts` have an element for each column. The output
    /// may be the very input.
    ///
    /// # Errors
    /// Lengths differ, or the run is to end.
    pub fn compute(
        self,
        rows: In<'_, f32>,
        factors: In<'_, f32>,
        shifts: In<'_, f32>,
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        check_lengths(factors.len(), self.columns)?;
        check_lengths(shifts.len(), self.columns)?;
        check_lengths(output.len(), rows.len())?;
        let (isa, columns) = (self.isa, self.columns);
        // Together as many as are worked on between two reports.
        let together = (poll::CHUNK / columns).max(1) * columns;
        for start in (0..rows.len()).step_by(together) {
            let part = start..rows.len().min(start + together);
            poll::work(part.len() * ELEMENT_NS)?;
            let (rows, output) = (rows.slice(part.clone()), output.slice(part));
            isa.run(Normalise { rows, factors, shifts, output, of: self });
        }
        Ok(())
    }
}

/// Nanoseconds that an element takes at most, about.
const ELEMENT_NS: usize = 8;

/// Elements that are added side by side, as MEAN does.
const LANES: usize = 16;

struct Normalise<'a> {
    rows: In<'a, f32>,
    factors: In<'a, f32>,
    shifts: In<'a, f32>,
    output: Out<'a, f32>,
    of: LayerNorm,
}

impl Loop for Normalise<'_> {
    #[inline(always)]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts within 24 bits are exact, others near enough"
    )]
    fn run(self) {
        let Self { rows, factors, shifts, output, of: LayerNorm { columns, little, .. } } = self;
        let count = columns as f32;
        let whole = columns / LANES * LANES;
        for start in (0..rows.len() / columns * columns).step_by(columns) {
            let (row, to) =
                (rows.slice(start..start + columns), output.slice(start..start + columns));
            let mean = sum(row, |x| x) / count;
            let square = |x: f32| (x - mean) * (x - mean);
            let inverse = 1.0 / (sum(row, square) / count + little).sqrt();
            let result = |x: f32, factor: f32, shift: f32| {
                let factor = inverse * factor;
                x * factor + (shift - mean * factor)
            };
            for at in (0..whole).step_by(LANES) {
                let (xs, factors) = (row.block::<LANES>(at), factors.block::<LANES>(at));
                let shifts = shifts.block::<LANES>(at);
                let mut ys = [0.0; LANES];
                let operands = xs.iter().zip(&factors).zip(&shifts);
                ys.iter_mut().zip(operands).for_each(|(y, ((&x, &f), &s))| *y = result(x, f, s));
                to.set_block(at, ys);
            }
            for at in whole..columns {
                to.set(at, result(row.get(at), factors.get(at), shifts.get(at)));
            }
        }
    }
}

/// The sum of what `each` makes of a row's elements, in MEAN's order.
#[inline(always)]
fn sum(row: In<'_, f32>, each: impl Fn(f32) -> f32) -> f32 {
    let whole = row.len() / LANES * LANES;
    let mut lanes = [0.0; LANES];
    for at in (0..whole).step_by(LANES) {
        let xs = row.block::<LANES>(at);
        lanes.iter_mut().zip(xs).for_each(|(lane, x)| *lane += each(x));
    }
    for half in [LANES / 2, LANES / 4, LANES / 8, LANES / 16] {
        (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
    }
    (whole..row.len()).fold(lanes[0], |sum, at| sum + each(row.get(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One operator behind the other, over a row.
    fn defined(row: &[f32], factors: &[f32], shifts: &[f32], little: f32) -> Vec<f32> {
        let mean_of = |xs: &[f32]| {
            let (blocks, rest) = xs.as_chunks::<LANES>();
            let mut lanes = [0.0f32; LANES];
            for block in blocks {
                for (lane, x) in lanes.iter_mut().zip(block) {
                    *lane += x;
                }
            }
            let mut lanes = lanes.to_vec();
            while lanes.len() > 1 {
                let upper = lanes.split_off(lanes.len() / 2);
                lanes.iter_mut().zip(upper).for_each(|(lane, x)| *lane += x);
            }
            rest.iter().fold(lanes[0], |sum, x| sum + x) / xs.len() as f32
        };
        let mean = mean_of(row);
        let squares: Vec<f32> = row.iter().map(|x| (x - mean) * (x - mean)).collect();
        let inverse = 1.0 / (mean_of(&squares) + little).sqrt();
        let columns = row.iter().zip(factors).zip(shifts);
        let result = |((x, factor), shift): ((&f32, &f32), &f32)| {
            let factor = inverse * factor;
            let (scaled, moved) = (x * factor, mean * factor);
            scaled + (shift - moved)
        };
        columns.map(result).collect()
    }

    #[test]
    fn every_form_gives_the_bits_of_the_operators_one_by_one() {
        let number = |seed: usize| (seed.wrapping_mul(2_654_435_761) % 1000) as f32 / 250.0 - 1.7;
        for isa in Isa::all() {
            for columns in [1, 2, 15, 16, 17, 31, 48, 192, 200] {
                let factors: Vec<f32> = (0..columns).map(|at| number(at + 5)).collect();
                let shifts: Vec<f32> = (0..columns).map(|at| number(at + 77)).collect();
                let mut rows: Vec<f32> = (0..3 * columns).map(number).collect();
                rows[columns] = f32::NAN;
                let rows_of = rows.chunks_exact(columns);
                let want: Vec<f32> =
                    rows_of.flat_map(|row| defined(row, &factors, &shifts, 0.1)).collect();
                let norm = LayerNorm::new(isa, columns, 0.1).unwrap();
                let (of, by) = (In::of(&factors), In::of(&shifts));
                let mut got = vec![9.0; 3 * columns + 1];
                let to = Out::of(&mut got[..3 * columns]);
                norm.compute(In::of(&rows), of, by, to).unwrap();
                let bits = |of: &[f32]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let near =
                    |a: &f32, b: &f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(got.iter().zip(&want).all(|(a, b)| near(a, b)), "{isa:?}, {columns}");
                assert_eq!(bits(&got[3 * columns..]), bits(&[9.0]), "behind the end");
                let to = Out::of(&mut rows);
                norm.compute(to.as_in(), of, by, to).unwrap();
                assert!(rows.iter().zip(&want).all(|(a, b)| near(a, b)), "{isa:?} in place");
            }
        }
    }
}
