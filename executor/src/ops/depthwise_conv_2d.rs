//! DEPTHWISE_CONV_2D: every channel with filters of its own.

use std::ops::Range;

use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::{Precision, depthwise_f32, depthwise_i8, gemm_f32, gemm_i8};
use nnburst_kernels::tensor::quant::real_activation_range;
use nnburst_kernels::tensor::rows::Port;
use nnburst_kernels::tensor::{OpError, Real, poll};

use super::Op;
use super::conv::{
    Requantise, Sliding, Types, bytes, check_bias, constants, filter_extents, types,
};
use super::conv_taps::{self, Taps};
use super::staged::{AS_IS, convolve, in_single_precision};
use super::support::{Image, Window};
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static DEPTHWISE_CONV_2D: Op = Op { lower };

/// A depthwise convolution with its operands read.
#[derive(Clone, Copy, Debug)]
pub(super) struct DepthwiseConv {
    pub(super) sliding: Sliding,
    /// Output channels per input channel.
    pub(super) multiplier: usize,
}

/// Explicit paddings: 11, 12 or 14 inputs; implicit: 8, 9 or 11. With 11 the type of input 8 tells:
/// BOOL is the layout flag of the implicit form. Output channel `c * m + r` reads input channel
/// `c`.
///
/// Source: NNAPI `DEPTHWISE_CONV_2D`, since HAL 1.0; layout flag and dilation since 1.2; signed
/// since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, filter, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let explicit = match op.input_count() {
        8 | 9 => false,
        11 => op.input_kind(8)? != OperandType::Bool,
        12 | 14 => true,
        count => return Err(OpError::rule(format!("{count} inputs")).into()),
    };
    let (window, next) = Window::read(op, 3, explicit)?;
    let (multiplier, activation) = (op.extent(next, 1)?, op.fused_activation(next + 1)?);
    let nchw = op.nchw(next + 2)?;
    let window = window.dilated(op, next + 3)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let outputs = image.channels.checked_mul(multiplier);
    let wanted = format_args!("{} channels times {multiplier}", image.channels);
    let [_, filter_h, filter_w, channels_out] =
        filter_extents(&filter, wanted, |[one, .., c]| one == 1 && Some(c) == outputs)?;
    check_bias(&bias, channels_out)?;
    let sliding = Sliding::new(op, image, &window, filter_h, filter_w, channels_out, activation)?;
    let conv = DepthwiseConv { sliding, multiplier };
    match types(&input, &filter, &bias, &op.output(0)?)? {
        Types::Float32 => real::<f32>(op, conv),
        Types::Float16 => real::<half::f16>(op, conv),
        Types::Bytes => byte(op, conv),
    }
}

impl DepthwiseConv {
    /// The windows as kernels take them: every channel has one filter.
    fn patches(&self) -> Patches {
        self.sliding.patches(self.multiplier)
    }

    fn label(&self, kernel: &'static str) -> Result<Label, OpError> {
        self.sliding.label(kernel, 1)
    }

    /// Adds the steps of a convolution of real numbers with constant weights, as
    /// `[height, width, channels]`. Returns whether there is a kernel for it.
    pub(super) fn real<T: Real>(
        &self,
        op: &mut OpBuilder<'_>,
        filter: &[f32],
        bias: &[f32],
    ) -> Lowered<bool> {
        let range = real_activation_range(self.sliding.activation);
        let patches = self.patches();
        let Some(packed) = depthwise_f32::Depthwise::new(op.isa(), patches, filter, bias, range)
        else {
            return Ok(false);
        };
        op.absorb(1);
        let label = Label { form: packed.isa(), ..self.label("depthwise_f32")? };
        let staged = self.sliding.staged(size_of::<T>(), size_of::<f32>(), self.multiplier);
        convolve(op, label, staged, in_single_precision::<T>(), packed);
        Ok(true)
    }

    /// As [`DepthwiseConv::real`], of 8-bit values.
    pub(super) fn bytes(
        &self,
        op: &mut OpBuilder<'_>,
        requantise: &Requantise,
        filter: &[u8],
        bias: &[i32],
    ) -> Lowered<bool> {
        let channels = self.sliding.output.channels;
        let (input, weights) = (bytes(&op.input(0)?), bytes(&op.input(1)?));
        let weights = gemm_i8::Weights { values: filter, bytes: weights };
        let (patches, scaling) = (self.patches(), requantise.scaling(channels));
        let packed = depthwise_i8::Depthwise::new(op.isa(), patches, input, weights, bias, scaling);
        let Some(packed) = packed else { return Ok(false) };
        op.absorb(1);
        let label = Label { form: packed.isa(), ..self.label("depthwise_i8")? };
        let (scratch_bytes, count) = (packed.scratch_bytes(), packed.bands());
        if let Some(staged) = self.sliding.staged(1, 1, self.multiplier) {
            staged.emit(op, label, scratch_bytes, AS_IS, move |image, output, scratch| {
                packed.compute(image, output, scratch, 0..count)
            });
            return Ok(true);
        }
        let ports = [(Port::Input(0), Some(channels)), (Port::Output, Some(channels))];
        let ports = if packed.takes_rows() { &ports[..] } else { &ports[..1] };
        op.emit_bands(label, scratch_bytes, count, move |mut io, bands| {
            packed.compute(io.input_rows(0), io.output_rows(0), io.scratch_slice(), bands)
        });
        op.rows(ports);
        Ok(true)
    }
}

