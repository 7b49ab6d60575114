//! Convolutions of integers: 8-bit and 16-bit activations with 8-bit weights.
//!
//! Activations less their zero point fit 16 bits, as weights less theirs do; a patch is gathered as
//! such and multiplied with each filter. Sums are exact in 64 bits.

use std::sync::Arc;

use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{In, OpError, Shape};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused};
use super::depthwise::{EXACT_TAPS, TapSums};
use super::dots::{dots, exact};
use super::math::{Stored, StoredType, apply_wide, low};
use crate::lowering::Lowered;
use crate::ops::support::{Axis, Image, Padding, Window, plain};

/// From accumulators to stored values of the result.
#[derive(Clone, Debug)]
pub(super) struct Requantise {
    multipliers: Vec<Multiplier>,
    /// Accumulators of 64 bits, whose multipliers keep 16.
    is_wide: bool,
    zero_point: i32,
    min: i32,
    max: i32,
}

impl Requantise {
    /// Of so many output channels, whose weights have these scales; the accumulators are as wide as
    /// their bias.
    pub(super) fn new(
        input: &Arg,
        scales: &[f32],
        result: &Arg,
        is_wide: bool,
        range: (i32, i32),
    ) -> Self {
        let multiplier = |&scale: &f32| {
            let product = f64::from(input.scale) * f64::from(scale);
            Multiplier::new(product / f64::from(result.scale))
        };
        let multipliers = scales.iter().map(multiplier).collect();
        Self::by(multipliers, result, is_wide, range)
    }

    /// Of output channels with these multipliers.
    pub(super) fn by(
        multipliers: Vec<Multiplier>,
        result: &Arg,
        is_wide: bool,
        (min, max): (i32, i32),
    ) -> Self {
        Self { multipliers, is_wide, zero_point: result.zero_point, min, max }
    }

    /// The stored value of an accumulator.
    #[inline(always)]
    pub(super) fn apply(&self, channel: usize, sum: i64) -> i32 {
        let multiplier = self.multipliers[channel];
        let scaled =
            if self.is_wide { apply_wide(multiplier, sum) } else { multiplier.apply(low(sum)) };
        scaled.wrapping_add(self.zero_point).clamp(self.min, self.max)
    }
}

/// Returns whether the accumulators of an operation have 64 bits: those of 16-bit activations whose
/// bias is not of 32 bits.
pub(super) fn is_wide(call: &OperatorCall<'_, '_>, input: &Arg, bias: usize) -> Lowered<bool> {
    let is_narrow = call.has(bias) && call.arg(bias)?.kind == ElementKind::I32;
    Ok(input.kind == ElementKind::I16 && !is_narrow)
}

/// The accumulator that a channel starts with.
pub(super) fn bias_at(
    call: &OperatorCall<'_, '_>,
    index: usize,
    channels: usize,
) -> Lowered<BiasKind> {
    if !call.has(index) {
        return Ok(BiasKind::None);
    }
    let bias = call.arg(index)?;
    if bias.shape.elements() != channels {
        let what = format!("has {} elements for {channels} channels", bias.shape.elements());
        return Err(OpError::input(index, what).into());
    }
    match bias.kind {
        ElementKind::I32 => Ok(BiasKind::I32(index)),
        ElementKind::I64 => Ok(BiasKind::I64(index)),
        kind => Err(refused(index, kind).into()),
    }
}

/// The type of a bias, and which input it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum BiasKind {
    None,
    I32(usize),
    I64(usize),
}

impl BiasKind {
    pub(super) fn get(self, io: &crate::lowering::Io<'_>, channel: usize) -> i64 {
        match self {
            Self::None => 0,
            Self::I32(index) => i64::from(io.input::<i32>(index).get(channel)),
            Self::I64(index) => io.input::<i64>(index).get(channel),
        }
    }
}

/// Weights less their zero point.
#[derive(Clone, Debug)]
pub(super) enum Weights {
    /// Constants, widened once.
    Ready(Arc<[i16]>),
    /// Those of an input.
    Given { input: usize, kind: ElementKind, zero_point: i32 },
}

impl Weights {
    /// Widens an input's weights where they are constants.
    pub(super) fn new(call: &mut OperatorCall<'_, '_>, input: usize, arg: &Arg) -> Lowered<Self> {
        if !matches!(arg.kind, ElementKind::I8 | ElementKind::U8) {
            return Err(refused(input, arg.kind).into());
        }
        let given = Self::Given { input, kind: arg.kind, zero_point: arg.zero_point };
        // Those of an input are widened in each run.
        call.claim(2 * arg.shape.elements())?;
        let Some(bytes) = call.constant(input) else { return Ok(given) };
        let zero = arg.zero_point;
        let wide = by_kind!(arg.kind, [I8 i8, U8 u8], T => {
            widen(In::of(bytes.typed::<T>()), zero).into()
        });
        Ok(Self::Ready(wide))
    }

