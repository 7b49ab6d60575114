//! Products of 8-bit matrices: windows of an image by packed weights, bias and requantisation
//! fused.
//!
//! ```text
//!   image ──in place, where a window is one pixel of whole words──┐
//!     └─ lines copied with their padding, a few at a time ────────┴─► windows ─► tiles ─► bytes
//! ```
//!
//! Nothing is gathered into rows: a window is a few segments of memory (one per line of the filter)
//! and its neighbour lies a fixed distance further, so a tile broadcasts words right from the
//! image.
//!
//! Two ways to the same exact sums. With dot products windows are bytes (unsigned for VNNI, signed
//! for `sdot`) and weights signed bytes, four to a word; zero points are left out of the product
//! and put right by sums: those of the weights go into the bias when packing, those of the windows
//! are taken ahead of the product. Without, both sides are 16-bit differences from their zero
//! points, two to a word, whose products are added without loss. AMX multiplies the same bytes by
//! tiles where there are enough of them.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
pub(crate) mod bands;
mod hybrid;
mod kernel;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;
mod packed;
mod packing;
mod pairs;
mod product;
mod row_gemm;
mod scalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tile;

use std::ops::Range;

use crate::kernels::lines::Convolution;
use crate::kernels::patches::Patches;
use crate::simd::requantise::Scaling;
use crate::simd::{Isa, Variants, variants};
use crate::tensor::rows::Pitched;
pub use hybrid::{FloatScaling, HybridGemm};
pub(crate) use kernel::Encoding;
use kernel::Results;
pub use kernel::{Bytes, Microkernel, Weights};
use packed::PackedWeights;
pub use product::ByteProduct;
pub use row_gemm::RowGemm;

/// Best first.
pub const VARIANTS: Variants<Microkernel> = variants! {
    Avx512Vbmi: amx::KERNEL,
    Avx512: avx512::KERNEL,
    AvxVnni: avx_vnni::KERNEL,
    Avx2: avx2::KERNEL,
    NeonDot: neon_dot::KERNEL,
    Neon: neon::KERNEL,
    Scalar: scalar::KERNEL,
};

/// Weights, packed for a variant, with the bias and the requantisation of each column.
#[derive(Debug)]
pub struct Gemm {
    packed: PackedWeights,
    image: Bytes,
    scaling: Scaling,
}

impl Gemm {
    /// Packs `bias.len()` rows of weights, each as long as the patches are deep. `None` where the
    /// slices are of other lengths.
    pub fn new(
        isa: Isa,
        patches: Patches,
        image: Bytes,
        weights: Weights<'_>,
        bias: &[i32],
        scaling: Scaling,
    ) -> Option<Self> {
        let variant = VARIANTS.best(isa);
        let image = if variant.run.signed { image.signed() } else { image };
        let packed = PackedWeights::new(variant, patches, image, weights, bias)?;
        let columns = packed.columns();
        let scaling = match columns == bias.len() {
            true => scaling,
            false => scaling.rearranged(columns, |lane| lane % bias.len()),
        };
        Some(Self { packed, image, scaling })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.packed.isa()
    }
}

impl Convolution for Gemm {
    type Element = u8;
    type Scratch = u32;

    const DEPTHWISE: bool = false;

    fn patches(&self) -> &Patches {
        self.packed.patches()
    }

    fn channels(&self) -> usize {
        self.packed.columns()
    }

    fn scratch_bytes(&self) -> usize {
        self.packed.scratch_bytes()
    }

    fn weight_bytes(&self) -> usize {
        self.packed.weight_bytes()
    }

    unsafe fn run(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        lines: Range<usize>,
        scratch: &mut [u32],
    ) {
        let results = Results::Bytes(self.scaling.from(0));
        // SAFETY: as the caller promises.
        unsafe { self.packed.run(image, self.image, output, results, lines, scratch) };
    }
}

#[cfg(test)]
mod tests;
