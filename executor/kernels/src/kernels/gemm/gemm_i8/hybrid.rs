//! Products of images that are quantised on the fly: their zero point is known at run time, and the
//! sums become floats.
//!
//! Sums are of bytes as the variant reads them. With dot products the zero point times the sum of
//! the weights is taken off each, as for images whose zero point is known the packed bias does;
//! differences from the zero point need nothing of the kind.

use super::VARIANTS;
use super::kernel::{Bytes, Encoding, Results, Weights};
use super::packed::PackedWeights;
use crate::kernels::patches::Patches;
use crate::kernels::plain;
use crate::simd::Isa;
use crate::simd::vector_i32::FloatChannels;
use crate::tensor::rows::Rows;
use crate::tensor::{In, Out, check_lengths, poll};

/// Weights, packed for a variant, and what makes floats of their products with an image.
#[derive(Debug)]
pub struct HybridGemm {
    packed: PackedWeights,
    /// Rows of weights: the channels of the output.
    channels: usize,
    /// Of each column of the panels the scale and the sum of its weights, each less its zero point.
    scales: Vec<f32>,
    sums: Vec<i32>,
    scaling: FloatScaling,
    range: (f32, f32),
}

/// The order in which a sum is multiplied with two scales, rounded each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatScaling {
    /// With the product of the weights' scale and the image's.
    Joined,
    /// With the weights' scale, then with the image's.
    WeightsFirst,
}

impl HybridGemm {
    /// Packs `scales.len()` rows of weights, each as long as the patches of one image are deep and
    /// with a scale of its own. Results are clamped to `range`; NaN is kept. `None` where the
    /// slices are of other lengths, or the patches are of several images.
    pub fn new(
        isa: Isa,
        patches: Patches,
        weights: Weights<'_>,
        scales: &[f32],
        scaling: FloatScaling,
        range: (f32, f32),
    ) -> Option<Self> {
        let of_image = Bytes { flip: 0, zero_point: 0 };
        let bias = vec![0; scales.len()];
        let variant = VARIANTS.best(isa);
        let packed = PackedWeights::new(variant, patches, of_image, weights, &bias)?;
        let from_zero = |&weight: &u8| weights.bytes.from_zero(weight);
        let rows = weights.values.chunks_exact(patches.depth());
        let sum = |row: &[u8]| row.iter().map(from_zero).fold(0, i32::wrapping_add);
        let (channels, lanes) = (scales.len(), variant.run.width(packed.columns()));
        // Once more where two windows were made one.
        let sums = poll::each(rows, patches.depth() / 4).map(sum);
        let mut sums = sums.collect::<Vec<_>>().repeat(packed.columns() / channels);
        let mut scales = scales.repeat(packed.columns() / channels);
        sums.resize(lanes, 0);
        scales.resize(lanes, 0.0);
        let is_one = patches.batches == 1;
        is_one.then_some(Self { packed, channels, scales, sums, scaling, range })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.packed.isa()
    }

    /// The bits in which the image's bytes differ from signed ones.
    pub fn flip(&self) -> u8 {
        if self.packed.kernel().signed { 0 } else { 0x80 }
    }

    /// Bytes of scratch memory that [`HybridGemm::compute`] takes.
    pub fn scratch_bytes(&self) -> usize {
        // For each column what its sums are brought to floats by.
        self.packed.scratch_bytes() + 3 * 4 * self.scales.len()
    }

    /// Floats of a row of the output: twice as many as there are rows of weights where two windows
    /// were made one.
    pub fn columns(&self) -> usize {
        self.packed.columns()
    }

    /// Computes the floats of an image: of each window and column
    /// `sum((byte - zero_point) * weight)`, times both scales, plus the bias if there is one.
    /// `scale` and `zero_point` are those of the image as signed bytes. The image's rows are its
    /// pixels, those of the output have [`HybridGemm::columns`] floats.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute<'a>(
        &self,
        image: impl Into<Rows<In<'a, u8>>>,
        scale: f32,
        zero_point: i32,
        bias: Option<In<'_, f32>>,
        output: impl Into<Rows<Out<'a, f32>>>,
        scratch: &mut [u32],
    ) -> Result<(), String> {
        let (patches, columns) = (self.packed.patches(), self.packed.columns());
        let image = image.into().pitched(patches.pixels(), patches.channels)?;
        let output = output.into().pitched(patches.rows(), columns)?.cast::<u8>();
        check_lengths(size_of_val(scratch), self.scratch_bytes())?;
        if let Some(bias) = bias {
            check_lengths(bias.len(), self.channels)?;
        }
        let kernel = self.packed.kernel();
        // As the variant reads bytes.
        let zero_point = zero_point + if kernel.signed { 0 } else { 128 };
        let taken_off = if kernel.encoding == Encoding::Bytes { zero_point } else { 0 };
        let (joined, factor) = match self.scaling {
            FloatScaling::Joined => (scale, 1.0),
            FloatScaling::WeightsFirst => (1.0, scale),
        };
        let (offsets, rest) = scratch.split_at_mut(self.sums.len());
        let (factors, rest) = rest.split_at_mut(self.scales.len());
        let (addends, rest) = rest.split_at_mut(self.scales.len());
        let offsets: &mut [i32] = bytemuck::cast_slice_mut(offsets);
        let factors: &mut [f32] = bytemuck::cast_slice_mut(factors);
        let addends: &mut [f32] = bytemuck::cast_slice_mut(addends);
        let isa = self.isa();
        let (sums, scales) = (In::of(&self.sums[..]), In::of(&self.scales[..]));
        plain::map(isa, sums, Out::of(&mut *offsets), |sum| sum.wrapping_mul(taken_off));
        plain::map(isa, scales, Out::of(&mut *factors), |scale| scale * joined);
        addends.fill(0.0);
        if let Some(bias) = bias {
            addends[..columns].chunks_mut(self.channels).for_each(|to| bias.copy_to(to));
        }
        if patches.rows() == 0 {
            return Ok(());
        }
        let results = Results::Floats(FloatChannels {
            offsets: offsets.as_ptr(),
            factors: factors.as_ptr(),
            factor,
            addends: addends.as_ptr(),
            range: self.range,
        });
        let bytes = Bytes { flip: 0, zero_point };
        // SAFETY: the lengths are what is asked for, and the numbers are there for whole panels.
        unsafe { self.packed.run(image, bytes, output, results, 0..patches.lines(), rest) };
        Ok(())
    }
}
