//! TRANSPOSE_CONV_2D: every input pixel spreads over a window of the output.

use std::ops::Range;

use nnburst_hal::FusedActivation;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::{Precision, gemm_f32, gemm_i8};
use nnburst_kernels::tensor::quant::real_activation_range;
use nnburst_kernels::tensor::{OpError, Real, poll};

use super::Op;
use super::conv::{self, Requantise, Types, bytes, check_bias, constants, filter_extents, types};
use super::conv_taps::{self, Taps};
use super::staged::{self, AS_IS, Canvas, Staged, in_single_precision};
use super::support::Image;
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static TRANSPOSE_CONV_2D: Op = Op { lower };

/// One axis: the output position of a tap is `input * stride + tap - head`.
#[derive(Clone, Copy, Debug)]
struct Spread {
    input: usize,
    output: usize,
    filter: usize,
    stride: usize,
    head: usize,
}

impl Spread {
    /// With paddings given; the tail may be negative where it was deduced.
    fn new(
        input: usize,
        filter: usize,
        stride: usize,
        head: usize,
        tail: i64,
    ) -> Result<Self, OpError> {
        let wide = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let reach =
            wide(input - 1).checked_mul(wide(stride)).and_then(|n| n.checked_add(wide(filter)));
        let output =
            reach.and_then(|n| n.checked_sub(wide(head))).and_then(|n| n.checked_sub(tail));
        let output = output.and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0);
        let Some(output) = output else {
            let what =
                format!("{input} by strides of {stride}, padded {head} and {tail}, leave nothing");
            return Err(OpError::rule(what));
        };
        Ok(Self { input, output, filter, stride, head })
    }

    /// Paddings for an output extent that is asked for. The tail is not clamped at 0, as in the
    /// reference.
    fn deduce(filter: usize, stride: usize, output: usize, same: bool) -> (usize, i64) {
        if !same {
            return (0, 0);
        }
        let wide = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let steps = wide(output.div_ceil(stride)).saturating_sub(1);
        let total = steps.saturating_mul(wide(stride)).saturating_add(wide(filter) - wide(output));
        let head = total.max(0) / 2;
        (usize::try_from(head).unwrap_or(0), total - head)
    }

    /// Where pixels lie for an ordinary convolution to give the output.
    fn canvas(self) -> staged::Spread {
        let extent = self.output + self.filter - 1;
        staged::Spread { extent, stride: self.stride, first: self.filter - 1, origin: self.head }
    }

    /// `(tap, input position)` pairs that reach an output position, in the order of the input: that
    /// of kernels.
    fn taps(self, output: usize) -> impl Iterator<Item = (usize, usize)> {
        let padded = output + self.head;
        // Those alone that a tap of the filter brings here, however many there are.
        let first = (padded + 1).saturating_sub(self.filter).div_ceil(self.stride);
        let inputs = first..self.input.min(padded / self.stride + 1);
        inputs.map(move |input| (padded - input * self.stride, input))
    }
}

#[derive(Clone, Copy, Debug)]
struct Conv {
    input: Image,
    output: Image,
    vertical: Spread,
    horizontal: Spread,
    activation: FusedActivation,
}

