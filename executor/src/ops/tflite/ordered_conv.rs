//! Convolutions and means of windows of floats whose sums have the order of TFLite's reference
//! kernels: tap by tap from the first row of a filter on, channel by channel within a tap, each
//! product rounded before it is added.
//!
//! Where layers behind them quantise on the fly, the last bit of a sum decides now and then which
//! integer a float becomes, and a network's results move with it by hundredths. So in such networks
//! the order counts.

use std::sync::Arc;

use nnburst_hal::FusedActivation;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::kernels::{depthwise_f32, gemm_f32};
use nnburst_kernels::tensor::{AlignedBytes, In, OpError, Out, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall};
use super::conv::{ConvWindows, channel_groups};
use super::math::f32_of;
use crate::lowering::{Label, Lowered};
use crate::ops::conv::Sliding;
use crate::ops::staged::{MAX_GROUPS, Staged, convolve, in_single_precision};
use crate::ops::support::{Image, compiled};

/// CONV_2D: constant filters `[outputs, height, width, inputs of a group]`.
pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>, input: &Arg, filter: &Arg) -> Lowered {
    let &[outputs, height, width, depth] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let conv = FloatConv::read(call, input, filter, [height, width, outputs])?;
    let groups = channel_groups(conv.sliding.input.channels, depth, outputs)?;
    let packed = conv.packable(call).and_then(|(bias, range)| {
        let patches = Patches { channels: depth, ..conv.sliding.patches(1) };
        let own = outputs / groups;
        let filters = conv.filters.typed::<f32>().chunks_exact(patches.depth() * own);
        let gemm = |(filters, bias): (&[f32], &[f32])| {
            gemm_f32::Gemm::ordered(call.isa(), patches, filters, bias, range)
        };
        // Each group is a step, which copies images; many of them are small.
        let gemms = filters.zip(bias.chunks_exact(own)).map(gemm);
        (groups <= MAX_GROUPS).then(|| gemms.collect::<Option<Vec<_>>>()).flatten()
    });
    let Some(gemms) = packed else {
        let label = conv.sliding.label("tflite_ordered_conv_2d", depth)?;
        return conv.emit_plain(call, label, Filters::OfGroups(groups));
    };
    call.absorb(1);
    let Sliding { input, output, .. } = conv.sliding;
    for (group, gemm) in gemms.into_iter().enumerate() {
        let mut label = Label { form: gemm.isa(), ..conv.sliding.label(gemm.kernel(), depth)? };
        label.operations /= groups as u64;
        let staged = Staged::new(input, output).group(group, depth, outputs / groups);
        let staged = (groups > 1).then_some(staged);
        convolve(call, label, staged, in_single_precision::<f32>(), gemm);
    }
    Ok(())
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
    let conv = FloatConv::read(call, input, filter, [height, width, outputs])?;
    let channels = conv.sliding.input.channels;
    let times = outputs / channels.max(1);
    if times * channels != outputs || outputs == 0 {
        return Err(OpError::rule("channels that are no multiple").into());
    }
    let packed = conv.packable(call).and_then(|(bias, range)| {
        let (patches, weights) = (conv.sliding.patches(times), conv.filters.typed());
        depthwise_f32::Depthwise::ordered(call.isa(), patches, weights, &bias, range)
    });
    let Some(packed) = packed else {
        let label = conv.sliding.label("tflite_ordered_depthwise", 1)?;
        return conv.emit_plain(call, label, Filters::OfChannels(times));
    };
    call.absorb(1);
    let label = Label { form: packed.isa(), ..conv.sliding.label("depthwise_ordered_f32", 1)? };
    let staged = conv.sliding.staged(size_of::<f32>(), size_of::<f32>(), times);
    convolve(call, label, staged, in_single_precision::<f32>(), packed);
    Ok(())
}

/// The filters of a convolution.
#[derive(Clone, Copy, Debug)]
enum Filters {
    /// So many for each channel, side by side.
    OfChannels(usize),
    /// Those of so many groups of channels, one behind the other.
    OfGroups(usize),
}

/// A convolution of floats with its options and operands read.
struct FloatConv {
    sliding: Sliding,
    activation: Activation,
    has_bias: bool,
    filters: Arc<AlignedBytes>,
}

impl FloatConv {
    /// Reads them; filters are of `height` by `width`, and so many channels come out.
    fn read(
        call: &mut OperatorCall<'_, '_>,
        input: &Arg,
        filter: &Arg,
        [height, width, outputs]: [usize; 3],
    ) -> Lowered<Self> {
        if filter.kind != ElementKind::F32 {
            return Err(OpError::input(1, "is not of floats").into());
        }
        if call.result(0)?.kind != ElementKind::F32 {
            return Err(OpError::output(0, "is not of floats").into());
        }
        let has_bias = call.has_float_bias(2, outputs)?;
        let filters = call.constant(1).ok_or_else(|| OpError::input(1, "is no constant"))?;
        let (activation, window) = (call.activation(3)?, ConvWindows::window(call, Some(4))?);
        let (image, none) = (Image::of(0, &input.shape, false)?, FusedActivation::None);
        let sliding = Sliding::new(call, image, &window, height, width, outputs, none)?;
        Ok(Self { sliding, activation, has_bias, filters })
    }

