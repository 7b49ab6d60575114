//! 8 channels at a time; of 3x3 and 5x5 windows 16, and 2 neighbours of 2 lines.

use core::arch::aarch64::{
    int16x8_t, int32x4_t, vcombine_s16, vdup_n_u8, vdupq_n_s16, veor_u8, vget_low_s16, vld1_u8,
    vld1q_s16, vld1q_s32, vmlal_high_s16, vmlal_s16, vmovl_u8, vmovn_s32, vreinterpretq_s16_u16,
    vsubq_s16,
};

use super::strips::line::{Job, Word, strip};
use super::strips::{self, Strip};
use super::{Kernel, Pixels};
use crate::kernels::gemm_i8::Encoding;
use crate::kernels::gemm_i8::neon::encode;
use crate::kernels::requantise::Channels;
use crate::kernels::requantise::neon::{Lanes, store};

pub(super) const KERNEL: Kernel = Kernel {
    pixels,
    strips: Some(strips::Kernel {
        encoding: Encoding::Differences,
        lines: 1,
        encode,
        order: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        three,
        five,
    }),
};

const LANES: usize = 8;

#[target_feature(enable = "neon")]
unsafe fn pixels(p: &Pixels) {
    for channel in (0..p.channels).step_by(LANES) {
        let count = LANES.min(p.channels - channel);
        // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to `count`.
        unsafe {
            let low = Lanes::load(&p.scaling, channel);
            let high = Lanes::load(&p.scaling, channel + 4);
            for pixel in 0..p.count {
                let bias = p.bias.add(channel);
                let mut sums = [vld1q_s32(bias), vld1q_s32(bias.add(4))];
                for line in 0..p.lines {
                    let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                    let weights = p.weights.add(line * p.weight_line + channel);
                    for column in 0..p.columns {
                        let x = differences(p, taps.add(column * p.tap_column), count);
                        let w = weights.add(column * p.weight_column);
                        // The lower half of each word is the weight.
                        let w =
                            vcombine_s16(vmovn_s32(vld1q_s32(w)), vmovn_s32(vld1q_s32(w.add(4))));
                        sums[0] = vmlal_s16(sums[0], vget_low_s16(x), vget_low_s16(w));
                        sums[1] = vmlal_high_s16(sums[1], x, w);
                    }
                }
                let values = [low.stored(sums[0]), high.stored(sums[1])];
                store(p.output.add(pixel * p.channels + channel), count, values);
            }
        }
    }
}

/// The first `count` of eight inputs as differences from their zero point.
///
/// # Safety
/// So many bytes are readable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn differences(p: &Pixels, from: *const u8, count: usize) -> int16x8_t {
    let mut padded = [0u8; LANES];
    // SAFETY: eight bytes are there, or `count` of them; the copy is ours.
    let bytes = unsafe {
        if count == LANES {
            vld1_u8(from)
        } else {
            std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count);
            vld1_u8(padded.as_ptr())
        }
    };
    let x = vreinterpretq_s16_u16(vmovl_u8(veor_u8(bytes, vdup_n_u8(p.bytes.flip))));
    // Zero points are at most 255, which fits.
    vsubq_s16(x, vdupq_n_s16(i16::try_from(p.bytes.zero_point).unwrap_or(0)))
}

#[target_feature(enable = "neon")]
unsafe fn three(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { strip::<Line, 3, 4, 2>(s) };
}

#[target_feature(enable = "neon")]
unsafe fn five(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { strip::<Line, 5, 6, 2>(s) };
}

/// A line of 16-bit differences. Multiply-adds widen by themselves, so there is nothing to interleave.
#[derive(Clone, Copy)]
struct Line([int16x8_t; 2]);

impl Word for Line {
    type Sums = [int32x4_t; 4];
    type Order = ();
    type Finish = [Lanes; 4];

    const LINES: usize = 1;
    const PARTS: usize = 1;
    const QUICK: bool = false;

    #[target_feature(enable = "neon")]
    unsafe fn apart<J: Job>(s: &Strip) {
        // SAFETY: as the caller promises.
        unsafe { J::run(s) };
    }

    #[inline(always)]
    unsafe fn order() {}

    #[inline(always)]
    unsafe fn finish(scaling: &Channels) -> [Lanes; 4] {
        // SAFETY: as the caller promises.
        unsafe {
            [
                Lanes::load(scaling, 0),
                Lanes::load(scaling, 4),
                Lanes::load(scaling, 8),
                Lanes::load(scaling, 12),
            ]
        }
    }

    #[inline(always)]
    unsafe fn sums(from: *const i32) -> [int32x4_t; 4] {
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
    unsafe fn weights(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let [a, b, c, d] = Self::sums(from);
            Self([
                vcombine_s16(vmovn_s32(a), vmovn_s32(b)),
                vcombine_s16(vmovn_s32(c), vmovn_s32(d)),
            ])
        }
    }

    #[inline(always)]
    unsafe fn lines((): &(), from: *const u8, _: usize, _: usize) -> Self {
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
        lanes: &[Lanes; 4],
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
                    let values = [lanes[at].stored(sums[p][at]), lanes[at + 1].stored(sums[p][at + 1])];
                    store(to.add(p * step + half * LANES), LANES, values);
                }
            });
        });
    }
}
