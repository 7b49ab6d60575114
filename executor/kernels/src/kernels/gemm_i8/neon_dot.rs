//! Tiles of 6 by 16 with `sdot`: 24 sums in registers, words broadcast from the image itself, four
//! lines of weights.

use core::arch::aarch64::{
    int8x16_t, int32x4_t, uint8x16_t, vaddvq_s32, vdupq_n_s8, vdupq_n_s32, vdupq_n_u8, vdupq_n_u32,
    veorq_u8, vld1q_s8, vld1q_s32, vld1q_u8, vreinterpretq_s8_s32, vreinterpretq_s8_u8,
    vreinterpretq_u8_u32, vst1q_u8, vsubq_s32,
};

use super::kernel::{Bytes, Encoding, Kernel, Run};
use super::neon::{multipliers, store};
use super::tile::{Sums, one, tiles};
use crate::simd::dot_neon::dot;
use crate::simd::requantise::Channels;
use crate::simd::requantise::neon::Lanes;

pub(super) const KERNEL: Kernel = Kernel {
    columns: 2 * LANES,
    lanes: LANES,
    encoding: Encoding::Bytes,
    signed: true,
    few: None,
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
    unsafe { tiles::<Eight, 2>(run) };
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<Eight, 2>(run) };
}

/// Sums of eight columns.
#[derive(Clone, Copy)]
struct Eight([int32x4_t; 2]);

impl Sums for Eight {
    const LANES: usize = LANES;
    const SUMS_WINDOWS: bool = false;

    type Flip = uint8x16_t;
    type Word = int8x16_t;
    type Weights = [int8x16_t; 2];
    type Finish<const VECTORS: usize> = [[Lanes; 2]; VECTORS];

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { [vld1q_s32(from), vld1q_s32(from.add(4))] })
    }

    #[inline(always)]
    unsafe fn splat(x: i32) -> Self {
        // SAFETY: as the caller promises.
        Self([unsafe { vdupq_n_s32(x) }; 2])
    }

    #[inline(always)]
    unsafe fn flip(flip: u8) -> uint8x16_t {
        // SAFETY: as the caller promises.
        unsafe { vdupq_n_u8(flip) }
    }

    #[inline(always)]
    unsafe fn word(from: *const u8, flip: uint8x16_t) -> int8x16_t {
        // SAFETY: as the caller promises.
        unsafe {
            let word = vdupq_n_u32(from.cast::<u32>().read_unaligned());
            vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(word), flip))
        }
    }

    #[inline(always)]
    unsafe fn weights(from: *const i32) -> [int8x16_t; 2] {
        // SAFETY: as the caller promises.
        unsafe { [vld1q_s8(from.cast()), vld1q_s8(from.add(4).cast())] }
    }

    #[inline(always)]
    unsafe fn same_weights(word: i32) -> [int8x16_t; 2] {
        // SAFETY: as the caller promises.
        [unsafe { vreinterpretq_s8_s32(vdupq_n_s32(word)) }; 2]
    }

    #[inline(always)]
    fn with_products(self, word: int8x16_t, [v, w]: [int8x16_t; 2]) -> Self {
        let [low, high] = self.0;
        // SAFETY: sums are proof of the instruction set.
        Self(unsafe { [dot(low, v, word), dot(high, w, word)] })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: sums are proof of the instruction set.
        Self(unsafe { [vsubq_s32(a, c), vsubq_s32(b, d)] })
    }

    #[inline(always)]
    unsafe fn finish<const VECTORS: usize>(scaling: &Channels) -> [[Lanes; 2]; VECTORS] {
        // SAFETY: as the caller promises.
        unsafe { multipliers(scaling) }
    }

    #[inline(always)]
    unsafe fn store<const ROWS: usize, const VECTORS: usize>(
        run: &Run,
        row: usize,
        by: &[[Lanes; 2]; VECTORS],
        sums: [[Self; VECTORS]; ROWS],
    ) {
        // SAFETY: as the caller promises.
        unsafe { store::<ROWS, VECTORS>(run, row, by, |r, v| sums[r][v].0) };
    }
}
