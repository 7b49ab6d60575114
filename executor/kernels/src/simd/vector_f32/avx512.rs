//! Sixteen floats; what is less than a vector under a mask.

use core::arch::x86_64::{
    __m512, _CMP_LT_OQ, _CMP_NGE_UQ, _CMP_NLE_UQ, _mm_add_ps, _mm_set_ss, _mm_storeu_ps,
    _mm256_add_ps, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_hadd_ps,
    _mm256_loadu_si256, _mm512_add_ps, _mm512_and_ps, _mm512_and_si512, _mm512_andnot_ps,
    _mm512_castps_si512, _mm512_castps512_ps256, _mm512_castsi512_ps, _mm512_cmp_ps_mask,
    _mm512_cvtepi32_ps, _mm512_cvtph_ps, _mm512_div_ps, _mm512_extractf32x8_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_blend_ps, _mm512_mask_broadcastss_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps,
    _mm512_movepi32_mask, _mm512_mul_ps, _mm512_or_ps, _mm512_roundscale_ps, _mm512_scalef_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32, _mm512_srai_epi32, _mm512_storeu_ps,
    _mm512_sub_epi32, _mm512_sub_ps,
};

use half::f16;

use super::avx2::{F32x8, folded};
use super::{F32Lanes, F32Simd, HALF_ROOT};
use crate::simd::Avx512;
use crate::simd::vector_f64::F64x16;

#[derive(Clone, Copy)]
pub(crate) struct F32x16(pub(crate) __m512);

/// The lowest `count` bits, at most 16.
#[inline(always)]
fn mask(count: usize) -> u16 {
    u16::try_from((1u32 << count.min(F32x16::LANES)) - 1).unwrap_or(u16::MAX)
}

impl F32Lanes for F32x16 {
    type F64 = F64x16;

    #[inline(always)]
    fn filled(self, x: f32) -> Self {
        Self::splat(self.isa(), x)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_div_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_fmadd_ps(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_min_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // NaN stays: of an unordered pair these return the second operand.
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_min_ps(high.0, _mm512_max_ps(low.0, self.0)) })
    }

    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_roundscale_ps::<0>(self.0) })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_scalef_ps(_mm512_set1_ps(1.0), self.0) })
    }

    #[inline(always)]
    fn scaled(self, n: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_scalef_ps(self.0, n.0) })
    }

    #[inline(always)]
    fn split(self) -> [Self; 2] {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let above = _mm512_sub_epi32(bits, _mm512_set1_epi32(HALF_ROOT));
            let n = _mm512_srai_epi32::<23>(above);
            let rest = _mm512_sub_epi32(bits, _mm512_slli_epi32::<23>(n));
            [Self(_mm512_cvtepi32_ps(n)), Self(_mm512_castsi512_ps(rest))]
        }
    }

    #[inline(always)]
    fn negative(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_or_ps(self.0, _mm512_set1_ps(-0.0)) })
    }

    #[inline(always)]
    fn with_signs(self, of: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let sign = _mm512_set1_ps(-0.0);
            Self(_mm512_or_ps(_mm512_andnot_ps(sign, self.0), _mm512_and_ps(sign, of.0)))
        }
    }

    #[inline(always)]
    fn where_negative(self, of: Self, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let mask = _mm512_movepi32_mask(_mm512_castps_si512(of.0));
            Self(_mm512_mask_blend_ps(mask, others.0, self.0))
        }
    }

    #[inline(always)]
    fn where_less(self, a: Self, b: Self, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let mask = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a.0, b.0);
            Self(_mm512_mask_blend_ps(mask, others.0, self.0))
        }
    }

    #[inline(always)]
    fn is_any_outside(self, low: f32, high: f32) -> bool {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let below = _mm512_cmp_ps_mask::<_CMP_NGE_UQ>(self.0, self.filled(low).0);
            below | _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(self.0, self.filled(high).0) != 0
        }
    }
}

impl F32Simd for F32x16 {
    type Isa = Avx512;

    const LANES: usize = 16;

    #[inline(always)]
    fn isa(self) -> Avx512 {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Avx512::new_unchecked() }
    }

    #[inline(always)]
    fn splat(_: Avx512, x: f32) -> Self {
        // SAFETY: `Avx512` proves the instruction set.
        Self(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx512, from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_first(_: Avx512, from: *const f32, count: usize) -> Self {
        // SAFETY: as the caller promises; what is behind is masked out.
        Self(unsafe { _mm512_maskz_loadu_ps(mask(count), from) })
    }

    #[inline(always)]
    unsafe fn load_halves(_: Avx512, from: *const u16) -> [Self; 2] {
        // SAFETY: as the caller promises.
        unsafe {
            let pairs = _mm512_loadu_si512(from.cast());
            let odd = _mm512_and_si512(pairs, _mm512_set1_epi32(!0xffff));
            let even = _mm512_slli_epi32::<16>(pairs);
            [Self(_mm512_castsi512_ps(even)), Self(_mm512_castsi512_ps(odd))]
        }
    }

    #[inline(always)]
    unsafe fn load_f16(_: Avx512, from: *const f16) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { _mm512_storeu_ps(to, self.0) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe { _mm512_mask_storeu_ps(to, mask(count), self.0) };
    }

    #[inline(always)]
    unsafe fn store_from_second(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises; the first, and what is behind, is masked out.
        unsafe { _mm512_mask_storeu_ps(to.wrapping_sub(1), mask(count) & !1, self.0) };
    }

    #[inline(always)]
    fn first_or(self, count: usize, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_mask_blend_ps(mask(count), others.0, self.0) })
    }

    #[inline(always)]
    fn with_lane(self, lane: usize, x: f32) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            _mm512_mask_broadcastss_ps(self.0, mask(lane + 1) & !mask(lane), _mm_set_ss(x))
        })
    }

    #[inline(always)]
    fn sums(four: [Self; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: a vector is proof of the instruction set; four floats of our own.
        unsafe {
            let half = |v: Self| {
                _mm256_add_ps(_mm512_castps512_ps256(v.0), _mm512_extractf32x8_ps::<1>(v.0))
            };
            let [a, b, c, d] = four;
            let all =
                _mm256_hadd_ps(_mm256_hadd_ps(half(a), half(b)), _mm256_hadd_ps(half(c), half(d)));
            let all = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
            _mm_storeu_ps(sums.as_mut_ptr(), all);
        }
        sums
    }

    #[inline(always)]
    fn folded([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        folded::<false>([
            a.half::<false>(),
            b.half::<false>(),
            c.half::<false>(),
            d.half::<false>(),
        ])
    }

    #[inline(always)]
    fn largest([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        folded::<true>([a.half::<true>(), b.half::<true>(), c.half::<true>(), d.half::<true>()])
    }
}

impl F32x16 {
    /// The sum of both halves, or the larger lanes of them.
    #[inline(always)]
    fn half<const LARGER: bool>(self) -> F32x8 {
        // SAFETY: a vector is proof of the instruction set.
        let halves =
            unsafe { [_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0)] };
        let [lower, upper] = halves.map(F32x8);
        if LARGER { lower.larger(upper) } else { lower.add(upper) }
    }
}
