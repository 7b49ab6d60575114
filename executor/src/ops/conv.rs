//! The common parts of convolutions and FULLY_CONNECTED: operand checks and requantisation.

use std::sync::Arc;

use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::gemm_i8::Bytes;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::simd::requantise::Scaling;
use nnburst_kernels::tensor::quant::{
    Multiplier, channel_multiplier, check_bias_scale, output_range, product_multiplier,
};
use nnburst_kernels::tensor::{AlignedBytes, OpError, Quantised, Tensor};

use super::staged::Staged;
use super::support::{Axis, Image, Window};
use crate::lowering::{Label, Lowered, OpBuilder, Words};

/// From accumulators of one output channel each to stored values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requantise {
    /// One per output channel, or one for all.
    pub(super) multipliers: Vec<Multiplier>,
    pub(super) zero_point: i32,
    pub(super) low: i32,
    pub(super) high: i32,
}

impl Requantise {
    /// For kernels that compute `channels` channels.
    pub(super) fn scaling(&self, channels: usize) -> Scaling {
        Scaling::new(&self.multipliers, channels, self.zero_point, self.low, self.high)
    }

    /// For kernels that compute one of the groups of `channels` channels.
    pub(super) fn scaling_of_group(&self, group: usize, channels: usize) -> Scaling {
        let own = match &self.multipliers[..] {
            one @ [_] => one,
            many => &many[group * channels..][..channels],
        };
        Scaling::new(own, channels, self.zero_point, self.low, self.high)
    }

    /// For kernels that compute so many times `channels` channels.
    pub(super) fn scaling_of_tiles(&self, count: usize, channels: usize) -> Scaling {
        let multipliers = match &self.multipliers[..] {
            one @ [_] => one.to_vec(),
            many => many.repeat(count),
        };
        let channels = channels.saturating_mul(count);
        Scaling::new(&multipliers, channels, self.zero_point, self.low, self.high)
    }

    /// For inputs 0 (activations), 1 (weights) and 2 (bias) and output 0 of `op`; scales per
    /// channel must lie along `channel_dim` of the weights.
    pub(super) fn new(
        op: &OpBuilder<'_>,
        channel_dim: usize,
        activation: FusedActivation,
    ) -> Result<Self, OpError> {
        let (input, weights, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
        let output = op.output(0)?;
        let (low, high) = output_range(activation, &output)?;
        let multipliers = match &weights.channel_quant {
            None => {
                check_bias_scale(input.scale, weights.scale, bias.scale)?;
                vec![product_multiplier(input.scale, weights.scale, output.scale)]
            }
            Some(quant) => {
                let axis = quant.channel_dim as usize;
                if axis != channel_dim || weights.shape.get(axis) != Some(&quant.scales.len()) {
                    let what = format!(
                        "{} scales along {axis} of {:?}, wanted along {channel_dim}",
                        quant.scales.len(),
                        weights.shape
                    );
                    return Err(OpError::input(1, what));
                }
                let of = |&scale| channel_multiplier(input.scale, scale, output.scale);
                quant.scales.iter().map(of).collect()
            }
        };
        Ok(Self { multipliers, zero_point: output.zero_point, low, high })
    }

    /// The stored byte of channel `channel`'s accumulator, of whichever type.
    #[inline(always)]
    pub(super) fn apply(&self, accumulator: i32, channel: usize) -> u8 {
        let multiplier = match &self.multipliers[..] {
            [one] => *one,
            many => many[channel],
        };
        let y = multiplier.apply(accumulator).saturating_add(self.zero_point);
        y.clamp(self.low, self.high).to_le_bytes()[0]
    }
}

/// The types that convolutions come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Types {
    Float32,
    Float16,
    /// Quantised activations and weights of 8 bits: both unsigned, both signed, or signed weights
    /// with a scale per channel.
    Bytes,
}

/// Returns the types of these operands.
pub(super) fn types(
    input: &Tensor,
    weights: &Tensor,
    bias: &Tensor,
    output: &Tensor,
) -> Result<Types, OpError> {
    use OperandType as T;
    let types = match (input.kind, weights.kind, bias.kind) {
        (T::TensorFloat32, T::TensorFloat32, T::TensorFloat32) => Types::Float32,
        (T::TensorFloat16, T::TensorFloat16, T::TensorFloat16) => Types::Float16,
        (
            T::TensorQuant8Asymm,
            T::TensorQuant8Asymm | T::TensorQuant8SymmPerChannel,
            T::TensorInt32,
        )
        | (
            T::TensorQuant8AsymmSigned,
            T::TensorQuant8AsymmSigned | T::TensorQuant8SymmPerChannel,
            T::TensorInt32,
        ) => Types::Bytes,
        (a, b, c) => return Err(OpError::rule(format!("{a} with weights {b} and bias {c}"))),
    };
    if output.kind != input.kind {
        return Err(OpError::output(0, format!("{} from {}", output.kind, input.kind)));
    }
    Ok(types)
}

/// Weights and bias, if both are constants: those are packed ahead. Otherwise the plain code runs.
pub(super) fn constants(op: &OpBuilder<'_>) -> Option<(Arc<AlignedBytes>, Arc<AlignedBytes>)> {
    Some((op.constant(1)?, op.constant(2)?))
}

/// An input's or the weights' bytes, as kernels read them: of both types by the same code.
pub(super) fn bytes(tensor: &Tensor) -> Bytes {
    let to_unsigned = match tensor.kind {
        OperandType::TensorQuant8Asymm => u8::TO_UNSIGNED,
        _ => i8::TO_UNSIGNED,
    };
    Bytes::new(to_unsigned, tensor.zero_point)
}

