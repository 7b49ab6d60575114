//! Tiles of 6 by 16: 12 sums in registers, two lines of weights, one broadcast.

use core::arch::x86_64::{
    __m256, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps,
    _mm256_min_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::panels::{Kernel, Width};
use super::tile::{AHEAD, ROWS_PER_BASE, Tile, bases};

pub(super) const KERNEL: Kernel = Kernel {
    rows: 6,
    widths: &[Width { columns: 8, run: tile::<1> }, Width { columns: 16, run: tile::<2> }],
};

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
    // SAFETY: a line of bias, as wide as the panel.
    let mut sums = [unsafe { line::<VECTORS>(tile.bias) }; COUNT];
    tile.fetch_next_outputs(COUNT, VECTORS * LANES);
    for segment in tile.segments() {
        let mut w = segment.weights;
        let mut bases: [*const f32; 2] = bases(segment.rows, tile.row_stride);
        for _ in 0..tile.len {
            // SAFETY: the segment has `len` lines of weights, and as many elements of each row.
            unsafe {
                let weights = line::<VECTORS>(w);
                _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(AHEAD).cast());
                for (row, sums) in sums.iter_mut().enumerate() {
                    let base = bases[row / ROWS_PER_BASE];
                    let x = base.wrapping_add(row % ROWS_PER_BASE * tile.row_stride);
                    let x = _mm256_set1_ps(x.read_unaligned());
                    for (sum, &weights) in sums.iter_mut().zip(&weights) {
                        *sum = _mm256_fmadd_ps(x, weights, *sum);
                    }
                }
                w = w.add(VECTORS * LANES);
            }
            bases = bases.map(|base| base.wrapping_add(1));
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: `store` keeps within the tile's columns.
            unsafe { store(tile, row, v, sum) };
        }
    }
}

/// # Safety
/// As many floats as the panel is wide are readable.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn line<const VECTORS: usize>(from: *const f32) -> [__m256; VECTORS] {
    let mut line = [_mm256_setzero_ps(); VECTORS];
    for (v, vector) in line.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        *vector = unsafe { _mm256_loadu_ps(from.add(v * LANES)) };
    }
    line
}

/// # Safety
/// The tile's columns of that row are writable.
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
