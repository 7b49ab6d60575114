//! TRANSPOSE_CONV of floats with 8-bit weights: each image is quantised on the fly, and multiplied
//! in integers.

use std::sync::Arc;

use nnburst_hal::FusedActivation;
use nnburst_kernels::kernels::gemm_i8::{self, FloatScaling, HybridGemm};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::memory::ALIGN;
use nnburst_kernels::tensor::quant::clamp_real;
use nnburst_kernels::tensor::{In, OpError, Out, Shape, poll};

use super::arg::{Activation, Arg, ElementKind, OperatorCall, refused, sizes};
use super::conv::{ConvWindows, Weights};
use super::hybrid_conv::bytes_of;
use super::math::f32_of;
use super::on_the_fly::{OnTheFly, RowScale};
use crate::lowering::{Io, Label, Lowered};
use crate::ops::conv_taps::Taps as _;
use crate::ops::staged::{AS_IS, Staged, in_single_precision};
use crate::ops::support::{Axis, Image, plain};
use crate::ops::transpose_conv_2d::{TilePart, TransposeConv, TransposedAxis};

/// A transposed convolution with its options and operands read.
struct HybridTranspose {
    /// Of one image.
    conv: TransposeConv,
    filter: Arg,
    scales: Vec<f32>,
    activation: Activation,
    has_bias: bool,
    batches: usize,
}

/// The result's shape comes first, then filters `[outputs, height, width, inputs]`, then the input.
pub(super) fn transpose_conv(call: &mut OperatorCall<'_, '_>, filter: Arg, input: &Arg) -> Lowered {
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
    let of_one = |it: Image| Image::new([1, it.height, it.width, it.channels], false);
    let conv = TransposeConv {
        input: of_one(windows.output),
        output: of_one(windows.input),
        vertical: undone(windows.vertical)?,
        horizontal: undone(windows.horizontal)?,
        activation: FusedActivation::None,
    };
    let activation = call.activation(3)?;
    let has_bias = call.has_float_bias(3, outputs)?;
    let scales = filter.scales(outputs)?;
    let transpose = HybridTranspose { conv, filter, scales, activation, has_bias, batches };
    let shape = call.set(0, &extents)?;
    let products = elements(&conv.input).saturating_mul(outputs * height * width);
    let work = u64::try_from(products.saturating_mul(batches)).unwrap_or(u64::MAX / 2);
    let label = plain("tflite_hybrid_transpose", &shape, work.saturating_mul(2));
    match transpose.packed(call)? {
        Some(parts) => transpose.by_parts(call, label, parts),
        None => transpose.by_taps(call, label)?,
    }
    Ok(())
}

/// The transposed axis of windows that lie over its result.
fn undone(windows: Axis) -> Result<TransposedAxis, OpError> {
    let Axis { input, output, filter, stride, head, .. } = windows;
    let wide = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let reach = wide((output - 1).saturating_mul(stride)).saturating_add(wide(filter));
    TransposedAxis::new(output, filter, stride, head, reach - wide(head) - wide(input))
}

fn elements(image: &Image) -> usize {
    image.height * image.width * image.channels
}

/// A part of each tile, and what multiplies it; nothing where it meets no tap.
type PackedPart = (TilePart, Option<HybridGemm>);

impl HybridTranspose {
    /// Packs the filters part by part, if they are constants.
    fn packed(&self, call: &mut OperatorCall<'_, '_>) -> Lowered<Option<Vec<PackedPart>>> {
        let (Some(filters), Some(parts)) = (call.constant(1), self.conv.parts()) else {
            return Ok(None);
        };
        if filters.as_slice().is_empty() {
            return Ok(None);
        }
        let bytes = bytes_of(&self.filter)?;
        // A scale and the sum of the weights for each channel of a part's output.
        let places: usize = parts.iter().map(TilePart::places).sum();
        call.claim(places.saturating_mul(8).saturating_mul(self.scales.len()))?;
        let isa = call.isa();
        let pack = |part: TilePart| {
            if !part.meets_taps() {
                return Some((part, None));
            }
            let (values, scales) =
                (part.filters(filters.as_slice()), self.scales.repeat(part.places()));
            let weights = gemm_i8::Weights { values: &values, bytes };
            let (way, range) = (FloatScaling::WeightsFirst, self.activation.real_range());
            let gemm = HybridGemm::new(isa, part.patches(), weights, &scales, way, range)?;
            Some((part, Some(gemm)))
        };
        Ok(parts.into_iter().map(pack).collect())
    }

    /// Quantises image `batch` of the input.
    fn quantise(&self, isa: Isa, io: &Io<'_>, batch: usize, flip: u8, to: &mut [u8]) -> RowScale {
        let own = io.input::<f32>(2).slice(batch * to.len()..(batch + 1) * to.len());
        OnTheFly::Asymmetric.quantise(isa, own, flip, to)
    }

