//! Depthwise convolution of floats: channels in lanes, a window's weights in registers where it is
//! 3x3.

mod scalar;
mod vectors;

use std::ops::Range;

use crate::kernels::lines::Convolution;
use crate::kernels::patches::Patches;
use crate::kernels::windows::each_region;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::packed::Packed;
use crate::tensor::poll;
use crate::tensor::rows::Pitched;

/// A rectangle of pixels whose windows cover the same taps.
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    input: *const f32,
    /// Elements between taps of a column and of a line, and between the windows of neighbouring
    /// pixels.
    tap_line: usize,
    tap_column: usize,
    step: usize,
    weights: *const f32,
    /// Elements between weights of neighbouring columns and lines.
    weight_column: usize,
    weight_line: usize,
    bias: *const f32,
    lines: usize,
    columns: usize,
    channels: usize,
    output: *mut f32,
    /// Elements between neighbouring pixels of the output.
    output_step: usize,
    /// Pixels of a line.
    count: usize,
    /// Lines of pixels, and elements between them in input and output.
    height: usize,
    input_line: usize,
    output_line: usize,
    low: f32,
    high: f32,
}

/// # Safety
/// All that the pixels' windows cover is readable, their outputs are writable, weights and bias
/// padded to `PADDING` channels by repeating them; the machine has the instruction set.
pub type Run = unsafe fn(&Pixels);

/// Best first.
pub const VARIANTS: Variants<Run> = variants!(vectors::Windows<false>, scalar::pixels::<false>);

/// The same for [`Depthwise::ordered`], best first.
pub const ORDERED: Variants<Run> = variants!(vectors::Windows<true>, scalar::pixels::<true>);

/// Channels that weights and bias are padded to.
const PADDING: usize = 16;

/// Pixels a multiple of so many floats apart, or a power of two from [`CLASHING_POWER`] on, lie in
/// a few sets of L1, and some channels of three lines of them push each other out: 33 GFLOP/s
/// where all windows of these are computed before the next channels, 73 where all channels of a
/// few windows are.
const CLASHING: usize = 256;
const CLASHING_POWER: usize = 64;

/// Floats of an image with its padding up to which it is copied, for each line or column of a
/// window beyond the first. Of small images the borders, pieces with windows of their own, take
/// more than the middle: 8x8 pixels of 16 channels take 0.5 of the time, 14x14 of 8 channels 0.65.
const COPIED_ELEMENTS: usize = 3584;

/// Returns whether windows are those of a copy of the image with its padding, where weights are
/// numbers: others would not leave out what is beyond the image.
fn copies(p: &Patches) -> bool {
    let most = COPIED_ELEMENTS * (p.filter_h.max(p.filter_w) - 1).min(8);
    p.is_padded() && p.padded_elements(p.out_height) <= most
}

/// Nanoseconds of the pixels that a kernel gets at a time, about, where there are many.
const REGION_NS: usize = 500_000;

/// A depthwise convolution with one filter per channel, packed.
#[derive(Debug)]
pub struct Depthwise {
    variant: Variant<Run>,
    patches: Patches,
    /// True if windows are those of a copy of the image with its padding.
    is_copied: bool,
    padded: usize,
    /// The bias, then a line per tap; what they are padded with are the same again.
    weights: Packed,
    low: f32,
    high: f32,
}

impl Depthwise {
    /// `weights` has a line of the patches' channels per tap. `None` where lengths differ.
    pub fn new(
        isa: Isa,
        patches: Patches,
        weights: &[f32],
        bias: &[f32],
        range: (f32, f32),
    ) -> Option<Self> {
        Self::of(VARIANTS.best(isa), patches, weights, bias, range)
    }

    /// The same with sums in the order of a plain loop: from 0 on tap by tap, each product rounded
    /// before it is added, and the bias last. Every variant gives the same bits.
    pub fn ordered(
        isa: Isa,
        patches: Patches,
        weights: &[f32],
        bias: &[f32],
        range: (f32, f32),
    ) -> Option<Self> {
        Self::of(ORDERED.best(isa), patches, weights, bias, range)
    }

    fn of(
        variant: Variant<Run>,
        patches: Patches,
        weights: &[f32],
        bias: &[f32],
        (low, high): (f32, f32),
    ) -> Option<Self> {
        let channels = patches.channels;
        if channels == 0 || weights.len() != patches.depth() || bias.len() != channels {
            return None;
        }
        let padded = channels.next_multiple_of(PADDING);
        let bytes = (weights.len() / channels + 1) * padded * 4;
        let packed = Packed::new("depthwise_f32_repeated", bytes, |packed| {
            let lines = packed.typed_mut::<f32>().chunks_exact_mut(padded);
            let taps = std::iter::once(bias).chain(weights.chunks_exact(channels));
            for (to, from) in poll::each(lines.zip(taps), channels / 4) {
                // Repeated, for vectors of several pixels.
                to.chunks_mut(channels).for_each(|to| to.copy_from_slice(&from[..to.len()]));
            }
        })?;
        let is_copied = copies(&patches) && packed.typed::<f32>().iter().all(|it| it.is_finite());
        Some(Self { variant, patches, is_copied, padded, weights: packed, low, high })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }
}

