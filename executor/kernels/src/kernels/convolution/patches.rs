//! The implicit matrix of a convolution: one row per output pixel, the window's elements in it.
//!
//! Where the window is a single pixel the rows lie in the image as they are. Otherwise a row is
//! gathered: for each line of the window one copy, since neighbouring pixels are neighbours in
//! memory.

use std::ops::Range;

use crate::tensor::rows::Pitched;

/// The placement of windows over an image of NHWC layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patches {
    /// Images.
    pub batches: usize,
    /// Rows of pixels of the input.
    pub in_height: usize,
    /// Pixels of a row of the input.
    pub in_width: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Rows of pixels of the output.
    pub out_height: usize,
    /// Pixels of a row of the output.
    pub out_width: usize,
    /// Height of the window.
    pub filter_h: usize,
    /// Width of the window.
    pub filter_w: usize,
    /// Pixels from one window to that below.
    pub stride_h: usize,
    /// Pixels from one window to the next.
    pub stride_w: usize,
    /// Pixels from a row of the window to that below.
    pub dilation_h: usize,
    /// Pixels from a column of the window to the next.
    pub dilation_w: usize,
    /// Padding above the input.
    pub top: usize,
    /// Padding left of the input.
    pub left: usize,
}

impl Patches {
    /// A plain matrix: `rows` rows of `depth` elements.
    pub fn matrix(rows: usize, depth: usize) -> Self {
        Self {
            batches: 1,
            in_height: 1,
            in_width: rows,
            channels: depth,
            out_height: 1,
            out_width: rows,
            filter_h: 1,
            filter_w: 1,
            stride_h: 1,
            stride_w: 1,
            dilation_h: 1,
            dilation_w: 1,
            top: 0,
            left: 0,
        }
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.batches * self.out_height * self.out_width
    }

    /// Lines of output pixels, those of all batches.
    pub fn lines(&self) -> usize {
        self.batches * self.out_height
    }

    /// Elements of a row.
    pub fn depth(&self) -> usize {
        self.filter_h * self.filter_w * self.channels
    }

    /// Pixels of the image.
    pub fn pixels(&self) -> usize {
        self.batches * self.in_height * self.in_width
    }

    /// Elements of the image.
    #[cfg(test)]
    pub(crate) fn elements(&self) -> usize {
        self.pixels() * self.channels
    }

    /// Lines of the image under a window.
    pub fn reach_h(&self) -> usize {
        (self.filter_h - 1) * self.dilation_h + 1
    }

    /// Pixels of a line of the image under a window.
    pub(crate) fn reach_w(&self) -> usize {
        (self.filter_w - 1) * self.dilation_w + 1
    }

    /// Lines of the image that some lines of outputs read; of a single batch.
    pub fn input_lines(&self, lines: &Range<usize>) -> Range<usize> {
        let end = lines.end.saturating_sub(1) * self.stride_h + self.reach_h();
        let end = end.saturating_sub(self.top).min(self.in_height);
        (lines.start * self.stride_h).saturating_sub(self.top).min(end)..end
    }

    /// The distance of a pixel from the one that is `lines` lines further, with pixels `pixel`
    /// apart. A step that no window and no tap takes may lead out of a 32-bit address space.
    pub fn lines_apart(&self, lines: usize, pixel: usize) -> usize {
        lines.wrapping_mul(self.in_width * pixel)
    }

    /// The distance of a pixel from the one that is `columns` columns further, likewise.
    pub fn columns_apart(columns: usize, pixel: usize) -> usize {
        columns.wrapping_mul(pixel)
    }

    /// Bytes of the image that each further line of outputs needs.
    pub fn input_bytes_per_line<T>(&self) -> usize {
        self.stride_h * self.in_width * self.channels * size_of::<T>()
    }

    /// Returns whether the image is the matrix: windows of one pixel, side by side, over all of it.
    pub fn is_matrix(&self) -> bool {
        let is_all = (self.in_height, self.in_width) == (self.out_height, self.out_width);
        self.is_direct() && self.stride_h == 1 && self.stride_w == 1 && is_all
    }

    /// Returns whether every row lies in the image in one piece.
    pub fn is_direct(&self) -> bool {
        self.filter_h == 1 && self.filter_w == 1 && self.top == 0 && self.left == 0
    }

    /// An image in one piece.
    #[cfg(test)]
    pub(crate) fn dense<T>(&self, image: &[T]) -> Pitched<*const T> {
        Pitched { start: image.as_ptr(), pitch: self.channels }
    }

