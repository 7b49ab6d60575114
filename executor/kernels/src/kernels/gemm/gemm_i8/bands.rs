//! The places of windows in memory: in the image itself, or in a copy of a few of its lines with
//! their padding.
//!
//! Copying costs one pass over the image, far less than gathering every window does, and the lines
//! of a band are still near when they are read. Windows of lines of a few are gathered all the
//! same: a tile of rows holds those of several lines then.

use super::{Bytes, Encoding};
use crate::kernels::patches::Patches;
use crate::tensor::poll;
use crate::tensor::rows::Pitched;

/// Bytes of input that are worked on at a time: what stays in the first levels of the caches while
/// all panels of weights pass by.
const BAND_BYTES: usize = 96 << 10;

/// Windows of the longest line whose windows are gathered: a tile has six rows or so.
const SHORT_LINE: usize = 5;

/// Bytes of a window's row from which on that takes less time than it saves.
const GATHERED_ROW: usize = 256;

/// Bytes behind a copy that the last window's last word may reach.
const SLACK: usize = 64;

/// The placement of windows, and the number of chunks.
#[derive(Debug)]
pub(crate) struct Bands {
    pub(crate) patches: Patches,
    /// True if windows are read from the image itself.
    pub(crate) in_place: bool,
    /// True if windows are copied one behind the other.
    gathers: bool,
    /// The starts of a window's segments.
    pub(crate) segments: Vec<usize>,
    pub(crate) segment_words: usize,
    pub(crate) segment_bytes: usize,
    /// Bytes of a line of the image or its copy.
    pub(crate) line_bytes: usize,
    /// Bytes of an element.
    element: usize,
    /// Lines of output in a band.
    band_lines: usize,
}

impl Bands {
    pub(crate) fn new(patches: Patches, encoding: Encoding) -> Self {
        let p = &patches;
        let element = encoding.element();
        let in_place = encoding == Encoding::Bytes && p.is_direct() && p.channels.is_multiple_of(4);
        let pixel = p.channels * element;
        let line_bytes = if in_place { p.in_width } else { p.padded_width() } * pixel;
        let across = if p.dilation_w == 1 { 1 } else { p.filter_w };
        let start = |at: usize| {
            at / across * p.dilation_h * line_bytes + at % across * p.dilation_w * pixel
        };
        let segments: Vec<usize> = (0..p.filter_h * across).map(start).collect();
        let elements = p.depth() / segments.len();
        let mut bands = Self {
            in_place,
            gathers: false,
            segment_words: elements.div_ceil(encoding.per_word()),
            segment_bytes: elements * element,
            segments,
            line_bytes,
            element,
            band_lines: 1,
            patches,
        };
        let lines = patches.out_height.max(1);
        let fits = |&lines: &usize| bands.input_lines(lines) * bands.line_bytes <= BAND_BYTES;
        bands.band_lines = (1..=lines).take_while(fits).last().unwrap_or(1);
        if bands.one_run() {
            // Lines are of no account then, nor are batches.
            bands.band_lines = (BAND_BYTES / line_bytes.max(1)).max(1);
        }
        bands
    }

    /// As [`Bands::new`], for kernels that ask for no more than equal steps between windows.
    pub(crate) fn of_windows(patches: Patches, encoding: Encoding) -> Self {
        let (bands, p) = (Self::new(patches, encoding), patches);
        let segment_bytes = p.depth() * bands.element;
        let line_bytes = p.out_width * segment_bytes;
        let band_lines = BAND_BYTES / line_bytes.max(1);
        let row_bytes = p.filter_w * p.channels * bands.element;
        let is_short = (2..=SHORT_LINE).contains(&p.out_width)
            && p.dilation_w == 1
            && row_bytes >= GATHERED_ROW;
        if bands.in_place || !is_short || line_bytes == 0 || band_lines.min(bands.lines()) < 2 {
            return bands;
        }
        Self {
            gathers: true,
            segments: vec![0],
            segment_words: p.depth().div_ceil(encoding.per_word()),
            segment_bytes,
            line_bytes,
            band_lines,
            ..bands
        }
    }

    /// Lines of output, those of all batches.
    pub(crate) fn lines(&self) -> usize {
        self.patches.batches * self.patches.out_height
    }

    /// The line behind the band that starts with `line`.
    pub(crate) fn end(&self, line: usize) -> usize {
        let end = line + self.band_lines;
        if self.one_run() {
            return end;
        }
        // Bands keep to one image.
        end.min((line / self.patches.out_height + 1) * self.patches.out_height)
    }

    /// Words of a window.
    pub(crate) fn words(&self) -> usize {
        self.segments.len() * self.segment_words
    }

    /// Windows of the largest band.
    pub(crate) fn rows_of_band(&self) -> usize {
        self.band_lines.min(self.lines().max(1)) * self.patches.out_width
    }

