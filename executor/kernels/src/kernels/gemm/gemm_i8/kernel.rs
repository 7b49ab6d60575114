//! A variant of the GEMM: how wide its panels are, what its words are made of, and how it computes
//! a run.

use crate::simd::requantise::Channels;
use crate::simd::vector_i32::FloatChannels;

/// Lines of windows that lie equally far apart, by one panel of weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The first window.
    pub(super) input: *const u8,
    /// Bytes from one window to the next.
    pub(super) step: usize,
    /// Lines, at least one.
    pub(super) lines: usize,
    /// Bytes from a line's first window to that of the next.
    pub(super) line_step: usize,
    /// The starts of a window's segments, then those of its rests.
    pub(super) segments: *const usize,
    pub(super) segment_count: usize,
    /// Words that are multiplied once more, by what weights leave beside a signed byte.
    pub(super) rest_count: usize,
    /// Words of a segment; those of the last reach beyond it where its weights are 0.
    pub(super) words: usize,
    /// The bits in which `u8` elements differ from those in memory.
    pub(super) flip: u8,
    /// A line of bias, then a line per word and rest, as wide as the panel.
    pub(super) weights: *const i32,
    /// Per window, what its zero point correction subtracts; null where there is none. Those of
    /// all lines lie one behind the other, as do rows of the output.
    pub(super) corrections: *const i32,
    pub(super) output: *mut u8,
    /// Bytes from one row of the output to the next.
    pub(super) stride: usize,
    /// Windows of a line, at least one.
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) results: Results,
}

/// The elements that accumulators become, and how.
#[derive(Clone, Copy, Debug)]
pub(super) enum Results {
    Bytes(Channels),
    Floats(FloatChannels),
    /// They stay as they are. Rows of the output are of whole vectors.
    Sums,
}

impl Results {
    /// Bytes of an element.
    pub(super) const fn element(&self) -> usize {
        match self {
            Self::Bytes(_) => 1,
            Self::Floats(_) | Self::Sums => 4,
        }
    }

    /// The requantisation of a panel; of others than bytes there is none, but its numbers can be
    /// loaded.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(super) const fn requantisation(&self) -> Channels {
        match *self {
            Self::Bytes(channels) => channels,
            Self::Floats(_) | Self::Sums => Channels::of_no_bytes(),
        }
    }

    /// Those of the columns from `column` on.
    pub(super) const fn skip(&self, column: usize) -> Self {
        match self {
            Self::Bytes(channels) => Self::Bytes(channels.skip(column)),
            Self::Floats(channels) => Self::Floats(channels.skip(column)),
            Self::Sums => Self::Sums,
        }
    }
}

/// A variant's panels and how it computes with them.
#[derive(Clone, Copy, Debug)]
pub struct Microkernel {
    /// Columns of the widest panel.
    pub(super) columns: usize,
    /// Panels are multiples of this wide.
    pub(super) lanes: usize,
    pub(super) encoding: Encoding,
    /// True if the bytes of windows are signed, as those of weights are, rather than unsigned.
    pub(super) signed: bool,
    /// Copies `count` bytes of the image in the kernel's encoding.
    ///
    /// # Safety
    /// The machine has the instruction set; `count` bytes are readable, their encoding writable.
    pub(super) encode: unsafe fn(from: *const u8, count: usize, bytes: Bytes, to: *mut u8),
    /// For each window of a run `factor` times the sum of its bytes, segments being `bytes` long.
    ///
    /// # Safety
    /// As for `run`; `sums` is writable for the run's rows.
    pub(super) sums: unsafe fn(run: &Run, bytes: usize, factor: i32, sums: *mut i32),
    /// Of lines of two windows or more.
    ///
    /// # Safety
    /// The machine has the instruction set; memory is as [`Run`] says.
    pub(super) run: unsafe fn(&Run),
    /// Of one window alone: a small function, since the way into that of all tiles takes 30 ns.
    ///
    /// # Safety
    /// As for `run`.
    pub(super) single: unsafe fn(&Run),
}

/// The encoding of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Four bytes, as they are stored but for the sign; those of weights are signed.
    Bytes,
    /// Two 16-bit differences from the zero point.
    Differences,
}

impl Encoding {
    pub(crate) const fn per_word(self) -> usize {
        4 / self.element()
    }

    /// Bytes of an element.
    pub(crate) const fn element(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::Differences => 2,
        }
    }
}

/// Quantised weights as the model has them.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// One per element, signed or not.
    pub values: &'a [u8],
    /// Their quantisation.
    pub bytes: Bytes,
}

/// Bytes with their zero point. `flip` is 0x80 for signed bytes: with it they are read as unsigned
/// ones whose zero point is 128 more, which stand for the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Bits that are flipped when a byte is read: 0x80 for signed bytes, else 0.
    pub flip: u8,
    /// Of the unsigned reading.
    pub zero_point: i32,
}

impl Bytes {
    /// Of a quantised type whose stored range starts at `-to_unsigned`.
    pub const fn new(to_unsigned: i32, zero_point: i32) -> Self {
        Self { flip: if to_unsigned == 0 { 0 } else { 0x80 }, zero_point: zero_point + to_unsigned }
    }

    /// Returns how far a stored byte is from the zero point.
    #[inline(always)]
    pub fn from_zero(self, byte: u8) -> i32 {
        i32::from(byte ^ self.flip) - self.zero_point
    }

    /// The same read as signed bytes.
    pub(super) const fn signed(self) -> Self {
        Self { flip: self.flip ^ 0x80, zero_point: self.zero_point - 128 }
    }
}

impl Run {
    /// `rows` windows of the first line, from the one `first` on.
    #[inline(always)]
    pub(super) const fn part(self, first: usize, rows: usize) -> Self {
        Self {
            input: self.input.wrapping_add(first * self.step),
            lines: 1,
            corrections: match self.corrections.is_null() {
                true => self.corrections,
                false => self.corrections.wrapping_add(first),
            },
            output: self.output.wrapping_add(first * self.stride),
            rows,
            ..self
        }
    }

    /// The same from the next line on, of which there is one less.
    #[inline(always)]
    pub(super) const fn next_line(self) -> Self {
        Self {
            input: self.input.wrapping_add(self.line_step),
            lines: self.lines - 1,
            corrections: match self.corrections.is_null() {
                true => self.corrections,
                false => self.corrections.wrapping_add(self.rows),
            },
            output: self.output.wrapping_add(self.rows * self.stride),
            ..self
        }
    }
}

impl Microkernel {
    /// Columns of the panel that holds `columns`, or of all panels.
    pub(super) const fn width(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.lanes)
    }
}

/// Returns the difference of a byte from its zero point.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "within -255 to 255")]
pub(super) fn difference(byte: u8, bytes: Bytes) -> i16 {
    bytes.from_zero(byte) as i16
}
