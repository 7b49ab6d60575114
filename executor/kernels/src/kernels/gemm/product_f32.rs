//! Products of float matrices with packed weights, by whichever kernel suits the number of rows.

use std::ops::Range;

use crate::kernels::Precision;
use crate::kernels::gemm_f32::Gemm;
pub use crate::kernels::gemv_f32::FAR;
use crate::kernels::gemv_f32::{FewRows, Gemv, Start};
use crate::kernels::lines::Convolution as _;
use crate::kernels::patches::Patches;
use crate::simd::Isa;
use crate::tensor::rows::{Port, Rows};
use crate::tensor::{In, Out};

/// Rows up to which weights are streamed once per row; tiles, whose rows share each load of a
/// weight, are quicker from here on.
pub const FEW_ROWS: usize = 4;

/// Rows by which weights are multiplied for longer than they take to come, from wherever.
const MANY_ROWS: usize = 48;

/// Deeper rows are streamed whatever their number: sums of a tile are not cut.
const DEEP: usize = 1 << 20;

/// `rows` rows of `depth` elements by packed weights.
#[derive(Debug)]
pub enum Product {
    /// By [`Gemv`].
    Few {
        /// The packed weights.
        gemv: Gemv,
        /// Precision of the weights.
        precision: Precision,
        /// Rows of the input.
        rows: usize,
        /// A bias per column.
        bias: Vec<f32>,
        /// Range that results are clamped to.
        range: (f32, f32),
    },
    /// By [`Gemm`].
    Many(Box<Gemm>),
}

impl Product {
    /// Packs as many rows of `depth` weights as there are biases. `None` where the slices are of
    /// other lengths.
    pub fn new(
        isa: Isa,
        precision: Precision,
        rows: usize,
        depth: usize,
        weights: &[f32],
        bias: &[f32],
        range: (f32, f32),
    ) -> Option<Self> {
        if weights.len() != bias.len() * depth {
            return None;
        }
        if rows <= FEW_ROWS || depth > DEEP {
            let gemv = Gemv::new(isa, precision, weights, depth)?;
            return Some(Self::Few { gemv, precision, rows, bias: bias.to_vec(), range });
        }
        let patches = Patches::matrix(rows, depth);
        let gemm = Gemm::new(isa, precision, patches, weights, bias, range)?;
        Some(Self::Many(Box::new(gemm)))
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        match self {
            Self::Few { gemv, .. } => gemv.isa(),
            Self::Many(gemm) => gemm.isa(),
        }
    }

    /// Name of the kernel.
    pub fn kernel(&self) -> &'static str {
        match self {
            Self::Few { precision: Precision::Bf16, .. } => "gemv_bf16",
            Self::Few { .. } => "gemv_f32",
            Self::Many(gemm) => gemm.kernel(),
        }
    }

    /// Scratch memory of a run.
    pub fn scratch_bytes(&self) -> usize {
        match self {
            Self::Few { .. } => 0,
            Self::Many(gemm) => gemm.scratch_bytes(),
        }
    }

    /// Operands of a step that computes it whose rows may lie apart, and their bytes: input 0 and
    /// the output.
    pub fn rows(&self) -> Vec<(Port, Option<usize>)> {
        let row = |elements: usize| Some(elements * size_of::<f32>());
        match self {
            Self::Few { gemv, .. } => vec![(Port::Output, row(gemv.columns()))],
            Self::Many(gemm) => {
                let (read, written) = (row(gemm.patches().depth()), row(gemm.channels()));
                vec![(Port::Input(0), read), (Port::Output, written)]
            }
        }
    }

    /// Parts that can be computed by themselves: panels of columns of few rows, else lines.
    pub fn bands(&self) -> usize {
        match self {
            Self::Few { gemv, .. } => gemv.panels(),
            Self::Many(gemm) => gemm.patches().lines(),
        }
    }

    /// Returns whether threads may gain by sharing bands. Few rows take as long as their weights
    /// take to come, of which each band has its own: it pays where no core's own cache holds them.
    /// Bands of more rows fetch all weights each, which takes longer than it saves where they come
    /// from far for not much more than a tile.
    pub fn gains_by_sharing(&self) -> bool {
        match self {
            Self::Few { gemv, .. } => gemv.bytes() >= FAR,
            Self::Many(gemm) => {
                let bytes = size_of::<f32>() * gemm.patches().depth() * gemm.channels();
                bytes < FAR || gemm.patches().rows() >= MANY_ROWS
            }
        }
    }

    /// Computes all rows.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute<'a>(
        &self,
        xs: impl Into<Rows<In<'a, f32>>>,
        output: impl Into<Rows<Out<'a, f32>>>,
        scratch: &mut [f32],
    ) -> Result<(), String> {
        self.compute_some(xs, output, 0..self.bands(), scratch)
    }

    /// Computes some of the bands.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute_some<'a>(
        &self,
        xs: impl Into<Rows<In<'a, f32>>>,
        output: impl Into<Rows<Out<'a, f32>>>,
        bands: Range<usize>,
        scratch: &mut [f32],
    ) -> Result<(), String> {
        match self {
            &Self::Few { ref gemv, rows, ref bias, range, .. } => {
                let (xs, output) = (xs.into().all(), output.into());
                let stride = output.pitch(rows, gemv.columns())?;
                let (start, output) = (Start::Bias(bias), output.all());
                let of = FewRows { xs, rows, start, output, stride, range };
                gemv.compute_some(bands, of)
            }
            Self::Many(gemm) => gemm.compute(xs, output, bands, scratch),
        }
    }
}
