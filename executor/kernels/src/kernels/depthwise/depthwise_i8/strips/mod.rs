//! 3x3 and 5x5 windows, several lines of a column in each 32-bit lane: one instruction then
//! multiplies two, three or four lines of a window's column. Windows of one line have four of its
//! taps in each lane instead, and four neighbours share the words (see [`row`]).
//!
//! ```text
//!   four lines of 16 bytes ──interleaved──► lane c: line 0, 1, 2, 3 of channel c
//!   weights (w0, w1, w2, 0) ► output line 0;  (0, w0, w1, w2) ► output line 1
//! ```
//!
//! Five lines, and the sixth of the windows below, take two words; what is right for three is right
//! for them. Without instructions for products of bytes, lanes hold one or two lines of 16-bit
//! differences, and there are more words.
//!
//! Lines come with their padding from a copy (see [`Bands`]), so every window is whole. The
//! difference of a weight from its zero point may take 9 bits: of bytes, what doesn't fit a signed
//! one goes into a second product, which is left out where all of it is 0, and the image's zero
//! point is in the bias.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
mod line;
#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
mod row;

use std::ops::Range;

use crate::kernels::gemm_i8::bands::Bands;
use crate::kernels::gemm_i8::{Bytes, Encoding, Weights};
use crate::kernels::patches::Patches;
use crate::simd::requantise::{Channels, Scaling};
use crate::tensor::packed::Packed;
use crate::tensor::poll;
use crate::tensor::rows::Pitched;

/// Channels of a block.
pub(super) const LANES: usize = 16;

/// A variant's strips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripKernel {
    /// The encoding of lanes.
    pub(super) encoding: Encoding,
    /// Lines of a word.
    pub(super) lines: usize,
    /// Copies bytes of the image so encoded.
    pub(super) encode: unsafe fn(*const u8, usize, Bytes, *mut u8),
    /// The channel in each lane of a block.
    pub(super) order: [usize; LANES],
    /// Windows of three and of five lines and columns.
    ///
    /// # Safety
    /// The strip's input is readable, weights and scaling are there, its output is writable; the
    /// machine has the instruction set.
    pub(super) three: unsafe fn(&Strip),
    pub(super) five: unsafe fn(&Strip),
    /// Windows of one line, where the variant has them.
    pub(super) row: Option<unsafe fn(&Strip)>,
}

/// The windows that strips are for.
#[derive(Clone, Copy, Debug)]
enum Window {
    /// So many lines and columns.
    Square(usize),
    /// One line of so many taps.
    Row(usize),
}

impl Window {
    /// `None` for windows of other kinds.
    fn of(p: &Patches, kernel: &StripKernel) -> Option<Self> {
        let several = LANES.is_multiple_of(p.channels)
            && p.stride_w == 1
            && (p.out_width * p.channels).is_multiple_of(LANES);
        match (p.filter_h, p.filter_w) {
            (3, 3) | (5, 5) if p.channels >= LANES || several => Some(Self::Square(p.filter_h)),
            (1, 3..=MOST_TAPS) if p.out_width >= row::NEIGHBOURS && p.channels >= LANES => {
                let side_by_side = (p.stride_w, p.dilation_w) == (1, 1);
                kernel.row.filter(|_| side_by_side).map(|_| Self::Row(p.filter_w))
            }
            _ => None,
        }
    }

    fn taps(self) -> usize {
        match self {
            Self::Square(side) => side * side,
            Self::Row(taps) => taps,
        }
    }

    /// Words that the lines of a column take, or the taps of neighbouring windows.
    fn words(self, kernel: &StripKernel) -> usize {
        match self {
            Self::Square(side) => kernel.words(side),
            Self::Row(taps) => row::words(taps, kernel.lines),
        }
    }

    /// Lines of weights that a part of them takes: the words of each column, or of each neighbour.
    fn part_lines(self, kernel: &StripKernel) -> usize {
        let each = match self {
            Self::Square(side) => side,
            Self::Row(_) => row::NEIGHBOURS,
        };
        each * self.words(kernel)
    }

    /// Lines of a block of weights: the bias, then the parts.
    fn block_lines(self, kernel: &StripKernel) -> usize {
        1 + kernel.parts() * self.part_lines(kernel)
    }

    /// The tap whose weight stands at a place of the words of such a line.
    fn tap(self, kernel: &StripKernel, line: usize, place: usize) -> Option<usize> {
        let words = self.words(kernel);
        let at = line % words * kernel.lines + place;
        match self {
            Self::Square(side) => (at < side).then_some(at * side + line / words),
            Self::Row(taps) => at.checked_sub(line / words).filter(|&tap| tap < taps),
        }
    }
}

impl StripKernel {
    /// Words that the lines of a window and of the one below take.
    fn words(&self, side: usize) -> usize {
        (side + 1).div_ceil(self.lines)
    }

    /// Words that a line of a column of weights takes.
    fn parts(&self) -> usize {
        match self.encoding {
            Encoding::Bytes => 2,
            Encoding::Differences => 1,
        }
    }
}