/// Explicit paddings with 11 inputs; with 9 the output's shape and a padding code, of which
/// paddings are deduced. The extents that follow from the paddings count, not those asked for.
///
/// Source: NNAPI `TRANSPOSE_CONV_2D`, since HAL 1.2; signed 8-bit since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, filter, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let explicit = op.input_count() >= 11;
    let next = if explicit { 7 } else { 5 };
    let (stride_w, stride_h) = (op.extent(next, 1)?, op.extent(next + 1, 1)?);
    let activation = op.fused_activation(next + 2)?;
    let nchw = op.bool(next + 3)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let channels = image.channels;
    let [channels_out, filter_h, filter_w, _] =
        filter_extents(&filter, format_args!("{channels} channels"), |[.., c]| c == channels)?;
    check_bias(&bias, channels_out)?;
    let (rows, columns) = if explicit {
        let side = |at: usize| op.extent(at, 0);
        let [left, right, top, bottom] = [side(3)?, side(4)?, side(5)?, side(6)?];
        let wide = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        ((top, wide(bottom)), (left, wide(right)))
    } else {
        let (height, width) = wanted(op, nchw)?;
        let same = match op.i32(4)? {
            1 => true,
            2 => false,
            code => return Err(OpError::input(4, format!("{code} is no padding code")).into()),
        };
        (
            Spread::deduce(filter_h, stride_h, height, same),
            Spread::deduce(filter_w, stride_w, width, same),
        )
    };
    let vertical = Spread::new(image.height, filter_h, stride_h, rows.0, rows.1)?;
    let horizontal = Spread::new(image.width, filter_w, stride_w, columns.0, columns.1)?;
    let extents = [image.batches, vertical.output, horizontal.output, channels_out];
    let output = Image::new(extents, nchw);
    op.set_output(0, output.shape()?)?;
    let conv = Conv { input: image, output, vertical, horizontal, activation };
    match types(&input, &filter, &bias, &op.output(0)?)? {
        Types::Float32 => real::<f32>(op, conv),
        Types::Float16 => real::<half::f16>(op, conv),
        Types::Bytes => byte(op, conv),
    }
}

/// Zeros between pixels that a canvas may have for each of them: above that the plain code has less
/// to do.
const MAX_SPREAD: usize = 16;

/// With zeros between its pixels and around them, the input is that of an ordinary convolution by
/// the filter turned round: many products are by zero, but kernels are faster by more than that.
impl Conv {
    fn patches(&self) -> Option<Patches> {
        let Self { input, output, vertical, horizontal, .. } = self;
        let (filter_h, filter_w) = (vertical.filter, horizontal.filter);
        (vertical.stride.checked_mul(horizontal.stride)? <= MAX_SPREAD).then_some(Patches {
            batches: input.batches,
            in_height: vertical.canvas().extent,
            in_width: horizontal.canvas().extent,
            channels: input.channels,
            out_height: output.height,
            out_width: output.width,
            filter_h,
            filter_w,
            stride_h: 1,
            stride_w: 1,
            dilation_h: 1,
            dilation_w: 1,
            top: 0,
            left: 0,
        })
    }

    fn staged(&self, zero: u8) -> Staged {
        let (rows, columns) = (self.vertical.canvas(), self.horizontal.canvas());
        Staged::new(self.input, self.output).over(Canvas { rows, columns, zero })
    }

    /// The filter with its taps in the opposite order.
    fn turned<T: Copy>(&self, filter: &[T]) -> Vec<T> {
        let channels = self.input.channels;
        let taps = self.vertical.filter * self.horizontal.filter;
        let filters = filter.chunks_exact(taps * channels);
        filters.flat_map(|filter| filter.rchunks_exact(channels).flatten().copied()).collect()
    }
}

fn real<T: Real>(op: &mut OpBuilder<'_>, conv: Conv) -> Lowered {
    let gemm = constants(op).zip(conv.patches()).and_then(|((filter, bias), patches)| {
        let filter = conv.turned(&T::widened(filter.typed()));
        let range = real_activation_range(conv.activation);
        let bias = T::widened(bias.typed());
        gemm_f32::Gemm::new(op.isa(), Precision::Single, patches, &filter, &bias, range)
    });
    // A zero between pixels must make nothing of any weight.
    let gemm = gemm.filter(gemm_f32::Gemm::is_finite);
    let Some(gemm) = gemm else { return conv_taps::real::<T>(op, conv) };
    op.absorb(1);
    let label = Label { kernel: "gemm_f32", form: gemm.isa(), ..conv.label()? };
    conv.staged(0).convolve(op, label, in_single_precision::<T>(), gemm);
    Ok(())
}

