//! Convolutions and means of windows of floats whose sums have the order of TFLite's reference
//! kernels: tap by tap from the first row of a filter on, channel by channel within a tap, each
//! product rounded before it is added.
//!
//! Where layers behind them quantise on the fly, the last bit of a sum decides now and then which
//! integer a float becomes, and a network's results move with it by hundredths. So in such networks
//! the order counts.

use std::sync::Arc;

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::{In, OpError, Out, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall};
use super::conv::ConvWindows;
use super::math::f32_of;
use crate::lowering::{Label, Lowered};
use crate::ops::support::plain;

/// Output channels whose sums are computed side by side.
const LANES: usize = 16;

/// CONV_2D: constant filters `[outputs, height, width, inputs]`.
pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>, input: &Arg, filter: &Arg) -> Lowered {
    let &[outputs, height, width, depth] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    if windows.input.channels != depth {
        return Err(OpError::rule("groups of channels of floats").into());
    }
    let patch = height * width * depth;
    let blocks = outputs.div_ceil(LANES);
    call.claim(4 * patch * blocks * LANES)?;
    let filters = constant_filters(call, filter)?;
    // [block of outputs][tap][input channel][output of the block]
    let mut packed = vec![0f32; patch * blocks * LANES];
    for (output, own) in filters.chunks_exact(patch.max(1)).enumerate() {
        let first = output / LANES * patch * LANES + output % LANES;
        packed[first..].iter_mut().step_by(LANES).zip(own).for_each(|(to, &weight)| *to = weight);
    }
    let filters: Arc<[f32]> = packed.into();
    emit(call, windows, "tflite_ordered_conv_2d", patch, move |isa, from, place, sums| {
        isa.run(DenseSums { windows: &windows, input: from, place, filters: &filters, sums });
    })
}

/// DEPTHWISE_CONV_2D: constant filters `[1, height, width, channels]`.
pub(super) fn depthwise_conv_2d(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    filter: &Arg,
) -> Lowered {
    let &[1, height, width, outputs] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    let times = outputs / windows.input.channels.max(1);
    if times * windows.input.channels != outputs || outputs == 0 {
        return Err(OpError::rule("channels that are no multiple").into());
    }
    call.claim(4 * height * width * outputs)?;
    let filters: Arc<[f32]> = constant_filters(call, filter)?.into();
    emit(
        call,
        windows,
        "tflite_ordered_depthwise",
        height * width,
        move |isa, from, place, sums| {
            isa.run(ChannelSums { windows: &windows, input: from, place, filters: &filters, sums });
        },
    )
}

/// AVERAGE_POOL_2D: means of the pixels that a window covers, summed in their order.
pub(super) fn average_pool_2d(call: &mut OperatorCall<'_, '_>, input: &Arg) -> Lowered {
    let (width, height) = (call.count(3, 1)?, call.count(4, 1)?);
    let channels = input.shape.last().copied().unwrap_or(0);
    let windows = ConvWindows::read(call, &input.shape, [height, width, channels], None)?;
    let activation = call.activation(5)?;
    let extents = windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    let rows = windows.output.batches * windows.output.height;
    let label = plain("tflite_ordered_average_pool", &shape, 0);
    call.emit_bands(label, 0, rows, move |io, band| {
        let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
        for row in band {
            let (batch, y) = (row / windows.output.height, row % windows.output.height);
            for x in poll::each(0..windows.output.width, height * width * channels) {
                let first = windows.output.at(batch, y, x, 0);
                for channel in 0..channels {
                    let (mut sum, mut count) = (0f32, 0i32);
                    for in_y in windows.vertical.covered(y) {
                        for in_x in windows.horizontal.covered(x) {
                            sum += from.get(windows.input.at(batch, in_y, in_x, channel));
                            count += 1;
                        }
                    }
                    to.set(first + channel, activation.apply(sum / f32_of(count)));
                }
            }
        }
        Ok(())
    });
    Ok(())
}

fn constant_filters(call: &OperatorCall<'_, '_>, filter: &Arg) -> Lowered<Vec<f32>> {
    if filter.kind != ElementKind::F32 {
        return Err(OpError::input(1, "is not of floats").into());
    }
    let bytes = call.constant(1).ok_or_else(|| OpError::input(1, "is no constant"))?;
    Ok(bytes.typed::<f32>().to_vec())
}