    /// With a GEMM for each part of a tile.
    fn by_parts(self, call: &mut OperatorCall<'_, '_>, label: Label, parts: Vec<PackedPart>) {
        let gemms = || parts.iter().filter_map(|(_, gemm)| gemm.as_ref());
        let form = gemms().map(HybridGemm::isa).next().unwrap_or_else(|| call.isa());
        let flip = gemms().map(HybridGemm::flip).next().unwrap_or_default();
        let rest = gemms().map(HybridGemm::scratch_bytes).max().unwrap_or(0);
        let most = parts.iter().map(|(part, _)| part.places()).max().unwrap_or(0);
        let (isa, conv) = (call.isa(), self.conv);
        let (image, outputs) = (elements(&conv.input), conv.output.channels);
        let staged = Staged::new(conv.input, conv.output).tiled(conv.tiled(0));
        let (bordered, product) = staged.elements();
        // The image, the same with a border, the parts' results, and a bias for each place.
        let biases = (4 * most).saturating_mul(outputs);
        let sizes = [image, bordered, product.saturating_mul(4), biases];
        let rooms = sizes.map(|size| size.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX));
        let scratch = rooms.iter().fold(rest, |sum, &room| sum.saturating_add(room));
        let label = Label { form, ..label };
        call.emit_bands(label, scratch, self.batches, move |mut io, batches| {
            let inputs = io.inputs_and_outputs();
            let mut rest = io.scratch_slice::<u8>();
            let [bytes, bordered, products, biases] = rooms.map(|room| {
                let (own, behind) = std::mem::take(&mut rest).split_at_mut(room);
                rest = behind;
                own
            });
            let (bytes, bordered) = (&mut bytes[..sizes[0]], &mut bordered[..sizes[1]]);
            let products: &mut [f32] = bytemuck::cast_slice_mut(&mut products[..sizes[2]]);
            let biases: &mut [f32] = bytemuck::cast_slice_mut(&mut biases[..sizes[3]]);
            let rest = bytemuck::cast_slice_mut(rest);
            let bias = self.has_bias.then(|| inputs.input::<f32>(3));
            if let Some(bias) = bias {
                biases.chunks_exact_mut(outputs).for_each(|place| bias.copy_to(place));
            }
            for batch in batches {
                let of = self.quantise(isa, &inputs, batch, flip, bytes);
                let [zero, ..] = of.zero_point.to_le_bytes();
                poll::fill(bordered, zero ^ flip)?;
                staged.bring(In::of(&*bytes), bordered, AS_IS);
                let image = In::of(&*bordered);
                let product = Out::of(&mut *products);
                for (part, gemm) in &parts {
                    let channels = part.places() * outputs;
                    let product = product.slice(part.first_of_product()..product.len());
                    match gemm {
                        Some(gemm) => {
                            let image = image.slice(part.first_of_image()..image.len());
                            let bias = bias.map(|_| In::of(&biases[..channels]));
                            let RowScale { scale, zero_point } = of;
                            gemm.compute(image, scale, zero_point, bias, product, rest)?;
                        }
                        None => {
                            let (low, high) = self.activation.real_range();
                            let own = |at: usize| bias.map_or(0.0, |bias| bias.get(at));
                            part.repeat(|at| clamp_real(own(at), low, high), product);
                        }
                    }
                }
                let result = elements(&conv.output);
                let output = inputs.output::<f32>(0).slice(batch * result..(batch + 1) * result);
                staged.fetch(products, output, in_single_precision::<f32>());
                self.activation.finish(output);
            }
            Ok(())
        });
    }

    /// Output by output, whatever the weights come from.
    fn by_taps(self, call: &mut OperatorCall<'_, '_>, label: Label) -> Lowered {
        let weights = Weights::new(call, 1, &self.filter)?;
        let (isa, conv, image) = (call.isa(), self.conv, elements(&self.conv.input));
        call.emit_bands(label, image, self.batches, move |mut io, batches| {
            let filters: Arc<[i16]> = weights.get(&io);
            let inputs = io.inputs_and_outputs();
            let bias = self.has_bias.then(|| inputs.input::<f32>(3));
            let bytes = &mut io.scratch_slice::<u8>()[..image];
            for batch in batches {
                let of = self.quantise(isa, &inputs, batch, 0, bytes);
                let result = elements(&conv.output);
                let output = inputs.output::<f32>(0).slice(batch * result..(batch + 1) * result);
                conv.each(0..conv.lines(), |at, channel, taps| {
                    let product = |(pixel, weight): (usize, usize)| {
                        let value = i32::from(bytes[pixel].cast_signed()) - of.zero_point;
                        value * i32::from(filters[weight])
                    };
                    let sum = poll::each(taps, 8).map(product).fold(0, i32::wrapping_add);
                    let bias = bias.map_or(0.0, |bias| bias.get(channel));
                    let real = f32_of(sum) * self.scales[channel] * of.scale + bias;
                    output.set(at, self.activation.apply(real));
                });
            }
            Ok(())
        });
        Ok(())
    }
}