fn byte(op: &mut OpBuilder<'_>, conv: Conv) -> Lowered {
    let requantise = Requantise::new(op, 0, conv.activation)?;
    let input = op.input(0)?;
    let gemm = constants(op).zip(conv.patches()).and_then(|((filter, bias), patches)| {
        let weights = op.input(1).ok()?;
        let filter = conv.turned(filter.as_slice());
        let weights = gemm_i8::Weights { values: &filter[..], bytes: bytes(&weights) };
        let scaling = requantise.scaling(conv.output.channels);
        let bias = bias.typed();
        gemm_i8::Gemm::new(op.isa(), patches, bytes(&input), weights, bias, scaling)
    });
    let Some(gemm) = gemm else { return conv_taps::byte(op, conv) };
    op.absorb(1);
    let label = Label { kernel: "gemm_i8", form: gemm.isa(), ..conv.label()? };
    let zero = input.zero_point.to_le_bytes()[0];
    conv.staged(zero).convolve(op, label, AS_IS, gemm);
    Ok(())
}

/// Height and width of the output shape asked for, in the layout of the operation.
fn wanted(op: &OpBuilder<'_>, nchw: bool) -> Lowered<(usize, usize)> {
    let shape = op.i32s(3)?;
    let extents: Vec<usize> = shape.iter().filter_map(|&n| usize::try_from(n).ok()).collect();
    match extents[..] {
        [_, _, height, width] if nchw => Ok((height, width)),
        [_, height, width, _] => Ok((height, width)),
        _ => Err(OpError::input(3, format!("{shape:?} is no shape of four extents")).into()),
    }
}

impl Taps for Conv {
    fn lines(&self) -> usize {
        self.output.batches * self.output.height
    }

    fn each(
        &self,
        lines: Range<usize>,
        mut each: impl FnMut(usize, usize, &mut dyn Iterator<Item = (usize, usize)>),
    ) {
        let Self { input, output, vertical, horizontal, .. } = *self;
        let channels = input.channels;
        for (n, y) in lines.map(|line| (line / output.height, line % output.height)) {
            for x in poll::each(0..output.width, 8) {
                for o in poll::each(0..output.channels, 16) {
                    let first = o * vertical.filter * horizontal.filter;
                    let mut taps = vertical.taps(y).flat_map(|(i, row)| {
                        horizontal.taps(x).flat_map(move |(j, column)| {
                            let weight = (first + i * horizontal.filter + j) * channels;
                            (0..channels).map(move |c| (input.at(n, row, column, c), weight + c))
                        })
                    });
                    each(output.at(n, y, x, o), o, &mut taps);
                }
            }
        }
    }

    /// An output meets one in stride of the taps along each axis.
    fn label(&self) -> Result<Label, OpError> {
        let filter = (self.vertical.filter, self.horizontal.filter);
        let taps = filter.0 * filter.1 * self.input.channels;
        let met = taps.div_ceil(self.vertical.stride * self.horizontal.stride);
        conv::label("transpose_conv_2d", &self.input, &self.output, filter.0, filter.1, met)
    }

    fn activation(&self) -> FusedActivation {
        self.activation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_those_that_spread_to_the_position() {
        let spread = Spread::new(3, 3, 2, 1, 0).unwrap();
        assert_eq!(spread.output, 6);
        for output in 0..6 {
            let want: Vec<_> = (0..3)
                .flat_map(|input| (0..3).map(move |tap| (tap, input)))
                .filter(|&(tap, input)| input * 2 + tap == output + 1)
                .collect();
            assert_eq!(spread.taps(output).collect::<Vec<_>>(), want, "output {output}");
        }
    }

    #[test]
    fn deduced_tails_may_be_negative() {
        // Stride 3 above filter 1: the last two positions of 6 are reached by no tap.
        assert_eq!(Spread::deduce(1, 3, 6, true), (0, -2));
        assert_eq!(Spread::new(2, 1, 3, 0, -2).unwrap().output, 6);
    }
}
