//! The sums of four columns in each vector. Products of half bytes and bytes fit 16 bits many times
//! over.

use core::arch::aarch64::{
    float32x4_t, int8x16_t, int32x4_t, vaddq_f32, vandq_u8, vcvtq_f32_s32, vdupq_n_f32,
    vdupq_n_s32, vdupq_n_u8, vdupq_n_u32, vget_low_s8, vld1q_f32, vld1q_u8, vmlal_high_s8,
    vmlal_s8, vmull_high_s8, vmull_s8, vmulq_f32, vpadalq_s16, vpaddq_s16, vreinterpretq_s8_u8,
    vreinterpretq_s8_u32, vshrq_n_u8, vst1q_f32,
};

use super::kernel::{BlockPanels, BlocksKernel};
use super::panels::{BlockSums, panels};
use crate::simd::Neon;

/// Panels that are summed side by side.
const SIDE: usize = 1;

pub(super) const KERNEL: BlocksKernel = BlocksKernel { run, side: SIDE };

#[target_feature(enable = "neon")]
unsafe fn run(all: &BlockPanels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Fours, SIDE>(Neon::new_unchecked(), all) };
}

#[derive(Clone, Copy)]
pub(super) struct Fours(pub(super) [int32x4_t; 4]);

/// The lower and the upper halves of 16 bytes.
///
/// # Safety
/// They are readable; the machine has the instruction set.
#[inline(always)]
pub(super) unsafe fn halves(from: *const u8) -> [int8x16_t; 2] {
    // SAFETY: as the caller promises.
    unsafe {
        let weights = vld1q_u8(from);
        let lower = vandq_u8(weights, vdupq_n_u8(0x0F));
        [vreinterpretq_s8_u8(lower), vreinterpretq_s8_u8(vshrq_n_u8::<4>(weights))]
    }
}

impl BlockSums for Fours {
    type Isa = Neon;
    type Word = int8x16_t;
    type Totals = [float32x4_t; 4];

    #[inline(always)]
    fn start(_: Neon, start: i32) -> Self {
        // SAFETY: `Neon` proves the instruction set.
        Self([unsafe { vdupq_n_s32(start) }; 4])
    }

    #[inline(always)]
    unsafe fn word(_: Neon, from: *const u32) -> int8x16_t {
        // SAFETY: as the caller promises.
        unsafe { vreinterpretq_s8_u32(vdupq_n_u32(from.read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, _: Neon, [x, y]: [int8x16_t; 2], line: *const u8) -> Self {
        for (at, sums) in self.0.iter_mut().enumerate() {
            // SAFETY: a quarter of the line.
            unsafe {
                let [lower, upper] = halves(line.add(at * 16));
                let first = vmull_s8(vget_low_s8(lower), vget_low_s8(x));
                let first = vmlal_s8(first, vget_low_s8(upper), vget_low_s8(y));
                let second = vmlal_high_s8(vmull_high_s8(lower, x), upper, y);
                *sums = vpadalq_s16(*sums, vpaddq_s16(first, second));
            }
        }
        self
    }

    #[inline(always)]
    fn zero(_: Neon) -> [float32x4_t; 4] {
        // SAFETY: `Neon` proves the instruction set.
        [unsafe { vdupq_n_f32(0.0) }; 4]
    }

    #[inline(always)]
    unsafe fn add_to(self, mut totals: [float32x4_t; 4], scales: *const f32) -> [float32x4_t; 4] {
        for (at, (totals, sums)) in totals.iter_mut().zip(self.0).enumerate() {
            // SAFETY: as the caller promises; sums are proof of the instruction set.
            unsafe {
                let products = vmulq_f32(vcvtq_f32_s32(sums), vld1q_f32(scales.add(at * 4)));
                *totals = vaddq_f32(*totals, products);
            }
        }
        totals
    }

    #[inline(always)]
    unsafe fn store(_: Neon, totals: [float32x4_t; 4], to: *mut f32) {
        for (at, totals) in totals.into_iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { vst1q_f32(to.add(at * 4), totals) };
        }
    }
}
