//! Vector by vector.

use super::{LANES, RANGE, Rows};
use crate::simd::vector_i32::{I32Kernel, I32Simd};

pub(super) struct AddGates;

impl I32Kernel for AddGates {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<V: I32Simd>(rows: &Rows) {
        for (gate, [a, b]) in rows.scalings.iter().enumerate().take(rows.gates) {
            let first = gate * rows.units;
            // SAFETY: scalings are as wide as a vector, and whole vectors are within the rows.
            unsafe {
                let (a, b) = (V::multipliers(a, 0), V::multipliers(b, 0));
                let (low, high) = (V::splat(RANGE.0), V::splat(RANGE.1));
                for at in (first..first + rows.units.next_multiple_of(LANES)).step_by(V::LANES) {
                    let x = V::load(rows.inputs[0].add(at)).stored(&a);
                    let y = V::load(rows.inputs[1].add(at)).stored(&b);
                    x.add(y).clamp(low, high).store(rows.output.add(at));
                }
            }
        }
    }
}