    /// All of them.
    pub(super) fn get(&self, io: &crate::lowering::Io<'_>) -> Arc<[i16]> {
        match self {
            Self::Ready(weights) => Arc::clone(weights),
            Self::Given { input, kind: ElementKind::U8, zero_point } => {
                widen(io.input::<u8>(*input), *zero_point).into()
            }
            Self::Given { input, zero_point, .. } => {
                widen(io.input::<i8>(*input), *zero_point).into()
            }
        }
    }
}

fn widen<T: Stored>(values: In<'_, T>, zero_point: i32) -> Vec<i16> {
    values.iter().map(|value| i16::stored(value.wide() - zero_point)).collect()
}

/// The padding that option 0 names.
pub(super) fn padding(call: &OperatorCall<'_, '_>) -> Lowered<Padding> {
    match call.int(0)? {
        0 => Ok(Padding::Same),
        1 => Ok(Padding::Valid),
        code => Err(OpError::rule(format!("there is no padding {code}")).into()),
    }
}

/// The windows of a convolution over one image after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvWindows {
    pub(super) input: Image,
    pub(super) output: Image,
    pub(super) vertical: Axis,
    pub(super) horizontal: Axis,
}

impl ConvWindows {
    /// Reads padding and strides from option 0 on, dilations from `dilations` on.
    pub(super) fn read(
        call: &OperatorCall<'_, '_>,
        input: &Shape,
        [height, width, channels]: [usize; 3],
        dilations: Option<usize>,
    ) -> Lowered<Self> {
        let window = Self::window(call, dilations)?;
        let input = Image::of(0, input, false)?;
        let (vertical, horizontal) = window.axes(&input, height, width)?;
        let mut output = input.resized(vertical.output, horizontal.output);
        output.channels = channels;
        Ok(Self { input, output, vertical, horizontal })
    }

    /// The window's padding, strides and dilations, from the same options.
    pub(super) fn window(call: &OperatorCall<'_, '_>, dilations: Option<usize>) -> Lowered<Window> {
        let mut window = Window {
            padding: padding(call)?,
            stride_w: call.count(1, 1)?,
            stride_h: call.count(2, 1)?,
            dilation_w: 1,
            dilation_h: 1,
        };
        if let Some(first) = dilations {
            window.dilation_w = call.count(first, 1)?;
            window.dilation_h = call.count(first + 1, 1)?;
        }
        Ok(window)
    }

    /// The windows as kernels take them, over one image, each input channel once.
    pub(super) fn patches(&self) -> Patches {
        let Self { input, output, vertical, horizontal } = self;
        Patches {
            batches: 1,
            in_height: input.height,
            in_width: input.width,
            channels: input.channels,
            out_height: output.height,
            out_width: output.width,
            filter_h: vertical.filter,
            filter_w: horizontal.filter,
            stride_h: vertical.stride,
            stride_w: horizontal.stride,
            dilation_h: vertical.dilation,
            dilation_w: horizontal.dilation,
            top: vertical.head,
            left: horizontal.head,
        }
    }

    /// Gathers the patch of an output pixel: channels `first..first + count` of each tap, less the
    /// zero point; 0 where a tap is outside.
    pub(super) fn gather(
        &self,
        input: In<'_, u8>,
        of: StoredType,
        [batch, y, x]: [usize; 3],
        zero_point: i32,
        [first, count]: [usize; 2],
        patch: &mut [i16],
    ) {
        patch.fill(0);
        let row = self.horizontal.filter * count;
        // Neighbouring taps with all their channels are one piece of each line.
        if self.horizontal.dilation == 1 && count == self.input.channels {
            let Some((tap_x, in_x)) = self.horizontal.taps(x).next() else { return };
            let piece = self.horizontal.tap_range(x).len() * count;
            for (tap_y, in_y) in self.vertical.taps(y) {
                let from = self.input.at(batch, in_y, in_x, first);
                let to = tap_y * row + tap_x * count;
                of.widen(input, from, 1, zero_point, &mut patch[to..to + piece]);
            }
            return;
        }
        for (tap_y, in_y) in self.vertical.taps(y) {
            for (tap_x, in_x) in self.horizontal.taps(x) {
                let from = self.input.at(batch, in_y, in_x, first);
                let to = tap_y * row + tap_x * count;
                of.widen(input, from, 1, zero_point, &mut patch[to..to + count]);
            }
        }
    }
}

