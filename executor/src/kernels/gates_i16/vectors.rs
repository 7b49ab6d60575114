//! Vector by vector; the last few numbers as plain code does them.

use super::{RANGE, Rows, scalar};
use crate::kernels::numbers::{Kernel, Numbers};

pub(super) struct Add;

impl Kernel for Add {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<V: Numbers>(rows: &Rows) {
        let whole = rows.len / V::LANES * V::LANES;
        // SAFETY: scalings are as wide as a vector; whole vectors and what is left are within the rows.
        unsafe {
            let (a, b) =
                (V::multipliers(&rows.scalings[0], 0), V::multipliers(&rows.scalings[1], 0));
            let (low, high) = (V::splat(RANGE.0), V::splat(RANGE.1));
            for at in (0..whole).step_by(V::LANES) {
                let x = V::load(rows.inputs[0].add(at)).stored(&a);
                let y = V::load(rows.inputs[1].add(at)).stored(&b);
                x.add(y).clamp(low, high).store(rows.output.add(at));
            }
            scalar::from(rows, whole);
        }
    }
}
