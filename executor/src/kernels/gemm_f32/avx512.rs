//! Tiles of 12 by 32: 24 sums in registers, two lines of weights, one broadcast.

use core::arch::x86_64::{
    __m512, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_min_ps,
    _mm512_set1_ps, _mm512_setzero_ps,
};

use super::{Kernel, Tile};

pub(super) const KERNEL: Kernel =
    Kernel { rows: ROWS, columns: 32, full: tile::<2>, half: tile::<1> };

const ROWS: usize = 12;
const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn tile<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises; each arm differs in the number of rows alone.
    unsafe {
        match tile.rows {
            1 => rows::<1, VECTORS>(tile),
            2 => rows::<2, VECTORS>(tile),
            3 => rows::<3, VECTORS>(tile),
            4 => rows::<4, VECTORS>(tile),
            5 => rows::<5, VECTORS>(tile),
            6 => rows::<6, VECTORS>(tile),
            7 => rows::<7, VECTORS>(tile),
            8 => rows::<8, VECTORS>(tile),
            9 => rows::<9, VECTORS>(tile),
            10 => rows::<10, VECTORS>(tile),
            11 => rows::<11, VECTORS>(tile),
            _ => rows::<12, VECTORS>(tile),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn rows<const COUNT: usize, const VECTORS: usize>(tile: &Tile) {
    let (mut x, mut w) = (tile.rows_panel, tile.weights_panel);
    let mut bias = [_mm512_setzero_ps(); VECTORS];
    for (v, bias) in bias.iter_mut().enumerate() {
        // SAFETY: the line of bias.
        *bias = unsafe { _mm512_loadu_ps(w.add(v * LANES)) };
    }
    let mut sums = [bias; COUNT];
    for _ in 0..tile.depth {
        // SAFETY: there are `depth` lines behind the bias, and as many of rows.
        unsafe {
            w = w.add(VECTORS * LANES);
            let mut line = [_mm512_setzero_ps(); VECTORS];
            for (v, weights) in line.iter_mut().enumerate() {
                *weights = _mm512_loadu_ps(w.add(v * LANES));
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm512_set1_ps(*x.add(row));
                for (sum, &weights) in sums.iter_mut().zip(&line) {
                    *sum = _mm512_fmadd_ps(value, weights, *sum);
                }
            }
            x = x.add(ROWS);
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: the mask keeps the store within the tile's columns.
            unsafe { store(tile, row, v, sum) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn store(tile: &Tile, row: usize, vector: usize, sum: __m512) {
    // NaN stays: of an unordered pair these return the second operand.
    let y = _mm512_min_ps(_mm512_set1_ps(tile.high), _mm512_max_ps(_mm512_set1_ps(tile.low), sum));
    let lanes = tile.columns.saturating_sub(vector * LANES).min(LANES);
    let mask = u16::try_from((1u32 << lanes) - 1).unwrap_or(u16::MAX);
    // SAFETY: lanes beyond the columns are masked out.
    unsafe {
        let at = tile.output.wrapping_add(row * tile.stride + vector * LANES);
        _mm512_mask_storeu_ps(at, mask, y);
    }
}