    /// The bias and the range of results; `None` where kernels don't take the convolution.
    fn packable(&self, call: &OperatorCall<'_, '_>) -> Option<(Vec<f32>, (f32, f32))> {
        let is_empty = self.filters.is_empty() || self.sliding.input.channels == 0;
        if is_empty || !self.activation.is_range() {
            return None;
        }
        let bias = match self.has_bias {
            true => call.constant(2)?.typed::<f32>().to_vec(),
            // A missing bias is a zero that is added, too.
            false => vec![0.0; self.sliding.output.channels],
        };
        Some((bias, self.activation.real_range()))
    }

    /// Adds a step of plain code.
    fn emit_plain(self, call: &mut OperatorCall<'_, '_>, label: Label, of: Filters) -> Lowered {
        let Self { sliding, activation, has_bias, filters } = self;
        let Sliding { input, output, vertical, horizontal, .. } = sliding;
        call.emit_bands(label, 0, sliding.lines(), move |io, lines| {
            let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
            let filters = filters.typed::<f32>();
            for (batch, y) in lines.map(|line| (line / output.height, line % output.height)) {
                for x in poll::each(0..output.width, 8) {
                    for o in poll::each(0..output.channels, 16) {
                        let mut sum = 0f32;
                        let taps = vertical.taps(y).flat_map(|(i, row)| {
                            horizontal.taps(x).map(move |(j, column)| (i, j, row, column))
                        });
                        for (i, j, row, column) in poll::each(taps, 8) {
                            let tap = i * horizontal.filter + j;
                            let groups = match of {
                                Filters::OfChannels(times) => {
                                    let value = from.get(input.at(batch, row, column, o / times));
                                    sum += value * filters[tap * output.channels + o];
                                    continue;
                                }
                                Filters::OfGroups(groups) => groups,
                            };
                            let taps = vertical.filter * horizontal.filter;
                            let depth = input.channels / groups;
                            let first = o / (output.channels / groups) * depth;
                            let own = &filters[(o * taps + tap) * depth..][..depth];
                            for (c, weight) in poll::each(own.iter().enumerate(), 4) {
                                sum += from.get(input.at(batch, row, column, first + c)) * weight;
                            }
                        }
                        let bias = if has_bias { io.input::<f32>(2).get(o) } else { 0.0 };
                        to.set(output.at(batch, y, x, o), activation.apply(sum + bias));
                    }
                }
            }
            Ok(())
        });
        Ok(())
    }
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
    let isa = call.isa();
    let label = compiled(isa, "tflite_ordered_average_pool", &shape, 0);
    call.emit_bands(label, 0, rows, move |io, band| {
        let (input, output) = (io.input::<f32>(0), io.output::<f32>(0));
        for row in band {
            let (batch, y) = (row / windows.output.height, row % windows.output.height);
            for x in poll::each(0..windows.output.width, height * width * channels) {
                let (windows, place) = (&windows, [batch, y, x]);
                isa.run(Means { windows, place, activation, input, output });
            }
        }
        Ok(())
    });
    Ok(())
}

/// The means of a window, channel by channel.
struct Means<'a> {
    windows: &'a ConvWindows,
    /// Batch, row and column of the output pixel.
    place: [usize; 3],
    activation: Activation,
    input: In<'a, f32>,
    output: Out<'a, f32>,
}

impl Loop for Means<'_> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 64;
        const SMALL: usize = 16;
        let channels = self.windows.output.channels;
        let (whole, small) = (channels / BLOCK * BLOCK, channels / SMALL * SMALL);
        (0..whole).step_by(BLOCK).for_each(|first| self.block::<BLOCK>(first));
        (whole..small).step_by(SMALL).for_each(|first| self.block::<SMALL>(first));
        (small..channels).for_each(|first| self.block::<1>(first));
    }
}

impl Means<'_> {
    /// Of `N` channels from the one `first` on.
    #[inline(always)]
    fn block<const N: usize>(&self, first: usize) {
        let Self { windows, place: [batch, y, x], activation, input, output } = self;
        let (lines, columns) = (windows.vertical.covered(*y), windows.horizontal.covered(*x));
        let mut sums = [0f32; N];
        for line in lines.clone() {
            for column in columns.clone() {
                let values = input.block::<N>(windows.input.at(*batch, line, column, first));
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        let count = f32_of(i32::try_from(lines.len() * columns.len()).unwrap_or(i32::MAX));
        let means = sums.map(|sum| activation.apply(sum / count));
        output.set_block(windows.output.at(*batch, *y, *x, first), means);
    }
}
