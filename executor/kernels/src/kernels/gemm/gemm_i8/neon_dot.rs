//! Tiles of 6 by 16 with `sdot`: 24 sums in registers, words broadcast from the image itself, four
//! lines of weights.

use core::arch::aarch64::{
    vaddvq_s32, vdupq_n_s8, vdupq_n_s32, vdupq_n_u8, veorq_u8, vld1q_u8, vreinterpretq_s8_u8,
    vst1q_u8,
};

use super::kernel::{Bytes, Encoding, Microkernel, Run};
use super::tile::{KeepsMultipliers, one, tiles};
use crate::simd::NeonDot;
use crate::simd::dot::dot;

pub(super) const KERNEL: Microkernel = Microkernel {
    columns: 2 * LANES,
    lanes: LANES,
    encoding: Encoding::Bytes,
    signed: true,
    encode,
    sums,
    run,
    single,
};

const LANES: usize = 8;

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
    // SAFETY: as the caller promises.
    unsafe { tiles::<_, 2>(NeonDot::new_unchecked(), run) };
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<_, 2>(NeonDot::new_unchecked(), run) };
}

impl KeepsMultipliers for NeonDot {}
