//! Eight elements at a time.

use core::arch::aarch64::{
    int32x4_t, vaddq_s32, vdup_n_u8, vdupq_n_s32, veor_u8, vget_high_u16, vget_low_u16, vld1_u8,
    vmovl_u8, vmovl_u16, vreinterpretq_s32_u32, vshlq_n_s32, vsubq_s32,
};

use super::{EXTRA_BITS, Rows, scalar};
use crate::kernels::requantise::neon::{Lanes, store};

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
            let x = operand(rows.a.add(at), rows.flip, rows.zero_points[0]);
            let y = operand(rows.b.add(at), rows.flip, rows.zero_points[1]);
            let half = |h: usize| sum.stored(vaddq_s32(a.scaled(x[h]), b.scaled(y[h])));
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
    let bytes = veor_u8(unsafe { vld1_u8(from) }, vdup_n_u8(flip));
    let wide = vmovl_u8(bytes);
    [vget_low_u16(wide), vget_high_u16(wide)].map(|half| {
        let x = vsubq_s32(vreinterpretq_s32_u32(vmovl_u16(half)), vdupq_n_s32(zero_point));
        vshlq_n_s32::<EXTRA_BITS>(x)
    })
}
