//! Four at a time; the last few through a vector of our own.

use core::arch::aarch64::{
    float32x4_t, int32x4_t, vaddq_f32, vaddq_s32, vbslq_f32, vcltzq_s32, vcvtnq_s32_f32, vdivq_f32,
    vdupq_n_f32, vdupq_n_s32, vdupq_n_u32, vfmaq_f32, vfmsq_f32, vld1q_f32, vmaxq_f32, vminq_f32,
    vmulq_f32, vorrq_u32, vreinterpretq_f32_s32, vreinterpretq_f32_u32, vreinterpretq_s32_f32,
    vreinterpretq_u32_f32, vrndnq_f32, vshlq_n_s32, vshrq_n_s32, vst1q_f32, vsubq_f32, vsubq_s32,
};

use super::{EXP_M1, EXP_RANGE, LN_2, LOG2_E};

const LANES: usize = 4;
const SIGN: u32 = 1 << 31;

/// The same loop around each function.
macro_rules! rows {
    ($name:ident, $vector:ident) => {
        #[target_feature(enable = "neon")]
        pub(super) unsafe fn $name(input: *const f32, output: *mut f32, len: usize) {
            let whole = len / LANES * LANES;
            for at in (0..whole).step_by(LANES) {
                // SAFETY: four floats are there.
                unsafe { vst1q_f32(output.add(at), $vector(vld1q_f32(input.add(at)))) };
            }
            let mut rest = [0.0f32; LANES];
            // SAFETY: fewer than four floats of the rows, and four of our own.
            unsafe {
                let bytes = (len - whole) * size_of::<f32>();
                let last = rest.as_mut_ptr().cast::<u8>();
                last.copy_from_nonoverlapping(input.add(whole).cast(), bytes);
                vst1q_f32(rest.as_mut_ptr(), $vector(vld1q_f32(rest.as_ptr())));
                last.copy_to_nonoverlapping(output.add(whole).cast(), bytes);
            }
        }
    };
}

rows!(sigmoid, sigmoid_vector);
rows!(tanh, tanh_vector);
rows!(exp, exp_vector);

#[inline]
#[target_feature(enable = "neon")]
fn sigmoid_vector(x: float32x4_t) -> float32x4_t {
    // The exponential of the negative side never overflows.
    let (e, one) = (exp_vector(negative(x)), vdupq_n_f32(1.0));
    let r = vdivq_f32(one, vaddq_f32(one, e));
    // For negative x it is e / (1 + e); a NaN has gone through `e`.
    vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(x)), vmulq_f32(r, e), r)
}

#[inline]
#[target_feature(enable = "neon")]
fn tanh_vector(x: float32x4_t) -> float32x4_t {
    // 2^n must not leave the normal numbers; long before, the result is 1.
    let twice = vmulq_f32(vdupq_n_f32(2.0), negative(x));
    let (n, q) = parts(vmaxq_f32(vdupq_n_f32(-80.0), twice));
    // exp(-2|x|) - 1, and its quotient with exp(-2|x|) + 1.
    let power = power_of_two(n);
    let m = vfmaq_f32(vsubq_f32(power, vdupq_n_f32(1.0)), power, q);
    let y = vdivq_f32(m, vaddq_f32(m, vdupq_n_f32(2.0)));
    vbslq_f32(vdupq_n_u32(SIGN), x, y)
}

#[inline]
#[target_feature(enable = "neon")]
fn exp_vector(x: float32x4_t) -> float32x4_t {
    let (n, q) = parts(x);
    // In two factors, since 2^n may be above or below what one float holds.
    let half = vshrq_n_s32::<1>(n);
    let y = vmulq_f32(vaddq_f32(q, vdupq_n_f32(1.0)), power_of_two(half));
    vmulq_f32(y, power_of_two(vsubq_s32(n, half)))
}

/// `exp(x)` is `2^n * (1 + q)`.
#[inline]
#[target_feature(enable = "neon")]
fn parts(x: float32x4_t) -> (int32x4_t, float32x4_t) {
    // NaN stays: these instructions hand it on.
    let x = vmaxq_f32(vdupq_n_f32(EXP_RANGE.0), x);
    let x = vminq_f32(vdupq_n_f32(EXP_RANGE.1), x);
    let n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(LOG2_E)));
    let r = vfmsq_f32(x, n, vdupq_n_f32(LN_2[0]));
    let r = vfmsq_f32(r, n, vdupq_n_f32(LN_2[1]));
    let mut p = vdupq_n_f32(EXP_M1[4]);
    for c in [EXP_M1[3], EXP_M1[2], EXP_M1[1], EXP_M1[0]] {
        p = vfmaq_f32(vdupq_n_f32(c), p, r);
    }
    (vcvtnq_s32_f32(n), vfmaq_f32(r, vmulq_f32(r, r), p))
}

/// `2^n` for normal numbers.
#[inline]
#[target_feature(enable = "neon")]
fn power_of_two(n: int32x4_t) -> float32x4_t {
    vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))))
}

/// `-|x|`.
#[inline]
#[target_feature(enable = "neon")]
fn negative(x: float32x4_t) -> float32x4_t {
    vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(SIGN)))
}