    /// Copies a row, `padding` standing where the window leaves the image.
    ///
    /// # Safety
    /// `image` is readable for [`Patches::pixels`], `out` writable for [`Patches::depth`].
    #[cfg(test)]
    pub(crate) unsafe fn gather<T: Copy>(
        &self,
        image: Pitched<*const T>,
        row: usize,
        padding: T,
        out: *mut T,
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.gather_at(image, self.place(row), padding, out) };
    }

    /// The window of a row: batch, line of outputs and pixel of it.
    pub fn place(&self, row: usize) -> [usize; 3] {
        let (x, line) = (row % self.out_width, row / self.out_width);
        [line / self.out_height, line % self.out_height, x]
    }

    /// The window behind that: divisions for each would take as long as copying a small one.
    pub fn next_place(&self, [batch, y, x]: [usize; 3]) -> [usize; 3] {
        match (x + 1 < self.out_width, y + 1 < self.out_height) {
            (true, _) => [batch, y, x + 1],
            (false, true) => [batch, y + 1, 0],
            (false, false) => [batch + 1, 0, 0],
        }
    }

    /// Copies the window at a place, `padding` standing where it leaves the image.
    ///
    /// # Safety
    /// `image` is readable for [`Patches::pixels`], `out` writable for [`Patches::depth`]; there is
    /// such a window.
    #[inline]
    pub unsafe fn gather_at<T: Copy>(
        &self,
        image: Pitched<*const T>,
        [batch, y, x]: [usize; 3],
        padding: T,
        mut out: *mut T,
    ) {
        let (channels, start) = (self.channels, x * self.stride_w);
        if self.dilation_w == 1 && self.dilation_h == 1 && image.pitch == channels {
            let over = |pad: usize, start: usize, extent: usize, filter: usize| {
                let before = pad.saturating_sub(start).min(filter);
                let end = (extent + pad).saturating_sub(start).min(filter);
                (before, end.saturating_sub(before), filter - end.max(before))
            };
            let down = y * self.stride_h;
            let (above, lines, below) = over(self.top, down, self.in_height, self.filter_h);
            let (left, within, right) = over(self.left, start, self.in_width, self.filter_w);
            let line = batch * self.in_height + (down + above).saturating_sub(self.top);
            let from = line * self.in_width + (start + left).saturating_sub(self.left);
            let parts = [left, within, right].map(|pixels| pixels * channels);
            let row = self.filter_w * channels;
            // SAFETY: lines and taps that are over the image, and places for all within `out`.
            unsafe {
                fill(out, above * row, padding);
                out = out.add(above * row);
                let apart = self.in_width * channels;
                copy_lines(image.row(from), apart, lines, parts, padding, out);
                fill(out.add(lines * row), below * row, padding);
            }
            return;
        }
        for i in 0..self.filter_h {
            let in_y = (y * self.stride_h + i * self.dilation_h).wrapping_sub(self.top);
            // SAFETY: the line is within the image, the window's line within `out`, which is at
            // most one past the end of the row behind it.
            unsafe {
                if in_y < self.in_height {
                    let line = (batch * self.in_height + in_y) * self.in_width;
                    let line = Pitched { start: image.row(line), ..image };
                    self.gather_taps(line, start, padding, out);
                } else {
                    fill(out, self.filter_w * channels, padding);
                }
                out = out.add(self.filter_w * channels);
            }
        }
    }

    /// One line of a window, tap by tap; `line` is the image's.
    ///
    /// # Safety
    /// `line` is readable for a line of the image, `out` writable for a line of the window.
    #[inline]
    unsafe fn gather_taps<T: Copy>(
        &self,
        line: Pitched<*const T>,
        start: usize,
        padding: T,
        out: *mut T,
    ) {
        let channels = self.channels;
        for j in 0..self.filter_w {
            let in_x = (start + j * self.dilation_w).wrapping_sub(self.left);
            // SAFETY: a pixel of the window, and one of the image if the window is over it.
            unsafe {
                let out = out.add(j * channels);
                if in_x < self.in_width {
                    copy(line.row(in_x), out, channels);
                } else {
                    fill(out, channels, padding);
                }
            }
        }
    }
}

/// Copies the middle one of the three parts of each line from lines so many elements apart, and
/// fills the others. A function of its own, for a loop in registers.
///
/// # Safety
/// The lines are readable, and `out` is writable for all of them.
#[inline(never)]
unsafe fn copy_lines<T: Copy>(
    mut from: *const T,
    apart: usize,
    lines: usize,
    [left, within, right]: [usize; 3],
    padding: T,
    mut out: *mut T,
) {
    let is_whole = left + right == 0;
    for _ in 0..lines {
        // SAFETY: as the caller promises.
        unsafe {
            if is_whole {
                copy(from, out, within);
                out = out.add(within);
            } else {
                fill(out, left, padding);
                copy(from, out.add(left), within);
                fill(out.add(left + within), right, padding);
                out = out.add(left + within + right);
            }
        }
        from = from.wrapping_add(apart);
    }
}

