//! Thirty-two bytes at a time, then sixteen; of fewer as many as two halves overlap for.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_loadl_epi64, _mm_loadu_si128,
    _mm_max_epi8, _mm_max_epu8, _mm_min_epi8, _mm_min_epu8, _mm_set1_epi8, _mm_storel_epi64,
    _mm_storeu_si128, _mm_unpackhi_epi64, _mm_unpacklo_epi64, _mm256_loadu_si256, _mm256_max_epi8,
    _mm256_max_epu8, _mm256_min_epi8, _mm256_min_epu8, _mm256_set1_epi8, _mm256_storeu_si256,
};

use super::Pooled;
use super::vectors::{ByteVector, FewByteVector, fold};
use crate::simd::Avx2;
use crate::simd::vector_i32::{load_few, store_few};

/// # Safety
/// As for a part; the machine has the instruction set.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run<const SIGNED: bool>(pooled: &Pooled) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = Avx2::new_unchecked();
        fold::<U8x32, U8x16, SIGNED>(isa, isa, pooled);
    };
}

/// Thirty-two bytes; a value proves the instruction set.
#[derive(Clone, Copy)]
struct U8x32(__m256i);

impl ByteVector for U8x32 {
    type Isa = Avx2;

    const LANES: usize = 32;

    #[inline(always)]
    fn splat(_: Avx2, x: u8) -> Self {
        // SAFETY: the proof.
        Self(unsafe { _mm256_set1_epi8(x.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx2, from: *const u8) -> Self {
        // SAFETY: the proof, and as the caller promises.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: a vector is proof of the instruction set, and as the caller promises.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    fn larger<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => _mm256_max_epi8(self.0, other.0),
                false => _mm256_max_epu8(self.0, other.0),
            }
        })
    }

    #[inline(always)]
    fn smaller<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => _mm256_min_epi8(self.0, other.0),
                false => _mm256_min_epu8(self.0, other.0),
            }
        })
    }
}

/// Sixteen bytes; a value proves the instruction set.
#[derive(Clone, Copy)]
pub(super) struct U8x16(__m128i);

impl ByteVector for U8x16 {
    type Isa = Avx2;

    const LANES: usize = 16;

    #[inline(always)]
    fn splat(_: Avx2, x: u8) -> Self {
        // SAFETY: the proof.
        Self(unsafe { _mm_set1_epi8(x.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx2, from: *const u8) -> Self {
        // SAFETY: the proof, and as the caller promises.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: a vector is proof of the instruction set, and as the caller promises.
        unsafe { _mm_storeu_si128(to.cast(), self.0) };
    }

    #[inline(always)]
    fn larger<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => _mm_max_epi8(self.0, other.0),
                false => _mm_max_epu8(self.0, other.0),
            }
        })
    }

    #[inline(always)]
    fn smaller<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => _mm_min_epi8(self.0, other.0),
                false => _mm_min_epu8(self.0, other.0),
            }
        })
    }
}

impl FewByteVector for U8x16 {
    #[inline(always)]
    unsafe fn load_few(_: Avx2, from: *const u8, count: usize) -> Self {
        // SAFETY: the proof; the first and the last ones are within the bytes.
        Self(unsafe {
            match count {
                8.. => {
                    let last = _mm_loadl_epi64(from.add(count - 8).cast());
                    _mm_unpacklo_epi64(_mm_loadl_epi64(from.cast()), last)
                }
                _ => _mm_cvtsi64_si128(load_few(from, count).cast_signed()),
            }
        })
    }

    #[inline(always)]
    unsafe fn store_few(self, to: *mut u8, count: usize) {
        // SAFETY: the proof; the first and the last ones are within the bytes.
        unsafe {
            match count {
                8.. => {
                    _mm_storel_epi64(to.cast(), self.0);
                    let last = _mm_unpackhi_epi64(self.0, self.0);
                    _mm_storel_epi64(to.add(count - 8).cast(), last);
                }
                _ => store_few(_mm_cvtsi128_si64(self.0).cast_unsigned(), to, count),
            }
        }
    }
}
