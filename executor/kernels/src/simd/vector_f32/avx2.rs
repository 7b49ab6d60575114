//! Eight floats.

use core::arch::x86_64::{
    __m128, __m256, __m256i, _CMP_LT_OQ, _CMP_NGE_UQ, _CMP_NLE_UQ, _mm_add_ps, _mm_castps_si128,
    _mm_cvtss_f32, _mm_loadu_si128, _mm_max_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_shuffle_ps,
    _mm_storel_epi64, _mm_storeu_ps, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps,
    _mm256_and_si256, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_castps_si256,
    _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cmpeq_epi32,
    _mm256_cmpgt_epi32, _mm256_cvtepi32_ps, _mm256_cvtph_ps, _mm256_cvtps_epi32, _mm256_div_ps,
    _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_hadd_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_maskload_ps, _mm256_max_ps, _mm256_min_ps, _mm256_movemask_ps, _mm256_mul_ps,
    _mm256_or_ps, _mm256_permutevar8x32_ps, _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setr_epi32, _mm256_slli_epi32, _mm256_srai_epi32, _mm256_storeu_ps, _mm256_sub_epi32,
    _mm256_sub_ps,
};

use half::f16;

use super::{F32Lanes, F32Simd, HALF_ROOT};
use crate::simd::Avx2;
use crate::simd::vector_f64::F64x8;

#[derive(Clone, Copy)]
pub(crate) struct F32x8(pub(crate) __m256);

/// As a lane's number.
#[inline(always)]
fn number(lane: usize) -> i32 {
    i32::try_from(lane).unwrap_or(i32::MAX)
}

/// `2^n` of numbers whose powers are neither below the normal floats nor above all.
///
/// # Safety
/// The machine has the instruction set.
#[inline(always)]
unsafe fn power_of_two(n: __m256i) -> __m256 {
    // SAFETY: as the caller promises.
    unsafe {
        let exponent = _mm256_add_epi32(n, _mm256_set1_epi32(127));
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
    }
}

impl F32Lanes for F32x8 {
    type F64 = F64x8;

    #[inline(always)]
    fn filled(self, x: f32) -> Self {
        Self::splat(self.isa(), x)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_div_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_fmadd_ps(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_min_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // NaN stays: of an unordered pair these return the second operand.
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_min_ps(high.0, _mm256_max_ps(low.0, self.0)) })
    }

    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_round_ps::<0>(self.0) })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let n = _mm256_max_ps(_mm256_set1_ps(-126.0), self.0);
            Self(power_of_two(_mm256_cvtps_epi32(n)))
        }
    }

    #[inline(always)]
    fn scaled(self, n: Self) -> Self {
        // In two factors, since 2^n may be above or below what one float holds.
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let n = _mm256_cvtps_epi32(n.0);
            let half = _mm256_srai_epi32::<1>(n);
            let y = _mm256_mul_ps(self.0, power_of_two(half));
            Self(_mm256_mul_ps(y, power_of_two(_mm256_sub_epi32(n, half))))
        }
    }

    #[inline(always)]
    fn split(self) -> [Self; 2] {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let above = _mm256_sub_epi32(bits, _mm256_set1_epi32(HALF_ROOT));
            let n = _mm256_srai_epi32::<23>(above);
            let rest = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(n));
            [Self(_mm256_cvtepi32_ps(n)), Self(_mm256_castsi256_ps(rest))]
        }
    }

    #[inline(always)]
    fn negative(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_or_ps(self.0, _mm256_set1_ps(-0.0)) })
    }

    #[inline(always)]
    fn with_signs(self, of: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            Self(_mm256_or_ps(_mm256_andnot_ps(sign, self.0), _mm256_and_ps(sign, of.0)))
        }
    }

    #[inline(always)]
    fn where_negative(self, of: Self, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_blendv_ps(others.0, self.0, of.0) })
    }

    #[inline(always)]
    fn where_less(self, a: Self, b: Self, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let mask = _mm256_cmp_ps::<_CMP_LT_OQ>(a.0, b.0);
            Self(_mm256_blendv_ps(others.0, self.0, mask))
        }
    }

    #[inline(always)]
    fn is_any_outside(self, low: f32, high: f32) -> bool {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let below = _mm256_cmp_ps::<_CMP_NGE_UQ>(self.0, self.filled(low).0);
            let above = _mm256_cmp_ps::<_CMP_NLE_UQ>(self.0, self.filled(high).0);
            _mm256_movemask_ps(_mm256_or_ps(below, above)) != 0
        }
    }
}

impl F32Simd for F32x8 {
    type Isa = Avx2;

    const LANES: usize = 8;

