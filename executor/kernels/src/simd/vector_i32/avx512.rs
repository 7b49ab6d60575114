//! Sixteen numbers; what is less than a vector under a mask.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm_maskz_loadu_epi8, _mm_set1_epi8, _mm_xor_si128,
    _mm256_maskz_loadu_epi16, _mm512_abs_ps, _mm512_add_epi32, _mm512_andnot_si512,
    _mm512_castps_si512, _mm512_cmpge_epu32_mask, _mm512_cvtepi8_epi32, _mm512_cvtepi16_epi32,
    _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_cvtps_epi32, _mm512_cvttps_epi32,
    _mm512_dpwssd_epi32, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_cvtepi32_storeu_epi8,
    _mm512_mask_cvtepi32_storeu_epi16, _mm512_maskz_mov_epi32, _mm512_max_epi32, _mm512_max_epu32,
    _mm512_max_ps, _mm512_min_epi32, _mm512_min_ps, _mm512_mul_ps, _mm512_mullo_epi32,
    _mm512_roundscale_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_sllv_epi32, _mm512_srav_epi32,
    _mm512_storeu_si512, _mm512_sub_epi32, _mm512_sub_ps,
};

use super::I32Simd;
use crate::simd::Avx512;
use crate::simd::vector_f32::F32x16;

#[derive(Clone, Copy)]
pub(crate) struct I32x16(pub(crate) __m512i);

/// The lowest `count` bits, at most 16.
#[inline(always)]
fn mask(count: usize) -> u16 {
    u16::try_from((1u32 << count.min(I32x16::LANES)) - 1).unwrap_or(u16::MAX)
}

impl I32Simd for I32x16 {
    type Isa = Avx512;

    const LANES: usize = 16;

    #[inline(always)]
    fn isa(self) -> Avx512 {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Avx512::new_unchecked() }
    }

    #[inline(always)]
    fn splat(_: Avx512, x: i32) -> Self {
        // SAFETY: `Avx512` proves the instruction set.
        Self(unsafe { _mm512_set1_epi32(x) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx512, from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn bytes(_: Avx512, from: *const u8, flip: u8) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let bytes = _mm_loadu_si128(from.cast());
            let flip = _mm_set1_epi8(flip.cast_signed());
            Self(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, flip)))
        }
    }

    #[inline(always)]
    unsafe fn first_bytes(_: Avx512, from: *const u8, count: usize, flip: u8) -> Self {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe {
            let bytes = _mm_maskz_loadu_epi8(mask(count), from.cast());
            let flip = _mm_set1_epi8(flip.cast_signed());
            Self(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, flip)))
        }
    }

    #[inline(always)]
    unsafe fn first_signed_bytes(_: Avx512, from: *const u8, count: usize) -> Self {
        // SAFETY: as the caller promises; what is behind is masked out.
        Self(unsafe { _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask(count), from.cast())) })
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe { _mm512_mask_cvtepi32_storeu_epi8(to.cast(), mask(count), self.0) };
    }

    #[inline(always)]
    unsafe fn first_words(_: Avx512, from: *const i16, count: usize) -> Self {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe { Self(_mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(mask(count), from))) }
    }

    #[inline(always)]
    unsafe fn store_words(self, to: *mut i16, count: usize) {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe { _mm512_mask_cvtepi32_storeu_epi16(to, mask(count), self.0) };
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_mullo_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add_16(self, numbers: Self, factors: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_dpwssd_epi32(self.0, numbers.0, factors.0) })
    }

    #[inline(always)]
    fn missing(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_andnot_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn first(self, count: usize) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_maskz_mov_epi32(mask(count), self.0) })
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        // The intrinsic takes an unsigned constant, which can't be made of a signed one here.
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_sllv_epi32(self.0, _mm512_set1_epi32(BITS)) })
    }

    #[inline(always)]
    fn shift_right(self, bits: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_srav_epi32(self.0, bits.0) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_min_epi32(_mm512_max_epi32(self.0, low.0), high.0) })
    }

    #[inline(always)]
    unsafe fn nearest_products(self, factors: *const f32, range: (f32, f32)) -> [Self; 2] {
        let (low, high) = range;
        // SAFETY: as the caller promises; a vector is proof of the instruction set.
        unsafe {
            let real = _mm512_mul_ps(_mm512_cvtepi32_ps(self.0), _mm512_loadu_ps(factors));
            let nearest = _mm512_roundscale_ps::<8>(real);
            let apart = _mm512_abs_ps(_mm512_sub_ps(real, nearest));
            let within = _mm512_max_ps(nearest, _mm512_set1_ps(low));
            let within = _mm512_min_ps(within, _mm512_set1_ps(high));
            [Self(_mm512_cvtps_epi32(within)), Self(_mm512_castps_si512(apart))]
        }
    }

    #[inline(always)]
    fn floats(self, _: usize) -> F32x16 {
        // SAFETY: a vector is proof of the instruction set.
        F32x16(unsafe { _mm512_cvtepi32_ps(self.0) })
    }

    #[inline(always)]
    fn whole_parts([floats, _]: [F32x16; 2]) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_cvttps_epi32(floats.0) })
    }

    #[inline(always)]
    fn max_unsigned(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_max_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn any_reaches_unsigned(self, limit: Self) -> bool {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { _mm512_cmpge_epu32_mask(self.0, limit.0) != 0 }
    }
}
