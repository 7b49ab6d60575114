//! A panel's sums are two pairs of vectors.

use super::kernel::{GemvKernel, Panels};
use super::panels::{DotSums, panels};
use crate::simd::NeonDot;

/// Panels that are summed side by side.
const SIDE: usize = 2;

pub(super) const KERNEL: GemvKernel = GemvKernel { run, single, signed: true, side: SIDE };

#[target_feature(enable = "neon,dotprod")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<DotSums<NeonDot, 2>, SIDE, 2>(NeonDot::new_unchecked(), all) };
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn single(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<DotSums<NeonDot, 2>, SIDE, 1>(NeonDot::new_unchecked(), all) };
}
