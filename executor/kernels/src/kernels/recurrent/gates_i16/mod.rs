//! The inputs of quantised cells' gates: two rows of sums, each by a multiplier of its own, added
//! up and saturated to 16 bits at each step.
//!
//! One call does all gates of a cell, one behind the other, since a gate of few units would be over
//! before its first vector is. Each gate is done in whole vectors; what they say of the next gate's
//! units, that says again.

use crate::simd::requantise::{Channels, RequantiseSimd, Scaling};
use crate::simd::vector_i32::I32Simd;
use crate::simd::{Isa, Kernel, Simd, Variant, Variants, variants};
use crate::tensor::quant::Multiplier;

/// Rows of `units` numbers for each gate, and a vector more.
#[derive(Clone, Copy, Debug)]
struct Rows {
    inputs: [*const i32; 2],
    /// Of each gate: of the first row to 16 bits, of the second to more than make a difference; all
    /// lanes alike.
    scalings: [[Channels; 2]; MOST],
    /// Those that are there.
    gates: usize,
    output: *mut i32,
    units: usize,
}

/// # Safety
/// The rows are as long as stated; the machine has the instruction set.
type Run = unsafe fn(&Rows);

/// Best first.
const VARIANTS: Variants<Run> = variants!(AddGates, scalar);

/// Gates of a cell at most.
const MOST: usize = 4;

/// The range of 16 bits.
const RANGE: (i32, i32) = (-32_768, 32_767);

/// Numbers of the longest vector.
pub const LANES: usize = 16;

/// Beyond this a second summand saturates whatever the first is, and below it no sum overflows.
const FAR: i32 = 1 << 20;

/// The gates of a cell.
#[derive(Debug)]
pub struct Gates {
    variant: Variant<Run>,
    scalings: Vec<[Scaling; 2]>,
    units: usize,
}

impl Gates {
    /// With the multipliers of both rows for each gate, of which there are up to four.
    pub fn new(isa: Isa, units: usize, multipliers: impl Iterator<Item = [Multiplier; 2]>) -> Self {
        let scaling = |m, (low, high)| Scaling::new(&[m], LANES, 0, low, high);
        let both = |[first, second]: [Multiplier; 2]| {
            [scaling(first, RANGE), scaling(second, (-FAR, FAR))]
        };
        let scalings = multipliers.take(MOST).map(both).collect();
        Self { variant: VARIANTS.best(isa), scalings, units }
    }

    /// The numbers of a row: those of all gates, and a vector whose end means nothing.
    pub fn row(&self) -> usize {
        self.scalings.len() * self.units + LANES
    }

    /// `output = saturated(saturated(a * first) + b * second)`, each product rounded twice.
    ///
    /// # Errors
    /// One is shorter than [`Gates::row`].
    pub fn compute(&self, a: &[i32], b: &[i32], output: &mut [i32]) -> Result<(), String> {
        crate::tensor::check_lengths(a.len().min(b.len()).min(output.len()), self.row())?;
        let Some(any) = self.scalings.first() else { return Ok(()) };
        let mut scalings = [[any[0].from(0); 2]; MOST];
        for (channels, scaling) in scalings.iter_mut().zip(&self.scalings) {
            *channels = [scaling[0].from(0), scaling[1].from(0)];
        }
        let rows = Rows {
            inputs: [a.as_ptr(), b.as_ptr()],
            scalings,
            gates: self.scalings.len(),
            output: output.as_mut_ptr(),
            units: self.units,
        };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&rows) };
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(rows: &Rows) {
    for (gate, [a, b]) in rows.scalings.iter().enumerate().take(rows.gates) {
        let first = gate * rows.units;
        for at in first..first + rows.units.next_multiple_of(LANES) {
            // SAFETY: within the rows; there is a first channel.
            unsafe {
                let x = a.stored(*rows.inputs[0].add(at), 0);
                let y = b.stored(*rows.inputs[1].add(at), 0);
                *rows.output.add(at) = (x + y).clamp(RANGE.0, RANGE.1);
            }
        }
    }
}

/// The same, vector by vector.
struct AddGates;

impl Kernel for AddGates {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, rows: &Rows) {
        for (gate, [a, b]) in rows.scalings.iter().enumerate().take(rows.gates) {
            let first = gate * rows.units;
            // SAFETY: scalings are as wide as a vector, and whole vectors are within the rows.
            unsafe {
                let (a, b) = (S::I32::multipliers(isa, a, 0), S::I32::multipliers(isa, b, 0));
                let (low, high) = (S::I32::splat(isa, RANGE.0), S::I32::splat(isa, RANGE.1));
                for at in (first..first + rows.units.next_multiple_of(LANES)).step_by(S::I32::LANES)
                {
                    let x = S::I32::load(isa, rows.inputs[0].add(at)).stored(&a);
                    let y = S::I32::load(isa, rows.inputs[1].add(at)).stored(&b);
                    x.add(y).clamp(low, high).store(rows.output.add(at));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_saturates_and_rounds_alike() {
        let number = |at: usize| match at % 9 {
            0 => i32::MAX,
            1 => i32::MIN,
            2 => 0,
            _ => {
                (i32::try_from(at.wrapping_mul(2_654_435_761) % (1 << 31)).unwrap() - (1 << 30))
                    >> (at % 23)
            }
        };
        for shift in [-31, -12, -3, 0, 1, 9] {
            let multipliers = [
                Multiplier { fraction: 1_518_500_250, shift },
                Multiplier { fraction: (1 << 30) + 77, shift: shift / 2 },
            ];
            for variant in VARIANTS.all() {
                for (gates, units) in [(4, 1), (3, 7), (4, 16), (4, 20), (1, 33), (4, 80)] {
                    // Two kinds in turn.
                    let kinds = |at: usize| [multipliers[at % 2], multipliers[(at + 1) % 2]];
                    let cell = Gates::new(variant.isa, units, (0..gates).map(kinds));
                    let a: Vec<i32> = (0..cell.row()).map(number).collect();
                    let b: Vec<i32> = (0..cell.row()).map(|at| number(at + 5)).collect();
                    let mut got = vec![0; cell.row()];
                    cell.compute(&a, &b, &mut got).unwrap();
                    for (at, &got) in got.iter().enumerate().take(gates * units) {
                        let [first, second] = kinds(at / units);
                        let sum = first.apply(a[at]).clamp(RANGE.0, RANGE.1);
                        let want = sum.saturating_add(second.apply(b[at]));
                        let want = want.clamp(RANGE.0, RANGE.1);
                        assert_eq!(got, want, "{:?} {shift}: {} and {}", variant.isa, a[at], b[at]);
                    }
                    assert!(got.iter().all(|got| (RANGE.0..=RANGE.1).contains(got)));
                }
            }
        }
        let one = Multiplier { fraction: 1 << 30, shift: 1 };
        let gates = Gates::new(Isa::Scalar, 1, std::iter::once([one; 2]));
        assert!(gates.compute(&[1; 17], &[1; 16], &mut [0; 17]).is_err());
        assert!(gates.compute(&[1; 17], &[1; 17], &mut [0; 17]).is_ok());
    }
}
