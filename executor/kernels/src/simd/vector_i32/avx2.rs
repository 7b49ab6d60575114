//! Eight numbers.

use core::arch::x86_64::{
    __m256i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm_cvtsi128_si64, _mm_loadl_epi64,
    _mm_loadu_si128, _mm_set1_epi8, _mm_storel_epi64, _mm_storeu_si128, _mm_unpacklo_epi32,
    _mm_xor_si128, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_ps, _mm256_andnot_si256,
    _mm256_castps_si256, _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32,
    _mm256_cvtepi8_epi32, _mm256_cvtepi16_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32,
    _mm256_cvtps_epi32, _mm256_cvttps_epi32, _mm256_extracti128_si256, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_max_epi32, _mm256_max_epu32, _mm256_max_ps,
    _mm256_min_epi32, _mm256_min_ps, _mm256_movemask_epi8, _mm256_mul_ps, _mm256_mullo_epi32,
    _mm256_permute4x64_epi64, _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setr_epi32, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_srav_epi32,
    _mm256_storeu_si256, _mm256_sub_epi32, _mm256_sub_ps,
};

use super::{I32Simd, first_of, load_few, store_few};
use crate::simd::Avx2;
use crate::simd::vector_f32::F32x8;

#[derive(Clone, Copy)]
pub(crate) struct I32x8(pub(crate) __m256i);

impl I32Simd for I32x8 {
    type Isa = Avx2;

    const LANES: usize = 8;

    #[inline(always)]
    fn isa(self) -> Avx2 {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Avx2::new_unchecked() }
    }

    #[inline(always)]
    fn splat(_: Avx2, x: i32) -> Self {
        // SAFETY: `Avx2` proves the instruction set.
        Self(unsafe { _mm256_set1_epi32(x) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx2, from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn bytes(_: Avx2, from: *const u8, flip: u8) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let bytes = _mm_loadl_epi64(from.cast());
            let flip = _mm_set1_epi8(flip.cast_signed());
            Self(_mm256_cvtepu8_epi32(_mm_xor_si128(bytes, flip)))
        }
    }

    #[inline(always)]
    unsafe fn first_bytes(isa: Avx2, from: *const u8, count: usize, flip: u8) -> Self {
        // SAFETY: as many as the caller promises, or our own eight.
        unsafe {
            if count >= Self::LANES {
                return Self::bytes(isa, from, flip);
            }
            Self::bytes(isa, load_few(from, count).to_le_bytes().as_ptr(), flip)
        }
    }

    #[inline(always)]
    unsafe fn first_signed_bytes(_: Avx2, from: *const u8, count: usize) -> Self {
        // SAFETY: as many as the caller promises, or our own eight.
        unsafe {
            if count >= Self::LANES {
                return Self(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())));
            }
            let few = load_few(from, count).to_le_bytes();
            Self(_mm256_cvtepi8_epi32(_mm_loadl_epi64(few.as_ptr().cast())))
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        // SAFETY: as many as the caller promises; a vector is proof of the instruction set.
        unsafe {
            let bytes = _mm256_shuffle_epi8(self.0, _mm256_set1_epi32(0x0C08_0400));
            let (low, high) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
            let eight = _mm_unpacklo_epi32(low, high);
            if count >= Self::LANES {
                return _mm_storel_epi64(to.cast(), eight);
            }
            store_few(_mm_cvtsi128_si64(eight).cast_unsigned(), to, count);
        }
    }

    #[inline(always)]
    unsafe fn first_words(_: Avx2, from: *const i16, count: usize) -> Self {
        let mut few = [0; Self::LANES];
        // SAFETY: as many as the caller promises, or our own eight.
        unsafe {
            let from = match count >= Self::LANES {
                true => from,
                false => first_of(from, count, &mut few),
            };
            Self(_mm256_cvtepi16_epi32(_mm_loadu_si128(from.cast())))
        }
    }

    #[inline(always)]
    unsafe fn store_words(self, to: *mut i16, count: usize) {
        // SAFETY: as many as the caller promises, or our own eight; a vector is proof of the
        // instruction set.
        unsafe {
            let lower =
                _mm256_setr_epi32(0x0504_0100, 0x0D0C_0908, 0, 0, 0x0504_0100, 0x0D0C_0908, 0, 0);
            let words = _mm256_permute4x64_epi64::<0b10_00>(_mm256_shuffle_epi8(self.0, lower));
            let words = _mm256_castsi256_si128(words);
            if count >= Self::LANES {
                return _mm_storeu_si128(to.cast(), words);
            }
            let mut few = [0; Self::LANES];
            _mm_storeu_si128(few.as_mut_ptr().cast(), words);
            (0..count).for_each(|at| to.add(at).write_unaligned(few[at]));
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_mullo_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add_16(self, numbers: Self, factors: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_add_epi32(self.0, _mm256_madd_epi16(numbers.0, factors.0)) })
    }

    #[inline(always)]
    fn missing(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_andnot_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn first(self, count: usize) -> Self {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            Self(_mm256_and_si256(self.0, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), at)))
        }
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_slli_epi32::<BITS>(self.0) })
    }

    #[inline(always)]
    fn shift_right(self, bits: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_srav_epi32(self.0, bits.0) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_min_epi32(_mm256_max_epi32(self.0, low.0), high.0) })
    }

    #[inline(always)]
    unsafe fn nearest_products(self, factors: *const f32, range: (f32, f32)) -> [Self; 2] {
        let (low, high) = range;
        // SAFETY: as the caller promises; a vector is proof of the instruction set.
        unsafe {
            let real = _mm256_mul_ps(_mm256_cvtepi32_ps(self.0), _mm256_loadu_ps(factors));
            let nearest =
                _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(real);
            let apart = _mm256_andnot_ps(_mm256_set1_ps(-0.0), _mm256_sub_ps(real, nearest));
            let within = _mm256_max_ps(nearest, _mm256_set1_ps(low));
            let within = _mm256_min_ps(within, _mm256_set1_ps(high));
            [Self(_mm256_cvtps_epi32(within)), Self(_mm256_castps_si256(apart))]
        }
    }

    #[inline(always)]
    fn floats(self, _: usize) -> F32x8 {
        // SAFETY: a vector is proof of the instruction set.
        F32x8(unsafe { _mm256_cvtepi32_ps(self.0) })
    }

    #[inline(always)]
    fn whole_parts([floats, _]: [F32x8; 2]) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_cvttps_epi32(floats.0) })
    }

    #[inline(always)]
    fn max_unsigned(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_max_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn any_reaches_unsigned(self, limit: Self) -> bool {
        // Where a number is the greater one it reaches.
        let greater = self.max_unsigned(limit);
        // SAFETY: a vector is proof of the instruction set.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi32(greater.0, self.0)) != 0 }
    }
}
