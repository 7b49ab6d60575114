//! Depthwise convolution of bytes: channels in lanes.
//!
//! 3x3 and 5x5 windows of enough channels, and with AVX-512 those of one line, go line by line
//! through `strips`; all others here, pixel by pixel.
//!
//! Inputs and weights are differences from their zero points. A product of two fits 18 bits, so
//! `madd` with an empty upper half is a multiplication and sums are exact.

mod pixels;
mod strips;

use std::ops::Range;

use crate::kernels::gemm_i8::{Bytes, Weights};
use crate::kernels::patches::Patches;
use crate::kernels::windows::each_run;
use crate::simd::requantise::{Channels, Scaling};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::simd::{self, Simd};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::packed::Packed;
use crate::tensor::poll;
use crate::tensor::rows::{Pitched, Rows};
use crate::tensor::{In, Out};

/// Pixels whose windows cover the same taps.
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    input: *const u8,
    bytes: Bytes,
    /// Elements between taps of a column and of a line, and between the windows of neighbouring
    /// pixels.
    tap_line: usize,
    tap_column: usize,
    step: usize,
    weights: *const i32,
    /// Elements between weights of neighbouring columns and lines.
    weight_column: usize,
    weight_line: usize,
    bias: *const i32,
    lines: usize,
    columns: usize,
    channels: usize,
    output: *mut u8,
    /// Bytes between neighbouring pixels of the output.
    output_step: usize,
    count: usize,
    scaling: Channels,
}

/// A variant's ways.
#[derive(Clone, Copy, Debug)]
pub struct DepthwiseKernel {
    /// # Safety
    /// All that the pixels' windows cover is readable, their outputs are writable, weights and bias
    /// padded to [`PADDING`] channels; the machine has the instruction set.
    pixels: unsafe fn(&Pixels),
    strips: Option<strips::StripKernel>,
}

/// Best first.
pub const VARIANTS: Variants<DepthwiseKernel> = variants! {
    Avx512Vbmi: DepthwiseKernel::of::<simd::Avx512>(strips::avx512::VBMI),
    Avx512: DepthwiseKernel::of::<simd::Avx512>(strips::avx512::KERNEL),
    Avx2: DepthwiseKernel::of::<simd::Avx2>(strips::avx2::KERNEL),
    Neon: DepthwiseKernel::of::<simd::Neon>(strips::neon::KERNEL),
    Scalar: DepthwiseKernel { pixels: pixels::scalar, strips: None },
};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl DepthwiseKernel {
    const fn of<S: Simd>(strips: strips::StripKernel) -> Self {
        Self { pixels: S::run::<pixels::Windows>, strips: Some(strips) }
    }
}

/// Channels that weights and bias are padded to.
const PADDING: usize = 16;

/// Nanoseconds of the pixels that a kernel gets at a time, about, where there are many.
const RUN_NS: usize = 500_000;

/// A depthwise convolution with one filter per channel, packed.
#[derive(Debug)]
pub struct Depthwise {
    variant: Variant<DepthwiseKernel>,
    patches: Patches,
    way: Way,
}

/// The path that computes it.
#[derive(Debug)]
enum Way {
    Strips(Box<strips::Strips>),
    Pixels {
        /// Channels of a line of weights.
        padded: usize,
        /// The bias, then a line per tap.
        weights: Packed,
        bytes: Bytes,
        scaling: Scaling,
    },
}

