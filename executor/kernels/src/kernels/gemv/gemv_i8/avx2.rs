//! Bytes are widened to 16 bits and multiplied in pairs, since the 8-bit instruction saturates.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_set1_epi8, _mm_set1_epi32, _mm_xor_si128,
    _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16, _mm256_hadd_epi32,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_permute4x64_epi64, _mm256_setzero_si256,
    _mm256_storeu_si256,
};

use super::kernel::{GemvKernel, Panels};
use super::panels::{Keep, PanelSums, panels};
use crate::simd::Avx2;

/// Panels that are summed side by side.
const SIDE: usize = 1;

pub(super) const KERNEL: GemvKernel =
    GemvKernel { run, single, rounded: None, floats: None, signed: false, side: SIDE };

#[target_feature(enable = "avx2")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Pairs, _, SIDE, 2>(Avx2::new_unchecked(), all, &Keep) };
}

#[target_feature(enable = "avx2")]
unsafe fn single(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Pairs, _, SIDE, 1>(Avx2::new_unchecked(), all, &Keep) };
}

/// Two sums per column, of two elements of depth each: those of four columns in each vector.
#[derive(Clone, Copy)]
struct Pairs([__m256i; 4]);

impl PanelSums for Pairs {
    type Isa = Avx2;
    type Word = __m256i;
    type Flip = __m128i;

    const CHAINS: usize = 2;

    #[inline(always)]
    fn zero(_: Avx2) -> Self {
        // SAFETY: `Avx2` proves the instruction set.
        Self([unsafe { _mm256_setzero_si256() }; 4])
    }

    #[inline(always)]
    fn flip(_: Avx2, flip: u8) -> __m128i {
        // SAFETY: `Avx2` proves the instruction set.
        unsafe { _mm_set1_epi8(flip.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn word(_: Avx2, from: *const u32, flip: __m128i) -> __m256i {
        // SAFETY: as the caller promises. Flipped behind the load, which is a broadcast then.
        unsafe {
            let word = _mm_set1_epi32(from.read_unaligned().cast_signed());
            _mm256_cvtepu8_epi16(_mm_xor_si128(word, flip))
        }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, _: Avx2, word: __m256i, line: *const i8) -> Self {
        for (quarter, sums) in self.0.iter_mut().enumerate() {
            // SAFETY: a quarter of the line.
            unsafe {
                let weights = _mm_loadu_si128(line.add(quarter * 16).cast());
                let products = _mm256_madd_epi16(word, _mm256_cvtepi8_epi16(weights));
                *sums = _mm256_add_epi32(*sums, products);
            }
        }
        self
    }

    #[inline(always)]
    fn plus(mut self, _: Avx2, other: Self) -> Self {
        for (sums, others) in self.0.iter_mut().zip(other.0) {
            // SAFETY: `Avx2` proves the instruction set.
            *sums = unsafe { _mm256_add_epi32(*sums, others) };
        }
        self
    }

    #[inline(always)]
    unsafe fn store(self, _: Avx2, start: *const i32, to: *mut i32) {
        let [a, b, c, d] = self.0;
        // SAFETY: as the caller promises, eight columns each; sums are proof of the instruction
        // set.
        unsafe {
            for (at, low, high) in [(0, a, b), (8, c, d)] {
                let both = _mm256_hadd_epi32(low, high);
                let both = _mm256_permute4x64_epi64::<0b1101_1000>(both);
                let all = _mm256_add_epi32(both, _mm256_loadu_si256(start.add(at).cast()));
                _mm256_storeu_si256(to.add(at).cast(), all);
            }
        }
    }
}
