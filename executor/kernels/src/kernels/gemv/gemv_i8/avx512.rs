//! A panel's sums are one vector.

use super::kernel::{GemvKernel, Panels};
use super::panels::{DotSums, panels};
use crate::simd::Avx512;

/// Panels that are summed side by side.
const SIDE: usize = 8;

pub(super) const KERNEL: GemvKernel = GemvKernel { run, single, signed: false, side: SIDE };

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<DotSums<Avx512, 1>, SIDE, 4>(Avx512::new_unchecked(), all) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn single(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<DotSums<Avx512, 1>, SIDE, 1>(Avx512::new_unchecked(), all) };
}
