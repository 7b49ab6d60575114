//! Vector by vector.

use super::{LANES, RANGE, Rows};
use crate::simd::requantise::Requantise;
use crate::simd::vector_i32::I32Simd;
use crate::simd::{Kernel, Simd};

pub(super) struct AddGates;

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
