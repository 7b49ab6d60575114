//! Convolutions of floats with 8-bit weights: each image is quantised on the fly, and multiplied in
//! integers.

use nnburst_kernels::kernels::NO_CLAMP;
use nnburst_kernels::kernels::depthwise_f32::Depthwise;
use nnburst_kernels::kernels::gemm_i8::{self, Bytes, FloatScaling, HybridGemm};
use nnburst_kernels::kernels::lines::Convolution as _;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::memory::ALIGN;
use nnburst_kernels::tensor::{In, OpError, Out, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall, refused};
use super::conv::{ConvWindows, Weights};
use super::depthwise::TapSums;
use super::dots::{OF_BYTES, dots};
use super::math::{StoredType, f32_of, low};
use super::on_the_fly::{DequantiseFloats, Dequantiser, OnTheFly, RowScale};
use crate::lowering::{Io, Label, Lowered};
use crate::ops::staged::repeat;
use crate::ops::support::plain;

/// A convolution with its options and operands read.
struct HybridConv {
    windows: ConvWindows,
    filter: Arg,
    scales: Vec<f32>,
    /// Images get a zero point where channels have different scales, else they are symmetric.
    way: OnTheFly,
    activation: Activation,
    has_bias: bool,
    /// Elements of an image, and pixels of what it becomes.
    image: usize,
    pixels: usize,
}

impl HybridConv {
    /// Reads them; filters are of `height` by `width`, and so many channels come out.
    fn read(
        call: &OperatorCall<'_, '_>,
        input: &Arg,
        filter: Arg,
        height: usize,
        width: usize,
        outputs: usize,
    ) -> Lowered<Self> {
        if call.result(0)?.kind != ElementKind::F32 {
            return Err(OpError::output(0, "is not of floats").into());
        }
        let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
        let has_bias = call.has_float_bias(2, outputs)?;
        let (from, to) = (windows.input, windows.output);
        let scales = filter.scales(outputs)?;
        // Scales per channel that are all the same count as one.
        let differ = scales.windows(2).any(|pair| pair[0].to_bits() != pair[1].to_bits());
        Ok(Self {
            windows,
            scales,
            way: OnTheFly::new(differ),
            activation: call.activation(3)?,
            has_bias,
            image: from.height * from.width * from.channels,
            pixels: to.height * to.width,
            filter,
        })
    }

    /// Quantises image `batch` of the input.
    fn quantise(&self, isa: Isa, io: &Io<'_>, batch: usize, flip: u8, to: &mut [u8]) -> RowScale {
        let own = io.input::<f32>(0).slice(batch * self.image..(batch + 1) * self.image);
        self.way.quantise(isa, own, flip, &mut to[..self.image])
    }

    /// Returns whether scales are multiplied with each other before a sum is with them: as TFLite's
    /// kernel for one scale does, and that for several does not.
    fn joins_scales(&self) -> bool {
        self.way == OnTheFly::Symmetric
    }

    /// The real number of a sum.
    fn real(&self, bias: In<'_, f32>, channel: usize, sum: i32, scale: f32) -> f32 {
        let bias = if self.has_bias { bias.get(channel) } else { 0.0 };
        let (sum, own) = (f32_of(sum), self.scales[channel]);
        let product = if self.joins_scales() { sum * (own * scale) } else { sum * own * scale };
        self.activation.apply(product + bias)
    }
}

/// CONV_2D: filters `[outputs, height, width, inputs]`.
pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>, input: &Arg, filter: Arg) -> Lowered {
    let &[outputs, height, width, depth] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let conv = HybridConv::read(call, input, filter, height, width, outputs)?;
    if conv.windows.input.channels != depth {
        return Err(OpError::rule("groups of channels on the fly").into());
    }
    let extents = conv.windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    let patch = height * width * depth;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(patch)).unwrap_or(u64::MAX);
    let label = plain("tflite_hybrid_conv_2d", &shape, work);
    match packed(call, &conv)? {
        Some(gemm) => {
            let label = Label { form: gemm.isa(), ..label };
            by_gemm(call, label, conv, gemm);
            Ok(())
        }
        None => by_dots(call, label, conv, patch),
    }
}

/// How the bytes of filters stand for integers.
pub(super) fn bytes_of(filter: &Arg) -> Result<Bytes, OpError> {
    match filter.kind {
        ElementKind::I8 => Ok(Bytes::new(128, filter.zero_point)),
        ElementKind::U8 => Ok(Bytes::new(0, filter.zero_point)),
        kind => Err(refused(1, kind)),
    }
}

