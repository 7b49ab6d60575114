//! Transposed convolutions of an image of integers by 8-bit weights, of which every product becomes
//! a float by itself.
//!
//! TFLite's interpreter adds those floats to the result one by one, in the order of the image's
//! pixels and channels. So does this, but for all channels of a result at once.

use super::patches::Patches;
use crate::kernels::plain::Loop;
use crate::simd::Isa;
use crate::tensor::{In, Out, check_lengths, poll};

/// Channels of a result that are computed at a time.
const LANES: usize = 16;

/// Filters, packed for such a convolution.
#[derive(Debug)]
pub struct TransposedProducts {
    isa: Isa,
    /// The windows of the convolution that this one undoes: over the result, a row for each pixel
    /// of the image.
    patches: Patches,
    /// Channels of the image.
    depth: usize,
    /// By blocks of channels, each of one element of a filter after the other.
    weights: Vec<[i8; LANES]>,
    /// Of each channel of whole blocks.
    scales: Vec<f32>,
}

impl TransposedProducts {
    /// Bytes that filters of so many elements each take.
    pub fn bytes(outputs: usize, taps: usize) -> usize {
        outputs.div_ceil(LANES).saturating_mul(LANES).saturating_mul(taps.saturating_add(4))
    }

    /// Packs filters `[outputs, height, width, depth]`, whose scales are one for each output, as
    /// `patches` has channels.
    ///
    /// # Errors
    /// There are not as many filters or scales.
    pub fn new(
        isa: Isa,
        patches: Patches,
        depth: usize,
        filters: &[i8],
        scales: &[f32],
    ) -> Result<Self, String> {
        let (outputs, taps) = (patches.channels, patches.filter_h * patches.filter_w * depth);
        check_lengths(filters.len(), outputs * taps)?;
        check_lengths(scales.len(), outputs)?;
        let mut weights = Vec::new();
        for first in (0..outputs).step_by(LANES) {
            weights.extend(poll::each(0..taps, LANES).map(|tap| {
                std::array::from_fn(|lane| match first + lane < outputs {
                    true => filters[(first + lane) * taps + tap],
                    false => 0,
                })
            }));
        }
        let mut scales = scales.to_vec();
        scales.resize(outputs.next_multiple_of(LANES), 0.0);
        Ok(Self { isa, patches, depth, weights, scales })
    }

    /// Elements of the image.
    pub fn image(&self) -> usize {
        self.patches.out_height * self.patches.out_width * self.depth
    }

    /// Computes line `y` of the result: of each pixel and channel the sum of
    /// `value * weight * scale of the channel * scale`. The image's values are integers.
    ///
    /// # Errors
    /// Memory is missing. Once the run is to end, the rest of the line is left.
    pub fn line(
        &self,
        image: &[f32],
        scale: f32,
        y: usize,
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        check_lengths(image.len(), self.image())?;
        check_lengths(output.len(), self.patches.in_width * self.patches.channels)?;
        self.isa.run(Line { of: self, image, scale, y, output });
        Ok(())
    }
}

/// A line of the result.
struct Line<'a> {
    of: &'a TransposedProducts,
    image: &'a [f32],
    scale: f32,
    y: usize,
    output: Out<'a, f32>,
}

impl Loop for Line<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { of, image, scale, y, output } = self;
        let (p, depth) = (&of.patches, of.depth);
        let (wide, outputs) = (p.filter_w, p.channels);
        let taps = p.filter_h * wide * depth;
        if taps == 0 {
            output.fill(std::iter::repeat_n(0.0, output.len()));
            return;
        }
        let down = Axis { head: p.top, filter: p.filter_h, stride: p.stride_h };
        let across = Axis { head: p.left, filter: wide, stride: p.stride_w };
        for x in 0..p.in_width {
            for (block, weights) in of.weights.chunks_exact(taps).enumerate() {
                let (first, mut sums) = (block * LANES, [0.0f32; LANES]);
                let mut own = [0.0; LANES];
                own.copy_from_slice(&of.scales[first..first + LANES]);
                let mut products = 0;
                for (in_y, tap_y) in down.sources(y, p.out_height) {
                    for (in_x, tap_x) in across.sources(x, p.out_width) {
                        let from = (in_y * p.out_width + in_x) * depth;
                        let to = (tap_y * wide + tap_x) * depth;
                        let pixel = &image[from..from + depth];
                        products += depth;
                        for (&value, weights) in pixel.iter().zip(&weights[to..to + depth]) {
                            for ((sum, &weight), own) in sums.iter_mut().zip(weights).zip(own) {
                                *sum += value * f32::from(weight) * own * scale;
                            }
                        }
                    }
                }
                if poll::work(4 + products).is_err() {
                    return;
                }
                let count = LANES.min(outputs - first);
                let place = x * outputs + first;
                output.slice(place..place + count).copy_from(In::of(&sums[..count]));
            }
        }
    }
}

