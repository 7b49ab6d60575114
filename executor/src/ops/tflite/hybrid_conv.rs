//! Convolutions of floats with 8-bit weights: each image is quantised on the fly, and multiplied in
//! integers.

use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall};
use super::conv::{ConvWindows, Weights};
use super::dense::OnTheFly;
use super::dots::{OF_BYTES, dots};
use super::math::{Stored, f32_of, low};
use super::products::ByteProducts;
use crate::lowering::{Label, Lowered};
use crate::ops::support::plain;

/// Images as integers: with a zero point where weights have scales per channel, else symmetric.
fn quantise(isa: Isa, is_each: bool, image: In<'_, f32>, to: &mut [i16]) -> f32 {
    if is_each { OnTheFly::asymmetric(isa, image, to) } else { OnTheFly::symmetric(isa, image, to) }
}

/// The scale of each output channel, and whether the weights have one each.
fn scales(filter: &Arg, channels: usize) -> Result<(Vec<f32>, bool), OpError> {
    Ok((filter.scales(channels)?, filter.channels.is_some()))
}

fn check_bias(call: &OperatorCall<'_, '_>, channels: usize) -> Result<bool, OpError> {
    if !call.has(2) {
        return Ok(false);
    }
    let bias = call.arg(2)?;
    if bias.kind != ElementKind::F32 || bias.shape.elements() != channels {
        return Err(OpError::input(2, "is no bias of floats"));
    }
    Ok(true)
}

/// CONV_2D: filters `[outputs, height, width, inputs]`.
pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, filter) = (call.arg(0)?, call.arg(1)?);
    let &[outputs, height, width, depth] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    if windows.input.channels != depth {
        return Err(OpError::rule("groups of channels on the fly").into());
    }
    let activation = call.activation(3)?;
    let (scales, is_each) = scales(&filter, outputs)?;
    let has_bias = check_bias(call, outputs)?;
    let extents = windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    let patch = height * width * depth;
    let image = windows.input.height * windows.input.width * depth;
    let pixels = windows.output.height * windows.output.width;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(patch)).unwrap_or(u64::MAX);
    let label = plain("tflite_hybrid_conv_2d", &shape, work);
    let none = vec![0; outputs];
    if !is_each && let Some(products) = ByteProducts::new(call, 1, &filter, patch, 0, &none) {
        let (label, isa) = (Label { form: products.isa(), ..label }, call.isa());
        let words = products.words();
        // The sums, the image and the patch with 16 bits, the patch with 8.
        let scratch = 4 * words + 2 * (image + patch) + patch;
        call.emit_bands(label, scratch, windows.output.batches, move |mut io, batches| {
            let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
            let fixed = io.inputs_and_outputs();
            let (words, rest) = io.scratch_slice::<u8>().split_at_mut(4 * words);
            let words: &mut [i32] = bytemuck::cast_slice_mut(words);
            let (wide, narrow) = rest.split_at_mut(2 * (image + patch));
            let wide: &mut [i16] = bytemuck::cast_slice_mut(wide);
            let (quantised, gathered) = wide.split_at_mut(image);
            let narrow: &mut [i8] = bytemuck::cast_slice_mut(&mut narrow[..patch]);
            for batch in batches {
                let own = from.slice(batch * image..(batch + 1) * image);
                let scale = quantise(isa, is_each, own, quantised);
                for pixel in 0..pixels {
                    let (y, x) = (pixel / windows.output.width, pixel % windows.output.width);
                    windows.gather(In::of(quantised), [0, y, x], 0, [0, depth], gathered);
                    for (to, &value) in narrow.iter_mut().zip(gathered.iter()) {
                        *to = i8::stored(i32::from(value));
                    }
                    let sums = products.compute(In::of(narrow), words)?;
                    let first = (batch * pixels + pixel) * outputs;
                    for (channel, &sum) in sums.iter().enumerate() {
                        let bias = if has_bias { fixed.input::<f32>(2).get(channel) } else { 0.0 };
                        let real = f32_of(sum) * scales[channel] * scale + bias;
                        to.set(first + channel, activation.apply(real));
                    }
                }
            }
            Ok(())
        });
        return Ok(());
    }
    let weights = Weights::new(call, 1, &filter)?;
    let (scratch, isa) = (2 * (patch + image), call.isa());
    call.emit_bands(label, scratch, windows.output.batches, move |mut io, batches| {
        let filters = weights.get(&io);
        let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
        let fixed = io.inputs_and_outputs();
        let bias = fixed.input::<f32>(2);
        let (gathered, quantised) = io.scratch_slice::<i16>().split_at_mut(patch);
        for batch in batches {
            let own = from.slice(batch * image..(batch + 1) * image);
            let scale = quantise(isa, is_each, own, quantised);
            for pixel in poll::each(0..pixels, patch * outputs / 8) {
                let (y, x) = (pixel / windows.output.width, pixel % windows.output.width);
                windows.gather(In::of(quantised), [0, y, x], 0, [0, depth], gathered);
                dots(isa, OF_BYTES, gathered, &filters, outputs, |channel, sum| {
                    let bias = if has_bias { bias.get(channel) } else { 0.0 };
                    let real = f32_of(low(sum)) * scales[channel] * scale + bias;
                    let place = (batch * pixels + pixel) * outputs + channel;
                    to.set(place, activation.apply(real));
                });
            }
        }
        Ok(())
    });
    Ok(())
}

/// DEPTHWISE_CONV_2D: filters `[1, height, width, channels]`.
pub(super) fn depthwise_conv_2d(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, filter) = (call.arg(0)?, call.arg(1)?);
    let &[1, height, width, outputs] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    let times = outputs / windows.input.channels.max(1);
    if times * windows.input.channels != outputs || outputs == 0 {
        return Err(OpError::rule("channels that are no multiple").into());
    }
    let activation = call.activation(3)?;
    let (scales, is_each) = scales(&filter, outputs)?;
    let has_bias = check_bias(call, outputs)?;
    let weights = Weights::new(call, 1, &filter)?;
    let extents = windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    let image = windows.input.height * windows.input.width * windows.input.channels;
    let results = windows.output.height * windows.output.width * outputs;
    let (label, isa) = (plain("tflite_hybrid_depthwise", &shape, 0), call.isa());
    call.emit_bands(label, 2 * image, windows.output.batches, move |mut io, batches| {
        let filters = weights.get(&io);
        let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
        let fixed = io.inputs_and_outputs();
        let bias = fixed.input::<f32>(2);
        let quantised = io.scratch_slice::<i16>();
        for batch in batches {
            let own = from.slice(batch * image..(batch + 1) * image);
            let scale = quantise(isa, is_each, own, quantised);
            for at in poll::each(0..results, height * width) {
                let (channel, pixel) = (at % outputs, at / outputs);
                let (y, x) = (pixel / windows.output.width, pixel % windows.output.width);
                let mut sum = 0i32;
                for (tap_y, in_y) in windows.vertical.taps(y) {
                    for (tap_x, in_x) in windows.horizontal.taps(x) {
                        let place = windows.input.at(0, in_y, in_x, channel / times);
                        let weight = filters[(tap_y * width + tap_x) * outputs + channel];
                        sum += i32::from(quantised[place]) * i32::from(weight);
                    }
                }
                let bias = if has_bias { bias.get(channel) } else { 0.0 };
                let real = f32_of(sum) * scales[channel] * scale + bias;
                to.set(batch * results + at, activation.apply(real));
            }
        }
        Ok(())
    });
    Ok(())
}
