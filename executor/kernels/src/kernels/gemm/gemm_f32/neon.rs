//! Tiles of 6 by 16: 24 sums in registers, four vectors of weights, one broadcast.

use super::panels::{Microkernel, Width};
use super::rows::{Ordered, Products, six};
use super::tile::Tile;
use crate::simd::Neon;
use crate::simd::vector_f32::F32x4;

pub(super) const KERNEL: Microkernel = Microkernel {
    rows: 6,
    widths: &[Width { columns: 8, run: tile::<2> }, Width { columns: 16, run: tile::<4> }],
};

/// The same tiles with [`Ordered`] products.
pub(super) const ORDERED: Microkernel = Microkernel {
    rows: 6,
    widths: &[Width { columns: 8, run: ordered::<2> }, Width { columns: 16, run: ordered::<4> }],
};

#[target_feature(enable = "neon")]
unsafe fn tile<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises.
    unsafe { six::<_, VECTORS, false>(Neon::new_unchecked(), tile) };
}

#[target_feature(enable = "neon")]
unsafe fn ordered<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises.
    unsafe { six::<_, VECTORS, false>(Ordered(Neon::new_unchecked()), tile) };
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
