//! Tiles of 6 by 8: widening multiply-adds of 16-bit differences, for machines without dot products.

use core::arch::aarch64::{
    int32x4_t, vdup_n_u8, vdup_n_u32, vdupq_n_s16, veor_u8, vget_low_s16, vld1_u8, vld1q_s32,
    vld2q_s16, vmlal_high_lane_s16, vmlal_lane_s16, vmovl_u8, vreinterpret_s16_u32,
    vreinterpretq_s16_u16, vst1q_s16, vsubq_s16,
};

use super::{Bytes, Encoding, Kernel, Run, scalar};
use crate::kernels::requantise::neon::{Lanes, store};

pub(super) const KERNEL: Kernel = Kernel {
    columns: COLUMNS,
    lanes: COLUMNS,
    encoding: Encoding::Differences,
    signed: false,
    few: None,
    encode,
    sums: scalar::no_sums,
    run,
};

const LANES: usize = 4;
const COLUMNS: usize = 2 * LANES;

#[target_feature(enable = "neon")]
pub(in crate::kernels) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = vdup_n_u8(bytes.flip);
    // Zero points are at most 255, which fits.
    let zero_point = vdupq_n_s16(i16::try_from(bytes.zero_point).unwrap_or(0));
    let whole = count / 8 * 8;
    for at in (0..whole).step_by(8) {
        // SAFETY: eight bytes, and as many differences.
        unsafe {
            let x = vreinterpretq_s16_u16(vmovl_u8(veor_u8(vld1_u8(from.add(at)), flip)));
            vst1q_s16(to.add(at * 2).cast(), vsubq_s16(x, zero_point));
        }
    }
    // SAFETY: the rest.
    unsafe { scalar::encode(from.add(whole), count - whole, bytes, to.add(whole * 2)) };
}

#[target_feature(enable = "neon")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the height of tiles alone.
    unsafe {
        match run.rows {
            1 => run.tiles(1, |row| tile::<1>(run, row)),
            2..6 => run.tiles(2, |row| tile::<2>(run, row)),
            _ => run.tiles(6, |row| tile::<6>(run, row)),
        }
    }
}

#[target_feature(enable = "neon")]
unsafe fn tile<const ROWS: usize>(run: &Run, row: usize) {
    let mut w = run.weights;
    // SAFETY: the line of bias.
    let bias = unsafe { [vld1q_s32(w), vld1q_s32(w.add(LANES))] };
    let mut sums = [bias; ROWS];
    for segment in 0..run.segment_count {
        // SAFETY: the window's segments, and a line of weights for each of their words.
        unsafe {
            let mut x = run.input.add(row * run.step + *run.segments.add(segment));
            for _ in 0..run.words {
                w = w.add(COLUMNS);
                // The first and the second difference of each column's word.
                let line = vld2q_s16(w.cast());
                unrolled!(6: r < ROWS, {
                    let word = x.add(r * run.step).cast::<u32>().read_unaligned();
                    let value = vreinterpret_s16_u32(vdup_n_u32(word));
                    let [low, high] = sums[r];
                    let low = vmlal_lane_s16::<0>(low, vget_low_s16(line.0), value);
                    let high = vmlal_high_lane_s16::<0>(high, line.0, value);
                    sums[r] = [
                        vmlal_lane_s16::<1>(low, vget_low_s16(line.1), value),
                        vmlal_high_lane_s16::<1>(high, line.1, value),
                    ];
                });
                x = x.add(4);
            }
        }
    }
    // SAFETY: the tile's rows are within the run's.
    unsafe { finish(run, row, &sums) };
}

/// Requantises and stores a tile: rows of two vectors, or of four.
///
/// # Safety
/// As many rows from `row` on as there are sums are the run's, and scalings are padded to whole panels.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn finish<const ROWS: usize, const VECTORS: usize>(
    run: &Run,
    row: usize,
    sums: &[[int32x4_t; VECTORS]; ROWS],
) {
    unrolled!(4: v < VECTORS, {
        if v % 2 == 0 {
            let columns = run.columns.saturating_sub(v * LANES).min(COLUMNS);
            // SAFETY: as the caller promises; `store` keeps within the columns.
            unsafe {
                let low = Lanes::load(&run.scaling, v * LANES);
                let high = Lanes::load(&run.scaling, (v + 1) * LANES);
                unrolled!(6: r < ROWS, {
                    let at = run.output.add((row + r) * run.stride + v * LANES);
                    store(at, columns, [low.stored(sums[r][v]), high.stored(sums[r][v + 1])]);
                });
            }
        }
    });
}
