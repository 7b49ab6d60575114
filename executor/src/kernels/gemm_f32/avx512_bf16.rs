//! Tiles as in `avx512`, of elements that are two numbers of 16 bits each: one instruction multiplies both pairs and
//! adds the products, so a tile takes half as many steps.

use core::arch::x86_64::{
    __m256, __m256bh, __m256i, __m512, __m512bh, __m512i, _MM_HINT_T0, _mm_prefetch,
    _mm256_castps_si256, _mm256_dpbf16_ps, _mm256_set1_ps, _mm512_castps_si512,
    _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_set1_ps,
};
use core::mem::transmute;

use super::avx512::{LANES, line, store, tiles};
use super::pairs::Pairs;
use super::panels::{Kernel, Width};
use super::tile::{AHEAD, ROWS_PER_BASE, Tile, bases};

/// As wide as those of floats.
pub(super) const PAIRS: Pairs = Pairs { kernel: KERNEL, round: pairs };

tiles!("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma", add, add_half);

/// Vectors of floats and of twice as many halves are the same bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
fn add(x: f32, weights: __m512, sum: __m512) -> __m512 {
    let x = _mm512_castps_si512(_mm512_set1_ps(x));
    // SAFETY: vectors of the same size, of numbers of which all bits are meaningful.
    let (x, weights) =
        unsafe { (transmute::<__m512i, __m512bh>(x), transmute::<__m512, __m512bh>(weights)) };
    _mm512_dpbf16_ps(sum, x, weights)
}

/// As `add`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
fn add_half(x: f32, weights: __m256, sum: __m256) -> __m256 {
    let x = _mm256_castps_si256(_mm256_set1_ps(x));
    // SAFETY: as in `add`.
    let (x, weights) =
        unsafe { (transmute::<__m256i, __m256bh>(x), transmute::<__m256, __m256bh>(weights)) };
    _mm256_dpbf16_ps(sum, x, weights)
}

/// Rounds `len` floats to the nearest pairs, ties to even; a missing last one is 0.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
unsafe fn pairs(from: *const f32, len: usize, to: *mut f32) {
    for at in (0..len).step_by(2 * LANES) {
        let mask = |from: usize| u16::MAX.checked_shr(lanes_missing(len, from)).unwrap_or(0);
        let (low, high) = (mask(at), mask(at + LANES));
        // SAFETY: lanes beyond the floats are masked out, and pairs beyond these.
        unsafe {
            let low = _mm512_maskz_loadu_ps(low, from.wrapping_add(at));
            let high = _mm512_maskz_loadu_ps(high, from.wrapping_add(at + LANES));
            let both = transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low));
            let mask = u16::MAX.checked_shr(lanes_missing(len.div_ceil(2), at / 2)).unwrap_or(0);
            _mm512_mask_storeu_ps(to.wrapping_add(at / 2), mask, both);
        }
    }
}

/// How many of the lanes that start at element `from` are beyond `len`.
fn lanes_missing(len: usize, from: usize) -> u32 {
    let there = len.saturating_sub(from).min(LANES);
    u32::try_from(LANES - there).unwrap_or(0)
}