    #[inline(always)]
    fn isa(self) -> Avx2 {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Avx2::new_unchecked() }
    }

    #[inline(always)]
    fn splat(_: Avx2, x: f32) -> Self {
        // SAFETY: `Avx2` proves the instruction set.
        Self(unsafe { _mm256_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx2, from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_first(_: Avx2, from: *const f32, count: usize) -> Self {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(number(count)), lanes);
            Self(_mm256_maskload_ps(from, mask))
        }
    }

    #[inline(always)]
    unsafe fn load_halves(_: Avx2, from: *const u16) -> [Self; 2] {
        // SAFETY: as the caller promises.
        unsafe {
            let pairs = _mm256_loadu_si256(from.cast());
            let odd = _mm256_and_si256(pairs, _mm256_set1_epi32(!0xffff));
            let even = _mm256_slli_epi32::<16>(pairs);
            [Self(_mm256_castsi256_ps(even)), Self(_mm256_castsi256_ps(odd))]
        }
    }

    #[inline(always)]
    unsafe fn load_f16(_: Avx2, from: *const f16) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { _mm256_storeu_ps(to, self.0) };
    }

    /// Four, two and one: stores under a mask take some twenty cycles on several machines.
    #[inline(always)]
    unsafe fn store_first(self, mut to: *mut f32, count: usize) {
        // SAFETY: as the caller promises, those of each step; a vector is proof of the instruction
        // set.
        unsafe {
            if count >= Self::LANES {
                return self.store(to);
            }
            let mut rest = _mm256_castps256_ps128(self.0);
            if count & 4 != 0 {
                _mm_storeu_ps(to, rest);
                rest = _mm256_extractf128_ps::<1>(self.0);
                to = to.wrapping_add(4);
            }
            if count & 2 != 0 {
                _mm_storel_epi64(to.cast(), _mm_castps_si128(rest));
                rest = _mm_movehl_ps(rest, rest);
                to = to.wrapping_add(2);
            }
            if count & 1 != 0 {
                to.write_unaligned(_mm_cvtss_f32(rest));
            }
        }
    }

    #[inline(always)]
    unsafe fn store_from_second(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises; a vector is proof of the instruction set.
        unsafe {
            let order = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0);
            Self(_mm256_permutevar8x32_ps(self.0, order)).store_first(to, count - 1);
        }
    }

    #[inline(always)]
    fn first_or(self, count: usize, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(number(count)), lanes);
            Self(_mm256_blendv_ps(others.0, self.0, _mm256_castsi256_ps(mask)))
        }
    }

    #[inline(always)]
    fn with_lane(self, lane: usize, x: f32) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let mask = _mm256_cmpeq_epi32(_mm256_set1_epi32(number(lane)), lanes);
            Self(_mm256_blendv_ps(self.0, _mm256_set1_ps(x), _mm256_castsi256_ps(mask)))
        }
    }

    #[inline(always)]
    fn sums([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: a vector is proof of the instruction set; four floats of our own.
        unsafe {
            let all = _mm256_hadd_ps(_mm256_hadd_ps(a.0, b.0), _mm256_hadd_ps(c.0, d.0));
            let all = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
            _mm_storeu_ps(sums.as_mut_ptr(), all);
        }
        sums
    }

    #[inline(always)]
    fn folded(four: [Self; 4]) -> [f32; 4] {
        folded::<false>(four)
    }

    #[inline(always)]
    fn largest(four: [Self; 4]) -> [f32; 4] {
        folded::<true>(four)
    }
}

/// The sum of the lanes of each, or the largest: the upper half with the lower one until a lane is
/// left.
#[inline(always)]
pub(super) fn folded<const LARGEST: bool>([a, b, c, d]: [F32x8; 4]) -> [f32; 4] {
    let mut results = [0.0; 4];
    // SAFETY: a vector is proof of the instruction set; four floats of our own.
    unsafe {
        let [a, b, c, d] = [
            quarter::<LARGEST>(a),
            quarter::<LARGEST>(b),
            quarter::<LARGEST>(c),
            quarter::<LARGEST>(d),
        ];
        let ab = joined::<LARGEST>(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));
        let cd = joined::<LARGEST>(_mm_movelh_ps(c, d), _mm_movehl_ps(d, c));
        let (even, odd) =
            (_mm_shuffle_ps::<0b1000_1000>(ab, cd), _mm_shuffle_ps::<0b1101_1101>(ab, cd));
        _mm_storeu_ps(results.as_mut_ptr(), joined::<LARGEST>(even, odd));
    }
    results
}

/// # Safety
/// The machine has the instruction set.
#[inline(always)]
unsafe fn quarter<const LARGEST: bool>(x: F32x8) -> __m128 {
    // SAFETY: as the caller promises.
    unsafe { joined::<LARGEST>(_mm256_castps256_ps128(x.0), _mm256_extractf128_ps::<1>(x.0)) }
}

/// # Safety
/// The machine has the instruction set.
#[inline(always)]
unsafe fn joined<const LARGEST: bool>(a: __m128, b: __m128) -> __m128 {
    // SAFETY: as the caller promises.
    unsafe { if LARGEST { _mm_max_ps(a, b) } else { _mm_add_ps(a, b) } }
}
