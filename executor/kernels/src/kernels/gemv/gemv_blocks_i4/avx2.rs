//! Products of half bytes and bytes fit 16 bits four times over, so that the instruction that adds
//! pairs of them never saturates.

use core::arch::x86_64::{
    __m256, __m256i, _mm256_add_epi16, _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256,
    _mm256_cvtepi32_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_mul_ps, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_setzero_ps, _mm256_srli_epi16, _mm256_storeu_ps,
};

use super::kernel::{BlockPanels, BlocksKernel};
use super::panels::{BlockSums, panels};
use crate::simd::Avx2;

/// Panels that are summed side by side.
const SIDE: usize = 2;

pub(super) const KERNEL: BlocksKernel = BlocksKernel { run, side: SIDE };

#[target_feature(enable = "avx2")]
unsafe fn run(all: &BlockPanels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Eights, SIDE>(Avx2::new_unchecked(), all) };
}

/// The sums of eight columns in each vector.
#[derive(Clone, Copy)]
struct Eights([__m256i; 2]);

impl BlockSums for Eights {
    type Isa = Avx2;
    type Word = __m256i;
    type Totals = [__m256; 2];

    #[inline(always)]
    fn start(_: Avx2, start: i32) -> Self {
        // SAFETY: `Avx2` proves the instruction set.
        Self([unsafe { _mm256_set1_epi32(start) }; 2])
    }

    #[inline(always)]
    unsafe fn word(_: Avx2, from: *const u32) -> __m256i {
        // SAFETY: as the caller promises.
        unsafe { _mm256_set1_epi32(from.read_unaligned().cast_signed()) }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, _: Avx2, [x, y]: [__m256i; 2], line: *const u8) -> Self {
        for (at, sums) in self.0.iter_mut().enumerate() {
            // SAFETY: half of the line.
            unsafe {
                let weights = _mm256_loadu_si256(line.add(at * 32).cast());
                let half = _mm256_set1_epi8(0x0F);
                let lower = _mm256_and_si256(weights, half);
                let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(weights), half);
                let pairs = _mm256_add_epi16(
                    _mm256_maddubs_epi16(lower, x),
                    _mm256_maddubs_epi16(upper, y),
                );
                *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
        self
    }

    #[inline(always)]
    fn zero(_: Avx2) -> [__m256; 2] {
        // SAFETY: `Avx2` proves the instruction set.
        [unsafe { _mm256_setzero_ps() }; 2]
    }

    #[inline(always)]
    unsafe fn add_to(self, mut totals: [__m256; 2], scales: *const f32) -> [__m256; 2] {
        for (at, (totals, sums)) in totals.iter_mut().zip(self.0).enumerate() {
            // SAFETY: as the caller promises; sums are proof of the instruction set.
            unsafe {
                let scales = _mm256_loadu_ps(scales.add(at * 8));
                *totals = _mm256_add_ps(*totals, _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scales));
            }
        }
        totals
    }

    #[inline(always)]
    unsafe fn store(_: Avx2, totals: [__m256; 2], to: *mut f32) {
        for (at, totals) in totals.into_iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { _mm256_storeu_ps(to.add(at * 8), totals) };
        }
    }
}
