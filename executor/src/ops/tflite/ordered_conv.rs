//! Convolutions and means of windows of floats whose sums have the order of TFLite's reference
//! kernels: tap by tap from the first row of a filter on, channel by channel within a tap, each
//! product rounded before it is added.
//!
//! Where layers behind them quantise on the fly, the last bit of a sum decides now and then which
//! integer a float becomes, and a network's results move with it by hundredths. So in such networks
//! the order counts.

use std::sync::Arc;

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, OpError, Out, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall};
use super::conv::ConvWindows;
use super::math::f32_of;
use crate::lowering::Lowered;
use crate::ops::support::{compiled, plain};

/// Output channels whose sums are computed side by side.
const LANES: usize = 16;

/// Pixels of a line that are computed together, if their windows cover the same taps: as many sums
/// as the registers of AVX2 hold, and more than one, as each sum waits for the one before it.
const PIXELS: usize = 6;

/// Products of a pixel from which on each is computed alone: a run may be stopped between pixels,
/// and what is gathered for them takes memory.
const LARGE: usize = 1 << 23;

/// Neighbouring pixels of a line whose windows cover the same taps.
#[derive(Clone, Copy, Debug)]
struct Pixels {
    batch: usize,
    y: usize,
    first: usize,
    count: usize,
}