/// Packs the filters, if they are constants.
fn packed(call: &mut OperatorCall<'_, '_>, conv: &HybridConv) -> Lowered<Option<HybridGemm>> {
    let Some(filters) = call.constant(1) else { return Ok(None) };
    let bytes = bytes_of(&conv.filter)?;
    // A scale and the sum of the weights of each channel.
    call.claim(8 * conv.scales.len())?;
    let weights = gemm_i8::Weights { values: filters.as_slice(), bytes };
    let scaling = match conv.way {
        OnTheFly::Symmetric => FloatScaling::Joined,
        OnTheFly::Asymmetric => FloatScaling::WeightsFirst,
    };
    let (patches, range) = (conv.windows.patches(), conv.activation.real_range());
    Ok(HybridGemm::new(call.isa(), patches, weights, &conv.scales, scaling, range))
}

/// With a GEMM over the windows of each image.
fn by_gemm(call: &mut OperatorCall<'_, '_>, label: Label, conv: HybridConv, gemm: HybridGemm) {
    let (isa, batches) = (call.isa(), conv.windows.output.batches);
    let elements = conv.pixels * conv.windows.output.channels;
    let room = conv.image.next_multiple_of(ALIGN);
    call.emit_bands(label, room + gemm.scratch_bytes(), batches, move |mut io, batches| {
        if elements == 0 {
            return Ok(()); // and there is no scratch memory
        }
        let inputs = io.inputs_and_outputs();
        let bias = conv.has_bias.then(|| inputs.input::<f32>(2));
        let (image, rest) = io.scratch_slice::<u8>().split_at_mut(room);
        let rest = bytemuck::cast_slice_mut(rest);
        for batch in batches {
            let of = conv.quantise(isa, &inputs, batch, gemm.flip(), image);
            let output = inputs.output::<f32>(0).slice(batch * elements..(batch + 1) * elements);
            let image = In::of(&image[..conv.image]);
            gemm.compute(image, of.scale, of.zero_point, bias, output, rest)?;
            conv.activation.finish(output);
        }
        Ok(())
    });
}

/// With weights that are widened, whatever they come from.
fn by_dots(
    call: &mut OperatorCall<'_, '_>,
    label: Label,
    conv: HybridConv,
    patch: usize,
) -> Lowered {
    let weights = Weights::new(call, 1, &conv.filter)?;
    let signed = StoredType::of(ElementKind::I8)?;
    let (isa, batches) = (call.isa(), conv.windows.output.batches);
    let outputs = conv.windows.output.channels;
    // The patch with 16 bits, the image with 8.
    call.emit_bands(label, 2 * patch + conv.image, batches, move |mut io, batches| {
        let filters = weights.get(&io);
        let inputs = io.inputs_and_outputs();
        let (bias, to) = (inputs.input::<f32>(2), inputs.output::<f32>(0));
        let (gathered, image) = io.scratch_slice::<u8>().split_at_mut(2 * patch);
        let gathered: &mut [i16] = bytemuck::cast_slice_mut(gathered);
        for batch in batches {
            let of = conv.quantise(isa, &inputs, batch, 0, image);
            let bytes = In::of(&*image);
            for pixel in poll::each(0..conv.pixels, patch * outputs / 8) {
                let windows = &conv.windows;
                let (y, x) = (pixel / windows.output.width, pixel % windows.output.width);
                let channels = [0, windows.input.channels];
                windows.gather(bytes, signed, [0, y, x], of.zero_point, channels, gathered);
                dots(isa, OF_BYTES, gathered, &filters, outputs, |channel, sum| {
                    let place = (batch * conv.pixels + pixel) * outputs + channel;
                    to.set(place, conv.real(bias, channel, low(sum), of.scale));
                });
            }
        }
        Ok(())
    });
    Ok(())
}

/// The most taps of a window whose products of differences of bytes, 255 * 255 at most, sum up to
/// integers that floats are exact for.
const EXACT_TAPS: usize = (1 << 24) / (255 * 255);

/// The most values of an image whose channels are there several times.
const MOST_REPEATED: usize = 1 << 24;