/// Bytes that L1 holds of the input beside weights and output.
const NEAR_BYTES: usize = 20 << 10;

/// Taps of the longest windows of one line: they take little longer than [`PIXEL_NS`].
const MOST_TAPS: usize = 64;

/// Windows of a strip that a kernel gets at a time, and what one takes at most, about.
const LONGEST: usize = 1 << 14;
const PIXEL_NS: usize = 8;

/// Bytes that come from memory together.
const CACHE_LINE: usize = 64;

/// A depthwise convolution of such windows, packed in blocks of sixteen lanes.
#[derive(Debug)]
pub(super) struct Strips {
    kernel: StripKernel,
    window: Window,
    bands: Bands,
    image: Bytes,
    weights: Packed,
    /// Of each block, true if weights leave something for a second product.
    split: Vec<bool>,
    scaling: Scaling,
}

/// Lines of outputs of one block of channels, one or two neighbours at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) input: *const u8,
    /// Times that there are one or two lines, and bytes from each to the next, of input and output.
    pub(super) times: usize,
    pub(super) next_input: usize,
    pub(super) next_output: usize,
    /// Bytes between lines of input, taps of a line, windows.
    pub(super) line: usize,
    pub(super) tap: usize,
    pub(super) step: usize,
    /// Taps of a window.
    pub(super) taps: usize,
    /// A block: lines of sixteen words.
    pub(super) weights: *const i32,
    /// True if weights leave something for a second product.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "AVX-512 reads it"))]
    pub(super) split: bool,
    pub(super) output: *mut u8,
    /// Bytes between lines and vectors of output.
    pub(super) out_line: usize,
    pub(super) out_step: usize,
    /// Vectors in a line.
    pub(super) count: usize,
    /// True if there are two lines each time.
    pub(super) two: bool,
    pub(super) scaling: Channels,
}

impl Strips {
    /// `None` for windows that are no [`Window`], for channels that don't fill vectors, and
    /// where lanes hold bytes for weights that may be 255, which is no sum of two signed ones.
    pub(super) fn new(
        kernel: StripKernel,
        patches: Patches,
        image: Bytes,
        weights: Weights<'_>,
        bias: &[i32],
        scaling: &Scaling,
    ) -> Option<Self> {
        let Weights { values: weights, bytes: quantised } = weights;
        let (p, channels) = (&patches, patches.channels);
        // Told by the zero point alone: weights that come out of a cache aren't there to be looked
        // at.
        let bytes = kernel.encoding == Encoding::Bytes;
        let in_parts = !bytes || quantised.zero_point > 0;
        let window = Window::of(p, &kernel).filter(|_| in_parts)?;
        if p.rows() == 0 || p.in_height == 0 || p.in_width == 0 {
            return None;
        }
        let lanes = channels.next_multiple_of(LANES);
        let channel =
            |lane: usize| channel(channels, lane / LANES * LANES + kernel.order[lane % LANES]);
        let scaling = scaling.rearranged(lanes, channel);
        let part_lines = window.part_lines(&kernel);
        let block_len = window.block_lines(&kernel) * LANES;
        let packed = Packed::new("depthwise_i8 strips", lanes / LANES * block_len * 4, |packed| {
            let blocks = packed.typed_mut::<i32>().chunks_exact_mut(block_len);
            for (block, lines) in blocks.enumerate() {
                for lane in 0..LANES {
                    let channel = channel(block * LANES + lane);
                    let weight = |tap: usize| {
                        let stored = weights[tap * channels + channel] ^ quantised.flip;
                        i32::from(stored) - quantised.zero_point
                    };
                    let sum: i32 = (0..window.taps()).map(weight).sum();
                    let away = if bytes { sum.wrapping_mul(image.zero_point) } else { 0 };
                    lines[lane] = bias[channel].wrapping_sub(away);
                    for (at, line) in (1..window.block_lines(&kernel)).enumerate() {
                        let (part, line_of_part) = (at / part_lines, at % part_lines);
                        let number = |place: usize| {
                            let tap = window.tap(&kernel, line_of_part, place);
                            match tap.map(weight) {
                                None => 0,
                                Some(weight) if !bytes => weight,
                                Some(weight) if part == 0 => most(weight),
                                Some(weight) => weight - most(weight),
                            }
                        };
                        lines[line * LANES + lane] = packed_word(kernel.lines, number);
                    }
                }
            }
        })?;
        let rests = packed.typed::<i32>().chunks_exact(block_len);
        let rests = rests.map(|block| &block[(1 + part_lines) * LANES..]);
        let split = rests.map(|rests| rests.iter().any(|&rest| rest != 0)).collect();
        let bands = Bands::new(patches, kernel.encoding);
        Some(Self { kernel, window, bands, image, weights: packed, split, scaling })
    }

    pub(super) fn lines(&self) -> usize {
        self.bands.lines()
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        self.bands.scratch_bytes()
    }

