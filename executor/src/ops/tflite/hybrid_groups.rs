//! CONV_2D of floats with 8-bit weights where each filter sees a group of channels.
//!
//! The reference kernel quantises images as it does for weights with a scale per channel, that is
//! with a zero point, whatever scales these have.

use nnburst_kernels::kernels::depthwise_f32::Depthwise;
use nnburst_kernels::kernels::gemm_i8::{self, FloatScaling, HybridGemm};
use nnburst_kernels::kernels::lines::Convolution;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::memory::ALIGN;
use nnburst_kernels::tensor::{In, OpError, Out, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall};
use super::conv::{ConvWindows, Weights, channel_groups};
use super::dots::{OF_BYTES, dots};
use super::hybrid_conv::bytes_of;
use super::math::{StoredType, f32_of, low};
use super::on_the_fly::OnTheFly;
use crate::lowering::{Label, Lowered};
use crate::ops::grouped_conv_2d::channels_of;
use crate::ops::staged::MAX_GROUPS;
use crate::ops::support::plain;

/// Filters `[outputs, height, width, inputs of a group]`.
pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>, input: &Arg, filter: &Arg) -> Lowered {
    let &[outputs, height, width, depth] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    if call.result(0)?.kind != ElementKind::F32 {
        return Err(OpError::output(0, "is not of floats").into());
    }
    let has_bias = call.has_float_bias(2, outputs)?;
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    let to = windows.output;
    let groups = channel_groups(windows.input.channels, depth, outputs)?;
    let groups = Groups {
        windows,
        scales: filter.scales(outputs)?,
        activation: call.activation(3)?,
        has_bias,
        count: groups,
        depth,
        own: outputs / groups,
        patch: height * width * depth,
    };
    let extents = to.shape()?;
    let shape = call.set(0, &extents)?;
    let work = shape.elements().saturating_mul(groups.patch);
    let work = 2 * u64::try_from(work).unwrap_or(u64::MAX);
    let label = plain("tflite_hybrid_groups", &shape, work);
    if let Some(depthwise) = groups.depthwise(call, filter).filter(|_| shape.elements() > 0) {
        groups.by_taps(call, label, depthwise);
        return Ok(());
    }
    match groups.packed(call, filter)? {
        Some(gemms) if shape.elements() > 0 => groups.by_gemms(call, label, gemms),
        _ => {
            let weights = Weights::new(call, 1, filter)?;
            return groups.by_dots(call, label, weights);
        }
    }
    Ok(())
}

/// A convolution in groups with its options and operands read.
struct Groups {
    windows: ConvWindows,
    scales: Vec<f32>,
    activation: Activation,
    has_bias: bool,
    count: usize,
    /// Channels of a group, before and behind it.
    depth: usize,
    own: usize,
    /// Elements of a window of a group.
    patch: usize,
}

impl Groups {
    /// Elements of an image, and pixels of what it becomes.
    fn sizes(&self) -> (usize, usize) {
        let ConvWindows { input, output, .. } = self.windows;
        (input.height * input.width * input.channels, output.height * output.width)
    }

    /// Packs the filters of each group, if they are constants and there are not too many.
    fn packed(
        &self,
        call: &mut OperatorCall<'_, '_>,
        filter: &Arg,
    ) -> Lowered<Option<Vec<HybridGemm>>> {
        let Some(filters) = call.constant(1).filter(|_| self.count <= MAX_GROUPS) else {
            return Ok(None);
        };
        let bytes = bytes_of(filter)?;
        // A scale and the sum of the weights of each channel.
        call.claim(8 * self.scales.len())?;
        let patches = Patches { channels: self.depth, ..self.windows.patches() };
        let range = self.activation.real_range();
        let gemm = |(values, scales): (&[u8], &[f32])| {
            let (weights, scaling) =
                (gemm_i8::Weights { values, bytes }, FloatScaling::WeightsFirst);
            HybridGemm::new(call.isa(), patches, weights, scales, scaling, range)
        };
        let filters = filters.as_slice().chunks_exact((self.patch * self.own).max(1));
        Ok(filters.zip(self.scales.chunks_exact(self.own)).map(gemm).collect())
    }