/// The extents of a filter: of rank 4, none 0, and as `fits` wants them for what it is `wanted`.
pub(super) fn filter_extents(
    filter: &Tensor,
    wanted: impl std::fmt::Display,
    fits: impl Fn([usize; 4]) -> bool,
) -> Result<[usize; 4], OpError> {
    match filter.shape[..] {
        [a, b, c, d] if !filter.shape.contains(&0) && fits([a, b, c, d]) => Ok([a, b, c, d]),
        _ => Err(OpError::input(1, format!("a filter of {:?} for {wanted}", filter.shape))),
    }
}

/// A convolution whose window slides over an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sliding {
    pub(super) input: Image,
    pub(super) output: Image,
    pub(super) vertical: Axis,
    pub(super) horizontal: Axis,
    pub(super) activation: FusedActivation,
}

impl Sliding {
    /// Over `image`, which gives `channels` at each place; states the shape of output 0.
    pub(super) fn new(
        op: &mut OpBuilder<'_>,
        image: Image,
        window: &Window,
        filter_h: usize,
        filter_w: usize,
        channels: usize,
        activation: FusedActivation,
    ) -> Lowered<Self> {
        let (vertical, horizontal) = window.axes(&image, filter_h, filter_w)?;
        let extents = [image.batches, vertical.output, horizontal.output, channels];
        let output = Image::new(extents, image.is_nchw());
        op.set_output(0, output.shape()?)?;
        let whole = Self { input: image, output, vertical, horizontal, activation };
        let within = op.border().and_then(|sides| whole.within(sides));
        if within.is_some() {
            op.read_within_border();
        }
        Ok(within.unwrap_or(whole).along_lines())
    }

    /// The same with height and width exchanged where images are a column of pixels, not too long
    /// to be one line for a thread: neighbours are then those of a line, which kernels take
    /// together.
    fn along_lines(self) -> Self {
        const LONGEST: usize = 256;
        let is_one = |axis: &Axis| axis.input == 1 && axis.output == 1 && axis.filter == 1;
        if !is_one(&self.horizontal) || is_one(&self.vertical) || self.input.height > LONGEST {
            return self;
        }
        let turned = |of: &Image| of.resized(of.width, of.height);
        let (vertical, horizontal) = (self.horizontal, self.vertical);
        let (input, output) = (turned(&self.input), turned(&self.output));
        Self { input, output, vertical, horizontal, ..self }
    }

    /// The same over what is within borders of zeros around the image: its own padding, which
    /// stands for zeros as well. `None` where it can't be.
    fn within(&self, sides: &[(usize, usize)]) -> Option<Self> {
        let &[(0, 0), a, b, c] = sides else { return None };
        let (rows, columns, channels) = if self.input.is_nchw() { (b, c, a) } else { (a, b, c) };
        let vertical = self.vertical.within(rows.0, rows.1)?;
        let horizontal = self.horizontal.within(columns.0, columns.1)?;
        let input = self.input.resized(vertical.input, horizontal.input);
        (channels == (0, 0)).then_some(Self { input, vertical, horizontal, ..*self })
    }

    /// Lines of output pixels, those of all batches.
    pub(super) fn lines(&self) -> usize {
        self.output.batches * self.output.height
    }

    /// The windows as kernels take them, over each input channel `repeat` times.
    pub(super) fn patches(&self, repeat: usize) -> Patches {
        let Self { input, output, vertical, horizontal, .. } = self;
        Patches {
            batches: input.batches,
            in_height: input.height,
            in_width: input.width,
            channels: input.channels * repeat,
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

    /// How the images get to kernels and back; `None` where they take them as they lie, as elements
    /// of `bytes` bytes.
    pub(super) fn staged(&self, bytes: usize, taken: usize, repeat: usize) -> Option<Staged> {
        let as_is = bytes == taken && repeat == 1 && !self.input.is_nchw();
        (!as_is).then(|| Staged::new(self.input, self.output).repeated(repeat))
    }

    /// Returns the step's label, for outputs of `channels` products at each tap.
    pub(super) fn label(&self, kernel: &'static str, channels: usize) -> Result<Label, OpError> {
        let filter = (self.vertical.filter, self.horizontal.filter);
        let (height, width) = filter;
        label(kernel, &self.input, &self.output, height, width, height * width * channels)
    }
}

/// Returns the label of a convolution's step, for windows of `filter` pixels and outputs of `taps`
/// products each.
pub(super) fn label(
    kernel: &'static str,
    input: &Image,
    output: &Image,
    filter_h: usize,
    filter_w: usize,
    taps: usize,
) -> Result<Label, OpError> {
    let (from, to) = (input.shape()?, output.shape()?);
    let products = (to.elements() as u64).saturating_mul(taps as u64);
    let shape = Words::new(move |f| write!(f, "{from:?} {filter_h}x{filter_w} {to:?}"));
    Ok(Label { kernel, form: Isa::Scalar, shape, operations: products.saturating_mul(2) })
}

/// The bias has one element per output channel.
pub(super) fn check_bias(bias: &Tensor, channels: usize) -> Result<(), OpError> {
    if bias.shape[..] == [channels] {
        return Ok(());
    }
    Err(OpError::input(2, format!("a bias of {:?} for {channels} channels", bias.shape)))
}