/// # Safety
/// `len` elements on both sides, which don't overlap; any alignment.
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, len: usize) {
    let bytes = len * size_of::<T>();
    let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
    // A line of a small window is a dozen bytes: for those a call costs more than two moves that
    // overlap. SAFETY: as the caller promises; as bytes, which have no alignment.
    unsafe {
        match bytes {
            8..=16 => {
                let (first, last) = (from.cast::<u64>(), from.add(bytes - 8).cast::<u64>());
                let (head, tail) = (first.read_unaligned(), last.read_unaligned());
                to.cast::<u64>().write_unaligned(head);
                to.add(bytes - 8).cast::<u64>().write_unaligned(tail);
            }
            17..=64 => {
                for at in (0..bytes - 16).step_by(16) {
                    to.add(at)
                        .cast::<u128>()
                        .write_unaligned(from.add(at).cast::<u128>().read_unaligned());
                }
                let tail = from.add(bytes - 16).cast::<u128>().read_unaligned();
                to.add(bytes - 16).cast::<u128>().write_unaligned(tail);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

/// # Safety
/// `len` elements are writable; any alignment.
unsafe fn fill<T: Copy>(to: *mut T, len: usize, value: T) {
    for at in 0..len {
        // SAFETY: as the caller promises.
        unsafe { to.add(at).write_unaligned(value) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Windows of unlike strides, dilations, paddings and sizes, some larger than what is left at a
    /// border.
    pub(crate) fn cases(channels: usize) -> Vec<Patches> {
        let case = |filter: (usize, usize),
                    stride: (usize, usize),
                    dilation: (usize, usize),
                    pad: (usize, usize, usize, usize)| {
            let extent = |n: usize, k: usize, s: usize, d: usize, pads: usize| {
                (n + pads - (k - 1) * d - 1) / s + 1
            };
            Patches {
                batches: 2,
                in_height: 7,
                in_width: 9,
                channels,
                out_height: extent(7, filter.0, stride.0, dilation.0, pad.0 + pad.1),
                out_width: extent(9, filter.1, stride.1, dilation.1, pad.2 + pad.3),
                filter_h: filter.0,
                filter_w: filter.1,
                stride_h: stride.0,
                stride_w: stride.1,
                dilation_h: dilation.0,
                dilation_w: dilation.1,
                top: pad.0,
                left: pad.2,
            }
        };
        vec![
            case((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
            case((3, 3), (2, 2), (1, 1), (0, 1, 0, 1)),
            case((3, 3), (1, 2), (2, 1), (2, 0, 1, 0)),
            case((5, 2), (3, 1), (1, 3), (4, 4, 2, 3)),
            case((1, 1), (2, 3), (1, 1), (0, 0, 0, 0)),
            case((5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
            case((5, 5), (2, 2), (1, 1), (2, 1, 1, 2)),
            case((3, 3), (1, 1), (2, 2), (2, 2, 2, 2)),
            case((3, 3), (1, 2), (1, 4), (1, 1, 4, 4)),
        ]
    }

    #[test]
    fn rows_are_windows() {
        for (filter, stride, dilation, top, left) in [
            ((3, 3), (1, 1), (1, 1), 1, 1),
            ((2, 4), (2, 1), (1, 1), 0, 3),
            ((3, 2), (1, 2), (2, 3), 2, 1),
        ] {
            let patches = Patches {
                batches: 2,
                in_height: 7,
                in_width: 6,
                channels: 3,
                out_height: 4,
                out_width: 3,
                filter_h: filter.0,
                filter_w: filter.1,
                stride_h: stride.0,
                stride_w: stride.1,
                dilation_h: dilation.0,
                dilation_w: dilation.1,
                top,
                left,
            };
            let image: Vec<i32> = (0..).take(patches.elements()).collect();
            let mut row = vec![0; patches.depth()];
            for at in 0..patches.rows() {
                // SAFETY: sizes as the patches say.
                unsafe { patches.gather(patches.dense(&image), at, -1, row.as_mut_ptr()) };
                let (x, y, n) = (at % 3, at / 3 % 4, at / 12);
                for (k, &got) in row.iter().enumerate() {
                    let (c, j, i) = (k % 3, k / 3 % filter.1, k / 3 / filter.1);
                    let in_y = (y * stride.0 + i * dilation.0).checked_sub(top).filter(|&y| y < 7);
                    let in_x = (x * stride.1 + j * dilation.1).checked_sub(left).filter(|&x| x < 6);
                    let want =
                        in_y.zip(in_x).map_or(-1, |(y, x)| image[((n * 7 + y) * 6 + x) * 3 + c]);
                    assert_eq!(got, want, "row {at}, element {k}");
                }
            }
        }
    }
}