    /// A depthwise convolution of floats, where each channel is a group with a filter of constants,
    /// and floats are exact for its sums of integers.
    fn depthwise(&self, call: &mut OperatorCall<'_, '_>, filter: &Arg) -> Option<Depthwise> {
        /// Products of a difference of bytes and a byte, 255 * 128 at most, that floats can sum.
        const EXACT_TAPS: usize = (1 << 24) / (255 * 128);
        let is_depthwise = self.depth == 1 && self.own == 1 && self.patch <= EXACT_TAPS;
        let is_signed = filter.kind == ElementKind::I8 && filter.zero_point == 0;
        let filters = call.constant(1).filter(|_| is_depthwise && is_signed)?;
        let filters: &[i8] = filters.typed();
        let channels = self.count;
        call.claim(8 * filters.len()).ok()?;
        let weights = (0..self.patch).flat_map(|tap| {
            let of_tap = filters.iter().skip(tap).step_by(self.patch.max(1));
            of_tap.map(|&weight| f32::from(weight))
        });
        let weights: Vec<f32> = weights.collect();
        let patches = Patches { channels, ..self.windows.patches() };
        let range = (f32::NEG_INFINITY, f32::INFINITY);
        Depthwise::new(call.isa(), patches, &weights, &vec![0.0; channels], range)
    }

    /// Channel by channel: the integers are floats.
    fn by_taps(self, call: &mut OperatorCall<'_, '_>, label: Label, depthwise: Depthwise) {
        let (isa, (image, pixels)) = (call.isa(), self.sizes());
        let Self { windows, scales, activation, has_bias, count: channels, .. } = self;
        let lines = depthwise.patches().lines();
        let (low, high) = activation.real_range();
        let label = Label { form: depthwise.isa(), ..label };
        let batches = windows.output.batches;
        let sizes = [image, pixels * channels];
        let scratch = 4 * (sizes[0] + sizes[1]) + depthwise.scratch_bytes();
        call.emit_bands(label, scratch, batches, move |mut io, batches| {
            let inputs = io.inputs_and_outputs();
            let bias = has_bias.then(|| inputs.input::<f32>(2));
            let (integers, sums) = io.scratch_slice::<f32>().split_at_mut(sizes[0]);
            let (sums, room) = sums.split_at_mut(sizes[1]);
            for batch in batches {
                let from = inputs.input::<f32>(0).slice(batch * image..(batch + 1) * image);
                let of = OnTheFly::Asymmetric.quantise_to_floats(isa, from, integers);
                depthwise.compute(In::of(&*integers), Out::of(&mut *sums), 0..lines, room)?;
                let first = batch * sizes[1];
                let output = inputs.output::<f32>(0).slice(first..first + sizes[1]);
                for (pixel, sums) in poll::each(sums.chunks(channels).enumerate(), channels / 4) {
                    let to = output.slice(pixel * channels..(pixel + 1) * channels);
                    isa.run(Scaled { sums, scales: &scales, scale: of.scale, bias, low, high, to });
                }
                activation.finish(output);
            }
            Ok(())
        });
    }

    /// With a GEMM for each group, which reads and writes its channels of the pixels where they
    /// lie; those of two windows at a time write floats of their own first.
    fn by_gemms(self, call: &mut OperatorCall<'_, '_>, label: Label, gemms: Vec<HybridGemm>) {
        let (isa, (image, pixels)) = (call.isa(), self.sizes());
        let outputs = self.windows.output.channels;
        let batches = self.windows.output.batches;
        let form = gemms.first().map_or(Isa::Scalar, HybridGemm::isa);
        let flip = gemms.first().map_or(0, HybridGemm::flip);
        let room = image.next_multiple_of(ALIGN);
        let has_pairs = gemms.iter().any(|gemm| gemm.columns() != self.own);
        let own = if has_pairs { (4 * pixels * self.own).next_multiple_of(ALIGN) } else { 0 };
        let scratch = gemms.iter().map(HybridGemm::scratch_bytes).max().unwrap_or(0);
        let label = Label { form, ..label };
        call.emit_bands(label, room + own + scratch, batches, move |mut io, batches| {
            let inputs = io.inputs_and_outputs();
            let bias = self.has_bias.then(|| inputs.input::<f32>(2));
            let (bytes, rest) = io.scratch_slice::<u8>().split_at_mut(room);
            let (floats, rest) = rest.split_at_mut(own);
            let floats: &mut [f32] = bytemuck::cast_slice_mut(floats);
            let rest = bytemuck::cast_slice_mut(rest);
            for batch in batches {
                let from = inputs.input::<f32>(0).slice(batch * image..(batch + 1) * image);
                let of = OnTheFly::Asymmetric.quantise(isa, from, flip, &mut bytes[..image]);
                let places = batch * pixels * outputs..(batch + 1) * pixels * outputs;
                let output = inputs.output::<f32>(0).slice(places);
                for (group, gemm) in gemms.iter().enumerate() {
                    let first = group * self.own;
                    let bias = bias.map(|bias| bias.slice(first..first + self.own));
                    let from = In::of(&bytes[..image]);
                    let channels = self.windows.input.channels;
                    let from = channels_of(from, channels, group * self.depth, self.depth);
                    let to = channels_of(output, outputs, first, self.own);
                    if gemm.columns() == self.own {
                        gemm.compute(from, of.scale, of.zero_point, bias, to, rest)?;
                        continue;
                    }
                    let floats = &mut floats[..pixels * self.own];
                    let between = Out::of(&mut *floats);
                    gemm.compute(from, of.scale, of.zero_point, bias, between, rest)?;
                    let rows = floats.chunks_exact(self.own).enumerate();
                    for (pixel, row) in poll::each(rows, 4 + self.own / 4) {
                        to.piece(pixel * self.own..(pixel + 1) * self.own).copy_from(In::of(row));
                    }
                }
                self.activation.finish(output);
            }
            Ok(())
        });
    }

