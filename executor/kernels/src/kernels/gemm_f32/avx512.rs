//! Tiles of 12 by 32: 24 sums in registers, two lines of weights, one broadcast.

use core::arch::x86_64::{
    __m256, __m512, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_mask_storeu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_set1_ps, _mm256_setzero_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_min_ps,
    _mm512_set1_ps, _mm512_setzero_ps,
};

use super::panels::{Microkernel, Width};
use super::rows::{Line, twelve};
use super::tile::{AHEAD, Tile};

/// Half vectors cost half on cores that split whole ones in two (Zen 4), and nothing extra on
/// others.
pub(super) const KERNEL: Microkernel = Microkernel {
    rows: 12,
    widths: &[
        Width { columns: 8, run: tile::<0, true> },
        Width { columns: 16, run: tile::<1, false> },
        Width { columns: 24, run: tile::<1, true> },
        Width { columns: 32, run: tile::<2, false> },
    ],
};

pub(super) const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn tile<const WHOLE: usize, const HALF: bool>(tile: &Tile) {
    // SAFETY: as the caller promises.
    unsafe { twelve::<Vectors<WHOLE, HALF>>(tile) };
}

/// Some vectors, and half of one more.
#[derive(Clone, Copy)]
pub(super) struct Vectors<const WHOLE: usize, const HALF: bool> {
    pub(super) whole: [__m512; WHOLE],
    /// Zeros without `HALF`.
    pub(super) half: __m256,
}

impl<const WHOLE: usize, const HALF: bool> Line for Vectors<WHOLE, HALF> {
    const COLUMNS: usize = WHOLE * LANES + if HALF { LANES / 2 } else { 0 };

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let mut line = Self { whole: [_mm512_setzero_ps(); WHOLE], half: _mm256_setzero_ps() };
            for (v, vector) in line.whole.iter_mut().enumerate() {
                *vector = _mm512_loadu_ps(from.add(v * LANES));
            }
            if HALF {
                line.half = _mm256_loadu_ps(from.add(WHOLE * LANES));
            }
            line
        }
    }

    #[inline(always)]
    fn fetch(from: *const f32) {
        for at in (0..Self::COLUMNS).step_by(LANES) {
            // SAFETY: a hint, which faults nowhere.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD + at).cast()) };
        }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, x: *const f32, weights: &Self) -> Self {
        // SAFETY: as the caller promises; a line is proof of the instruction set.
        unsafe {
            let x = x.read_unaligned();
            for (sum, &weights) in self.whole.iter_mut().zip(&weights.whole) {
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(x), weights, *sum);
            }
            if HALF {
                self.half = _mm256_fmadd_ps(_mm256_set1_ps(x), weights.half, self.half);
            }
        }
        self
    }

    #[inline(always)]
    unsafe fn store(self, tile: &Tile, row: usize) {
        let output = tile.output.wrapping_add(row * tile.stride);
        let lanes = |from: usize| tile.columns.saturating_sub(from).min(LANES);
        // NaN stays: of an unordered pair min and max return the second operand.
        // SAFETY: lanes beyond the columns are masked out; a line is proof of the instruction set.
        unsafe {
            for (v, &sum) in self.whole.iter().enumerate() {
                let y = _mm512_max_ps(_mm512_set1_ps(tile.low), sum);
                let y = _mm512_min_ps(_mm512_set1_ps(tile.high), y);
                let mask = u16::try_from((1u32 << lanes(v * LANES)) - 1).unwrap_or(u16::MAX);
                _mm512_mask_storeu_ps(output.wrapping_add(v * LANES), mask, y);
            }
            if HALF {
                let y = _mm256_max_ps(_mm256_set1_ps(tile.low), self.half);
                let y = _mm256_min_ps(_mm256_set1_ps(tile.high), y);
                let mask = u8::try_from((1u32 << lanes(WHOLE * LANES)) - 1).unwrap_or(u8::MAX);
                _mm256_mask_storeu_ps(output.wrapping_add(WHOLE * LANES), mask, y);
            }
        }
    }
}
