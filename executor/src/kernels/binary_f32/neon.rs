//! Four at a time; the last few one by one.

use core::arch::aarch64::{
    float32x4_t, vaddq_f32, vbslq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vld1q_f32, vmulq_f32,
    vst1q_f32, vsubq_f32,
};

use super::{Kernels, Rows, scalar};

const LANES: usize = 4;

/// Rows of an arithmetic, with the steps from element to element.
macro_rules! kernels {
    ($name:ident, $each:ident) => {
        pub(super) const $name: Kernels = {
            #[target_feature(enable = "neon")]
            unsafe fn run<const A: usize, const B: usize>(rows: &Rows) {
                let whole = rows.len / LANES * LANES;
                let (low, high) = (vdupq_n_f32(rows.low), vdupq_n_f32(rows.high));
                for at in (0..whole).step_by(LANES) {
                    // SAFETY: four elements are there.
                    unsafe {
                        let y = $each(load::<A>(rows.a, at), load::<B>(rows.b, at));
                        // NaN stays: it compares false.
                        let y = vbslq_f32(vcltq_f32(y, low), low, y);
                        vst1q_f32(rows.output.add(at), vbslq_f32(vcgtq_f32(y, high), high, y));
                    }
                }
                let (a, b) = (rows.a.wrapping_add(whole * A), rows.b.wrapping_add(whole * B));
                let output = rows.output.wrapping_add(whole);
                let rest = Rows { a, b, output, len: rows.len - whole, ..*rows };
                let kernel = match (A, B) {
                    (0, _) => scalar::$name[1],
                    (_, 0) => scalar::$name[2],
                    _ => scalar::$name[0],
                };
                // SAFETY: the rest of the rows, with the same steps.
                unsafe { kernel(&rest) };
            }
            [run::<1, 1>, run::<0, 1>, run::<1, 0>]
        };
    };
}

kernels!(ADD, vaddq_f32);
kernels!(SUB, vsubq_f32);
kernels!(MUL, vmulq_f32);

/// # Safety
/// Four elements are there, or one number where the step is 0.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load<const STEP: usize>(from: *const f32, at: usize) -> float32x4_t {
    // SAFETY: as the caller promises.
    unsafe { if STEP == 0 { vdupq_n_f32(from.read_unaligned()) } else { vld1q_f32(from.add(at)) } }
}
