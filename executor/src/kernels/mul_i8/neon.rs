//! Eight elements at a time.

use core::arch::aarch64::{vdupq_n_s32, vmulq_s32};

use super::{Rows, scalar};
use crate::kernels::requantise::neon::{Lanes, differences, store};

const LANES: usize = 8;

#[target_feature(enable = "neon")]
pub(super) unsafe fn mul(rows: &Rows) {
    // SAFETY: there are four channels.
    let lanes = unsafe { Lanes::load(&rows.product, 0) };
    let [a, b] = rows.zero_points;
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: eight elements are there, or one of `b`.
        unsafe {
            let x = differences(rows.a.add(at), rows.flip, a);
            let y = match rows.step {
                0 => [vdupq_n_s32(i32::from(*rows.b ^ rows.flip) - b); 2],
                _ => differences(rows.b.add(at), rows.flip, b),
            };
            let half = |h: usize| lanes.stored(vmulq_s32(x[h], y[h]));
            store(rows.output.add(at), LANES, [half(0), half(1)]);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
