//! Eight at a time; the last few through a vector of our own.

use core::arch::x86_64::{
    __m256, __m256i, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_andnot_ps,
    _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_cvtps_epi32, _mm256_div_ps, _mm256_fmadd_ps,
    _mm256_fnmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_or_ps,
    _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi32, _mm256_srai_epi32,
    _mm256_storeu_ps, _mm256_sub_epi32, _mm256_sub_ps,
};

use super::{EXP_M1, EXP_RANGE, LN_2, LOG2_E};

const LANES: usize = 8;

/// The same loop around each function.
macro_rules! rows {
    ($name:ident, $vector:ident) => {
        #[target_feature(enable = "avx2,fma")]
        pub(super) unsafe fn $name(input: *const f32, output: *mut f32, len: usize) {
            let whole = len / LANES * LANES;
            for at in (0..whole).step_by(LANES) {
                // SAFETY: eight floats are there.
                unsafe {
                    let x = _mm256_loadu_ps(input.add(at));
                    _mm256_storeu_ps(output.add(at), $vector(x));
                }
            }
            let mut rest = [0.0f32; LANES];
            // SAFETY: fewer than eight floats of the rows, and eight of our own.
            unsafe {
                let bytes = (len - whole) * size_of::<f32>();
                let last = rest.as_mut_ptr().cast::<u8>();
                last.copy_from_nonoverlapping(input.add(whole).cast(), bytes);
                _mm256_storeu_ps(rest.as_mut_ptr(), $vector(_mm256_loadu_ps(rest.as_ptr())));
                last.copy_to_nonoverlapping(output.add(whole).cast(), bytes);
            }
        }
    };
}

rows!(sigmoid, sigmoid_vector);
rows!(tanh, tanh_vector);
rows!(exp, exp_vector);

#[inline]
#[target_feature(enable = "avx2,fma")]
fn sigmoid_vector(x: __m256) -> __m256 {
    // The exponential of the negative side never overflows.
    let (e, one) = (exp_vector(negative(x)), _mm256_set1_ps(1.0));
    let r = _mm256_div_ps(one, _mm256_add_ps(one, e));
    // For negative x it is e / (1 + e); a NaN has gone through `e`.
    _mm256_blendv_ps(r, _mm256_mul_ps(r, e), x)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn tanh_vector(x: __m256) -> __m256 {
    // 2^n must not leave the normal numbers; long before, the result is 1.
    let twice = _mm256_mul_ps(_mm256_set1_ps(2.0), negative(x));
    let (n, q) = parts(_mm256_max_ps(_mm256_set1_ps(-80.0), twice));
    // exp(-2|x|) - 1, and its quotient with exp(-2|x|) + 1.
    let power = power_of_two(n);
    let m = _mm256_fmadd_ps(power, q, _mm256_sub_ps(power, _mm256_set1_ps(1.0)));
    let y = _mm256_div_ps(m, _mm256_add_ps(m, _mm256_set1_ps(2.0)));
    let sign = _mm256_set1_ps(-0.0);
    _mm256_or_ps(_mm256_andnot_ps(sign, y), _mm256_and_ps(sign, x))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_vector(x: __m256) -> __m256 {
    let (n, q) = parts(x);
    // In two factors, since 2^n may be above or below what one float holds.
    let half = _mm256_srai_epi32::<1>(n);
    let y = _mm256_mul_ps(_mm256_add_ps(q, _mm256_set1_ps(1.0)), power_of_two(half));
    _mm256_mul_ps(y, power_of_two(_mm256_sub_epi32(n, half)))
}

/// `exp(x)` is `2^n * (1 + q)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn parts(x: __m256) -> (__m256i, __m256) {
    let (low, high) = (_mm256_set1_ps(EXP_RANGE.0), _mm256_set1_ps(EXP_RANGE.1));
    // NaN stays: of an unordered pair these return the second operand.
    let x = _mm256_min_ps(high, _mm256_max_ps(low, x));
    let n = _mm256_round_ps::<0>(_mm256_mul_ps(x, _mm256_set1_ps(LOG2_E)));
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2[0]), x);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2[1]), r);
    let mut p = _mm256_set1_ps(EXP_M1[4]);
    for c in [EXP_M1[3], EXP_M1[2], EXP_M1[1], EXP_M1[0]] {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(c));
    }
    (_mm256_cvtps_epi32(n), _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r))
}

/// `2^n` for normal numbers.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn power_of_two(n: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
}

/// `-|x|`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn negative(x: __m256) -> __m256 {
    _mm256_or_ps(x, _mm256_set1_ps(-0.0))
}