    /// With weights that are widened, whatever they come from.
    fn by_dots(self, call: &mut OperatorCall<'_, '_>, label: Label, weights: Weights) -> Lowered {
        let (isa, (image, pixels)) = (call.isa(), self.sizes());
        let Self { windows, patch, own, depth, .. } = self;
        let to = windows.output;
        let signed = StoredType::of(ElementKind::I8)?;
        // The patch with 16 bits, the image with 8.
        call.emit_bands(label, 2 * patch + image, to.batches, move |mut io, batches| {
            let filters = weights.get(&io);
            let inputs = io.inputs_and_outputs();
            let (bias, results) = (inputs.input::<f32>(2), inputs.output::<f32>(0));
            let (gathered, bytes) = io.scratch_slice::<u8>().split_at_mut(2 * patch);
            let gathered: &mut [i16] = bytemuck::cast_slice_mut(gathered);
            for batch in batches {
                let floats = inputs.input::<f32>(0).slice(batch * image..(batch + 1) * image);
                let bytes = &mut bytes[..image];
                let of = OnTheFly::Asymmetric.quantise(isa, floats, 0, bytes);
                let bytes = In::of(&*bytes);
                for pixel in poll::each(0..pixels, patch * to.channels / 8) {
                    let place = [0, pixel / to.width, pixel % to.width];
                    for group in 0..self.count {
                        let channels = [group * depth, depth];
                        windows.gather(bytes, signed, place, of.zero_point, channels, gathered);
                        let filters = &filters[group * own * patch..];
                        dots(isa, OF_BYTES, gathered, filters, own, |at, sum| {
                            let channel = group * own + at;
                            let product = f32_of(low(sum)) * self.scales[channel] * of.scale;
                            let bias = if self.has_bias { bias.get(channel) } else { 0.0 };
                            let place = (batch * pixels + pixel) * to.channels + channel;
                            results.set(place, self.activation.apply(product + bias));
                        });
                    }
                }
            }
            Ok(())
        });
        Ok(())
    }
}

/// Sums of integers as the numbers that they stand for, a channel each.
struct Scaled<'a> {
    sums: &'a [f32],
    /// Those of the weights, and of the image.
    scales: &'a [f32],
    scale: f32,
    bias: Option<In<'a, f32>>,
    low: f32,
    high: f32,
    to: Out<'a, f32>,
}

impl Loop for Scaled<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { sums, scales, scale, bias, low, high, to } = self;
        let (blocks, rest) = sums.as_chunks::<BLOCK>();
        let (of_blocks, of_rest) = scales.as_chunks::<BLOCK>();
        for (at, (sums, scales)) in blocks.iter().zip(of_blocks).enumerate() {
            let bias = bias.map_or([0.0; BLOCK], |bias| bias.block(at * BLOCK));
            let mut results = [0.0; BLOCK];
            for (k, result) in results.iter_mut().enumerate() {
                *result = (sums[k] * scales[k] * scale + bias[k]).max(low).min(high);
            }
            to.set_block(at * BLOCK, results);
        }
        let first = blocks.len() * BLOCK;
        for (at, (sum, of_weights)) in rest.iter().zip(of_rest).enumerate() {
            let bias = bias.map_or(0.0, |bias| bias.get(first + at));
            to.set(first + at, (sum * of_weights * scale + bias).max(low).min(high));
        }
    }
}

/// Results that are computed at a time.
const BLOCK: usize = 16;
