//! Tiles as in `avx512`, of elements that are two numbers of 16 bits each: one instruction
//! multiplies both pairs and adds the products, so a tile takes half as many steps.

use core::arch::x86_64::{
    __m256, __m256bh, __m256i, __m512, __m512bh, __m512i, _mm256_dpbf16_ps, _mm256_set1_epi32,
    _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_set1_epi32,
};
use core::mem::transmute;

use super::avx512::{LANES, Vectors};
use super::pairs::Bf16Pairs;
use super::panels::{Microkernel, Width};
use super::rows::{Line, twelve};
use super::tile::Tile;

/// Panels as wide as those of floats.
pub(super) const PAIRS: Bf16Pairs = Bf16Pairs {
    kernel: Microkernel {
        rows: 12,
        widths: &[
            Width { columns: 8, run: tile::<0, true> },
            Width { columns: 16, run: tile::<1, false> },
            Width { columns: 24, run: tile::<1, true> },
            Width { columns: 32, run: tile::<2, false> },
        ],
    },
    round: pairs,
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
unsafe fn tile<const WHOLE: usize, const HALF: bool>(tile: &Tile) {
    // SAFETY: as the caller promises.
    unsafe { twelve::<OfPairs<WHOLE, HALF>>(tile) };
}

/// Weights in pairs, or sums of floats. Vectors of floats and of twice as many halves are the same
/// bits.
#[derive(Clone, Copy)]
struct OfPairs<const WHOLE: usize, const HALF: bool>(Vectors<WHOLE, HALF>);

impl<const WHOLE: usize, const HALF: bool> Line for OfPairs<WHOLE, HALF> {
    const COLUMNS: usize = Vectors::<WHOLE, HALF>::COLUMNS;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { Vectors::load(from) })
    }

    #[inline(always)]
    fn fetch(from: *const f32) {
        Vectors::<WHOLE, HALF>::fetch(from);
    }

    #[inline(always)]
    unsafe fn with_products(mut self, x: *const f32, weights: &Self) -> Self {
        // SAFETY: as the caller promises; a line is proof of the instruction set.
        unsafe {
            let x = x.cast::<i32>().read_unaligned();
            let whole = transmute::<__m512i, __m512bh>(_mm512_set1_epi32(x));
            for (sum, &weights) in self.0.whole.iter_mut().zip(&weights.0.whole) {
                *sum = _mm512_dpbf16_ps(*sum, whole, transmute::<__m512, __m512bh>(weights));
            }
            if HALF {
                let half = transmute::<__m256i, __m256bh>(_mm256_set1_epi32(x));
                let weights = transmute::<__m256, __m256bh>(weights.0.half);
                self.0.half = _mm256_dpbf16_ps(self.0.half, half, weights);
            }
        }
        self
    }

    #[inline(always)]
    unsafe fn store(self, tile: &Tile, row: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.0.store(tile, row) };
    }
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

/// Returns the number of lanes beyond `len` of those that start at element `from`.
fn lanes_missing(len: usize, from: usize) -> u32 {
    let there = len.saturating_sub(from).min(LANES);
    u32::try_from(LANES - there).unwrap_or(0)
}
