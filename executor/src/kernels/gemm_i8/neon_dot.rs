//! Tiles of 6 by 16 with `sdot`: 24 sums in registers, words broadcast from the image itself, four lines of
//! weights.

use core::arch::aarch64::{
    vaddvq_s32, vdupq_n_s8, vdupq_n_s32, vdupq_n_u8, vdupq_n_u32, veorq_u8, vld1q_s8, vld1q_s32,
    vld1q_u8, vreinterpretq_s8_u8, vreinterpretq_u8_u32, vst1q_u8, vsubq_s32,
};

use super::neon::finish;
use super::{Bytes, Encoding, Kernel, Run};
use crate::kernels::dot_neon::dot;

pub(super) const KERNEL: Kernel = Kernel {
    columns: 4 * LANES,
    lanes: 2 * LANES,
    encoding: Encoding::Bytes,
    signed: true,
    few: None,
    encode,
    sums,
    run,
};

const LANES: usize = 4;

#[target_feature(enable = "neon,dotprod")]
unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let whole = count / 16 * 16;
    for at in (0..whole).step_by(16) {
        // SAFETY: sixteen bytes on both sides.
        unsafe {
            vst1q_u8(to.add(at), veorq_u8(vld1q_u8(from.add(at)), vdupq_n_u8(bytes.flip)));
        }
    }
    for at in whole..count {
        // SAFETY: the rest.
        unsafe { *to.add(at) = *from.add(at) ^ bytes.flip };
    }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn sums(run: &Run, bytes: usize, factor: i32, sums: *mut i32) {
    let (flip, ones) = (vdupq_n_u8(run.flip), vdupq_n_s8(1));
    let whole = bytes / 16 * 16;
    for row in 0..run.rows {
        let (mut fours, mut rest) = (vdupq_n_s32(0), 0);
        for segment in 0..run.segment_count {
            // SAFETY: a segment of a window.
            unsafe {
                let from = run.input.add(row * run.step + *run.segments.add(segment));
                for at in (0..whole).step_by(16) {
                    let x = veorq_u8(vld1q_u8(from.add(at)), flip);
                    fours = dot(fours, vreinterpretq_s8_u8(x), ones);
                }
                for at in whole..bytes {
                    rest += i32::from((*from.add(at) ^ run.flip).cast_signed());
                }
            }
        }
        // SAFETY: a sum per window.
        unsafe { *sums.add(row) = factor.wrapping_mul(vaddvq_s32(fours).wrapping_add(rest)) };
    }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the size of tiles alone.
    unsafe {
        match (run.rows, run.columns > 2 * LANES) {
            (1, true) => run.tiles(1, |row| tile::<1, 4>(run, row)),
            (1, false) => run.tiles(1, |row| tile::<1, 2>(run, row)),
            (2..6, true) => run.tiles(2, |row| tile::<2, 4>(run, row)),
            (2..6, false) => run.tiles(2, |row| tile::<2, 2>(run, row)),
            (_, true) => run.tiles(6, |row| tile::<6, 4>(run, row)),
            (_, false) => run.tiles(6, |row| tile::<6, 2>(run, row)),
        }
    }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn tile<const ROWS: usize, const VECTORS: usize>(run: &Run, row: usize) {
    let flip = vdupq_n_u8(run.flip);
    let mut w = run.weights;
    let mut bias = [vdupq_n_s32(0); VECTORS];
    unrolled!(4: v < VECTORS, {
        // SAFETY: the line of bias.
        bias[v] = unsafe { vld1q_s32(w.add(v * LANES)) };
    });
    let mut sums = [bias; ROWS];
    for segment in 0..run.segment_count {
        // SAFETY: the window's segments, and a line of weights for each of their words.
        unsafe {
            let mut x = run.input.add(row * run.step + *run.segments.add(segment));
            for _ in 0..run.words {
                w = w.add(VECTORS * LANES);
                let mut line = [vdupq_n_s8(0); VECTORS];
                unrolled!(4: v < VECTORS, { line[v] = vld1q_s8(w.add(v * LANES).cast()) });
                unrolled!(6: r < ROWS, {
                    let word = vdupq_n_u32(x.add(r * run.step).cast::<u32>().read_unaligned());
                    let value = vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(word), flip));
                    unrolled!(4: v < VECTORS, { sums[r][v] = dot(sums[r][v], line[v], value) });
                });
                x = x.add(4);
            }
        }
    }
    if !run.corrections.is_null() {
        unrolled!(6: r < ROWS, {
            // SAFETY: a correction per window.
            let correction = vdupq_n_s32(unsafe { *run.corrections.add(row + r) });
            unrolled!(4: v < VECTORS, { sums[r][v] = vsubq_s32(sums[r][v], correction) });
        });
    }
    // SAFETY: the tile's rows are within the run's.
    unsafe { finish(run, row, &sums) };
}
