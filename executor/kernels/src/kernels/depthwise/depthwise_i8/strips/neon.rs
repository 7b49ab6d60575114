//! Sixteen channels of a line; two neighbours of two lines of outputs.

use core::arch::aarch64::{
    int16x8_t, int32x4_t, vcombine_s16, vdupq_n_s16, vget_low_s16, vld1q_s16, vld1q_s32,
    vmlal_high_s16, vmlal_s16, vmovn_s32,
};

use super::line::{Job, Word, strip};
use super::{Strip, StripKernel};
use crate::kernels::gemm_i8::Encoding;
use crate::kernels::gemm_i8::neon::encode;
use crate::simd::Neon;
use crate::simd::requantise::neon::NeonLanes;
use crate::simd::requantise::{Channels, RequantiseSimd};
use crate::simd::vector_i32::{I32Simd, I32x4x2};

pub(in super::super) const KERNEL: StripKernel = StripKernel {
    encoding: Encoding::Differences,
    lines: 1,
    encode,
    order: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    three,
    five,
    row: None,
};

/// Numbers of a vector.
const LANES: usize = 8;

#[target_feature(enable = "neon")]
unsafe fn three(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { strip::<Line, 3, 4, 2>(Neon::new_unchecked(), s) };
}

#[target_feature(enable = "neon")]
unsafe fn five(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { strip::<Line, 5, 6, 2>(Neon::new_unchecked(), s) };
}

/// A line of 16-bit differences. Multiply-adds widen by themselves, so there is nothing to
/// interleave.
#[derive(Clone, Copy)]
struct Line([int16x8_t; 2]);

impl Word for Line {
    type Isa = Neon;
    type Sums = [int32x4_t; 4];
    type Order = ();
    type Finish = [NeonLanes; 4];

    const LINES: usize = 1;
    const PARTS: usize = 1;
    const QUICK: bool = false;
    const AHEAD: bool = false;

    #[target_feature(enable = "neon")]
    unsafe fn apart<J: Job<Isa = Neon>>(isa: Neon, s: &Strip) {
        // SAFETY: as the caller promises.
        unsafe { J::run(isa, s) };
    }

    #[inline(always)]
    fn order(_: Neon) {}

    #[inline(always)]
    unsafe fn finish(_: Neon, scaling: &Channels) -> [NeonLanes; 4] {
        // SAFETY: as the caller promises.
        unsafe {
            [
                NeonLanes::load(scaling, 0),
                NeonLanes::load(scaling, 4),
                NeonLanes::load(scaling, 8),
                NeonLanes::load(scaling, 12),
            ]
        }
    }

    #[inline(always)]
    unsafe fn sums(_: Neon, from: *const i32) -> [int32x4_t; 4] {
        // SAFETY: as the caller promises.
        unsafe {
            [
                vld1q_s32(from),
                vld1q_s32(from.add(4)),
                vld1q_s32(from.add(8)),
                vld1q_s32(from.add(12)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn weights(isa: Neon, from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let [a, b, c, d] = Self::sums(isa, from);
            Self([
                vcombine_s16(vmovn_s32(a), vmovn_s32(b)),
                vcombine_s16(vmovn_s32(c), vmovn_s32(d)),
            ])
        }
    }

    #[inline(always)]
    unsafe fn lines(_: Neon, (): &(), from: *const u8, _: usize, _: usize) -> Self {
        let from = from.cast::<i16>();
        // SAFETY: as the caller promises.
        Self(unsafe { [vld1q_s16(from), vld1q_s16(from.add(LANES))] })
    }

    #[inline(always)]
    fn lowered(self, before: Option<Self>) -> Self {
        // SAFETY: a word is proof of the instruction set.
        before.unwrap_or(Self([unsafe { vdupq_n_s16(0) }; 2]))
    }

    #[inline(always)]
    fn dot(self, weights: Self, [a, b, c, d]: [int32x4_t; 4]) -> [int32x4_t; 4] {
        let ([x, y], [v, w]) = (self.0, weights.0);
        // SAFETY: a word is proof of the instruction set.
        unsafe {
            [
                vmlal_s16(a, vget_low_s16(x), vget_low_s16(v)),
                vmlal_high_s16(b, x, v),
                vmlal_s16(c, vget_low_s16(y), vget_low_s16(w)),
                vmlal_high_s16(d, y, w),
            ]
        }
    }

    #[inline(always)]
    unsafe fn store<const FINISH: u8, const PIXELS: usize>(
        lanes: &[NeonLanes; 4],
        _: &Channels,
        sums: [[int32x4_t; 4]; PIXELS],
        to: *mut u8,
        step: usize,
    ) {
        unrolled!(2: p < PIXELS, {
            unrolled!(2: half < 2, {
                let at = 2 * half;
                // SAFETY: as the caller promises.
                unsafe {
                    let values = I32x4x2([sums[p][at], sums[p][at + 1]]);
                    let values = values.stored(&[lanes[at], lanes[at + 1]]);
                    values.store_bytes(to.add(p * step + half * LANES), LANES);
                }
            });
        });
    }
}
