//! A panel's sums are two pairs of vectors.

use super::floats::{FloatRow, Floats};
use super::kernel::{COLUMNS, GemvKernel, Panels};
use super::panels::{DotSums, Keep, RoundOnce, groups, panels};
use crate::kernels::round_once_i8::Row;
use crate::simd::NeonDot;
use crate::simd::dot::Dot as _;

/// Panels that are summed side by side.
const SIDE: usize = 2;

pub(super) const KERNEL: GemvKernel = GemvKernel {
    run,
    single,
    rounded: Some(rounded),
    floats: Some(floats),
    signed: true,
    side: SIDE,
};

#[target_feature(enable = "neon,dotprod")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<DotSums<NeonDot, 2>, _, SIDE, 2>(NeonDot::new_unchecked(), all, &Keep) };
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn single(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<DotSums<NeonDot, 2>, _, SIDE, 1>(NeonDot::new_unchecked(), all, &Keep) };
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn rounded(all: &Panels, row: &Row) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = NeonDot::new_unchecked();
        let finish = RoundOnce::new(isa, row);
        let whole = groups::<DotSums<NeonDot, 2>, _, SIDE>(isa, all, &finish);
        finish.end(all);
        if whole < all.panels {
            rest_rounded(&all.behind(whole), &row.behind(whole * COLUMNS));
        }
    }
}

/// Fewer panels than are summed side by side. By itself, so that the way to whole groups is short:
/// a network of small layers spends much of its time on it.
#[inline(never)]
#[target_feature(enable = "neon,dotprod")]
unsafe fn rest_rounded(all: &Panels, row: &Row) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = NeonDot::new_unchecked();
        let finish = RoundOnce::new(isa, row);
        panels::<DotSums<NeonDot, 2>, _, SIDE, 1>(isa, all, &finish);
        finish.end(all);
    }
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn floats(all: &Panels, row: &FloatRow) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = NeonDot::new_unchecked();
        let finish = Floats::new(isa.vectors(), row);
        panels::<DotSums<NeonDot, 2>, _, SIDE, 1>(isa, all, &finish);
    }
}
