//! Depthwise convolution of floats: channels in lanes, a window's weights in registers where it is
//! 3x3.

mod scalar;
mod vectors;

use std::ops::Range;

use crate::kernels::lines::Convolution;
use crate::kernels::patches::Patches;
use crate::kernels::windows::each_region;
use crate::simd::{Isa, Variant, Variants, fetch, variants};
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
/// padded to `PADDING` channels; the machine has the instruction set.
pub type Run = unsafe fn(&Pixels);

/// Best first.
pub const VARIANTS: Variants<Run> = variants!(vectors::Windows<false>, scalar::pixels::<false>);

/// The same for [`Depthwise::ordered`], best first.
pub const ORDERED: Variants<Run> = variants!(vectors::Windows<true>, scalar::pixels::<true>);

/// Channels that weights and bias are padded to.
const PADDING: usize = 16;

/// Pixels so many floats apart lie in a few sets of L1, and those of three lines push
/// each other out. So a slice of the channels is copied together first: 26 GFLOP/s within a network
/// instead of 16.
const CLASHING: usize = 256;

/// Channels of such a slice: a line of the cache.
const SLICE: usize = 16;

/// Bytes of a slice: half of L1.
const SLICE_BYTES: usize = 16 << 10;

/// Nanoseconds of the pixels that a kernel gets at a time, about, where there are many.
const REGION_NS: usize = 500_000;

/// A depthwise convolution with one filter per channel, packed.
#[derive(Debug)]
pub struct Depthwise {
    variant: Variant<Run>,
    patches: Patches,
    padded: usize,
    /// The bias, then a line per tap.
    weights: Packed,
    low: f32,
    high: f32,
    /// `None`: windows are read where they lie.
    sliced: Option<Sliced>,
}

/// The copy of a few channels of an image, side by side.
#[derive(Clone, Copy, Debug)]
struct Sliced {
    /// Lines of outputs that they are copied for at a time.
    lines: usize,
    /// Lines and columns of zeros above and left of the image in the copy.
    top: usize,
    left: usize,
    /// The windows over the copy: none is cut, where there are such borders on all sides.
    patches: Patches,
}

/// Some of an image's channels.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// The address of the first of them, or the one it would have, in the first pixel.
    first: *const f32,
    /// Elements between pixels.
    step: usize,
    channel: usize,
    channels: usize,
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
        let packed = Packed::new("depthwise_f32", bytes, |packed| {
            let lines = packed.typed_mut::<f32>().chunks_exact_mut(padded);
            let taps = std::iter::once(bias).chain(weights.chunks_exact(channels));
            for (to, from) in poll::each(lines.zip(taps), channels / 4) {
                to[..channels].copy_from_slice(from);
            }
        })?;
        let clashes = channels.is_multiple_of(CLASHING) && patches.batches == 1;
        let sliced = clashes.then(|| {
            // Nothing comes of zeros, unless they meet what is no number. What is packed is asked:
            // a model from a cache lacks the constants of which it was made.
            let (_bias, taps) = packed.typed::<f32>().split_at(padded);
            Sliced::new(patches, taps.iter().all(|weight| weight.is_finite()))
        });
        Some(Self { variant, patches, padded, weights: packed, low, high, sliced })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Computes some channels of some lines.
    ///
    /// # Safety
    /// As for [`Convolution::run`].
    unsafe fn channels(
        &self,
        p: &Patches,
        source: Source,
        output: Pitched<*mut f32>,
        lines: Range<usize>,
    ) {
        let Source { first, step, channel, channels } = source;
        let packed = self.weights.typed::<f32>();
        let weight_line = p.filter_w * self.padded;
        each_region(p, lines, |region| {
            let tap = region.lines.start * weight_line + (region.columns.start + 1) * self.padded;
            let pixels = Pixels {
                input: first.wrapping_add(region.input * step),
                tap_line: p.lines_apart(p.dilation_h, step),
                tap_column: Patches::columns_apart(p.dilation_w, step),
                step: Patches::columns_apart(p.stride_w, step),
                weights: packed[(tap + channel).min(packed.len())..].as_ptr(),
                weight_column: self.padded,
                weight_line,
                bias: packed[channel..].as_ptr(),
                lines: region.lines.len(),
                columns: region.columns.len(),
                channels,
                output: output.row(region.output).wrapping_add(channel),
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

impl Sliced {
    /// With borders of zeros on all sides, where weights are finite and the borders not wider than
    /// the image.
    fn new(image: Patches, finite: bool) -> Self {
        let mut patches = image;
        let reach_w = (image.filter_w - 1) * image.dilation_w + 1;
        let height = (image.out_height - 1) * image.stride_h + image.reach_h();
        let width = (image.out_width - 1) * image.stride_w + reach_w;
        let is_near = |all: usize, image: usize| all <= 2 * image + SLICE;
        if finite && is_near(height, image.in_height) && is_near(width, image.in_width) {
            patches.in_height = height.max(image.top + image.in_height);
            patches.in_width = width.max(image.left + image.in_width);
            (patches.top, patches.left) = (0, 0);
        }
        let (top, left) = (image.top - patches.top, image.left - patches.left);
        let lines = SLICE_BYTES / (patches.in_width * SLICE * size_of::<f32>()).max(1);
        let lines = lines.saturating_sub(image.reach_h()) / image.stride_h + 1;
        Self { lines, top, left, patches }
    }

    /// Pixels of a copy.
    fn pixels(&self) -> usize {
        let lines = (self.lines - 1) * self.patches.stride_h + self.patches.reach_h();
        lines.min(self.patches.in_height) * self.patches.in_width
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
        self.sliced.map_or(0, |sliced| sliced.pixels() * SLICE * size_of::<f32>())
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
        let p = &self.patches;
        let Some(sliced) = self.sliced else {
            let (first, step) = (image.start, image.pitch);
            let all = Source { first, step, channel: 0, channels: p.channels };
            // SAFETY: as the caller promises.
            return unsafe { self.channels(p, all, output, lines) };
        };
        let width = sliced.patches.in_width;
        for first in lines.clone().step_by(sliced.lines) {
            let band = first..(first + sliced.lines).min(lines.end);
            let wanted = sliced.patches.input_lines(&band);
            // What is beyond the image stays 0 from slice to slice.
            scratch.fill(0.0);
            for channel in (0..p.channels).step_by(SLICE) {
                for (line, to) in wanted.clone().zip(scratch.chunks_exact_mut(width * SLICE)) {
                    let line = line.wrapping_sub(sliced.top);
                    if line >= p.in_height {
                        continue;
                    }
                    let from = image.row(line * p.in_width).wrapping_add(channel);
                    let to = to[sliced.left * SLICE..].chunks_exact_mut(SLICE);
                    for (pixel, to) in (0..p.in_width).zip(to) {
                        let from = from.wrapping_add(pixel * image.pitch);
                        fetch(from.wrapping_add(SLICE));
                        let (from, bytes) = (from.cast::<u8>(), size_of_val(to));
                        // SAFETY: these channels of a pixel that the band's windows cover, and room
                        // for them.
                        unsafe {
                            to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from, bytes);
                        }
                    }
                }
                let first = scratch.as_ptr().wrapping_sub(wanted.start * width * SLICE);
                let slice = Source { first, step: SLICE, channel, channels: SLICE };
                // SAFETY: the lines that the band needs are there.
                unsafe { self.channels(&sliced.patches, slice, output, band.clone()) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
