//! Depthwise convolution of floats: channels in lanes, a window's weights in registers where it is 3x3.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use std::ops::Range;

use super::chain::Lines;
use super::patches::Patches;
use super::windows::each_region;
use super::{Form, Isa, best};
use crate::io::{In, Out};
use crate::packed::Packed;

/// A rectangle of pixels whose windows cover the same taps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pixels {
    input: *const f32,
    /// Elements between taps of a column and of a line, and between the windows of neighbouring pixels.
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
    /// Pixels of a line.
    count: usize,
    /// Lines of pixels, and elements between them in input and output.
    height: usize,
    input_line: usize,
    output_line: usize,
    low: f32,
    high: f32,
}

impl Pixels {
    /// The same but for where it starts: at line `at`.
    #[inline(always)]
    fn line(&self, at: usize) -> Self {
        Self {
            input: self.input.wrapping_add(at * self.input_line),
            output: self.output.wrapping_add(at * self.output_line),
            ..*self
        }
    }
}

/// # Safety
/// All that the pixels' windows cover is readable, their outputs are writable, weights and bias padded to
/// [`PADDING`] channels; the machine has the instruction set.
pub(crate) type Run = unsafe fn(&Pixels);

/// Best first.
pub(crate) const FORMS: &[Form<Run>] = &[
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx512, run: avx512::pixels },
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx2, run: avx2::pixels },
    #[cfg(target_arch = "aarch64")]
    Form { isa: Isa::Neon, run: neon::pixels },
    Form { isa: Isa::Scalar, run: scalar::pixels },
];

/// Channels that weights and bias are padded to.
const PADDING: usize = 16;

/// A depthwise convolution with one filter per channel, packed.
#[derive(Debug)]
pub(crate) struct Depthwise {
    form: Form<Run>,
    patches: Patches,
    padded: usize,
    /// The bias, then a line per tap.
    weights: Packed,
    low: f32,
    high: f32,
}

impl Depthwise {
    /// `weights` has a line of the patches' channels per tap. `None` where lengths differ.
    pub(crate) fn new(
        isa: Isa,
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
        let weights = Packed::new("depthwise_f32", bytes, |packed| {
            let lines = packed.typed_mut::<f32>().chunks_exact_mut(padded);
            let taps = std::iter::once(bias).chain(weights.chunks_exact(channels));
            for (to, from) in lines.zip(taps) {
                to[..channels].copy_from_slice(from);
            }
        });
        Some(Self { form: best(FORMS, isa), patches, padded, weights, low, high })
    }

    /// The form that was chosen.
    pub(crate) fn isa(&self) -> Isa {
        self.form.isa
    }

    /// Lines of the output, which may be computed apart.
    pub(crate) fn lines(&self) -> usize {
        self.patches.lines()
    }

    /// Computes some lines of the output, [`Depthwise::lines`] being all.
    ///
    /// # Errors
    /// Memory is missing.
    pub(crate) fn compute(
        &self,
        image: In<'_, f32>,
        output: Out<'_, f32>,
        lines: Range<usize>,
    ) -> Result<(), String> {
        super::check_lengths(image.len(), self.patches.elements())?;
        super::check_lengths(output.len(), self.patches.rows() * self.patches.channels)?;
        super::check_lengths(self.patches.lines(), lines.end)?;
        // SAFETY: the lengths are what is asked for.
        unsafe { self.run(image.as_ptr(), output.as_mut_ptr(), lines) };
        Ok(())
    }

    /// Computes some lines of the output.
    ///
    /// # Safety
    /// `image` and `output` are where their first elements would be; readable and writable is what these
    /// lines need of them.
    unsafe fn run(&self, image: *const f32, output: *mut f32, lines: Range<usize>) {
        let p = &self.patches;
        let (packed, bias) = (self.weights.typed::<f32>(), self.weights.typed::<f32>().as_ptr());
        let weight_line = p.filter_w * self.padded;
        each_region(p, lines, |region| {
            let tap = region.lines.start * weight_line + (region.columns.start + 1) * self.padded;
            let pixels = Pixels {
                input: image.wrapping_add(region.input * p.channels),
                tap_line: p.dilation_h * p.in_width * p.channels,
                tap_column: p.dilation_w * p.channels,
                step: p.stride_w * p.channels,
                weights: packed[tap.min(packed.len())..].as_ptr(),
                weight_column: self.padded,
                weight_line,
                bias,
                lines: region.lines.len(),
                columns: region.columns.len(),
                channels: p.channels,
                output: output.wrapping_add(region.output * p.channels),
                count: region.width,
                height: region.height,
                input_line: p.stride_h * p.in_width * p.channels,
                output_line: p.out_width * p.channels,
                low: self.low,
                high: self.high,
            };
            // SAFETY: regions keep to the image; `best` chose what the machine has.
            unsafe { (self.form.run)(&pixels) };
        });
    }
}

impl Lines for Depthwise {
    fn patches(&self) -> &Patches {
        &self.patches
    }

    fn element_bytes(&self) -> usize {
        size_of::<f32>()
    }

    fn channels(&self) -> usize {
        self.patches.channels
    }

    fn is_depthwise(&self) -> bool {
        true
    }

    fn scratch_bytes(&self) -> usize {
        0
    }

    unsafe fn lines(
        &self,
        image: *const u8,
        output: *mut u8,
        lines: Range<usize>,
        _scratch: &mut [u8],
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.run(image.cast(), output.cast(), lines) };
    }
}

#[cfg(test)]
mod tests;
