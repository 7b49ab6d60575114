//! Sixteen at a time; the last few under a mask.

use core::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_and_ps, _mm512_andnot_ps, _mm512_castps_si512, _mm512_div_ps,
    _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_mask_mul_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_movepi32_mask, _mm512_mul_ps,
    _mm512_or_ps, _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_ps, _mm512_sub_ps,
};

use super::{EXP_M1, EXP_RANGE, LN_2, LOG2_E};

const LANES: usize = 16;

/// The same loop around each function.
macro_rules! rows {
    ($name:ident, $vector:ident) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        pub(super) unsafe fn $name(input: *const f32, output: *mut f32, len: usize) {
            for at in (0..len).step_by(LANES) {
                let lanes = (len - at).min(LANES);
                let mask = u16::try_from((1u32 << lanes) - 1).unwrap_or(u16::MAX);
                // SAFETY: the mask keeps both within the rows.
                unsafe {
                    let x = _mm512_maskz_loadu_ps(mask, input.add(at));
                    _mm512_mask_storeu_ps(output.add(at), mask, $vector(x));
                }
            }
        }
    };
}

rows!(sigmoid, sigmoid_vector);
rows!(tanh, tanh_vector);
rows!(exp, exp_vector);

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sigmoid_vector(x: __m512) -> __m512 {
    // The exponential of the negative side never overflows.
    let (e, one) = (exp_vector(negative(x)), _mm512_set1_ps(1.0));
    let r = _mm512_div_ps(one, _mm512_add_ps(one, e));
    // For negative x it is e / (1 + e); a NaN has gone through `e`.
    let below = _mm512_movepi32_mask(_mm512_castps_si512(x));
    _mm512_mask_mul_ps(r, below, r, e)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn tanh_vector(x: __m512) -> __m512 {
    let (n, q) = parts(_mm512_mul_ps(_mm512_set1_ps(2.0), negative(x)));
    // exp(-2|x|) - 1, and its quotient with exp(-2|x|) + 1.
    let power = _mm512_scalef_ps(_mm512_set1_ps(1.0), n);
    let m = _mm512_fmadd_ps(power, q, _mm512_sub_ps(power, _mm512_set1_ps(1.0)));
    let y = _mm512_div_ps(m, _mm512_add_ps(m, _mm512_set1_ps(2.0)));
    let sign = _mm512_set1_ps(-0.0);
    _mm512_or_ps(_mm512_andnot_ps(sign, y), _mm512_and_ps(sign, x))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn exp_vector(x: __m512) -> __m512 {
    let (n, q) = parts(x);
    _mm512_scalef_ps(_mm512_add_ps(q, _mm512_set1_ps(1.0)), n)
}

/// `exp(x)` is `2^n * (1 + q)`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn parts(x: __m512) -> (__m512, __m512) {
    let (low, high) = (_mm512_set1_ps(EXP_RANGE.0), _mm512_set1_ps(EXP_RANGE.1));
    // NaN stays: of an unordered pair these return the second operand.
    let x = _mm512_min_ps(high, _mm512_max_ps(low, x));
    let n = _mm512_roundscale_ps::<0>(_mm512_mul_ps(x, _mm512_set1_ps(LOG2_E)));
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2[0]), x);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2[1]), r);
    let mut p = _mm512_set1_ps(EXP_M1[4]);
    for c in [EXP_M1[3], EXP_M1[2], EXP_M1[1], EXP_M1[0]] {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
    }
    (n, _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r))
}

/// `-|x|`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn negative(x: __m512) -> __m512 {
    _mm512_or_ps(x, _mm512_set1_ps(-0.0))
}
