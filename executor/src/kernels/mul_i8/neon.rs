//! Eight elements at a time.

use core::arch::aarch64::{
    int32x4_t, vdup_n_u8, vdupq_n_s32, veor_u8, vget_high_u16, vget_low_u16, vld1_u8, vmovl_u8,
    vmovl_u16, vmulq_s32, vreinterpretq_s32_u32, vsubq_s32,
};

use super::{Rows, scalar};
use crate::kernels::requantise::neon::{Lanes, store};

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
            let x = operand(rows.a.add(at), rows.flip, a);
            let y = match rows.step {
                0 => [vdupq_n_s32(i32::from(*rows.b ^ rows.flip) - b); 2],
                _ => operand(rows.b.add(at), rows.flip, b),
            };
            let half = |h: usize| lanes.stored(vmulq_s32(x[h], y[h]));
            store(rows.output.add(at), LANES, [half(0), half(1)]);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}

/// # Safety
/// Eight bytes are there.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn operand(from: *const u8, flip: u8, zero_point: i32) -> [int32x4_t; 2] {
    // SAFETY: as the caller promises.
    let wide = vmovl_u8(veor_u8(unsafe { vld1_u8(from) }, vdup_n_u8(flip)));
    [vget_low_u16(wide), vget_high_u16(wide)]
        .map(|half| vsubq_s32(vreinterpretq_s32_u32(vmovl_u16(half)), vdupq_n_s32(zero_point)))
}