impl Taps for DepthwiseConv {
    const CHANNEL_DIM: usize = 3;

    fn lines(&self) -> usize {
        self.sliding.lines()
    }

    fn each(
        &self,
        lines: Range<usize>,
        mut each: impl FnMut(usize, usize, &mut dyn Iterator<Item = (usize, usize)>),
    ) {
        let Sliding { input, output, vertical, horizontal, .. } = &self.sliding;
        for (batch, y) in lines.map(|line| (line / output.height, line % output.height)) {
            for x in poll::each(0..output.width, 8) {
                for o in poll::each(0..output.channels, 16) {
                    let mut taps = vertical.taps(y).flat_map(|(i, row)| {
                        horizontal.taps(x).map(move |(j, column)| {
                            let weight = (i * horizontal.filter + j) * output.channels + o;
                            (input.at(batch, row, column, o / self.multiplier), weight)
                        })
                    });
                    each(output.at(batch, y, x, o), o, &mut taps);
                }
            }
        }
    }

    fn label(&self) -> Result<Label, OpError> {
        self.label("depthwise_conv_2d")
    }

    fn activation(&self) -> FusedActivation {
        self.sliding.activation
    }
}

fn real<T: Real>(op: &mut OpBuilder<'_>, conv: DepthwiseConv) -> Lowered {
    if conv.sliding.input.channels == 1 && real_of_one_channel::<T>(op, &conv)? {
        return Ok(());
    }
    if let Some((filter, bias)) = constants(op) {
        let (filter, bias) = (T::widened(filter.typed()), T::widened(bias.typed()));
        if conv.real::<T>(op, &filter, &bias)? {
            return Ok(());
        }
    }
    conv_taps::real::<T>(op, conv)
}

/// As [`of_one_channel`], of real numbers.
fn real_of_one_channel<T: Real>(op: &mut OpBuilder<'_>, conv: &DepthwiseConv) -> Lowered<bool> {
    let filters = conv.sliding.output.channels;
    let gemm = constants(op).and_then(|(filter, bias)| {
        let (filter, bias) = (T::widened(filter.typed()), T::widened(bias.typed()));
        let of_filter = |at| filter.iter().skip(at).step_by(filters).copied();
        let values: Vec<f32> = (0..filters).flat_map(of_filter).collect();
        let range = real_activation_range(conv.sliding.activation);
        let patches = conv.sliding.patches(1);
        gemm_f32::Gemm::new(op.isa(), Precision::Single, patches, &values, &bias, range)
    });
    let Some(gemm) = gemm else { return Ok(false) };
    op.absorb(1);
    let label = Label { form: gemm.isa(), ..conv.label("gemm_f32")? };
    let staged = conv.sliding.staged(size_of::<T>(), size_of::<f32>(), 1);
    convolve(op, label, staged, in_single_precision::<T>(), gemm);
    Ok(true)
}

fn byte(op: &mut OpBuilder<'_>, conv: DepthwiseConv) -> Lowered {
    let requantise = Requantise::new(op, DepthwiseConv::CHANNEL_DIM, conv.sliding.activation)?;
    if conv.sliding.input.channels == 1 && of_one_channel(op, &conv, &requantise)? {
        return Ok(());
    }
    if let Some((filter, bias)) = constants(op)
        && conv.bytes(op, &requantise, filter.as_slice(), bias.typed())?
    {
        return Ok(());
    }
    conv_taps::byte(op, conv)
}

/// The filters of one channel are those of a convolution of it, whose tiles share what they read.
/// Returns whether it is computed so.
fn of_one_channel(
    op: &mut OpBuilder<'_>,
    conv: &DepthwiseConv,
    requantise: &Requantise,
) -> Lowered<bool> {
    let filters = conv.sliding.output.channels;
    let gemm = constants(op).and_then(|(filter, bias)| {
        let (input, weights) = (op.input(0).ok()?, op.input(1).ok()?);
        // There the weights of each filter lie one behind the other.
        let of_filter = |at| filter.as_slice().iter().skip(at).step_by(filters).copied();
        let values: Vec<u8> = (0..filters).flat_map(of_filter).collect();
        let weights = gemm_i8::Weights { values: &values, bytes: bytes(&weights) };
        let (patches, scaling) = (conv.sliding.patches(1), requantise.scaling(filters));
        gemm_i8::Gemm::new(op.isa(), patches, bytes(&input), weights, bias.typed(), scaling)
    });
    let Some(gemm) = gemm else { return Ok(false) };
    op.absorb(1);
    let label = Label { form: gemm.isa(), ..conv.label("gemm_i8")? };
    convolve(op, label, conv.sliding.staged(1, 1, 1), AS_IS, gemm);
    Ok(true)
}