impl Convolution for Depthwise {
    type Element = f32;
    type Scratch = f32;

    const DEPTHWISE: bool = true;

    fn patches(&self) -> &Patches {
        &self.patches
    }

    fn channels(&self) -> usize {
        self.patches.channels
    }

    fn scratch_bytes(&self) -> usize {
        if self.is_copied { self.patches.padded_elements(self.patches.out_height) * 4 } else { 0 }
    }

    /// Few, and each read once.
    fn weight_bytes(&self) -> usize {
        0
    }

    unsafe fn run(
        &self,
        image: Pitched<*const f32>,
        output: Pitched<*mut f32>,
        lines: Range<usize>,
        scratch: &mut [f32],
    ) {
        if !self.is_copied {
            // SAFETY: as the caller promises.
            return unsafe { self.windows(&self.patches, image, output, lines) };
        }
        let (height, mut first) = (self.patches.out_height, lines.start);
        while first < lines.end {
            let (batch, line) = (first / height, first % height);
            let own = line..height.min(line + lines.end - first);
            let (copy, count) = (scratch.as_mut_ptr(), own.len());
            let padded = self.patches.of_padded(count);
            let image_of_lines = Pitched { start: copy.cast_const(), pitch: padded.channels };
            let output = Pitched { start: output.row(first * padded.out_width), ..output };
            // SAFETY: as the caller promises, and of all windows of these lines in the copy.
            unsafe {
                self.patches.copy_padded(self.variant.isa, image, batch, own, copy);
                self.windows(&padded, image_of_lines, output, 0..count);
            }
            first += count;
        }
    }
}

impl Depthwise {
    /// Some lines of outputs, by windows that keep to the image.
    ///
    /// # Safety
    /// As for [`Convolution::run`], with these patches.
    unsafe fn windows(
        &self,
        p: &Patches,
        image: Pitched<*const f32>,
        output: Pitched<*mut f32>,
        lines: Range<usize>,
    ) {
        let (step, channels) = (image.pitch, p.channels);
        let packed = self.weights.typed::<f32>();
        let weight_line = p.filter_w * self.padded;
        each_region(p, lines, |region| {
            let tap = region.lines.start * weight_line + (region.columns.start + 1) * self.padded;
            let pixels = Pixels {
                input: image.row(region.input),
                tap_line: p.lines_apart(p.dilation_h, step),
                tap_column: Patches::columns_apart(p.dilation_w, step),
                step: Patches::columns_apart(p.stride_w, step),
                weights: packed[tap.min(packed.len())..].as_ptr(),
                weight_column: self.padded,
                weight_line,
                bias: packed.as_ptr(),
                lines: region.lines.len(),
                columns: region.columns.len(),
                channels,
                output: output.row(region.output),
                output_step: output.pitch,
                count: region.width,
                height: region.height,
                input_line: p.lines_apart(p.stride_h, step),
                output_line: p.out_width * output.pitch,
                low: self.low,
                high: self.high,
            };
            let per_ns = if self.variant.isa == Isa::Scalar { 1 } else { 8 };
            let taps = region.lines.len() * region.columns.len() + 1;
            // Saturating: a region of a far border has more than 32 bits count.
            let pixel_ns = channels.saturating_mul(taps) / per_ns + 1;
            let region_ns = pixel_ns.saturating_mul(region.width).saturating_mul(region.height);
            if region_ns <= REGION_NS {
                if poll::work(region_ns).is_ok() {
                    // SAFETY: regions keep to the image; `best` chose what the machine has.
                    unsafe { (self.variant.run)(&pixels) };
                }
                return;
            }
            let most = (REGION_NS / pixel_ns).max(1);
            for line in 0..region.height {
                for first in (0..region.width).step_by(most) {
                    let count = most.min(region.width - first);
                    if poll::work(pixel_ns * count).is_err() {
                        return;
                    }
                    let input = line * pixels.input_line + first * pixels.step;
                    let output = line * pixels.output_line + first * pixels.output_step;
                    let part = Pixels {
                        input: pixels.input.wrapping_add(input),
                        output: pixels.output.wrapping_add(output),
                        count,
                        height: 1,
                        ..pixels
                    };
                    // SAFETY: as above, for some pixels of a line.
                    unsafe { (self.variant.run)(&part) };
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