/// One axis of the windows: padding in front, extent, and the way from one to the next.
#[derive(Clone, Copy)]
struct Axis {
    head: usize,
    filter: usize,
    stride: usize,
}

impl Axis {
    /// Places of the image that reach place `at` of the result, in their order, each with the place
    /// in the filter.
    #[inline(always)]
    fn sources(self, at: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
        let reach = at + self.head;
        let first = (reach + 1).saturating_sub(self.filter).div_ceil(self.stride);
        let end = (reach / self.stride + 1).min(count);
        (first..end).map(move |from| (from, reach - from * self.stride))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result by its definition: each pixel of the image adds its products where they belong.
    fn plainly(patches: &Patches, depth: usize, filters: &[i8], scales: &[f32]) -> Vec<f32> {
        let p = patches;
        let mut result = vec![0.0; p.in_height * p.in_width * p.channels];
        let image = image(p, depth);
        for (at, pixel) in image.chunks_exact(depth).enumerate() {
            let (in_y, in_x) = (at / p.out_width, at % p.out_width);
            for tap in 0..p.filter_h * p.filter_w {
                let y = (in_y * p.stride_h + tap / p.filter_w).wrapping_sub(p.top);
                let x = (in_x * p.stride_w + tap % p.filter_w).wrapping_sub(p.left);
                if y >= p.in_height || x >= p.in_width {
                    continue;
                }
                for (output, &own) in scales.iter().enumerate() {
                    for (channel, &value) in pixel.iter().enumerate() {
                        let taps = p.filter_h * p.filter_w;
                        let weight = filters[(output * taps + tap) * depth + channel];
                        result[(y * p.in_width + x) * p.channels + output] +=
                            value * f32::from(weight) * own * 0.37;
                    }
                }
            }
        }
        result
    }

    fn image(p: &Patches, depth: usize) -> Vec<f32> {
        let value = |at: usize| f32::from(u8::try_from(at * 37 % 251).unwrap()) - 125.0;
        (0..p.out_height * p.out_width * depth).map(value).collect()
    }

    #[test]
    fn every_variant_adds_the_products_in_the_order_of_the_image() {
        for (filter, stride, head) in [(1, 1, 0), (3, 1, 1), (3, 2, 0), (4, 2, 1), (2, 3, 0)] {
            for (outputs, depth) in [(1, 1), (3, 5), (16, 2), (17, 8), (33, 3)] {
                let (out_height, out_width) = (3, 4);
                let extent = |out: usize| (out - 1) * stride + filter - head;
                let patches = Patches {
                    batches: 1,
                    in_height: extent(out_height),
                    in_width: extent(out_width),
                    channels: outputs,
                    out_height,
                    out_width,
                    filter_h: filter,
                    filter_w: filter,
                    stride_h: stride,
                    stride_w: stride,
                    dilation_h: 1,
                    dilation_w: 1,
                    top: head,
                    left: head,
                };
                let weights = (0u8..=250).cycle().take(outputs * filter * filter * depth);
                let filters: Vec<i8> =
                    weights.map(|it| it.wrapping_mul(91).cast_signed()).collect();
                let scales: Vec<f32> =
                    (0u8..).take(outputs).map(|it| 0.01 + f32::from(it)).collect();
                let want = plainly(&patches, depth, &filters, &scales);
                let image = image(&patches, depth);
                for isa in Isa::all() {
                    let products =
                        TransposedProducts::new(isa, patches, depth, &filters, &scales).unwrap();
                    let line = patches.in_width * outputs;
                    let mut got = vec![0.0; want.len()];
                    for (y, got) in got.chunks_exact_mut(line).enumerate() {
                        products.line(&image, 0.37, y, Out::of(got)).unwrap();
                    }
                    assert_eq!(got, want, "{isa:?}, {patches:?}, {depth} deep");
                }
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        let patches = Patches { channels: 2, ..Patches::matrix(3, 2) };
        assert!(TransposedProducts::new(Isa::Scalar, patches, 4, &[1; 7], &[1.0; 2]).is_err());
        assert!(TransposedProducts::new(Isa::Scalar, patches, 4, &[1; 8], &[1.0; 1]).is_err());
    }
}