impl Depthwise {
    /// `weights` has a line of the patches' channels per tap. `None` where lengths differ.
    pub fn new(
        isa: Isa,
        patches: Patches,
        bytes: Bytes,
        weights: Weights<'_>,
        bias: &[i32],
        scaling: Scaling,
    ) -> Option<Self> {
        let channels = patches.channels;
        let Weights { values, bytes: quantised } = weights;
        if channels == 0 || values.len() != patches.depth() || bias.len() != channels {
            return None;
        }
        let variant = VARIANTS.best(isa);
        let strips = variant.run.strips.and_then(|kernel| {
            strips::Strips::new(kernel, patches, bytes, weights, bias, &scaling)
        });
        if let Some(strips) = strips {
            return Some(Self { variant, patches, way: Way::Strips(Box::new(strips)) });
        }
        let padded = channels.next_multiple_of(PADDING);
        let size = (values.len() / channels + 1) * padded * 4;
        let weights = Packed::new("depthwise_i8", size, |packed| {
            let (line, lines) = packed.typed_mut::<i32>().split_at_mut(padded);
            line[..channels].copy_from_slice(bias);
            let taps = lines.chunks_exact_mut(padded).zip(values.chunks_exact(channels));
            for (to, from) in poll::each(taps, channels) {
                for (to, &from) in to.iter_mut().zip(from) {
                    // The upper half stays empty, whatever the sign.
                    *to = (i32::from(from ^ quantised.flip) - quantised.zero_point) & 0xFFFF;
                }
            }
        })?;
        Some(Self { variant, patches, way: Way::Pixels { padded, weights, bytes, scaling } })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Bands that may be computed by themselves: lines of pixels, or all of them.
    pub fn bands(&self) -> usize {
        match &self.way {
            Way::Strips(strips) => strips.lines(),
            Way::Pixels { .. } => 1,
        }
    }

    /// Scratch memory of a computation.
    pub fn scratch_bytes(&self) -> usize {
        match &self.way {
            Way::Strips(strips) => strips.scratch_bytes(),
            Way::Pixels { .. } => 0,
        }
    }

    /// Returns whether pixels of the output may lie apart.
    pub fn takes_rows(&self) -> bool {
        match &self.way {
            // Fewer channels than a vector has lie side by side in it.
            Way::Strips(_) => self.patches.channels >= strips::LANES,
            Way::Pixels { .. } => true,
        }
    }

    /// Computes some bands.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute<'a>(
        &self,
        image: impl Into<Rows<In<'a, u8>>>,
        output: impl Into<Rows<Out<'a, u8>>>,
        scratch: &mut [u32],
        bands: Range<usize>,
    ) -> Result<(), String> {
        let channels = self.patches.channels;
        let image = image.into().pitched(self.patches.pixels(), channels)?;
        let output = output.into().pitched(self.patches.rows(), channels)?;
        crate::tensor::check_lengths(scratch.len() * 4, self.scratch_bytes())?;
        crate::tensor::check_lengths(self.bands(), bands.end)?;
        if output.pitch != channels && !self.takes_rows() {
            return Err(format!("pixels {} bytes apart", output.pitch));
        }
        // SAFETY: the lengths are what is asked for; `best` chose what the machine has.
        unsafe {
            match &self.way {
                Way::Strips(strips) => strips.run(image, output, scratch, bands),
                Way::Pixels { padded, weights, bytes, scaling } if !bands.is_empty() => {
                    self.pixels(image, output, weights.typed(), *padded, *bytes, scaling);
                }
                Way::Pixels { .. } => {}
            }
        }
        Ok(())
    }

    /// # Safety
    /// `image` is readable for the patches' elements, `output` writable for rows times channels.
    unsafe fn pixels(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        packed: &[i32],
        padded: usize,
        bytes: Bytes,
        scaling: &Scaling,
    ) {
        let p = &self.patches;
        let weight_line = p.filter_w * padded;
        each_run(p, |run| {
            let tap = run.lines.start * weight_line + (run.columns.start + 1) * padded;
            let pixels = Pixels {
                input: image.row(run.input),
                bytes,
                tap_line: p.lines_apart(p.dilation_h, image.pitch),
                tap_column: Patches::columns_apart(p.dilation_w, image.pitch),
                step: Patches::columns_apart(p.stride_w, image.pitch),
                weights: packed[tap.min(packed.len())..].as_ptr(),
                weight_column: padded,
                weight_line,
                bias: packed.as_ptr(),
                lines: run.lines.len(),
                columns: run.columns.len(),
                channels: p.channels,
                output: output.row(run.output),
                output_step: output.pitch,
                count: run.count,
                scaling: scaling.from(0),
            };
            let per_ns = if self.variant.isa == Isa::Scalar { 1 } else { 4 };
            let taps = run.lines.len() * run.columns.len() + 1;
            let pixel_ns = p.channels * taps / per_ns + 1;
            let most = (RUN_NS / pixel_ns).max(1);
            for first in (0..run.count).step_by(most) {
                let count = most.min(run.count - first);
                if poll::work(pixel_ns * count).is_err() {
                    return;
                }
                let part = Pixels {
                    input: pixels.input.wrapping_add(first * pixels.step),
                    output: pixels.output.wrapping_add(first * pixels.output_step),
                    count,
                    ..pixels
                };
                // SAFETY: runs keep to the image; `best` chose what the machine has.
                unsafe { (self.variant.run.pixels)(&part) };
            }
        });
    }
}

#[cfg(test)]
mod tests;
