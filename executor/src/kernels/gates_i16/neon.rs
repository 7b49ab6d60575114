//! Four numbers at a time.

use core::arch::aarch64::{vaddq_s32, vdupq_n_s32, vld1q_s32, vmaxq_s32, vminq_s32, vst1q_s32};

use super::{RANGE, Rows, scalar};
use crate::kernels::requantise::neon::Lanes;

const LANES: usize = 4;

#[target_feature(enable = "neon")]
pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: scalings are as wide as a vector.
    let (a, b) = unsafe { (Lanes::load(&rows.scalings[0], 0), Lanes::load(&rows.scalings[1], 0)) };
    let (low, high) = (vdupq_n_s32(RANGE.0), vdupq_n_s32(RANGE.1));
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: as many numbers are there.
        unsafe {
            let x = a.stored(vld1q_s32(rows.inputs[0].add(at)));
            let y = b.stored(vld1q_s32(rows.inputs[1].add(at)));
            let sum = vminq_s32(vmaxq_s32(vaddq_s32(x, y), low), high);
            vst1q_s32(rows.output.add(at), sum);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
