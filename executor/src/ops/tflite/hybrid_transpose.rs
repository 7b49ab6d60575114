//! TRANSPOSE_CONV of floats with 8-bit weights: each image is quantised on the fly, and every
//! product becomes a float by itself.
//!
//! The interpreter adds those floats to the result one by one, in the order of the image's pixels
//! and channels. So does this, but for all channels of a result at once.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::{In, OpError, Out, Shape, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall, refused, sizes};
use super::conv::ConvWindows;
use super::on_the_fly::OnTheFly;
use crate::lowering::Lowered;
use crate::ops::support::{Axis, compiled};

/// Channels of a result that are computed at a time.
const LANES: usize = 16;

/// The result's shape comes first, then filters `[outputs, height, width, inputs]`, then the input.
pub(super) fn transpose_conv(
    call: &mut OperatorCall<'_, '_>,
    filter: &Arg,
    input: &Arg,
) -> Lowered {
    let extents = sizes(&call.ints(0)?)?;
    let (&[outputs, height, width, depth], &[batches, out_h, out_w, channels]) =
        (&filter.shape[..], &extents[..])
    else {
        return Err(OpError::rule("filters or result are not of rank 4").into());
    };
    if filter.kind != ElementKind::I8 || call.result(0)?.kind != ElementKind::F32 {
        return Err(refused(1, filter.kind).into());
    }
    // The windows of the convolution that this one undoes: from the result to the input.
    let below = Shape::new(vec![batches, out_h, out_w, channels])?;
    let windows = ConvWindows::read(call, &below, [height, width, depth], None)?;
    if channels != outputs || windows.output.shape()? != input.shape {
        let what = format!("{:?} does not become {extents:?}", input.shape);
        return Err(OpError::rule(what).into());
    }
    let activation = call.activation(3)?;
    let has_bias = call.has_float_bias(3, outputs)?;
    let blocks = outputs.div_ceil(LANES);
    let taps = height * width * depth;
    call.claim(blocks.saturating_mul(LANES).saturating_mul(taps.saturating_add(4)))?;
    let Some(filters) = call.constant(1) else {
        return Err(OpError::input(1, "is no constant").into());
    };
    let weights = packed(filters.typed(), outputs, taps);
    let mut scales = filter.scales(outputs)?;
    scales.resize(blocks * LANES, 0.0);
    let shape = call.set(0, &extents)?;
    let isa = call.isa();
    let image = windows.output.height * windows.output.width * depth;
    let products = image.saturating_mul(batches.saturating_mul(outputs * height * width));
    let work = 2 * u64::try_from(products).unwrap_or(u64::MAX / 2);
    let label = compiled(isa, "tflite_hybrid_transpose", &shape, work);
    call.emit_bands(label, 4 * image, batches, move |mut io, batches| {
        if out_h * out_w * outputs == 0 {
            return Ok(()); // and there may be no scratch memory
        }
        let inputs = io.inputs_and_outputs();
        let bias = has_bias.then(|| inputs.input::<f32>(3));
        let floats = &mut io.scratch_slice::<f32>()[..image];
        for batch in batches {
            let own = inputs.input::<f32>(2).slice(batch * image..(batch + 1) * image);
            let scale = OnTheFly::Asymmetric.quantise_to_floats(isa, own, floats).scale;
            for y in 0..out_h {
                let line = (batch * out_h + y) * out_w * outputs;
                let output = inputs.output::<f32>(0).slice(line..line + out_w * outputs);
                let (image, weights, scales) = (&*floats, &weights[..], &scales[..]);
                let line = Line { image, weights, scales, scale, windows: &windows, y, output };
                isa.run(line);
                poll::work(0)?;
                finish(output, bias, activation);
            }
        }
        Ok(())
    });
    Ok(())
}

/// Filters by blocks of channels, each of one element of a filter after the other.
fn packed(filters: &[i8], outputs: usize, taps: usize) -> Vec<[i8; LANES]> {
    let block = |first: usize| {
        poll::each(0..taps, LANES).map(move |tap| {
            std::array::from_fn(|lane| {
                let at = (first + lane) * taps + tap;
                if first + lane < outputs { filters[at] } else { 0 }
            })
        })
    };
    (0..outputs).step_by(LANES).flat_map(block).collect()
}

/// Adds the bias to a line of pixels, and applies the activation.
fn finish(output: Out<'_, f32>, bias: Option<In<'_, f32>>, activation: Activation) {
    if bias.is_none() && activation == Activation::None {
        return;
    }
    let outputs = bias.map_or(1, |bias| bias.len().max(1));
    for at in 0..output.len() {
        let sum = output.as_in().get(at);
        let sum = bias.map_or(sum, |bias| sum + bias.get(at % outputs));
        output.set(at, activation.apply(sum));
    }
}

/// A line of the result.
struct Line<'a> {
    /// The integers of the image less their zero point.
    image: &'a [f32],
    weights: &'a [[i8; LANES]],
    /// Of each channel, and of the image.
    scales: &'a [f32],
    scale: f32,
    /// From the result to the image.
    windows: &'a ConvWindows,
    y: usize,
    output: Out<'a, f32>,
}

impl Loop for Line<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { image, weights, scales, scale, windows, y, output } = self;
        let (small, large) = (windows.output, windows.input);
        let (depth, outputs) = (small.channels, large.channels);
        let (wide, taps) = (windows.horizontal.filter, windows.vertical.filter);
        let taps = taps * wide * depth;
        if taps == 0 {
            output.fill(std::iter::repeat_n(0.0, output.len()));
            return;
        }
        for x in 0..large.width {
            for (block, weights) in weights.chunks_exact(taps).enumerate() {
                let (first, mut sums) = (block * LANES, [0.0f32; LANES]);
                let mut own = [0.0; LANES];
                own.copy_from_slice(&scales[first..first + LANES]);
                let mut products = 0;
                for (in_y, tap_y) in sources(windows.vertical, y, small.height) {
                    for (in_x, tap_x) in sources(windows.horizontal, x, small.width) {
                        let from = (in_y * small.width + in_x) * depth;
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

/// Places of the image that reach place `at` of the result, in their order, each with the place in
/// the filter.
#[inline(always)]
fn sources(axis: Axis, at: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    let reach = at + axis.head;
    let first = (reach + 1).saturating_sub(axis.filter).div_ceil(axis.stride);
    let end = (reach / axis.stride + 1).min(count);
    (first..end).map(move |from| (from, reach - from * axis.stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_packed_by_blocks_of_channels() {
        let filters: Vec<i8> = (0..34).collect();
        let packed = packed(&filters, 17, 2);
        assert_eq!(packed.len(), 4);
        assert_eq!((packed[0][0], packed[0][1], packed[1][0]), (0, 2, 1));
        assert_eq!((packed[2][0], packed[2][1], packed[3][0]), (32, 0, 33));
    }
}
