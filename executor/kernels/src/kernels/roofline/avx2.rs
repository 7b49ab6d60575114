//! Eight lanes: FMA; `vpmaddwd` and an addition, which is what an exact product of bytes takes
//! here.

use core::arch::x86_64::{
    _mm256_add_epi32, _mm256_fmadd_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_or_si256,
    _mm256_set1_epi16, _mm256_set1_ps, _mm256_setzero_si256,
};
use std::hint::black_box;

use super::Probes;

pub(super) const PROBES: Probes = Probes { f32: multiply_add, i8: dot, read };

/// Sums that don't wait for each other: two units, four or more cycles each.
pub(super) const SUMS: usize = 12;

#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_add(rounds: usize) -> u64 {
    let factor = black_box(_mm256_set1_ps(0.5));
    let mut sums = [factor; SUMS];
    for _ in 0..rounds {
        sums.iter_mut().for_each(|sum| *sum = _mm256_fmadd_ps(factor, *sum, *sum));
    }
    black_box(sums);
    2 * 8 * (SUMS * rounds) as u64
}

#[target_feature(enable = "avx2")]
unsafe fn dot(rounds: usize) -> u64 {
    let factor = black_box(_mm256_set1_epi16(3));
    let mut sums = [factor; SUMS];
    for _ in 0..rounds {
        // The sum itself is a factor, else the product would be taken out of the loop.
        let step = |sum: &mut _| *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*sum, factor));
        sums.iter_mut().for_each(step);
    }
    black_box(sums);
    2 * 16 * (SUMS * rounds) as u64
}

#[target_feature(enable = "avx2")]
unsafe fn read(memory: &[u8]) {
    let mut all = [_mm256_setzero_si256(); 8];
    for line in memory.as_chunks::<256>().0 {
        for (all, bytes) in all.iter_mut().zip(line.as_chunks::<32>().0) {
            // SAFETY: thirty-two bytes.
            *all = _mm256_or_si256(*all, unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) });
        }
    }
    black_box(all);
}
