//! Two 16-bit integers in a word: the instruction for 8-bit ones saturates.

use core::arch::x86_64::{_mm256_add_epi32, _mm256_madd_epi16};

use super::Dot;
use crate::simd::Avx2;
use crate::simd::vector_i32::{I32Simd, I32x8};

impl Dot for Avx2 {
    type Sums = I32x8;
    /// 16-bit integers are signed in memory already.
    type Flip = ();
    type Word = I32x8;
    type Words = I32x8;

    #[inline(always)]
    fn vectors(self) -> Self {
        self
    }

    #[inline(always)]
    fn flip(self, _: u8) {}

    #[inline(always)]
    unsafe fn word(self, from: *const u8, (): ()) -> I32x8 {
        // SAFETY: as the caller promises.
        I32x8::splat(self, unsafe { from.cast::<i32>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn words(self, from: *const i32) -> I32x8 {
        // SAFETY: as the caller promises.
        unsafe { I32x8::load(self, from) }
    }

    #[inline(always)]
    fn dot(self, sums: I32x8, word: I32x8, words: I32x8) -> I32x8 {
        // SAFETY: `Avx2` proves the instruction set.
        I32x8(unsafe { _mm256_add_epi32(sums.0, _mm256_madd_epi16(word.0, words.0)) })
    }
}