    /// # Safety
    /// `image` is readable for the patches' elements, `output` writable for rows times channels;
    /// the lines are there, `scratch` is as long as it has to be, and the machine has the variant's
    /// instruction set.
    pub(super) unsafe fn run(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        scratch: &mut [u32],
        lines: Range<usize>,
    ) {
        let mut line = lines.start;
        while line < lines.end {
            let end = self.bands.end(line).min(lines.end);
            // SAFETY: as the caller promises; the lines are those of a band.
            unsafe {
                let bands = &self.bands;
                let encode = self.kernel.encode;
                let input = bands.input(encode, image, self.image, line, end - line, scratch);
                self.band(input, output, line..end);
            }
            line = end;
        }
    }

    /// # Safety
    /// As for `run`; `input` is the copy of the lines' input.
    unsafe fn band(&self, input: *const u8, output: Pitched<*mut u8>, lines: Range<usize>) {
        let p = &self.bands.patches;
        let line_bytes = self.bands.line_bytes;
        let (channels, out_line) = (p.channels, p.out_width * output.pitch);
        let element = self.kernel.encoding.element();
        // Few channels: a vector is several pixels.
        let vector = channels.max(LANES);
        let (step, out_step) =
            if channels < LANES { (LANES, LANES) } else { (p.stride_w * channels, output.pitch) };
        let pixel = channels * element;
        let (pairs, line, taps) = match self.window {
            // The lines of its words are the taps.
            Window::Row(taps) => (1, pixel, taps),
            window => {
                let pairs = if (p.stride_h, p.dilation_h) == (1, 1) { 2 } else { 1 };
                (pairs, p.dilation_h * line_bytes, window.taps())
            }
        };
        let lines_each = self.near_lines().next_multiple_of(pairs);
        for first_line in lines.clone().step_by(lines_each) {
            let near = first_line..lines.end.min(first_line + lines_each);
            let block_len = self.window.block_lines(&self.kernel) * LANES;
            let blocks = self.weights.typed::<i32>().chunks_exact(block_len);
            for (block, (weights, &split)) in blocks.zip(&self.split).enumerate() {
                let first = if channels < LANES { 0 } else { channel(channels, block * LANES) };
                let strip = Strip {
                    input: input.wrapping_add(first * element),
                    times: 1,
                    next_input: pairs * p.stride_h * line_bytes,
                    next_output: pairs * out_line,
                    line,
                    tap: p.dilation_w * pixel,
                    step: step * element,
                    taps,
                    weights: weights.as_ptr(),
                    split,
                    output: output.row(0).wrapping_add(first),
                    out_line,
                    out_step,
                    count: p.out_width * channels / vector,
                    two: pairs == 2,
                    scaling: self.scaling.from(block * LANES),
                };
                let most = (LONGEST / strip.count.max(1)).max(1) * pairs;
                let mut at = near.start;
                while at < near.end {
                    // A last line may have no other beside it.
                    let left = near.end - at;
                    let two = pairs == 2 && left > 1;
                    let each = if two { 2 } else { 1 };
                    let times = left.min(most) / each;
                    let above = (at - lines.start) * p.stride_h * line_bytes;
                    let some = Strip {
                        input: strip.input.wrapping_add(above),
                        times,
                        output: strip.output.wrapping_add(at * out_line),
                        two,
                        ..strip
                    };
                    // SAFETY: as the caller promises, for these lines.
                    if unsafe { self.in_parts(&some) }.is_err() {
                        return;
                    }
                    at += times * each;
                }
            }
        }
    }

    /// Computes a strip, some windows at a time where a line has more of them than that.
    ///
    /// # Safety
    /// Its windows are within the copy, its outputs are writable.
    unsafe fn in_parts(&self, strip: &Strip) -> Result<(), poll::Halted> {
        for from in (0..strip.count).step_by(LONGEST) {
            let count = LONGEST.min(strip.count - from);
            poll::work(count * strip.times * PIXEL_NS)?;
            let part = Strip {
                input: strip.input.wrapping_add(from * strip.step),
                output: strip.output.wrapping_add(from * strip.out_step),
                count,
                ..*strip
            };
            // SAFETY: as the caller promises; the machine has the variant's instruction set.
            unsafe {
                match (self.window, self.kernel.row) {
                    (Window::Row(_), Some(row)) => row(&part),
                    (Window::Square(3), _) => (self.kernel.three)(&part),
                    _ => (self.kernel.five)(&part),
                }
            }
        }
        Ok(())
    }

    /// Lines of output whose input stays in L1 from one block of channels to the next:
    /// they share its lines of 64 bytes.
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

/// Some numbers that fill a word, one behind the other.
fn packed_word(count: usize, number: impl Fn(usize) -> i32) -> i32 {
    let bits = 32 / count;
    let mask = u32::MAX >> (32 - bits);
    let word =
        (0..count).fold(0, |word, at| word | (number(at).cast_unsigned() & mask) << (at * bits));
    word.cast_signed()
}

/// Returns the part of a weight that fits an `i8`.
fn most(weight: i32) -> i32 {
    weight.clamp(-128, 127)
}
