//! Tiles of 6 by 16: 12 sums in registers, two lines of weights, one broadcast.

use core::arch::x86_64::{
    __m256, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps,
    _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::{Kernel, Tile};

pub(super) const KERNEL: Kernel =
    Kernel { rows: ROWS, columns: 16, full: tile::<2>, half: tile::<1> };

const ROWS: usize = 6;
const LANES: usize = 8;

#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises; each arm differs in the number of rows alone.
    unsafe {
        match tile.rows {
            1 => rows::<1, VECTORS>(tile),
            2 => rows::<2, VECTORS>(tile),
            3 => rows::<3, VECTORS>(tile),
            4 => rows::<4, VECTORS>(tile),
            5 => rows::<5, VECTORS>(tile),
            _ => rows::<6, VECTORS>(tile),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const COUNT: usize, const VECTORS: usize>(tile: &Tile) {
    let (mut x, mut w) = (tile.rows_panel, tile.weights_panel);
    let mut bias = [_mm256_setzero_ps(); VECTORS];
    for (v, bias) in bias.iter_mut().enumerate() {
        // SAFETY: the line of bias.
        *bias = unsafe { _mm256_loadu_ps(w.add(v * LANES)) };
    }
    let mut sums = [bias; COUNT];
    for _ in 0..tile.depth {
        // SAFETY: there are `depth` lines behind the bias, and as many of rows.
        unsafe {
            w = w.add(VECTORS * LANES);
            let mut line = [_mm256_setzero_ps(); VECTORS];
            for (v, weights) in line.iter_mut().enumerate() {
                *weights = _mm256_loadu_ps(w.add(v * LANES));
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm256_broadcast_ss(&*x.add(row));
                for (sum, &weights) in sums.iter_mut().zip(&line) {
                    *sum = _mm256_fmadd_ps(value, weights, *sum);
                }
            }
            x = x.add(ROWS);
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: `store` keeps within the tile's columns.
            unsafe { store(tile, row, v, sum) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store(tile: &Tile, row: usize, vector: usize, sum: __m256) {
    // NaN stays: of an unordered pair these return the second operand.
    let y = _mm256_min_ps(_mm256_set1_ps(tile.high), _mm256_max_ps(_mm256_set1_ps(tile.low), sum));
    let lanes = tile.columns.saturating_sub(vector * LANES).min(LANES);
    let at = tile.output.wrapping_add(row * tile.stride + vector * LANES);
    if lanes == LANES {
        // SAFETY: eight columns are there.
        unsafe { _mm256_storeu_ps(at, y) };
        return;
    }
    let mut values = [0.0; LANES];
    // SAFETY: eight floats of our own.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), y) };
    for (lane, &value) in values.iter().enumerate().take(lanes) {
        // SAFETY: a column that is there.
        unsafe { at.add(lane).write_unaligned(value) };
    }
}
