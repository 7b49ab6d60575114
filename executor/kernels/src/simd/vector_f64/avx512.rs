//! Sixteen doubles in two registers.

use core::arch::x86_64::{
    __m512d, __m512i, _mm512_add_epi32, _mm512_castpd_ps, _mm512_castps_si512,
    _mm512_castps256_ps512, _mm512_castps512_ps256, _mm512_castsi512_pd, _mm512_cvtpd_ps,
    _mm512_cvtps_pd, _mm512_extractf32x8_ps, _mm512_fmadd_pd, _mm512_insertf32x8,
    _mm512_loadu_si512, _mm512_mul_pd, _mm512_permutex2var_epi32, _mm512_set1_pd,
    _mm512_shuffle_ps, _mm512_slli_epi32, _mm512_sub_pd, _mm512_unpackhi_epi32,
    _mm512_unpacklo_epi32,
};

use crate::simd::vector_f32::{F32x16, F64Simd, PowerTable};

#[derive(Clone, Copy)]
pub(crate) struct F64x16([__m512d; 2]);

/// The numbers of a half of the table at the lanes' places.
///
/// # Safety
/// The machine has the instruction set.
#[inline(always)]
unsafe fn look_up(half: &[u32; 32], at: __m512i) -> __m512i {
    // SAFETY: as the caller promises; both registers are within the half.
    unsafe {
        let from = half.as_ptr();
        let [first, second] =
            [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(16).cast())];
        // The lowest five bits count.
        _mm512_permutex2var_epi32(first, at, second)
    }
}

impl F64Simd for F64x16 {
    type F32 = F32x16;

    #[inline(always)]
    fn widen(F32x16(floats): F32x16) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            [
                _mm512_cvtps_pd(_mm512_castps512_ps256(floats)),
                _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(floats)),
            ]
        })
    }

    #[inline(always)]
    fn narrow(self) -> F32x16 {
        let [a, b] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        F32x16(unsafe {
            let lower = _mm512_castps256_ps512(_mm512_cvtpd_ps(a));
            _mm512_insertf32x8::<1>(lower, _mm512_cvtpd_ps(b))
        })
    }

    #[inline(always)]
    fn filled(self, x: f64) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self([unsafe { _mm512_set1_pd(x) }; 2])
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [_mm512_sub_pd(a, c), _mm512_sub_pd(b, d)] })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [_mm512_mul_pd(a, c), _mm512_mul_pd(b, d)] })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        let ([a, b], [c, d], [e, f]) = (self.0, factor.0, addend.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [_mm512_fmadd_pd(a, c, e), _mm512_fmadd_pd(b, d, f)] })
    }

    #[inline(always)]
    fn powers(self, table: &PowerTable) -> Self {
        let [a, b] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let (a, b) = (_mm512_castpd_ps(a), _mm512_castpd_ps(b));
            // The lower halves of both, two by two, as unpacking takes them apart again.
            let n = _mm512_castps_si512(_mm512_shuffle_ps::<0b10_00_10_00>(a, b));
            let high = _mm512_add_epi32(look_up(&table.halves[0], n), _mm512_slli_epi32::<15>(n));
            let low = look_up(&table.halves[1], n);
            let both = [_mm512_unpacklo_epi32(low, high), _mm512_unpackhi_epi32(low, high)];
            Self([_mm512_castsi512_pd(both[0]), _mm512_castsi512_pd(both[1])])
        }
    }
}
