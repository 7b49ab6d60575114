//! Products of bytes fit 16 bits; pairs of them are added into sums of 32.

use core::arch::aarch64::{
    int8x16_t, int32x4_t, vaddq_s32, vdupq_n_s32, vdupq_n_u32, vget_low_s8, vld1q_s8, vld1q_s32,
    vmull_high_s8, vmull_s8, vpadalq_s16, vpaddq_s32, vreinterpretq_s8_u32, vst1q_s32,
};

use super::kernel::{GemvKernel, Panels};
use super::panels::{Keep, PanelSums, panels};
use crate::simd::Neon;

/// Panels that are summed side by side.
const SIDE: usize = 1;

pub(super) const KERNEL: GemvKernel =
    GemvKernel { run, single, rounded: None, floats: None, signed: true, side: SIDE };

#[target_feature(enable = "neon")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Pairs, _, SIDE, 2>(Neon::new_unchecked(), all, &Keep) };
}

#[target_feature(enable = "neon")]
unsafe fn single(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Pairs, _, SIDE, 1>(Neon::new_unchecked(), all, &Keep) };
}

/// Two sums per column, of two elements of depth each: those of two columns in each vector.
#[derive(Clone, Copy)]
struct Pairs([[int32x4_t; 2]; 4]);

impl PanelSums for Pairs {
    type Isa = Neon;
    type Word = int8x16_t;
    type Flip = u32;

    const CHAINS: usize = 2;

    #[inline(always)]
    fn zero(_: Neon) -> Self {
        // SAFETY: `Neon` proves the instruction set.
        Self([[unsafe { vdupq_n_s32(0) }; 2]; 4])
    }

    #[inline(always)]
    fn flip(_: Neon, flip: u8) -> u32 {
        u32::from_ne_bytes([flip; 4])
    }

    #[inline(always)]
    unsafe fn word(_: Neon, from: *const u32, flip: u32) -> int8x16_t {
        // SAFETY: as the caller promises.
        unsafe { vreinterpretq_s8_u32(vdupq_n_u32(from.read_unaligned() ^ flip)) }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, _: Neon, word: int8x16_t, line: *const i8) -> Self {
        for (quarter, [low, high]) in self.0.iter_mut().enumerate() {
            // SAFETY: a quarter of the line.
            unsafe {
                let weights = vld1q_s8(line.add(quarter * 16));
                let products = vmull_s8(vget_low_s8(weights), vget_low_s8(word));
                *low = vpadalq_s16(*low, products);
                *high = vpadalq_s16(*high, vmull_high_s8(weights, word));
            }
        }
        self
    }

    #[inline(always)]
    fn plus(mut self, _: Neon, other: Self) -> Self {
        for (sums, others) in self.0.iter_mut().flatten().zip(other.0.into_iter().flatten()) {
            // SAFETY: `Neon` proves the instruction set.
            *sums = unsafe { vaddq_s32(*sums, others) };
        }
        self
    }

    #[inline(always)]
    unsafe fn store(self, _: Neon, start: *const i32, to: *mut i32) {
        for (quarter, [low, high]) in self.0.into_iter().enumerate() {
            // SAFETY: as the caller promises, four columns each; sums are proof of the instruction
            // set.
            unsafe {
                let start = vld1q_s32(start.add(quarter * 4));
                vst1q_s32(to.add(quarter * 4), vaddq_s32(start, vpaddq_s32(low, high)));
            }
        }
    }
}