/// Adds the step: `sum` gives the sums of the output pixel at a place, one per channel.
fn emit(
    call: &mut OperatorCall<'_, '_>,
    windows: ConvWindows,
    name: &'static str,
    products: usize,
    sum: impl Fn(nnburst_kernels::simd::Isa, In<'_, f32>, [usize; 3], &mut [f32])
    + Send
    + Sync
    + 'static,
) -> Lowered {
    if call.result(0)?.kind != ElementKind::F32 {
        return Err(OpError::output(0, "is not of floats").into());
    }
    let outputs = windows.output.channels;
    let has_bias = call.has(2);
    if has_bias {
        let bias = call.arg(2)?;
        if bias.kind != ElementKind::F32 || bias.shape.elements() != outputs {
            return Err(OpError::input(2, "is no bias of floats").into());
        }
    }
    let activation = call.activation(3)?;
    let extents = windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(products)).unwrap_or(u64::MAX);
    let (label, isa): (Label, _) = (plain(name, &shape, work), call.isa());
    let rows = windows.output.batches * windows.output.height;
    let room = 4 * outputs.next_multiple_of(LANES);
    call.emit_bands(label, room, rows, move |mut io, band| {
        let fixed = io.inputs_and_outputs();
        let (from, to) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let bias = has_bias.then(|| fixed.input::<f32>(2));
        let sums = io.scratch_slice::<f32>();
        for row in band {
            let (batch, y) = (row / windows.output.height, row % windows.output.height);
            for x in poll::each(0..windows.output.width, products * outputs / 8 + 8) {
                sum(isa, from, [batch, y, x], sums);
                let first = windows.output.at(batch, y, x, 0);
                isa.run(Finish { sums: &sums[..outputs], bias, activation, output: to, first });
            }
        }
        Ok(())
    });
    Ok(())
}

/// The outputs of a pixel from their sums.
struct Finish<'a> {
    sums: &'a [f32],
    bias: Option<In<'a, f32>>,
    activation: Activation,
    output: Out<'a, f32>,
    /// The place of the first.
    first: usize,
}

impl Loop for Finish<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { sums, bias, activation, output, first } = self;
        let (blocks, rest) = sums.as_chunks::<LANES>();
        for (block, sums) in blocks.iter().enumerate() {
            let bias = bias.map_or([0.0; LANES], |bias| bias.block(block * LANES));
            let mut values = *sums;
            for (value, bias) in values.iter_mut().zip(bias) {
                // A missing bias is a zero that is added, too.
                *value = activation.apply(*value + bias);
            }
            output.set_block(first + block * LANES, values);
        }
        let done = blocks.len() * LANES;
        for (at, &sum) in rest.iter().enumerate() {
            let bias = bias.map_or(0.0, |bias| bias.get(done + at));
            output.set(first + done + at, activation.apply(sum + bias));
        }
    }
}

/// Sums over all input channels.
struct DenseSums<'a> {
    windows: &'a ConvWindows,
    input: In<'a, f32>,
    /// Batch, row and column of the pixel.
    place: [usize; 3],
    filters: &'a [f32],
    sums: &'a mut [f32],
}

impl Loop for DenseSums<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { windows, input, place: [batch, y, x], filters, sums } = self;
        let depth = windows.input.channels;
        let patch = windows.patch_elements();
        let blocks = filters.chunks_exact((patch * LANES).max(1));
        for (own, sums) in blocks.zip(sums.as_chunks_mut::<LANES>().0) {
            let mut totals = [0f32; LANES];
            for (tap_y, in_y) in windows.vertical.taps(y) {
                for (tap_x, in_x) in windows.horizontal.taps(x) {
                    let from = windows.input.at(batch, in_y, in_x, 0);
                    let first = (tap_y * windows.horizontal.filter + tap_x) * depth * LANES;
                    let weights = own[first..first + depth * LANES].as_chunks::<LANES>().0;
                    for (value, weights) in input.slice(from..from + depth).iter().zip(weights) {
                        for (total, weight) in totals.iter_mut().zip(weights) {
                            *total += value * weight;
                        }
                    }
                }
            }
            *sums = totals;
        }
    }
}

/// Sums of each channel by itself.
struct ChannelSums<'a> {
    windows: &'a ConvWindows,
    input: In<'a, f32>,
    place: [usize; 3],
    filters: &'a [f32],
    sums: &'a mut [f32],
}

impl Loop for ChannelSums<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { windows, input, place: [batch, y, x], filters, sums } = self;
        let (outputs, channels) = (windows.output.channels, windows.input.channels);
        let times = outputs / channels.max(1);
        // One output for each channel: blocks of them side by side.
        let blocks = if times == 1 { outputs / LANES } else { 0 };
        let (sums, rest) = sums[..outputs].split_at_mut(blocks * LANES);
        for (block, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let mut totals = [0f32; LANES];
            for (tap_y, in_y) in windows.vertical.taps(y) {
                for (tap_x, in_x) in windows.horizontal.taps(x) {
                    let from = windows.input.at(batch, in_y, in_x, block * LANES);
                    let values = input.block::<LANES>(from);
                    let first = (tap_y * windows.horizontal.filter + tap_x) * outputs;
                    let weights = &filters[first + block * LANES..][..LANES];
                    for ((total, value), weight) in totals.iter_mut().zip(values).zip(weights) {
                        *total += value * weight;
                    }
                }
            }
            *sums = totals;
        }
        let done = blocks * LANES;
        rest.fill(0.0);
        if rest.is_empty() {
            return;
        }
        for (tap_y, in_y) in windows.vertical.taps(y) {
            for (tap_x, in_x) in windows.horizontal.taps(x) {
                let from = windows.input.at(batch, in_y, in_x, 0);
                let values = input.slice(from + done / times..from + channels);
                let first = (tap_y * windows.horizontal.filter + tap_x) * outputs;
                let weights = filters[first + done..first + outputs].chunks_exact(times);
                let each = rest.chunks_exact_mut(times).zip(weights).zip(values.iter());
                for ((sums, weights), value) in each {
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum += value * weight;
                    }
                }
            }
        }
    }
}