/// Convolves the integers of each image as floats, which are exact. Returns whether it does.
fn depthwise_of_floats(call: &mut OperatorCall<'_, '_>, conv: &HybridConv) -> Lowered<bool> {
    let (windows, activation) = (conv.windows, conv.activation);
    let taps = windows.vertical.filter * windows.horizontal.filter;
    if taps > EXACT_TAPS || !activation.is_range() || conv.image == 0 {
        return Ok(false);
    }
    let Weights::Ready(weights) = Weights::new(call, 1, &conv.filter)? else { return Ok(false) };
    let weights: Vec<f32> = weights.iter().map(|&weight| f32::from(weight)).collect();
    let (outputs, isa) = (windows.output.channels, call.isa());
    // A channel that several results are computed of is there as many times.
    let times = outputs.checked_div(windows.input.channels).unwrap_or(1).max(1);
    let patches = Patches { channels: outputs, ..windows.patches() };
    let packed = Depthwise::new(isa, patches, &weights, &vec![0.0; outputs], NO_CLAMP);
    let Some(packed) = packed else { return Ok(false) };
    let extents = windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(taps)).unwrap_or(u64::MAX);
    let label = Label { form: packed.isa(), ..plain("tflite_hybrid_depthwise", &shape, work) };
    let (scales, has_bias) = (conv.scales.clone(), conv.has_bias);
    let (way, image, pixels) = (conv.way, conv.image, conv.pixels);
    let room = (4 * image).next_multiple_of(ALIGN);
    let repeated = if times > 1 { image.saturating_mul(times) } else { 0 };
    if repeated > MOST_REPEATED {
        return Ok(false);
    }
    let room_of_repeated = (4 * repeated).next_multiple_of(ALIGN);
    let scratch = room + room_of_repeated + packed.scratch_bytes();
    call.emit_bands(label, scratch, windows.output.batches, move |mut io, batches| {
        let inputs = io.inputs_and_outputs();
        let (floats, rest) = io.scratch_slice::<u8>().split_at_mut(room);
        let floats = &mut bytemuck::cast_slice_mut::<u8, f32>(floats)[..image];
        let (several, rest) = rest.split_at_mut(room_of_repeated);
        let several = &mut bytemuck::cast_slice_mut::<u8, f32>(several)[..repeated];
        let rest = bytemuck::cast_slice_mut(rest);
        for batch in batches {
            let own = inputs.input::<f32>(0).slice(batch * image..(batch + 1) * image);
            let row_scale = way.quantise_to_floats(isa, own, floats).scale;
            let places = batch * pixels * outputs..(batch + 1) * pixels * outputs;
            let sums = inputs.output::<f32>(0).slice(places);
            let mut integers = &*floats;
            if times > 1 {
                poll::work(repeated / 4)?;
                repeat(floats, times, several);
                integers = several;
            }
            packed.compute(In::of(integers), sums, 0..windows.output.height, rest)?;
            let (bias, scales) = (has_bias.then(|| inputs.input::<f32>(2)), &scales[..]);
            let range = activation.real_range();
            poll::work(sums.len() / 8)?;
            isa.run(DequantiseFloats { sums, scales, row_scale, bias, range });
        }
        Ok(())
    });
    Ok(true)
}

/// DEPTHWISE_CONV_2D: filters `[1, height, width, channels]`; images get a zero point whatever
/// scales the weights have.
pub(super) fn depthwise_conv_2d(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    filter: Arg,
) -> Lowered {
    let &[1, height, width, outputs] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let mut conv = HybridConv::read(call, input, filter, height, width, outputs)?;
    let times = outputs / conv.windows.input.channels.max(1);
    if times * conv.windows.input.channels != outputs || outputs == 0 {
        return Err(OpError::rule("channels that are no multiple").into());
    }
    conv.way = OnTheFly::Asymmetric;
    if depthwise_of_floats(call, &conv)? {
        return Ok(());
    }
    let weights = Weights::new(call, 1, &conv.filter)?;
    let extents = conv.windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    let (label, isa) = (plain("tflite_hybrid_depthwise", &shape, 0), call.isa());
    let to_floats = Dequantiser {
        scales: std::mem::take(&mut conv.scales),
        sums_of_weights: vec![0; outputs],
        activation: conv.activation,
        joins_scales: true,
    };
    // The sums of a pixel, the image as bytes.
    let scratch = 4 * outputs + conv.image;
    call.emit_bands(label, scratch, conv.windows.output.batches, move |mut io, batches| {
        let filters = weights.get(&io);
        let inputs = io.inputs_and_outputs();
        let (sums, image) = io.scratch_slice::<u8>().split_at_mut(4 * outputs);
        let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
        for batch in batches {
            let of = conv.quantise(isa, &inputs, batch, 0, image);
            let bytes = In::of(bytemuck::cast_slice::<u8, i8>(image));
            let scale = RowScale { zero_point: 0, ..of };
            for pixel in poll::each(0..conv.pixels, height * width * outputs / 8 + 8) {
                let place =
                    [0, pixel / conv.windows.output.width, pixel % conv.windows.output.width];
                let windows = &conv.windows;
                let zero_point = of.zero_point;
                isa.run(TapSums {
                    windows,
                    input: bytes,
                    place,
                    zero_point,
                    filters: &filters,
                    sums,
                });
                let to = (batch * conv.pixels + pixel) * outputs;
                let output: Out<'_, f32> = inputs.output::<f32>(0).slice(to..to + outputs);
                let bias = conv.has_bias.then(|| inputs.input::<f32>(2));
                to_floats.run(isa, 0..outputs, sums, scale, bias, output);
            }
        }
        Ok(())
    });
    Ok(())
}