    /// The corrections of a band's windows, and the copy.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let lines = match self.gathers {
            true => self.band_lines.min(self.lines().max(1)),
            false => self.input_lines(self.band_lines),
        };
        let copy = lines * self.line_bytes + SLACK;
        self.rows_of_band() * 4 + if self.in_place { 0 } else { copy.next_multiple_of(4) }
    }

    /// Bytes from pixel to pixel of the image, `pitch` apart, or of its copy.
    fn pixel(&self, pitch: usize) -> usize {
        if self.in_place { pitch } else { self.patches.channels * self.element }
    }

    /// Bytes from a window to its neighbour, where the image's pixels lie `pitch` apart.
    pub(crate) fn step(&self, pitch: usize) -> usize {
        match self.gathers {
            true => self.segment_bytes,
            false => self.patches.stride_w * self.pixel(pitch),
        }
    }

    /// The runs that `lines` lines fall into: their number, their length, and bytes from one to the
    /// next.
    pub(crate) fn runs(&self, lines: usize, pitch: usize) -> (usize, usize, usize) {
        let width = self.patches.out_width;
        if self.one_run() {
            return (1, lines * width, 0);
        }
        let pixels =
            if self.in_place { self.patches.in_width } else { self.patches.padded_width() };
        (lines, width, self.patches.stride_h * pixels * self.pixel(pitch))
    }

    /// Returns whether all windows lie equally far apart.
    fn one_run(&self) -> bool {
        let p = &self.patches;
        self.gathers
            || self.in_place && p.is_matrix()
            || self.in_place && p.out_width == 1 && p.out_height == 1 && p.batches == 1
    }

    /// Lines of input that lines of output take.
    fn input_lines(&self, lines: usize) -> usize {
        let p = &self.patches;
        (lines.max(1) - 1) * p.stride_h + (p.filter_h - 1) * p.dilation_h + 1
    }

    /// The first window of `line`: in the image, or in a copy that is made here.
    ///
    /// # Safety
    /// `image` is readable for the patches' elements, the machine has what `encode` needs, and
    /// `copy` is as long as a band's copy.
    pub(crate) unsafe fn input(
        &self,
        encode: unsafe fn(*const u8, usize, Bytes, *mut u8),
        image: Pitched<*const u8>,
        bytes: Bytes,
        line: usize,
        lines: usize,
        copy: &mut [u32],
    ) -> *const u8 {
        let p = &self.patches;
        let (batch, y) = (line / p.out_height, line % p.out_height);
        if self.in_place {
            let line = batch * p.in_height + y * p.stride_h;
            return image.row(line * p.in_width);
        }
        let copy: &mut [u8] = bytemuck::cast_slice_mut(copy);
        // What stands for 0, encoded: differences are 0, unsigned bytes the zero point.
        let zero = if self.element == 1 { bytes.zero_point.to_le_bytes()[0] } else { 0 };
        let source = Source { encode, image, bytes, zero, pixel: p.channels * self.element };
        if self.gathers {
            let windows = copy.chunks_exact_mut(self.segment_bytes).take(lines * p.out_width);
            for (at, window) in poll::each(windows.enumerate(), self.segment_bytes / 4) {
                let place = [line + at / p.out_width, at % p.out_width];
                // SAFETY: as the caller promises.
                unsafe { self.window(&source, place, window) };
            }
            return copy.as_ptr();
        }
        let pixels = self.line_bytes / source.pixel.max(1);
        let copies = copy.chunks_exact_mut(self.line_bytes).take(self.input_lines(lines));
        for (at, line) in poll::each(copies.enumerate(), self.line_bytes / 4) {
            let in_y = (y * p.stride_h + at).wrapping_sub(p.top);
            // SAFETY: as the caller promises.
            unsafe { self.pixels(&source, [batch, in_y], [0, pixels], line) };
        }
        copy.as_ptr()
    }

    /// Copies window `x` of a line, as many pixels as it has.
    ///
    /// # Safety
    /// As for [`Bands::input`].
    unsafe fn window(&self, source: &Source, [line, x]: [usize; 2], to: &mut [u8]) {
        let p = &self.patches;
        let (batch, y) = (line / p.out_height, line % p.out_height);
        let (start, row) = (x * p.stride_w, p.filter_w * source.pixel);
        for (at, to) in to.chunks_exact_mut(row).enumerate() {
            let in_y = (y * p.stride_h + at * p.dilation_h).wrapping_sub(p.top);
            // SAFETY: as the caller promises.
            unsafe { self.pixels(source, [batch, in_y], [start, p.filter_w], to) };
        }
    }

    /// Copies so many pixels of a line of an image, from the one on that lies `start` behind where
    /// its padding begins. There is no line above or below the image.
    ///
    /// # Safety
    /// As for [`Bands::input`].
    #[inline(always)]
    unsafe fn pixels(
        &self,
        source: &Source,
        [batch, in_y]: [usize; 2],
        [start, pixels]: [usize; 2],
        to: &mut [u8],
    ) {
        let p = &self.patches;
        let &Source { encode, image, bytes, zero, pixel } = source;
        let before = p.left.saturating_sub(start).min(pixels);
        let first = start.saturating_sub(p.left);
        let within = match in_y < p.in_height {
            true => p.in_width.saturating_sub(first).min(pixels - before),
            false => 0,
        };
        to[..before * pixel].fill(zero);
        to[(before + within) * pixel..].fill(zero);
        if within == 0 {
            return;
        }
        let from = (batch * p.in_height + in_y) * p.in_width + first;
        let to = &mut to[before * pixel..][..within * pixel];
        if image.pitch == p.channels {
            // SAFETY: part of a line of the image, and as many elements of the copy.
            return unsafe { encode(image.row(from), within * p.channels, bytes, to.as_mut_ptr()) };
        }
        for (at, to) in to.chunks_exact_mut(pixel).enumerate() {
            // SAFETY: a pixel of the image, and as many elements of the copy.
            unsafe { encode(image.row(from + at), p.channels, bytes, to.as_mut_ptr()) };
        }
    }
}

/// An image, and how its elements are encoded.
#[derive(Clone, Copy)]
struct Source {
    encode: unsafe fn(*const u8, usize, Bytes, *mut u8),
    image: Pitched<*const u8>,
    bytes: Bytes,
    /// What stands for 0 in the copy.
    zero: u8,
    /// Bytes of a pixel in the copy.
    pixel: usize,
}
