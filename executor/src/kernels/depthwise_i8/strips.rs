//! 3x3 and 5x5 windows, several lines of a column in each 32-bit lane: `vpdpbusd` then multiplies three or four
//! lines of a window's column at once.
//!
//! ```text
//!   four lines of 16 bytes ──interleaved──► lane c: line 0, 1, 2, 3 of channel c
//!   weights (w0, w1, w2, 0) ► output line 0;  (0, w0, w1, w2) ► output line 1
//! ```
//!
//! Five lines, and the sixth of the windows below, take two words; what is right for three is right for them.
//!
//! Lines come with their padding from a copy (see [`Bands`]), so every window is whole. The difference of a
//! weight from its zero point may take 9 bits: what doesn't fit a signed byte goes into a second product,
//! which is left out where all of it is 0. The image's zero point is in the bias.

use std::ops::Range;

use super::super::gemm_i8::avx512::encode;
use super::super::gemm_i8::bands::Bands;
use super::super::gemm_i8::{Bytes, Encoding};
use super::avx512;
use crate::kernels::patches::Patches;
use crate::kernels::requantise::{Channels, Scaling};
use crate::packed::Packed;

/// Bytes of a vector of channels.
const LANES: usize = 16;

/// Words that the lines of a window and of the one below take.
const fn words(side: usize) -> usize {
    (side + 1).div_ceil(4)
}

/// Lines of a block of weights: the bias, then the words of each column, then what is left of them.
const fn block_lines(side: usize) -> usize {
    1 + 2 * side * words(side)
}

/// Bytes that the first cache holds of the input beside weights and output.
const NEAR_BYTES: usize = 20 << 10;

/// Bytes that come from memory together.
const CACHE_LINE: usize = 64;

/// A 3x3 or 5x5 depthwise convolution, packed in blocks of sixteen lanes.
#[derive(Debug)]
pub(super) struct Strips {
    bands: Bands,
    image: Bytes,
    weights: Packed,
    /// Whether weights leave something for a second product.
    split: bool,
    scaling: Scaling,
}

/// One or two neighbouring lines of outputs, of one block of channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) input: *const u8,
    /// Bytes between lines of input, taps of a line, windows.
    pub(super) line: usize,
    pub(super) tap: usize,
    pub(super) step: usize,
    /// [`block_lines`] lines of sixteen words.
    pub(super) weights: *const i32,
    pub(super) split: bool,
    pub(super) output: *mut u8,
    /// Bytes between lines and vectors of output.
    pub(super) out_line: usize,
    pub(super) out_step: usize,
    /// Vectors in a line.
    pub(super) count: usize,
    /// Whether there are two lines.
    pub(super) two: bool,
    pub(super) scaling: Channels,
}

impl Strips {
    /// `None` for windows that are neither 3x3 nor 5x5, for channels that don't fill vectors, and for weights that may be 255,
    /// which is no sum of two signed bytes.
    pub(super) fn new(
        patches: Patches,
        image: Bytes,
        (weights, quantised): (&[u8], Bytes),
        bias: &[i32],
        scaling: &Scaling,
    ) -> Option<Self> {
        let (p, channels) = (&patches, patches.channels);
        let several = LANES.is_multiple_of(channels)
            && p.stride_w == 1
            && (p.out_width * channels).is_multiple_of(LANES);
        // Told by the zero point alone: weights that come out of a cache aren't there to be looked at.
        let in_two = quantised.zero_point > 0;
        let side = p.filter_h;
        let fits = matches!((side, p.filter_w), (3, 3) | (5, 5))
            && (channels >= LANES || several)
            && in_two;
        if !fits || p.rows() == 0 || p.in_height == 0 || p.in_width == 0 {
            return None;
        }
        let lanes = channels.next_multiple_of(LANES);
        let channel = |lane: usize| channel(channels, lane);
        let scaling = scaling.rearranged(lanes, channel);
        let (words, block_len) = (words(side), block_lines(side) * LANES);
        let packed = Packed::new("depthwise_i8 strips", lanes / LANES * block_len * 4, |packed| {
            let blocks = packed.typed_mut::<i32>().chunks_exact_mut(block_len);
            for (block, lines) in blocks.enumerate() {
                for lane in 0..LANES {
                    let channel = channel(block * LANES + lane);
                    let weight = |tap: usize| {
                        let stored = weights[tap * channels + channel] ^ quantised.flip;
                        i32::from(stored) - quantised.zero_point
                    };
                    let sum: i32 = (0..side * side).map(weight).sum();
                    lines[lane] = bias[channel].wrapping_sub(sum.wrapping_mul(image.zero_point));
                    let parts: [fn(i32) -> i32; 2] = [most, |w| w - most(w)];
                    for (at, line) in (0..2 * side * words).zip(1..) {
                        let (part, column, word) =
                            (parts[at / words / side], at / words % side, at % words);
                        let byte = |at: usize| match word * 4 + at {
                            row if row < side => part(weight(row * side + column)).to_le_bytes()[0],
                            _ => 0,
                        };
                        let bytes = [byte(0), byte(1), byte(2), byte(3)];
                        lines[line * LANES + lane] = i32::from_le_bytes(bytes);
                    }
                }
            }
        });
        let rests = packed.typed::<i32>().chunks_exact(block_len);
        let split =
            rests.flat_map(|block| &block[(1 + side * words) * LANES..]).any(|&rest| rest != 0);
        let bands = Bands::new(patches, Encoding::Bytes);
        Some(Self { bands, image, weights: packed, split, scaling })
    }

