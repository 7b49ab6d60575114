//! Tiles of 6 by 16 and 12 by 8: 12 sums in registers, one or two vectors of weights, a broadcast.

use super::panels::{Microkernel, Width};
use super::rows::{self, Ordered, Products};
use super::tile::TileStack;
use crate::simd::Avx2;
use crate::simd::vector_f32::F32x8;

pub(super) const KERNEL: Microkernel = Microkernel {
    widths: &[
        Width { columns: 8, rows: 12, run: narrow },
        Width { columns: 16, rows: 6, run: wide },
    ],
};

/// The same tiles with [`Ordered`] products; narrow ones are too rare to be tall.
pub(super) const ORDERED: Microkernel = Microkernel {
    widths: &[
        Width { columns: 8, rows: 6, run: narrow_ordered },
        Width { columns: 16, rows: 6, run: wide_ordered },
    ],
};

#[target_feature(enable = "avx2,fma")]
unsafe fn wide(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, 2, false, 2>(Avx2::new_unchecked(), all) };
}

#[target_feature(enable = "avx2,fma")]
unsafe fn narrow(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, 1, false, 4>(Avx2::new_unchecked(), all) };
}

#[target_feature(enable = "avx2,fma")]
unsafe fn wide_ordered(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, 2, false, 2>(Ordered(Avx2::new_unchecked()), all) };
}

#[target_feature(enable = "avx2,fma")]
unsafe fn narrow_ordered(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, 1, false, 2>(Ordered(Avx2::new_unchecked()), all) };
}

impl Products for Avx2 {
    type Whole = F32x8;
    type Half = F32x8;
    const PAIRED: bool = true;

    #[inline(always)]
    fn whole(self) -> Self {
        self
    }

    #[inline(always)]
    fn half(self) -> Self {
        self
    }
}
