//! CONV_2D.

use std::ops::Range;

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::{gemm_f32, gemm_i8, product_f32};
use nnburst_kernels::tensor::quant::{clamp_real, real_activation_range};
use nnburst_kernels::tensor::{OpError, Real, poll};

use super::Op;
use super::conv::{
    Requantise, Sliding, Types, bytes, check_bias, constants, filter_extents, types,
};
use super::fully_connected;
use super::staged::{AS_IS, convolve, in_single_precision};
use super::support::{Image, Window};
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static CONV_2D: Op = Op { lower };

/// A convolution with its operands read.
#[derive(Clone, Copy, Debug)]
struct Conv(Sliding);

/// Explicit paddings: 10, 11 or 13 inputs; implicit: 7, 8 or 10. With 10 the type of input 7 tells:
/// BOOL is the layout flag of the implicit form.
///
/// Source: NNAPI `CONV_2D`, since HAL 1.0; layout flag and dilation since 1.2; signed since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, filter, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let explicit = match op.input_count() {
        7 | 8 => false,
        10 => op.input_kind(7)? != OperandType::Bool,
        11 | 13 => true,
        count => return Err(OpError::rule(format!("{count} inputs")).into()),
    };
    let (window, next) = Window::read(op, 3, explicit)?;
    let activation = op.fused_activation(next)?;
    let nchw = op.nchw(next + 1)?;
    let window = window.dilated(op, next + 2)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let channels = image.channels;
    let [channels_out, filter_h, filter_w, _] =
        filter_extents(&filter, format_args!("{channels} channels"), |[.., c]| c == channels)?;
    check_bias(&bias, channels_out)?;
    let conv =
        Conv(Sliding::new(op, image, &window, filter_h, filter_w, channels_out, activation)?);
    match types(&input, &filter, &bias, &op.output(0)?)? {
        Types::Float32 => real::<f32>(op, conv),
        Types::Float16 => real::<half::f16>(op, conv),
        Types::Bytes => byte(op, conv),
    }
}

impl Conv {
    /// Calls `sum(output position, output channel, taps)` for every output of some lines; a tap is
    /// the position of a pixel's first channel in the input and of the filter's first weight for
    /// it.
    fn each(
        &self,
        lines: Range<usize>,
        mut each: impl FnMut(usize, usize, &mut dyn Iterator<Item = (usize, usize)>),
    ) {
        let Sliding { input, output, vertical, horizontal, .. } = &self.0;
        let (filter_w, channels) = (horizontal.filter, input.channels);
        for line in lines {
            let (batch, y) = (line / output.height, line % output.height);
            for x in poll::each(0..output.width, 8) {
                for o in poll::each(0..output.channels, 16) {
                    let first = o * vertical.filter * filter_w;
                    let mut taps = vertical.taps(y).flat_map(|(i, row)| {
                        horizontal.taps(x).map(move |(j, column)| {
                            let weight = (first + i * filter_w + j) * channels;
                            (input.at(batch, row, column, 0), weight)
                        })
                    });
                    each(output.at(batch, y, x, o), o, &mut taps);
                }
            }
        }
    }

    /// Elements between neighbouring channels of the input.
    fn channel_stride(&self) -> usize {
        let input = &self.0.input;
        if input.is_nchw() { input.height * input.width } else { 1 }
    }

    fn label(&self, kernel: &'static str) -> Result<Label, OpError> {
        self.0.label(kernel, self.0.input.channels)
    }
}

fn real<T: Real>(op: &mut OpBuilder<'_>, conv: Conv) -> Lowered {
    let staged = conv.0.staged(size_of::<T>(), size_of::<f32>(), 1);
    if staged.is_none() && few_pixels(op, &conv)? {
        return Ok(());
    }
    let gemm = constants(op).and_then(|(filter, bias)| {
        let (filter, bias) = (T::widened(filter.typed()), T::widened(bias.typed()));
        let range = real_activation_range(conv.0.activation);
        let patches = conv.0.patches(1);
        gemm_f32::Gemm::new(op.isa(), op.precision(), patches, &filter, &bias, range)
    });
    let Some(gemm) = gemm else { return plain_real::<T>(op, conv) };
    op.absorb(1);
    let label = Label { form: gemm.isa(), ..conv.label(gemm.kernel())? };
    convolve(op, label, staged, in_single_precision::<T>(), gemm);
    Ok(())
}

