//! As with NEON, but for the products.

use core::arch::aarch64::{float32x4_t, int8x16_t};

use super::kernel::{BlockPanels, BlocksKernel};
use super::neon::{Fours, halves};
use super::panels::{BlockSums, panels};
use crate::simd::NeonDot;
use crate::simd::dot::dot;

/// Panels that are summed side by side.
const SIDE: usize = 2;

pub(super) const KERNEL: BlocksKernel = BlocksKernel { run, side: SIDE };

#[target_feature(enable = "neon,dotprod")]
unsafe fn run(all: &BlockPanels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Dots, SIDE>(NeonDot::new_unchecked(), all) };
}

#[derive(Clone, Copy)]
struct Dots(Fours);

impl BlockSums for Dots {
    type Isa = NeonDot;
    type Word = int8x16_t;
    type Totals = [float32x4_t; 4];

    #[inline(always)]
    fn start(isa: NeonDot, start: i32) -> Self {
        Self(Fours::start(isa.neon(), start))
    }

    #[inline(always)]
    unsafe fn word(isa: NeonDot, from: *const u32) -> int8x16_t {
        // SAFETY: as the caller promises.
        unsafe { Fours::word(isa.neon(), from) }
    }

    #[inline(always)]
    unsafe fn with_products(mut self, _: NeonDot, [x, y]: [int8x16_t; 2], line: *const u8) -> Self {
        for (at, sums) in self.0.0.iter_mut().enumerate() {
            // SAFETY: a quarter of the line; `NeonDot` proves the instruction set.
            unsafe {
                let [lower, upper] = halves(line.add(at * 16));
                *sums = dot(dot(*sums, lower, x), upper, y);
            }
        }
        self
    }

    #[inline(always)]
    fn zero(isa: NeonDot) -> [float32x4_t; 4] {
        Fours::zero(isa.neon())
    }

    #[inline(always)]
    unsafe fn add_to(self, totals: [float32x4_t; 4], scales: *const f32) -> [float32x4_t; 4] {
        // SAFETY: as the caller promises.
        unsafe { self.0.add_to(totals, scales) }
    }

    #[inline(always)]
    unsafe fn store(isa: NeonDot, totals: [float32x4_t; 4], to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { Fours::store(isa.neon(), totals, to) };
    }
}
