//! Where the windows of a line of outputs lie, cut where they leave the image.
//!
//! A window at the border is a smaller window. Pixels whose windows are cut alike come as one [`Run`];
//! the middle of a line, by far the most of it, is a single one.

use std::ops::Range;

use super::patches::Patches;

/// Neighbouring output pixels whose windows cover the same part of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Lines of the filter that are over the image.
    pub(crate) lines: Range<usize>,
    /// Columns of the filter that are over the image.
    pub(crate) columns: Range<usize>,
    /// Pixel of the image under the first line and column of the first window.
    pub(crate) input: usize,
    /// First output pixel.
    pub(crate) output: usize,
    /// Output pixels.
    pub(crate) count: usize,
}

/// Calls `each` for all pixels, in order.
pub(crate) fn each_run(patches: &Patches, mut each: impl FnMut(Run)) {
    let p = patches;
    let over = |output: usize, stride, dilation, filter, pad, extent| {
        taps(output * stride, dilation, filter, pad, extent)
    };
    for line in 0..p.batches * p.out_height {
        let (batch, y) = (line / p.out_height, line % p.out_height);
        let lines = over(y, p.stride_h, p.dilation_h, p.filter_h, p.top, p.in_height);
        // Where nothing of the window is over the image, any pixel of it will do.
        let in_y = (y * p.stride_h + lines.start * p.dilation_h).saturating_sub(p.top);
        let in_line = batch * p.in_height + in_y.min(p.in_height - 1);
        let mut x = 0;
        while x < p.out_width {
            let here = |x| over(x, p.stride_w, p.dilation_w, p.filter_w, p.left, p.in_width);
            let columns = here(x);
            let mut end = x + 1;
            while end < p.out_width && here(end) == columns {
                end += 1;
            }
            let in_x = (x * p.stride_w + columns.start * p.dilation_w).saturating_sub(p.left);
            each(Run {
                lines: lines.clone(),
                columns,
                input: in_line * p.in_width + in_x.min(p.in_width - 1),
                output: line * p.out_width + x,
                count: end - x,
            });
            x = end;
        }
    }
}

/// The taps of one axis that are over the image, for a window that starts at `start` of the padded one.
fn taps(start: usize, dilation: usize, filter: usize, pad: usize, extent: usize) -> Range<usize> {
    let first = pad.saturating_sub(start).div_ceil(dilation).min(filter);
    let end = (extent + pad).saturating_sub(start).div_ceil(dilation).min(filter);
    first..end.max(first)
}