/// A 1x1 convolution of few pixels, such as the classes at the end of a network, streams its
/// weights: tiles would have too few sums to hide the latency of one. Whether it is one.
fn few_pixels(op: &mut OpBuilder<'_>, conv: &Conv) -> Lowered<bool> {
    let patches = conv.0.patches(1);
    if !patches.is_matrix() || patches.rows() > product_f32::FEW_ROWS {
        return Ok(false);
    }
    let packed = constants(op).and_then(|(filter, bias)| {
        let range = real_activation_range(conv.0.activation);
        let (rows, depth) = (patches.rows(), patches.depth());
        let (filter, bias) = (filter.typed(), bias.typed());
        product_f32::Product::new(op.isa(), op.precision(), rows, depth, filter, bias, range)
    });
    let Some(packed) = packed else { return Ok(false) };
    op.absorb(1);
    let label = Label { form: packed.isa(), ..conv.label(packed.kernel())? };
    fully_connected::emit(op, label, packed);
    Ok(true)
}

fn plain_real<T: Real>(op: &mut OpBuilder<'_>, conv: Conv) -> Lowered {
    let (low, high) = real_activation_range(conv.0.activation);
    let (channels, stride) = (conv.0.input.channels, conv.channel_stride());
    op.emit_bands(conv.label("conv_2d_real")?, 0, conv.0.lines(), move |io, lines| {
        let (input, filter, bias) = (io.input::<T>(0), io.input::<T>(1), io.input::<T>(2));
        let output = io.output::<T>(0);
        conv.each(lines, |at, o, taps| {
            let mut sum = bias.get(o).to_f32();
            for (pixel, weight) in poll::each(taps, 8) {
                for c in poll::each(0..channels, 4) {
                    let x = input.get(pixel + c * stride).to_f32();
                    sum += x * filter.get(weight + c).to_f32();
                }
            }
            output.set(at, T::from_f32(clamp_real(sum, low, high)));
        });
        Ok(())
    });
    Ok(())
}

fn byte(op: &mut OpBuilder<'_>, conv: Conv) -> Lowered {
    let requantise = Requantise::new(op, 0, conv.0.activation)?;
    let (of_input, of_filter) = (bytes(&op.input(0)?), bytes(&op.input(1)?));
    let gemm = constants(op).and_then(|(filter, bias)| {
        let (input, weights) = (op.input(0).ok()?, op.input(1).ok()?);
        let weights = gemm_i8::Weights { values: filter.as_slice(), bytes: bytes(&weights) };
        let scaling = requantise.scaling(conv.0.output.channels);
        let (patches, bias) = (conv.0.patches(1), bias.typed());
        gemm_i8::Gemm::new(op.isa(), patches, bytes(&input), weights, bias, scaling)
    });
    if let Some(gemm) = gemm {
        op.absorb(1);
        let label = Label { form: gemm.isa(), ..conv.label("gemm_i8")? };
        convolve(op, label, conv.0.staged(1, 1, 1), AS_IS, gemm);
        return Ok(());
    }
    let (channels, stride) = (conv.0.input.channels, conv.channel_stride());
    op.emit_bands(conv.label("conv_2d_byte")?, 0, conv.0.lines(), move |io, lines| {
        let (input, filter, bias) = (io.input::<u8>(0), io.input::<u8>(1), io.input::<i32>(2));
        let output = io.output::<u8>(0);
        conv.each(lines, |at, o, taps| {
            let mut sum = bias.get(o);
            for (pixel, weight) in poll::each(taps, 8) {
                for c in poll::each(0..channels, 4) {
                    let x = of_input.from_zero(input.get(pixel + c * stride));
                    sum = sum.wrapping_add(x * of_filter.from_zero(filter.get(weight + c)));
                }
            }
            output.set(at, requantise.apply(sum, o));
        });
        Ok(())
    });
    Ok(())
}
