//! Tiles of 12 by 32: 24 sums in registers, two lines of weights, one broadcast.

use super::panels::{Microkernel, Width};
use super::rows::{self, Ordered, Products};
use super::tile::TileStack;
use crate::simd::vector_f32::{F32x8, F32x16};
use crate::simd::{Avx2, Avx512};

/// Half vectors cost half on cores that split whole ones in two (Zen 4), and nothing extra on
/// others.
pub(super) const KERNEL: Microkernel = Microkernel {
    widths: &[
        Width { columns: 8, rows: 12, run: tiles::<0, true> },
        Width { columns: 16, rows: 12, run: tiles::<1, false> },
        Width { columns: 24, rows: 12, run: tiles::<1, true> },
        Width { columns: 32, rows: 12, run: tiles::<2, false> },
    ],
};

/// The same tiles with [`Ordered`] products.
pub(super) const ORDERED: Microkernel = Microkernel {
    widths: &[
        Width { columns: 8, rows: 12, run: ordered::<0, true> },
        Width { columns: 16, rows: 12, run: ordered::<1, false> },
        Width { columns: 24, rows: 12, run: ordered::<1, true> },
        Width { columns: 32, rows: 12, run: ordered::<2, false> },
    ],
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn tiles<const WHOLE: usize, const HALF: bool>(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, WHOLE, HALF, 4>(Avx512::new_unchecked(), all) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn ordered<const WHOLE: usize, const HALF: bool>(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, WHOLE, HALF, 4>(Ordered(Avx512::new_unchecked()), all) };
}

impl Products for Avx512 {
    type Whole = F32x16;
    type Half = F32x8;

    #[inline(always)]
    fn whole(self) -> Self {
        self
    }

    #[inline(always)]
    fn half(self) -> Avx2 {
        self.avx2()
    }
}
