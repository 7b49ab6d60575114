//! Tiles of 6 by 16: 24 sums in registers, four vectors of weights, one broadcast.

use core::arch::aarch64::{
    float32x4_t, vbslq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32,
};

use super::panels::{Microkernel, Width};
use super::rows::{Line, six};
use super::tile::Tile;

pub(super) const KERNEL: Microkernel = Microkernel {
    rows: 6,
    widths: &[Width { columns: 8, run: tile::<2> }, Width { columns: 16, run: tile::<4> }],
};

const LANES: usize = 4;

#[target_feature(enable = "neon")]
unsafe fn tile<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises.
    unsafe { six::<Vectors<VECTORS>>(tile) };
}

#[derive(Clone, Copy)]
struct Vectors<const COUNT: usize>([float32x4_t; COUNT]);

impl<const COUNT: usize> Line for Vectors<COUNT> {
    const COLUMNS: usize = COUNT * LANES;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let mut line = [vdupq_n_f32(0.0); COUNT];
            for (v, vector) in line.iter_mut().enumerate() {
                *vector = vld1q_f32(from.add(v * LANES));
            }
            Self(line)
        }
    }

    /// Left to the machine.
    #[inline(always)]
    fn fetch(_: *const f32) {}

    #[inline(always)]
    unsafe fn with_products(mut self, x: *const f32, weights: &Self) -> Self {
        // SAFETY: as the caller promises; a line is proof of the instruction set.
        unsafe {
            let x = vdupq_n_f32(x.read_unaligned());
            for (sum, &weights) in self.0.iter_mut().zip(&weights.0) {
                *sum = vfmaq_f32(*sum, x, weights);
            }
        }
        self
    }

    #[inline(always)]
    unsafe fn store(self, tile: &Tile, row: usize) {
        for (v, sum) in self.0.into_iter().enumerate() {
            let lanes = tile.columns.saturating_sub(v * LANES).min(LANES);
            let at = tile.output.wrapping_add(row * tile.stride + v * LANES);
            // SAFETY: columns that are there, or four floats of our own; a line is proof of the
            // instruction set.
            unsafe {
                // NaN stays: it compares false, where the instructions for minimum and maximum
                // would keep its payload but not tell -0 from 0 as the other variants do.
                let (low, high) = (vdupq_n_f32(tile.low), vdupq_n_f32(tile.high));
                let y = vbslq_f32(vcltq_f32(sum, low), low, sum);
                let y = vbslq_f32(vcgtq_f32(y, high), high, y);
                if lanes == LANES {
                    vst1q_f32(at, y);
                    continue;
                }
                let mut values = [0.0; LANES];
                vst1q_f32(values.as_mut_ptr(), y);
                for (lane, &value) in values.iter().enumerate().take(lanes) {
                    at.add(lane).write_unaligned(value);
                }
            }
        }
    }
}