/// The number of groups of channels where each filter of a CONV_2D sees `depth` of them.
pub(super) fn channel_groups(channels: usize, depth: usize, outputs: usize) -> Lowered<usize> {
    let groups = channels.checked_div(depth).unwrap_or(0);
    let fits = groups > 0 && groups * depth == channels && outputs.is_multiple_of(groups);
    if fits && outputs > 0 {
        return Ok(groups);
    }
    Err(OpError::rule(format!("{channels} channels for {outputs} filters of {depth}")).into())
}

/// CONV_2D of integers: filters `[outputs, height, width, inputs per group]`.
pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, filter, result) = (call.arg(0)?, call.arg(1)?, call.result(0)?);
    let &[outputs, height, width, depth] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    input.same_kind(&result)?;
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    let groups = channel_groups(windows.input.channels, depth, outputs)?;
    let range = result.activated(call.activation(3)?)?;
    let wide = is_wide(call, &input, 2)?;
    let requantise = Requantise::new(&input, &filter.scales(outputs)?, &result, wide, range);
    let bias = bias_at(call, 2, outputs)?;
    let weights = Weights::new(call, 1, &filter)?;
    let shape = windows.output.shape()?;
    call.set(0, &shape)?;
    let patch = height * width * depth;
    let zero_point = input.zero_point;
    let per_group = outputs / groups;
    let rows = windows.output.batches * windows.output.height;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(patch)).unwrap_or(u64::MAX);
    let (label, isa) = (plain("tflite_conv_2d", &shape, work), call.isa());
    let stored = StoredType::of(input.kind)?;
    call.emit_bands(label, 2 * patch, rows, move |mut io, band| {
        let filters = weights.get(&io);
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        let fixed = io.inputs_and_outputs();
        let gathered = io.scratch_slice::<i16>();
        for row in band {
            let (batch, y) = (row / windows.output.height, row % windows.output.height);
            for x in 0..windows.output.width {
                nnburst_kernels::tensor::poll::work(patch * outputs / 8)?;
                for group in 0..groups {
                    let channels = [group * depth, depth];
                    windows.gather(from, stored, [batch, y, x], zero_point, channels, gathered);
                    let first = group * per_group;
                    let own = &filters[first * patch..];
                    let pixel = windows.output.at(batch, y, x, 0);
                    dots(isa, exact(stored.bytes), gathered, own, per_group, |at, sum| {
                        let channel = first + at;
                        let sum = sum.wrapping_add(bias.get(&fixed, channel));
                        stored.store(to, pixel + channel, requantise.apply(channel, sum));
                    });
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// DEPTHWISE_CONV_2D of integers: filters `[1, height, width, channels]`.
pub(super) fn depthwise_conv_2d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, filter, result) = (call.arg(0)?, call.arg(1)?, call.result(0)?);
    input.same_kind(&result)?;
    let &[1, height, width, outputs] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    let times = outputs / windows.input.channels.max(1);
    if times * windows.input.channels != outputs || outputs == 0 {
        let what = format!("{} channels become {outputs}", windows.input.channels);
        return Err(OpError::rule(what).into());
    }
    let range = result.activated(call.activation(3)?)?;
    let wide = is_wide(call, &input, 2)?;
    let requantise = Requantise::new(&input, &filter.scales(outputs)?, &result, wide, range);
    let bias = bias_at(call, 2, outputs)?;
    let weights = Weights::new(call, 1, &filter)?;
    let shape = windows.output.shape()?;
    call.set(0, &shape)?;
    let zero_point = input.zero_point;
    let rows = windows.output.batches * windows.output.height;
    let work = u64::try_from(shape.elements().saturating_mul(2 * height * width));
    let (label, isa) =
        (plain("tflite_depthwise_conv_2d", &shape, work.unwrap_or(u64::MAX)), call.isa());
    let is_exact = input.kind != ElementKind::I16 || height * width <= EXACT_TAPS;
    by_kind!(input.kind, [I8 i8, U8 u8, I16 i16], T => {
        call.emit_bands(label, 4 * outputs, rows, move |mut io, band| {
            let filters = weights.get(&io);
            let (from, to) = (io.input::<T>(0), io.output::<T>(0));
            let fixed = io.inputs_and_outputs();
            let sums = io.scratch_slice::<i32>();
            for row in band {
                let (batch, y) = (row / windows.output.height, row % windows.output.height);
                for x in 0..windows.output.width {
                    nnburst_kernels::tensor::poll::work(height * width * outputs / 2 + 8)?;
                    let first = windows.output.at(batch, y, x, 0);
                    let store = |channel: usize, sum: i64| {
                        let sum = sum.wrapping_add(bias.get(&fixed, channel));
                        to.set(first + channel, T::stored(requantise.apply(channel, sum)));
                    };
                    if is_exact {
                        isa.run(TapSums {
                            windows: &windows,
                            input: from,
                            place: [batch, y, x],
                            zero_point,
                            filters: &filters,
                            sums,
                        });
                        let sums = sums.iter().take(outputs).enumerate();
                        sums.for_each(|(channel, &sum)| store(channel, i64::from(sum)));
                        continue;
                    }
                    for channel in 0..outputs {
                        let mut sum = 0;
                        for (tap_y, in_y) in windows.vertical.taps(y) {
                            for (tap_x, in_x) in windows.horizontal.taps(x) {
                                let place = windows.input.at(batch, in_y, in_x, channel / times);
                                let weight = filters[(tap_y * width + tap_x) * outputs + channel];
                                let value = from.get(place).wide() - zero_point;
                                sum += i64::from(value) * i64::from(weight);
                            }
                        }
                        store(channel, sum);
                    }
                }
            }
            Ok(())
        });
    });
    Ok(())
}

/// TRANSPOSE_CONV of integers: the result's shape comes first, then filters
/// `[outputs, height, width, inputs]`, then the input.
pub(super) fn transpose_conv(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (filter, input, result) = (call.arg(1)?, call.arg(2)?, call.result(0)?);
    input.same_kind(&result)?;
    let extents = super::arg::sizes(&call.ints(0)?)?;
    let (&[outputs, height, width, depth], &[batches, out_h, out_w, channels]) =
        (&filter.shape[..], &extents[..])
    else {
        return Err(OpError::rule("filters or result are not of rank 4").into());
    };
    // The windows of the convolution that this one undoes: from the result to the input.
    let below = Shape::new(vec![batches, out_h, out_w, channels])?;
    let windows = ConvWindows::read(call, &below, [height, width, depth], None)?;
    if channels != outputs || windows.output.shape()? != input.shape {
        let what = format!("{:?} does not become {extents:?}", input.shape);
        return Err(OpError::rule(what).into());
    }
    let range = result.activated(call.activation(3)?)?;
    let wide = is_wide(call, &input, 3)?;
    let requantise = Requantise::new(&input, &filter.scales(outputs)?, &result, wide, range);
    let bias = bias_at(call, 3, outputs)?;
    let weights = Weights::new(call, 1, &filter)?;
    let shape = call.set(0, &extents)?;
    let zero_point = input.zero_point;
    let label = plain("tflite_transpose_conv", &shape, 0);
    by_kind!(input.kind, [I8 i8, U8 u8, I16 i16], T => {
        call.emit_with_scratch(label, 8 * shape.elements(), move |mut io| {
            let filters = weights.get(&io);
            let (from, to) = (io.input::<T>(2), io.output::<T>(0));
            let fixed = io.inputs_and_outputs();
            let sums = io.scratch_slice::<i64>();
            sums.fill(0);
            let (small, large) = (windows.output, windows.input);
            let pixels = small.batches * small.height * small.width;
            for pixel in nnburst_kernels::tensor::poll::each(0..pixels, height * width * outputs * (1 + depth / 4)) {
                let (x, rest) = (pixel % small.width, pixel / small.width);
                let (y, batch) = (rest % small.height, rest / small.height);
                for (tap_y, out_y) in windows.vertical.taps(y) {
                    for (tap_x, out_x) in windows.horizontal.taps(x) {
                        for channel in 0..outputs {
                            let first = ((channel * height + tap_y) * width + tap_x) * depth;
                            let own = &filters[first..first + depth];
                            let values = from.slice(pixel * depth..(pixel + 1) * depth);
                            let products = own.iter().zip(values.iter()).map(|(&w, value)| {
                                i64::from(value.wide() - zero_point) * i64::from(w)
                            });
                            sums[large.at(batch, out_y, out_x, channel)] += products.sum::<i64>();
                        }
                    }
                }
            }
            let sums = sums.iter().take(to.len()).enumerate();
            for (at, &sum) in nnburst_kernels::tensor::poll::each(sums, 4) {
                let channel = at % outputs;
                let sum = sum.wrapping_add(bias.get(&fixed, channel));
                to.set(at, T::stored(requantise.apply(channel, sum)));
            }
            Ok(())
        });
    });
    Ok(())
}
