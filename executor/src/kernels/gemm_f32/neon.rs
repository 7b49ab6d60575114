//! Tiles of 6 by 16: 24 sums in registers, four vectors of weights, one broadcast.

use core::arch::aarch64::{
    float32x4_t, vbslq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32,
};

use super::panels::{Kernel, Width};
use super::tile::{ROWS_PER_BASE, Tile, bases};

pub(super) const KERNEL: Kernel = Kernel {
    rows: 6,
    widths: &[Width { columns: 8, run: tile::<2> }, Width { columns: 16, run: tile::<4> }],
};

const LANES: usize = 4;

#[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
unsafe fn rows<const COUNT: usize, const VECTORS: usize>(tile: &Tile) {
    // SAFETY: a line of bias, as wide as the panel.
    let mut sums = [unsafe { line::<VECTORS>(tile.bias) }; COUNT];
    for segment in tile.segments() {
        let mut w = segment.weights;
        let mut bases: [*const f32; 2] = bases(segment.rows, tile.row_stride);
        for _ in 0..tile.len {
            // SAFETY: the segment has `len` lines of weights, and as many elements of each row.
            unsafe {
                let weights = line::<VECTORS>(w);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let base = bases[row / ROWS_PER_BASE];
                    let x = base.wrapping_add(row % ROWS_PER_BASE * tile.row_stride);
                    let x = vdupq_n_f32(x.read_unaligned());
                    for (sum, &weights) in sums.iter_mut().zip(&weights) {
                        *sum = vfmaq_f32(*sum, x, weights);
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
#[target_feature(enable = "neon")]
unsafe fn line<const VECTORS: usize>(from: *const f32) -> [float32x4_t; VECTORS] {
    let mut line = [vdupq_n_f32(0.0); VECTORS];
    for (v, vector) in line.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        *vector = unsafe { vld1q_f32(from.add(v * LANES)) };
    }
    line
}

/// # Safety
/// The tile's columns of that row are writable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store(tile: &Tile, row: usize, vector: usize, sum: float32x4_t) {
    // NaN stays: it compares false, where the instructions for minimum and maximum would keep its payload
    // but not tell -0 from 0 as the other forms do.
    let (low, high) = (vdupq_n_f32(tile.low), vdupq_n_f32(tile.high));
    let y = vbslq_f32(vcltq_f32(sum, low), low, sum);
    let y = vbslq_f32(vcgtq_f32(y, high), high, y);
    let lanes = tile.columns.saturating_sub(vector * LANES).min(LANES);
    let at = tile.output.wrapping_add(row * tile.stride + vector * LANES);
    if lanes == LANES {
        // SAFETY: four columns are there.
        unsafe { vst1q_f32(at, y) };
        return;
    }
    let mut values = [0.0; LANES];
    // SAFETY: four floats of our own.
    unsafe { vst1q_f32(values.as_mut_ptr(), y) };
    for (lane, &value) in values.iter().enumerate().take(lanes) {
        // SAFETY: a column that is there.
        unsafe { at.add(lane).write_unaligned(value) };
    }
}
