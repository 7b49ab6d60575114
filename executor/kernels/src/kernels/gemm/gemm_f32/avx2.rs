//! Tiles of 6 by 16: 12 sums in registers, two lines of weights, one broadcast.

use super::panels::{Microkernel, Width};
use super::rows::{Ordered, Products, six};
use super::tile::Tiles;
use crate::simd::Avx2;
use crate::simd::vector_f32::F32x8;

pub(super) const KERNEL: Microkernel = Microkernel {
    rows: 6,
    widths: &[Width { columns: 8, run: tiles::<1> }, Width { columns: 16, run: tiles::<2> }],
};

/// The same tiles with [`Ordered`] products.
pub(super) const ORDERED: Microkernel = Microkernel {
    rows: 6,
    widths: &[Width { columns: 8, run: ordered::<1> }, Width { columns: 16, run: ordered::<2> }],
};

#[target_feature(enable = "avx2,fma")]
unsafe fn tiles<const VECTORS: usize>(all: &Tiles) {
    // SAFETY: as the caller promises.
    unsafe { six::<_, VECTORS, false>(Avx2::new_unchecked(), all) };
}

#[target_feature(enable = "avx2,fma")]
unsafe fn ordered<const VECTORS: usize>(all: &Tiles) {
    // SAFETY: as the caller promises.
    unsafe { six::<_, VECTORS, false>(Ordered(Avx2::new_unchecked()), all) };
}

impl Products for Avx2 {
    type Whole = F32x8;
    type Half = F32x8;

    #[inline(always)]
    fn whole(self) -> Self {
        self
    }

    #[inline(always)]
    fn half(self) -> Self {
        self
    }
}
