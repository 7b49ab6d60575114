//! Depthwise sums of integers: each channel of a window by its own weights.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::In;

use super::conv::ConvWindows;
use super::math::Stored;

/// Taps whose products are summed in 32 bits, of 16-bit values and weights of 9 bits.
pub(super) const EXACT_TAPS: usize = 1 << 7;

/// The sums of one output pixel, one per output channel.
pub(super) struct TapSums<'a, T> {
    pub(super) windows: &'a ConvWindows,
    pub(super) input: In<'a, T>,
    /// Batch, row and column of the pixel.
    pub(super) place: [usize; 3],
    pub(super) zero_point: i32,
    /// `[height, width, channels]`, less their zero point.
    pub(super) filters: &'a [i16],
    pub(super) sums: &'a mut [i32],
}

impl<T: Stored> Loop for TapSums<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { windows, input, place: [batch, y, x], zero_point, filters, sums } = self;
        let (outputs, channels) = (windows.output.channels, windows.input.channels);
        let times = outputs / channels.max(1);
        sums.fill(0);
        for (tap_y, in_y) in windows.vertical.taps(y) {
            for (tap_x, in_x) in windows.horizontal.taps(x) {
                let from = windows.input.at(batch, in_y, in_x, 0);
                let values = input.slice(from..from + channels);
                let first = (tap_y * windows.horizontal.filter + tap_x) * outputs;
                let weights = &filters[first..first + outputs];
                if times == 1 {
                    add_products(values, zero_point, weights, sums);
                    continue;
                }
                let each = sums.chunks_exact_mut(times).zip(weights.chunks_exact(times));
                for ((sums, weights), value) in each.zip(values.iter()) {
                    let value = value.wide() - zero_point;
                    for (sum, &weight) in sums.iter_mut().zip(weights) {
                        *sum += value * i32::from(weight);
                    }
                }
            }
        }
    }
}

/// Adds the product of each channel's value and weight to its sum.
#[inline(always)]
fn add_products<T: Stored>(values: In<'_, T>, zero_point: i32, weights: &[i16], sums: &mut [i32]) {
    const BLOCK: usize = 16;
    let (weight_blocks, weight_rest) = weights.as_chunks::<BLOCK>();
    let (sum_blocks, sum_rest) = sums.as_chunks_mut::<BLOCK>();
    for (at, (weights, sums)) in weight_blocks.iter().zip(sum_blocks).enumerate() {
        let values = values.block::<BLOCK>(at * BLOCK);
        for ((sum, &weight), value) in sums.iter_mut().zip(weights).zip(values) {
            *sum += (value.wide() - zero_point) * i32::from(weight);
        }
    }
    let first = weight_blocks.len() * BLOCK;
    for (at, (sum, &weight)) in sum_rest.iter_mut().zip(weight_rest).enumerate() {
        *sum += (values.get(first + at).wide() - zero_point) * i32::from(weight);
    }
}
