//! Eight elements at a time.

use core::arch::aarch64::{vaddq_s32, vshlq_n_s32};

use super::{EXTRA_BITS, Rows, scalar};
use crate::kernels::requantise::neon::{Lanes, differences, store};

const LANES: usize = 8;

#[target_feature(enable = "neon")]
pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: scalings are as wide as a vector.
    let (a, b, sum) = unsafe {
        (
            Lanes::load(&rows.scalings[0], 0),
            Lanes::load(&rows.scalings[1], 0),
            Lanes::load(&rows.sum, 0),
        )
    };
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: eight elements are there.
        unsafe {
            let x = differences(rows.a.add(at), rows.flip, rows.zero_points[0]);
            let y = differences(rows.b.add(at), rows.flip, rows.zero_points[1]);
            let more = |v| vshlq_n_s32::<EXTRA_BITS>(v);
            let half = |h: usize| sum.stored(vaddq_s32(a.scaled(more(x[h])), b.scaled(more(y[h]))));
            store(rows.output.add(at), LANES, [half(0), half(1)]);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
