//! A panel's sums are one vector.

use super::floats::{FloatRow, Floats};
use super::kernel::{COLUMNS, GemvKernel, Panels};
use super::panels::{DotSums, Keep, RoundOnce, groups, panels};
use crate::kernels::round_once_i8::Row;
use crate::simd::Avx512;
use crate::simd::dot::Dot as _;

/// Panels that are summed side by side.
const SIDE: usize = 8;

pub(super) const KERNEL: GemvKernel = GemvKernel {
    run,
    single,
    rounded: Some(rounded),
    floats: Some(floats),
    signed: false,
    side: SIDE,
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = Avx512::new_unchecked();
        if all.flip == 0 {
            // Rows that were quantised on the fly: flipping nothing is a fifth of the vector
            // instructions.
            panels::<DotSums<Avx512, 1>, _, SIDE, 4>(isa, &Panels { flip: 0, ..*all }, &Keep);
        } else {
            panels::<DotSums<Avx512, 1>, _, SIDE, 4>(isa, all, &Keep);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn single(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<DotSums<Avx512, 1>, _, SIDE, 1>(Avx512::new_unchecked(), all, &Keep) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn rounded(all: &Panels, row: &Row) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = Avx512::new_unchecked();
        let finish = RoundOnce::new(isa, row);
        let whole = groups::<DotSums<Avx512, 1>, _, SIDE>(isa, all, &finish);
        finish.end(all);
        if whole < all.panels {
            rest_rounded(&all.behind(whole), &row.behind(whole * COLUMNS));
        }
    }
}

/// Fewer panels than are summed side by side. By itself, so that the way to whole groups is short:
/// a network of small layers spends much of its time on it.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn rest_rounded(all: &Panels, row: &Row) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = Avx512::new_unchecked();
        let finish = RoundOnce::new(isa, row);
        panels::<DotSums<Avx512, 1>, _, SIDE, 1>(isa, all, &finish);
        finish.end(all);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn floats(all: &Panels, row: &FloatRow) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = Avx512::new_unchecked();
        let finish = Floats::new(isa.vectors(), row);
        panels::<DotSums<Avx512, 1>, _, SIDE, 1>(isa, all, &finish);
    }
}
