//! TRANSPOSE_CONV of floats with 8-bit weights: each image is quantised on the fly, and every
//! product becomes a float by itself.

use nnburst_kernels::kernels::transposed_products::TransposedProducts;
use nnburst_kernels::tensor::{In, OpError, Out, Shape, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall, refused, sizes};
use super::conv::ConvWindows;
use super::on_the_fly::OnTheFly;
use crate::lowering::Lowered;
use crate::ops::support::compiled;

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
    let taps = height * width * depth;
    call.claim(TransposedProducts::bytes(outputs, taps))?;
    let isa = call.isa();
    let Some(filters) = call.constant(1) else {
        return Err(OpError::input(1, "is no constant").into());
    };
    let scales = filter.scales(outputs)?;
    let products = TransposedProducts::new(isa, windows.patches(), depth, filters.typed(), &scales)
        .map_err(OpError::rule)?;
    let shape = call.set(0, &extents)?;
    let image = products.image();
    let multiplies = image.saturating_mul(batches.saturating_mul(outputs * height * width));
    let work = 2 * u64::try_from(multiplies).unwrap_or(u64::MAX / 2);
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
                products.line(floats, scale, y, output)?;
                poll::work(0)?;
                finish(output, bias, activation);
            }
        }
        Ok(())
    });
    Ok(())
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
