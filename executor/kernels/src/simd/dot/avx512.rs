//! Four 8-bit integers in a word: unsigned by signed ones, with VNNI.

use core::arch::x86_64::{__m512i, _mm512_dpbusd_epi32, _mm512_set1_epi8, _mm512_xor_si512};

use super::Dot;
use crate::simd::Avx512;
use crate::simd::vector_i32::{I32Simd, I32x16};

impl Dot for Avx512 {
    type Sums = I32x16;
    type Flip = __m512i;
    type Word = __m512i;
    type Words = __m512i;

    #[inline(always)]
    fn vectors(self) -> Self {
        self
    }

    #[inline(always)]
    fn flip(self, flip: u8) -> __m512i {
        // SAFETY: `Avx512` proves the instruction set.
        unsafe { _mm512_set1_epi8(flip.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn word(self, from: *const u8, flip: __m512i) -> __m512i {
        // SAFETY: as the caller promises; `Avx512` proves the instruction set.
        unsafe {
            let word = from.cast::<i32>().read_unaligned();
            _mm512_xor_si512(I32x16::splat(self, word).0, flip)
        }
    }

    #[inline(always)]
    unsafe fn words(self, from: *const i32) -> __m512i {
        // SAFETY: as the caller promises.
        unsafe { I32x16::load(self, from).0 }
    }

    #[inline(always)]
    fn dot(self, sums: I32x16, word: __m512i, words: __m512i) -> I32x16 {
        // SAFETY: `Avx512` proves the instruction set.
        I32x16(unsafe { _mm512_dpbusd_epi32(sums.0, word, words) })
    }
}