    pub(super) fn lines(&self) -> usize {
        self.bands.lines()
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        self.bands.scratch_bytes()
    }

    /// # Safety
    /// `image` is readable for the patches' elements, `output` writable for rows times channels; the lines are
    /// there, `scratch` is as long as it has to be, and the machine has AVX-512.
    pub(super) unsafe fn run(
        &self,
        image: *const u8,
        output: *mut u8,
        scratch: &mut [u32],
        lines: Range<usize>,
    ) {
        let mut line = lines.start;
        while line < lines.end {
            let end = self.bands.end(line).min(lines.end);
            // SAFETY: as the caller promises; the lines are those of a band.
            unsafe {
                let bands = &self.bands;
                let input = bands.input(encode, image, self.image, line, end - line, scratch);
                self.band(input, output, line..end);
            }
            line = end;
        }
    }

    /// # Safety
    /// As for `run`; `input` is the copy of the lines' input.
    unsafe fn band(&self, input: *const u8, output: *mut u8, lines: Range<usize>) {
        let p = &self.bands.patches;
        let line_bytes = self.bands.line_bytes;
        let (channels, out_line) = (p.channels, p.out_width * p.channels);
        // Few channels: a vector is several pixels.
        let vector = channels.max(LANES);
        let (step, out_step) =
            if channels < LANES { (LANES, LANES) } else { (p.stride_w * channels, channels) };
        let pairs = if (p.stride_h, p.dilation_h) == (1, 1) { 2 } else { 1 };
        let lines_each = self.near_lines().next_multiple_of(pairs);
        for first_line in lines.clone().step_by(lines_each) {
            let near = first_line..lines.end.min(first_line + lines_each);
            let blocks = self.weights.typed::<i32>().chunks_exact(block_lines(p.filter_h) * LANES);
            for (block, weights) in blocks.enumerate() {
                let first = if channels < LANES { 0 } else { channel(channels, block * LANES) };
                for at in near.clone().step_by(pairs) {
                    let above = (at - lines.start) * p.stride_h * line_bytes;
                    let strip = Strip {
                        input: input.wrapping_add(above + first),
                        line: p.dilation_h * line_bytes,
                        tap: p.dilation_w * channels,
                        step,
                        weights: weights.as_ptr(),
                        split: self.split,
                        output: output.wrapping_add(at * out_line + first),
                        out_line,
                        out_step,
                        count: out_line / vector,
                        two: pairs == 2 && at + 1 < near.end,
                        scaling: self.scaling.from(block * LANES),
                    };
                    // SAFETY: windows within the copy, outputs as promised.
                    unsafe {
                        match p.filter_h {
                            3 => avx512::strip::<3, { words(3) }>(&strip),
                            _ => avx512::strip::<5, { words(5) }>(&strip),
                        }
                    }
                }
            }
        }
    }

    /// Lines of output whose input stays in the first cache from one block of channels to the next: they share
    /// its lines of 64 bytes.
    fn near_lines(&self) -> usize {
        let p = &self.bands.patches;
        let pixel = p.channels.min(CACHE_LINE);
        let lines = NEAR_BYTES / (pixel * self.bands.line_bytes / p.channels).max(1);
        (lines.saturating_sub(p.reach_h()) / p.stride_h + 1).max(1)
    }
}

/// The channel in a lane: few channels repeat, the last block of many overlaps the one before.
fn channel(channels: usize, lane: usize) -> usize {
    if channels < LANES {
        return lane % channels;
    }
    (lane / LANES * LANES).min(channels - LANES) + lane % LANES
}

/// What of a weight fits a signed byte.
fn most(weight: i32) -> i32 {
    weight.clamp(-128, 127)
}
