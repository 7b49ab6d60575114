//! CONV_2D of floats with 8-bit weights where each filter sees a group of channels.
//!
//! The reference kernel quantises images as it does for weights with a scale per channel, that is
//! with a zero point, whatever scales these have.

use std::ops::Range;

use nnburst_kernels::tensor::{In, OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall};
use super::conv::{ConvWindows, Weights, channel_groups};
use super::dots::{OF_BYTES, dots};
use super::math::{StoredType, f32_of, low};
use super::on_the_fly::OnTheFly;
use crate::lowering::Lowered;
use crate::ops::support::plain;

/// Filters `[outputs, height, width, inputs of a group]`.
pub(super) fn conv_2d(call: &mut OperatorCall<'_, '_>, input: &Arg, filter: &Arg) -> Lowered {
    let &[outputs, height, width, depth] = &filter.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", filter.shape)).into());
    };
    if call.result(0)?.kind != ElementKind::F32 {
        return Err(OpError::output(0, "is not of floats").into());
    }
    let has_bias = call.has_float_bias(outputs)?;
    let windows = ConvWindows::read(call, &input.shape, [height, width, outputs], Some(4))?;
    let (from, to) = (windows.input, windows.output);
    let groups = channel_groups(from.channels, depth, outputs)?;
    let (scales, activation) = (filter.scales(outputs)?, call.activation(3)?);
    let weights = Weights::new(call, 1, filter)?;
    let extents = to.shape()?;
    let shape = call.set(0, &extents)?;
    let (patch, own) = (height * width * depth, outputs / groups);
    let (image, pixels) = (from.height * from.width * from.channels, to.height * to.width);
    let work = 2 * u64::try_from(shape.elements().saturating_mul(patch)).unwrap_or(u64::MAX);
    let (label, isa) = (plain("tflite_hybrid_groups", &shape, work), call.isa());
    let signed = StoredType::of(ElementKind::I8)?;
    // The patch with 16 bits, the image with 8.
    call.emit_bands(label, 2 * patch + image, to.batches, move |mut io, batches: Range<usize>| {
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
            for pixel in poll::each(0..pixels, patch * outputs / 8) {
                let place = [0, pixel / to.width, pixel % to.width];
                for group in 0..groups {
                    let channels = [group * depth, depth];
                    windows.gather(bytes, signed, place, of.zero_point, channels, gathered);
                    let filters = &filters[group * own * patch..];
                    dots(isa, OF_BYTES, gathered, filters, own, |at, sum| {
                        let channel = group * own + at;
                        let product = f32_of(low(sum)) * scales[channel] * of.scale;
                        let bias = if has_bias { bias.get(channel) } else { 0.0 };
                        let place = (batch * pixels + pixel) * outputs + channel;
                        results.set(place, activation.apply(product + bias));
                    });
                }
            }
        }
        Ok(())
    });
    Ok(())
}
