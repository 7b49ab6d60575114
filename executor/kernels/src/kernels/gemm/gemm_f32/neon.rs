//! Tiles of 6 by 16: 24 sums in registers, four vectors of weights, one broadcast.

use super::panels::{Microkernel, Width};
use super::rows::{self, Ordered, Products};
use super::tile::TileStack;
use crate::simd::Neon;
use crate::simd::vector_f32::F32x4;

pub(super) const KERNEL: Microkernel = Microkernel {
    widths: &[
        Width { columns: 8, rows: 6, run: tiles::<2> },
        Width { columns: 16, rows: 6, run: tiles::<4> },
    ],
};

/// The same tiles with [`Ordered`] products.
pub(super) const ORDERED: Microkernel = Microkernel {
    widths: &[
        Width { columns: 8, rows: 6, run: ordered::<2> },
        Width { columns: 16, rows: 6, run: ordered::<4> },
    ],
};

#[target_feature(enable = "neon")]
unsafe fn tiles<const VECTORS: usize>(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, VECTORS, false, 2>(Neon::new_unchecked(), all) };
}

#[target_feature(enable = "neon")]
unsafe fn ordered<const VECTORS: usize>(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, VECTORS, false, 2>(Ordered(Neon::new_unchecked()), all) };
}

impl Products for Neon {
    type Whole = F32x4;
    type Half = F32x4;

    #[inline(always)]
    fn whole(self) -> Self {
        self
    }

    #[inline(always)]
    fn half(self) -> Self {
        self
    }
}
