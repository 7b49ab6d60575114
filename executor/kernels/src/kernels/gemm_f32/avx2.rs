//! Tiles of 6 by 16: 12 sums in registers, two lines of weights, one broadcast.

use core::arch::x86_64::{
    __m256, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps,
    _mm256_min_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::panels::{Microkernel, Width};
use super::rows::{Line, six};
use super::tile::{AHEAD, Tile};

pub(super) const KERNEL: Microkernel = Microkernel {
    rows: 6,
    widths: &[Width { columns: 8, run: tile::<1> }, Width { columns: 16, run: tile::<2> }],
};

const LANES: usize = 8;

#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises.
    unsafe { six::<Vectors<VECTORS>>(tile) };
}

#[derive(Clone, Copy)]
struct Vectors<const COUNT: usize>([__m256; COUNT]);

impl<const COUNT: usize> Line for Vectors<COUNT> {
    const COLUMNS: usize = COUNT * LANES;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let mut line = [_mm256_setzero_ps(); COUNT];
            for (v, vector) in line.iter_mut().enumerate() {
                *vector = _mm256_loadu_ps(from.add(v * LANES));
            }
            Self(line)
        }
    }

    #[inline(always)]
    fn fetch(from: *const f32) {
        // SAFETY: a hint, which faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD).cast()) };
    }

    #[inline(always)]
    unsafe fn with_products(mut self, x: *const f32, weights: &Self) -> Self {
        // SAFETY: as the caller promises; a line is proof of the instruction set.
        unsafe {
            let x = _mm256_set1_ps(x.read_unaligned());
            for (sum, &weights) in self.0.iter_mut().zip(&weights.0) {
                *sum = _mm256_fmadd_ps(x, weights, *sum);
            }
        }
        self
    }

    #[inline(always)]
    unsafe fn store(self, tile: &Tile, row: usize) {
        for (v, sum) in self.0.into_iter().enumerate() {
            let lanes = tile.columns.saturating_sub(v * LANES).min(LANES);
            let at = tile.output.wrapping_add(row * tile.stride + v * LANES);
            // SAFETY: columns that are there, or eight floats of our own; a line is proof of the
            // instruction set.
            unsafe {
                // NaN stays: of an unordered pair these return the second operand.
                let y = _mm256_max_ps(_mm256_set1_ps(tile.low), sum);
                let y = _mm256_min_ps(_mm256_set1_ps(tile.high), y);
                if lanes == LANES {
                    _mm256_storeu_ps(at, y);
                    continue;
                }
                let mut values = [0.0; LANES];
                _mm256_storeu_ps(values.as_mut_ptr(), y);
                for (lane, &value) in values.iter().enumerate().take(lanes) {
                    at.add(lane).write_unaligned(value);
                }
            }
        }
    }
}
