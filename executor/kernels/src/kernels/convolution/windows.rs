//! The windows of outputs, cut where they leave the image.
//!
//! A window at the border is a smaller window. Pixels whose windows are cut alike are one
//! [`Region`]: the middle of the image, by far the most of it, is a single one.

use std::ops::Range;

use crate::kernels::patches::Patches;

/// A rectangle of output pixels whose windows cover the same part of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Lines of the filter that are over the image.
    pub lines: Range<usize>,
    /// Columns of the filter that are over the image.
    pub columns: Range<usize>,
    /// Pixel of the image under the first line and column of the first window.
    pub input: usize,
    /// First output pixel.
    pub output: usize,
    /// Output pixels of a line.
    pub width: usize,
    /// Lines of output pixels.
    pub height: usize,
}

/// Neighbouring output pixels of a line whose windows cover the same part of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRun {
    /// Lines of the filter that are over the image.
    pub lines: Range<usize>,
    /// Columns of the filter that are over the image.
    pub columns: Range<usize>,
    /// Pixel of the image under the first line and column of the first window.
    pub input: usize,
    /// First output pixel.
    pub output: usize,
    /// Output pixels.
    pub count: usize,
}

/// Calls `each` for all pixels, in order within a line.
pub fn each_run(patches: &Patches, mut each: impl FnMut(WindowRun)) {
    each_region(patches, 0..patches.lines(), |region| {
        for line in 0..region.height {
            each(WindowRun {
                lines: region.lines.clone(),
                columns: region.columns.clone(),
                input: region.input + line * patches.stride_h * patches.in_width,
                output: region.output + line * patches.out_width,
                count: region.width,
            });
        }
    });
}

/// Calls `each` for the pixels of some lines (those of all batches count on).
///
/// What is cut is found by arithmetic, not pixel by pixel: divisions for every pixel of a line took
/// longer than a depthwise convolution of a few channels.
pub fn each_region(patches: &Patches, lines: Range<usize>, mut each: impl FnMut(Region)) {
    let p = patches;
    let vertical = Axis {
        output: p.out_height,
        input: p.in_height,
        filter: p.filter_h,
        stride: p.stride_h,
        dilation: p.dilation_h,
        pad: p.top,
    };
    let horizontal = Axis {
        output: p.out_width,
        input: p.in_width,
        filter: p.filter_w,
        stride: p.stride_w,
        dilation: p.dilation_w,
        pad: p.left,
    };
    let (whole_lines, whole_columns) = (vertical.whole(), horizontal.whole());
    let mut line = lines.start;
    while line < lines.end {
        let (batch, y) = (line / p.out_height, line % p.out_height);
        let down = vertical.span(y, &whole_lines, lines.end - line);
        let mut x = 0;
        while x < p.out_width {
            let right = horizontal.span(x, &whole_columns, usize::MAX);
            each(Region {
                lines: down.taps.clone(),
                columns: right.taps.clone(),
                input: (batch * p.in_height + down.input) * p.in_width + right.input,
                output: line * p.out_width + x,
                width: right.count,
                height: down.count,
            });
            x += right.count;
        }
        line += down.count;
    }
}

struct Axis {
    output: usize,
    input: usize,
    filter: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
}

/// Outputs in a row along an axis whose windows are cut alike.
struct Span {
    /// The taps that are over the image.
    taps: Range<usize>,
    /// Under the first tap of the first window.
    input: usize,
    count: usize,
}

/// Cut windows that are looked for at a time: a run may have to end before the next ones.
const LONGEST: usize = 4096;

impl Axis {
    /// The outputs whose windows no side of the image cuts.
    fn whole(&self) -> Range<usize> {
        let reach = (self.filter - 1) * self.dilation + 1;
        let room = (self.input + self.pad).checked_sub(reach);
        let end = room.map_or(0, |room| room / self.stride + 1).min(self.output);
        self.pad.div_ceil(self.stride)..end
    }

    /// From output `at` on, at most `most`.
    fn span(&self, at: usize, whole: &Range<usize>, most: usize) -> Span {
        let (taps, count) = if whole.contains(&at) {
            (0..self.filter, (whole.end - at).min(most))
        } else {
            let taps = self.taps(at);
            // Of a dilated window, as many in a row as its taps are apart.
            let most = if taps.is_empty() { 1 } else { most.min(self.output - at).min(LONGEST) };
            let is_alike = |next: &usize| !whole.contains(next) && self.taps(*next) == taps;
            let next = (at + 1..at.saturating_add(most)).take_while(is_alike);
            (taps.clone(), 1 + next.count())
        };
        // Where nothing of the window is over the image, any pixel of it will do.
        let input = (at * self.stride + taps.start * self.dilation).saturating_sub(self.pad);
        Span { taps, input: input.min(self.input - 1), count }
    }

    /// The taps of an output's window that are over the image.
    fn taps(&self, at: usize) -> Range<usize> {
        let start = at * self.stride;
        let over = |end: usize| end.saturating_sub(start).div_ceil(self.dilation);
        let first = over(self.pad).min(self.filter);
        first..over(self.input + self.pad).min(self.filter).max(first)
    }
}
