//! A panel's sums are four vectors.

use core::arch::aarch64::{
    int8x16_t, int32x4_t, vaddq_s32, vdupq_n_s32, vdupq_n_u32, vld1q_s8, vld1q_s32,
    vreinterpretq_s8_u32, vst1q_s32,
};

use super::kernel::{GemvKernel, Panels};
use super::panels::{Sums, panels};
use crate::simd::dot::dot;

pub(super) const KERNEL: GemvKernel = GemvKernel { run, signed: true };

#[target_feature(enable = "neon,dotprod")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Quarters, 2, 2>(all) };
}

#[derive(Clone, Copy)]
struct Quarters([int32x4_t; 4]);

impl Sums for Quarters {
    type Word = int8x16_t;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as the caller promises.
        Self([unsafe { vdupq_n_s32(0) }; 4])
    }

    #[inline(always)]
    unsafe fn word(x: u32) -> int8x16_t {
        // SAFETY: as the caller promises.
        unsafe { vreinterpretq_s8_u32(vdupq_n_u32(x)) }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, word: int8x16_t, line: *const i8) -> Self {
        for (quarter, sums) in self.0.iter_mut().enumerate() {
            // SAFETY: a quarter of the line; sums are proof of the instruction set.
            *sums = unsafe { dot(*sums, vld1q_s8(line.add(quarter * 16)), word) };
        }
        self
    }

    #[inline(always)]
    unsafe fn store(self, start: *const i32, to: *mut i32) {
        for (quarter, sums) in self.0.into_iter().enumerate() {
            // SAFETY: as the caller promises, four columns each; sums are proof of the instruction
            // set.
            unsafe {
                let start = vld1q_s32(start.add(quarter * 4));
                vst1q_s32(to.add(quarter * 4), vaddq_s32(start, sums));
            }
        }
    }
}
