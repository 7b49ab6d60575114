//! An image with its padding around it: no window leaves it, and pixels lie one behind the other.
//!
//! A small image is copied sooner than its border is told from its middle: windows at the border
//! are tiles of their own, which wait for each product.

use std::ops::Range;

use super::patches::Patches;
use crate::kernels::plain::Loop;
use crate::simd::Isa;
use crate::tensor::rows::Pitched;

impl Patches {
    /// Returns whether some window leaves the image.
    pub(in crate::kernels) fn is_padded(&self) -> bool {
        let over = |outputs: usize, stride: usize, reach: usize, pad: usize, extent: usize| {
            pad > 0 || outputs.saturating_sub(1).saturating_mul(stride) + reach > extent
        };
        over(self.out_height, self.stride_h, self.reach_h(), self.top, self.in_height)
            || over(self.out_width, self.stride_w, self.reach_w(), self.left, self.in_width)
    }

    /// Pixels of a line with its padding, as far as windows reach.
    pub(in crate::kernels) fn padded_width(&self) -> usize {
        self.out_width.saturating_sub(1).saturating_mul(self.stride_w) + self.reach_w()
    }

    /// Elements of all that so many lines of outputs read, with its padding.
    pub(in crate::kernels) fn padded_elements(&self, lines: usize) -> usize {
        let height = (lines.saturating_sub(1)).saturating_mul(self.stride_h) + self.reach_h();
        height.saturating_mul(self.padded_width()).saturating_mul(self.channels)
    }

    /// The placement of windows over what [`Patches::copy_padded`] makes for so many lines.
    pub(in crate::kernels) fn of_padded(&self, lines: usize) -> Self {
        let in_height = lines.saturating_sub(1) * self.stride_h + self.reach_h();
        let (in_width, out_height) = (self.padded_width(), lines);
        Self { batches: 1, in_height, in_width, out_height, top: 0, left: 0, ..*self }
    }

    /// Copies what some lines of a batch's outputs read, with zeros for its padding.
    ///
    /// # Safety
    /// `image` is readable for [`Patches::pixels`], `to` writable for [`Patches::padded_elements`];
    /// there are such lines.
    pub(in crate::kernels) unsafe fn copy_padded(
        &self,
        isa: Isa,
        image: Pitched<*const f32>,
        batch: usize,
        lines: Range<usize>,
        to: *mut f32,
    ) {
        isa.run(CopyPadded { patches: self, image, batch, lines, to });
    }
}

/// The operands of [`Patches::copy_padded`], and its promises.
struct CopyPadded<'a> {
    patches: &'a Patches,
    image: Pitched<*const f32>,
    batch: usize,
    lines: Range<usize>,
    to: *mut f32,
}

impl Loop for CopyPadded<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { patches: p, image, batch, lines, to } = self;
        let (width, channels) = (p.padded_width(), p.channels);
        let left = p.left.min(width);
        let within = p.in_width.min(width - left);
        // SAFETY: as was promised. All at once, as each piece of a border would be a call.
        unsafe { to.write_bytes(0, p.padded_elements(lines.len())) };
        let first = lines.start * p.stride_h;
        let reach = lines.len().saturating_sub(1) * p.stride_h + p.reach_h();
        // Of the copy's lines those of the image.
        let above = p.top.saturating_sub(first).min(reach);
        let end = (p.in_height + p.top).saturating_sub(first).min(reach);
        for line in above..end {
            let from = (batch * p.in_height + first + line - p.top) * p.in_width;
            let from = image.row(from);
            let to = to.wrapping_add((line * width + left) * channels);
            // SAFETY: pixels of a line of the image, and their places in the copy.
            unsafe {
                if image.pitch == channels {
                    copy_floats(from, to, within * channels);
                } else {
                    for pixel in 0..within {
                        let from = from.wrapping_add(pixel * image.pitch);
                        copy_floats(from, to.add(pixel * channels), channels);
                    }
                }
            }
        }
    }
}

/// Copies so many floats by blocks, the last of which lies over the one before.
///
/// # Safety
/// They are readable and writable, at any alignment, and don't overlap.
#[inline(always)]
unsafe fn copy_floats(from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        match len {
            16.. => copy_blocks::<16>(from, to, len),
            4.. => copy_blocks::<4>(from, to, len),
            _ => copy_blocks::<1>(from, to, len),
        }
    }
}

/// # Safety
/// As for [`copy_floats`], and there is a block or nothing.
#[inline(always)]
unsafe fn copy_blocks<const N: usize>(from: *const f32, to: *mut f32, len: usize) {
    let blocks = (0..len / N).map(|at| at * N);
    for at in blocks.chain((!len.is_multiple_of(N)).then(|| len - N)) {
        // SAFETY: as the caller promises.
        unsafe {
            let block = from.add(at).cast::<[f32; N]>().read_unaligned();
            to.add(at).cast::<[f32; N]>().write_unaligned(block);
        }
    }
}
