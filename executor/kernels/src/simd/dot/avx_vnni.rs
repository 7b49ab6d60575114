//! Four 8-bit integers in a word: unsigned by signed ones, with AVX-VNNI.

use core::arch::x86_64::{__m256i, _mm256_dpbusd_avx_epi32, _mm256_set1_epi8, _mm256_xor_si256};

use super::Dot;
use crate::simd::vector_i32::{I32Simd, I32x8};
use crate::simd::{Avx2, AvxVnni};

impl Dot for AvxVnni {
    type Sums = I32x8;
    type Flip = __m256i;
    type Word = __m256i;
    type Words = __m256i;

    #[inline(always)]
    fn vectors(self) -> Avx2 {
        self.avx2()
    }

    #[inline(always)]
    fn flip(self, flip: u8) -> __m256i {
        // SAFETY: `AvxVnni` proves the instruction set.
        unsafe { _mm256_set1_epi8(flip.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn word(self, from: *const u8, flip: __m256i) -> __m256i {
        // SAFETY: as the caller promises; `AvxVnni` proves the instruction set.
        unsafe {
            let word = from.cast::<i32>().read_unaligned();
            _mm256_xor_si256(I32x8::splat(self.avx2(), word).0, flip)
        }
    }

    #[inline(always)]
    unsafe fn words(self, from: *const i32) -> __m256i {
        // SAFETY: as the caller promises.
        unsafe { I32x8::load(self.avx2(), from).0 }
    }

    #[inline(always)]
    fn dot(self, sums: I32x8, word: __m256i, words: __m256i) -> I32x8 {
        // SAFETY: `AvxVnni` proves the instruction set.
        I32x8(unsafe { _mm256_dpbusd_avx_epi32(sums.0, word, words) })
    }
}
