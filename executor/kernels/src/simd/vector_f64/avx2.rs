//! Eight doubles in two registers.

use core::arch::x86_64::{
    __m256, __m256d, __m256i, _mm256_add_epi32, _mm256_blendv_ps, _mm256_castpd_ps,
    _mm256_castps_si256, _mm256_castps256_ps128, _mm256_castsi256_pd, _mm256_castsi256_ps,
    _mm256_cvtpd_ps, _mm256_cvtps_pd, _mm256_extractf128_ps, _mm256_fmadd_pd, _mm256_loadu_ps,
    _mm256_mul_pd, _mm256_permutevar8x32_ps, _mm256_set_m128, _mm256_set1_pd, _mm256_shuffle_ps,
    _mm256_slli_epi32, _mm256_sub_pd, _mm256_unpackhi_epi32, _mm256_unpacklo_epi32,
};

use crate::simd::vector_f32::{F32x8, F64Simd, PowerTable};

#[derive(Clone, Copy)]
pub(crate) struct F64x8([__m256d; 2]);

/// The numbers of eight at the lanes' places, of which the lowest three bits count.
///
/// # Safety
/// The machine has the instruction set, and eight numbers are readable.
#[inline(always)]
unsafe fn of_eight(from: *const u32, at: __m256i) -> __m256 {
    // SAFETY: as the caller promises.
    unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(from.cast()), at) }
}

/// The numbers of a half of the table at the lanes' places: one of four permutations of
/// eight, chosen by the two bits above.
///
/// # Safety
/// The machine has the instruction set.
#[inline(always)]
unsafe fn look_up(half: &[u32; 32], at: __m256i) -> __m256i {
    let from = half.as_ptr();
    // SAFETY: as the caller promises; four times eight numbers are the half.
    unsafe {
        let odd = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
        let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<27>(at));
        let first = _mm256_blendv_ps(of_eight(from, at), of_eight(from.add(8), at), odd);
        let second = _mm256_blendv_ps(of_eight(from.add(16), at), of_eight(from.add(24), at), odd);
        _mm256_castps_si256(_mm256_blendv_ps(first, second, upper))
    }
}

impl F64Simd for F64x8 {
    type F32 = F32x8;

    #[inline(always)]
    fn widen(F32x8(floats): F32x8) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            [
                _mm256_cvtps_pd(_mm256_castps256_ps128(floats)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(floats)),
            ]
        })
    }

    #[inline(always)]
    fn narrow(self) -> F32x8 {
        let [a, b] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        F32x8(unsafe { _mm256_set_m128(_mm256_cvtpd_ps(b), _mm256_cvtpd_ps(a)) })
    }

    #[inline(always)]
    fn filled(self, x: f64) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self([unsafe { _mm256_set1_pd(x) }; 2])
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [_mm256_sub_pd(a, c), _mm256_sub_pd(b, d)] })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [_mm256_mul_pd(a, c), _mm256_mul_pd(b, d)] })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        let ([a, b], [c, d], [e, f]) = (self.0, factor.0, addend.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [_mm256_fmadd_pd(a, c, e), _mm256_fmadd_pd(b, d, f)] })
    }

    #[inline(always)]
    fn powers(self, table: &PowerTable) -> Self {
        let [a, b] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            // The lower halves of both, two by two, as unpacking takes them apart again.
            let (a, b) = (_mm256_castpd_ps(a), _mm256_castpd_ps(b));
            let n = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
            let high = _mm256_add_epi32(look_up(&table.halves[0], n), _mm256_slli_epi32::<15>(n));
            let low = look_up(&table.halves[1], n);
            let both = [_mm256_unpacklo_epi32(low, high), _mm256_unpackhi_epi32(low, high)];
            Self([_mm256_castsi256_pd(both[0]), _mm256_castsi256_pd(both[1])])
        }
    }
}
