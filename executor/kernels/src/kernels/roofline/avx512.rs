//! Sixteen lanes: FMA and `vpdpbusd`.

use core::arch::x86_64::{
    _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_or_si512, _mm512_set1_epi8,
    _mm512_set1_ps, _mm512_setzero_si512,
};
use std::hint::black_box;

use super::Probes;

pub(super) const PROBES: Probes = Probes { f32: multiply_add, i8: dot, read };

/// Sums that don't wait for each other: two units, four or more cycles each.
const SUMS: usize = 16;

#[target_feature(enable = "avx512f")]
unsafe fn multiply_add(rounds: usize) -> u64 {
    let factor = black_box(_mm512_set1_ps(0.5));
    let mut sums = [factor; SUMS];
    for _ in 0..rounds {
        sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_ps(factor, *sum, *sum));
    }
    black_box(sums);
    2 * 16 * (SUMS * rounds) as u64
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dot(rounds: usize) -> u64 {
    let factor = black_box(_mm512_set1_epi8(3));
    let mut sums = [factor; SUMS];
    for _ in 0..rounds {
        sums.iter_mut().for_each(|sum| *sum = _mm512_dpbusd_epi32(*sum, factor, factor));
    }
    black_box(sums);
    2 * 64 * (SUMS * rounds) as u64
}

#[target_feature(enable = "avx512f")]
unsafe fn read(memory: &[u8]) {
    let mut all = [_mm512_setzero_si512(); 8];
    for line in memory.as_chunks::<512>().0 {
        for (all, bytes) in all.iter_mut().zip(line.as_chunks::<64>().0) {
            // SAFETY: sixty-four bytes.
            *all = _mm512_or_si512(*all, unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) });
        }
    }
    black_box(all);
}
