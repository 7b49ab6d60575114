//! `vpdpbusd` of 256 bits; all else as with AVX2.

use core::arch::x86_64::{_mm256_dpbusd_avx_epi32, _mm256_set1_epi8};
use std::hint::black_box;

use super::{Probes, avx2};

pub(super) const PROBES: Probes = Probes { i8: dot, ..avx2::PROBES };

#[target_feature(enable = "avx2,avxvnni")]
unsafe fn dot(rounds: usize) -> u64 {
    let factor = black_box(_mm256_set1_epi8(3));
    let mut sums = [factor; avx2::SUMS];
    for _ in 0..rounds {
        sums.iter_mut().for_each(|sum| *sum = _mm256_dpbusd_avx_epi32(*sum, factor, factor));
    }
    black_box(sums);
    2 * 32 * (avx2::SUMS * rounds) as u64
}