impl Pixels {
    /// Those from column `first` of a line on, at most `most` of them.
    fn from(windows: &ConvWindows, most: usize, place: [usize; 3]) -> Self {
        let [batch, y, first] = place;
        let taps = |x| windows.horizontal.tap_range(x);
        let until = windows.output.width.min(first + most);
        let count = (first..until).take_while(|&x| taps(x) == taps(first)).count();
        Self { batch, y, first, count }
    }
}

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
    let step = Step { name: "tflite_ordered_conv_2d", products: patch, gathered: patch };
    emit(call, windows, step, move |isa, from, pixels, gathered, sums| {
        let len = gather(&windows, from, pixels, gathered);
        let (windows, filters) = (&windows, &filters[..]);
        isa.run(DenseSums { windows, pixels, gathered, len, filters, sums });
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
    let step = Step { name: "tflite_ordered_depthwise", products: height * width, gathered: 0 };
    emit(call, windows, step, move |isa, from, pixels, _, sums| {
        let (windows, filters) = (&windows, &filters[..]);
        let each = sums.chunks_exact_mut(outputs.next_multiple_of(LANES).max(1));
        for (x, sums) in (pixels.first..pixels.first + pixels.count).zip(each) {
            let place = [pixels.batch, pixels.y, x];
            isa.run(ChannelSums { windows, input: from, place, filters, sums });
        }
    })
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

/// What a step of sums takes.
#[derive(Clone, Copy, Debug)]
struct Step {
    name: &'static str,
    /// Products of a sum.
    products: usize,
    /// Floats that are gathered for each pixel.
    gathered: usize,
}

/// Adds the step: `sum` gives the sums of some output pixels, of each as many as there are
/// channels, up to a multiple of [`LANES`].
fn emit(
    call: &mut OperatorCall<'_, '_>,
    windows: ConvWindows,
    step: Step,
    sum: impl Fn(Isa, In<'_, f32>, Pixels, &mut [f32], &mut [f32]) + Send + Sync + 'static,
) -> Lowered {
    if call.result(0)?.kind != ElementKind::F32 {
        return Err(OpError::output(0, "is not of floats").into());
    }
    let Step { name, products, gathered } = step;
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
    let isa = call.isa();
    let rows = windows.output.batches * windows.output.height;
    let stride = outputs.next_multiple_of(LANES);
    let most = if products.saturating_mul(outputs) < LARGE { PIXELS } else { 1 };
    let room = 4 * most * (gathered + stride);
    call.emit_bands(compiled(isa, name, &shape, work), room, rows, move |mut io, band| {
        let fixed = io.inputs_and_outputs();
        let (from, to) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let bias = has_bias.then(|| fixed.input::<f32>(2));
        let (gathered, sums) = io.scratch_slice::<f32>().split_at_mut(most * gathered);
        for row in band {
            let (batch, y) = (row / windows.output.height, row % windows.output.height);
            let mut x = 0;
            while x < windows.output.width {
                let pixels = Pixels::from(&windows, most, [batch, y, x]);
                poll::work(pixels.count * (products * outputs / 8 + 8))?;
                sum(isa, from, pixels, gathered, sums);
                for (x, sums) in (x..x + pixels.count).zip(sums.chunks_exact(stride.max(1))) {
                    let first = windows.output.at(batch, y, x, 0);
                    isa.run(Finish { sums: &sums[..outputs], bias, activation, output: to, first });
                }
                x += pixels.count;
            }
        }
        Ok(())
    });
    Ok(())
}

/// Copies what the windows of some pixels cover, one pixel behind the other; returns the floats of
/// one.
fn gather(windows: &ConvWindows, input: In<'_, f32>, pixels: Pixels, to: &mut [f32]) -> usize {
    let depth = windows.input.channels;
    let mut len = 0;
    for x in pixels.first..pixels.first + pixels.count {
        for (_, in_y) in windows.vertical.taps(pixels.y) {
            for (_, in_x) in windows.horizontal.taps(x) {
                let from = windows.input.at(pixels.batch, in_y, in_x, 0);
                input.slice(from..from + depth).copy_to(&mut to[len..len + depth]);
                len += depth;
            }
        }
    }
    len / pixels.count.max(1)
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
    pixels: Pixels,
    /// What the pixels' windows cover, and how much that is for each.
    gathered: &'a [f32],
    len: usize,
    filters: &'a [f32],
    sums: &'a mut [f32],
}

impl Loop for DenseSums<'_> {
    #[inline(always)]
    fn run(mut self) {
        match self.pixels.count {
            PIXELS => self.sum::<PIXELS>(0),
            count => (0..count).for_each(|at| self.sum::<1>(at)),
        }
    }
}

impl DenseSums<'_> {
    /// The sums of `N` pixels from the one `at` on.
    #[inline(always)]
    fn sum<const N: usize>(&mut self, at: usize) {
        let Self { windows, pixels, gathered, len, filters, sums } = self;
        let (depth, len) = (windows.input.channels, *len);
        let patch = windows.patch_elements();
        let stride = windows.output.channels.next_multiple_of(LANES);
        let rows: [&[f32]; N] = std::array::from_fn(|n| &gathered[(at + n) * len..][..len]);
        let (lines, columns) =
            (windows.vertical.tap_range(pixels.y), windows.horizontal.tap_range(pixels.first));
        let span = columns.len() * depth;
        for (block, own) in filters.chunks_exact((patch * LANES).max(1)).enumerate() {
            let own = own.as_chunks::<LANES>().0;
            let mut totals = [[0f32; LANES]; N];
            for (at, line) in lines.clone().enumerate() {
                let first = (line * windows.horizontal.filter + columns.start) * depth;
                let rows = rows.map(|row| &row[at * span..][..span]);
                for (k, weights) in own[first..][..span].iter().enumerate() {
                    for (totals, row) in totals.iter_mut().zip(rows) {
                        for (total, weight) in totals.iter_mut().zip(weights) {
                            *total += row[k] * weight;
                        }
                    }
                }
            }
            for (n, totals) in totals.iter().enumerate() {
                let to = (at + n) * stride + block * LANES;
                sums[to..to + LANES].copy_from_slice(totals);
            }
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
    fn run(mut self) {
        let (outputs, channels) = (self.windows.output.channels, self.windows.input.channels);
        if outputs != channels {
            return self.sum_multiplied(outputs / channels.max(1));
        }
        let mut first = 0;
        while first < outputs {
            first += match outputs - first {
                LANES.. => self.sum::<LANES>(first),
                8.. => self.sum::<8>(first),
                4.. => self.sum::<4>(first),
                _ => self.sum::<1>(first),
            };
        }
    }
}

impl ChannelSums<'_> {
    /// The sums of `N` channels from the one `first` on, side by side; returns `N`.
    #[inline(always)]
    fn sum<const N: usize>(&mut self, first: usize) -> usize {
        let Self { windows, input, place: [batch, y, x], filters, sums } = self;
        let channels = windows.input.channels;
        let mut totals = [0f32; N];
        for (tap_y, in_y) in windows.vertical.taps(*y) {
            for (tap_x, in_x) in windows.horizontal.taps(*x) {
                let values = input.block::<N>(windows.input.at(*batch, in_y, in_x, first));
                let tap = tap_y * windows.horizontal.filter + tap_x;
                let weights = &filters[tap * channels + first..][..N];
                for ((total, value), weight) in totals.iter_mut().zip(values).zip(weights) {
                    *total += value * weight;
                }
            }
        }
        sums[first..first + N].copy_from_slice(&totals);
        N
    }

    /// All sums, of each channel `times`.
    #[inline(always)]
    fn sum_multiplied(self, times: usize) {
        let Self { windows, input, place: [batch, y, x], filters, sums } = self;
        let (outputs, channels) = (windows.output.channels, windows.input.channels);
        let sums = &mut sums[..outputs];
        sums.fill(0.0);
        for (tap_y, in_y) in windows.vertical.taps(y) {
            for (tap_x, in_x) in windows.horizontal.taps(x) {
                let from = windows.input.at(batch, in_y, in_x, 0);
                let values = input.slice(from..from + channels);
                let first = (tap_y * windows.horizontal.filter + tap_x) * outputs;
                let weights = filters[first..first + outputs].chunks_exact(times);
                let each = sums.chunks_exact_mut(times).zip(weights).zip(values.iter());
                for ((sums, weights), value) in each {
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum += value * weight;
                    }
                }
            }
        }
    }
}
