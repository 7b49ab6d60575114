//! GROUPED_CONV_2D: each group of output channels reads its own group of input channels.

use std::borrow::Cow;
use std::ops::Range;

use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::lines::Convolution;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::{Precision, gemm_f32, gemm_i8};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::quant::real_activation_range;
use nnburst_kernels::tensor::rows::{Apart, Piece, Rows};
use nnburst_kernels::tensor::{Element, In, OpError, Out, Real, poll};

use super::Op;
use super::conv::{
    Requantise, Sliding, Types, bytes, check_bias, constants, filter_extents, types,
};
use super::conv_taps::{self, Taps};
use super::depthwise_conv_2d::DepthwiseConv;
use super::staged::{AS_IS, MAX_GROUPS, Staged, in_single_precision};
use super::support::{Image, Window};
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static GROUPED_CONV_2D: Op = Op { lower };

#[derive(Clone, Copy, Debug)]
struct Conv {
    sliding: Sliding,
    /// Input channels of a group, and output channels of one.
    group_in: usize,
    group_out: usize,
    /// The input channels that an output channel has weights for.
    weighed: usize,
}

/// Output channels that a product of matrices of bytes takes as long for as for fewer.
const FULL: usize = 32;

/// Explicit paddings with 12 inputs, implicit with 9; the layout flag is mandatory, dilation
/// unknown.
///
/// Source: NNAPI `GROUPED_CONV_2D`, since HAL 1.2; signed 8-bit since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, filter, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let (window, next) = Window::read(op, 3, op.input_count() >= 12)?;
    let groups = op.extent(next, 1)?;
    let activation = op.fused_activation(next + 1)?;
    let nchw = op.bool(next + 2)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let wanted = format_args!("{} channels in {groups} groups", image.channels);
    let [channels_out, filter_h, filter_w, group_in] =
        filter_extents(&filter, wanted, |[out, _, _, own]| {
            own.checked_mul(groups) == Some(image.channels) && out.is_multiple_of(groups)
        })?;
    check_bias(&bias, channels_out)?;
    let sliding = Sliding::new(op, image, &window, filter_h, filter_w, channels_out, activation)?;
    let group_out = channels_out / groups;
    let conv = Conv { sliding, group_in, group_out, weighed: group_in };
    match types(&input, &filter, &bias, &op.output(0)?)? {
        Types::Float32 => real::<f32>(op, conv),
        Types::Float16 => real::<half::f16>(op, conv),
        Types::Bytes => byte(op, conv),
    }
}

impl Conv {
    fn groups(&self) -> usize {
        self.sliding.output.channels / self.group_out
    }

    /// The same in fewer groups, of as many as are full together, with weights of 0 for each
    /// other's channels. (Of floats no 0 is safe: its product with infinity is no number.)
    fn together(self) -> Self {
        let (groups, most) = (self.groups(), (FULL / self.group_out).max(1));
        let of_one = (1..=most).rev().find(|count| groups.is_multiple_of(*count)).unwrap_or(1);
        let Self { group_in, group_out, .. } = self;
        Self { group_in: group_in * of_one, group_out: group_out * of_one, ..self }
    }

    /// The filters of such groups, of those as they are given, and `zero` for a weight of 0.
    fn filters<'a>(&self, filters: &'a [u8], zero: u8) -> Cow<'a, [u8]> {
        let Self { group_in, group_out, weighed, .. } = *self;
        if group_in == weighed {
            return filters.into();
        }
        let pixels = self.sliding.vertical.filter * self.sliding.horizontal.filter;
        let mut wide = vec![zero; filters.len() / weighed * group_in];
        let own = group_out * weighed / group_in;
        let channels = wide.chunks_exact_mut(pixels * group_in);
        for (channel, (to, from)) in
            channels.zip(filters.chunks_exact(pixels * weighed)).enumerate()
        {
            let first = channel % group_out / own * weighed;
            let pixels = to.chunks_exact_mut(group_in).zip(from.chunks_exact(weighed));
            pixels.for_each(|(to, from)| to[first..first + weighed].copy_from_slice(from));
        }
        wide.into()
    }

    /// The windows of one group, if there aren't too many.
    fn patches(&self) -> Option<Patches> {
        let channels = self.group_in;
        (self.groups() <= MAX_GROUPS).then(|| Patches { channels, ..self.sliding.patches(1) })
    }

    /// The depthwise convolution that it is where each group reads one channel.
    fn depthwise(&self) -> Option<DepthwiseConv> {
        let Self { sliding, group_in, group_out, .. } = *self;
        (group_in == 1).then_some(DepthwiseConv { sliding, multiplier: group_out })
    }

    fn label_of_group(&self) -> Result<Label, OpError> {
        let mut label = self.label()?;
        label.operations /= self.groups() as u64;
        Ok(label)
    }

    /// Adds the step of all groups, each of which reads and writes its channels of the pixels where
    /// they lie.
    fn where_they_lie<C: Convolution + 'static>(
        self,
        op: &mut OpBuilder<'_>,
        kernel: &'static str,
        isa: fn(&C) -> Isa,
        groups: Vec<C>,
    ) -> Lowered {
        let Some(first) = groups.first() else { return Ok(()) };
        let label = Label { kernel, form: isa(first), ..self.label()? };
        let (scratch_bytes, lines) = (first.scratch_bytes(), first.patches().lines());
        let Self { sliding: Sliding { input, output, .. }, group_in, group_out, .. } = self;
        op.emit_bands(label, scratch_bytes, lines, move |mut io, lines| {
            let (image, to) = (io.input::<C::Element>(0), io.output::<C::Element>(0));
            let scratch = io.scratch_slice();
            for (group, gemm) in groups.iter().enumerate() {
                let image = channels_of(image, input.channels, group * group_in, group_in);
                let to = channels_of(to, output.channels, group * group_out, group_out);
                gemm.compute(image, to, lines.clone(), scratch)?;
            }
            Ok(())
        });
        Ok(())
    }

    fn staged(&self, group: usize) -> Staged {
        let Sliding { input, output, .. } = self.sliding;
        Staged::new(input, output).group(group, self.group_in, self.group_out)
    }
}

/// Some channels of pixels that have `all`: `count` from the one `first` on.
pub(super) fn channels_of<P: ElementPiece>(
    pixels: P,
    all: usize,
    first: usize,
    count: usize,
) -> Rows<P> {
    let end = pixels.len().saturating_sub(all.saturating_sub(first + count));
    let apart = Apart { row: count * P::SIZE, pitch: all * P::SIZE };
    Rows::new(pixels.slice(first.min(end)..end), apart, P::SIZE)
}

/// A piece of elements of so many bytes.
pub(super) trait ElementPiece: Piece {
    const SIZE: usize;
}

impl<T: Element> ElementPiece for In<'_, T> {
    const SIZE: usize = size_of::<T>();
}

impl<T: Element> ElementPiece for Out<'_, T> {
    const SIZE: usize = size_of::<T>();
}

/// The filters of single channels, which lie one behind the other, pixel by pixel.
fn by_pixels<T: Copy>(filters: &[T], channels: usize) -> Vec<T> {
    let pixels = filters.len().checked_div(channels).unwrap_or(0);
    let of_pixel = |pixel| filters.iter().skip(pixel).step_by(pixels).copied();
    (0..pixels).flat_map(of_pixel).collect()
}

fn real<T: Real>(op: &mut OpBuilder<'_>, conv: Conv) -> Lowered {
    if let (Some(depthwise), Some((filter, bias))) = (conv.depthwise(), constants(op)) {
        let filter = by_pixels(&T::widened(filter.typed()), conv.sliding.output.channels);
        if depthwise.real::<T>(op, &filter, &T::widened(bias.typed()))? {
            return Ok(());
        }
    }
    let gemms = constants(op).zip(conv.patches()).and_then(|((filter, bias), patches)| {
        let (filter, bias) = (T::widened(filter.typed()), T::widened(bias.typed()));
        let range = real_activation_range(conv.sliding.activation);
        let groups = filter.chunks_exact(patches.depth() * conv.group_out);
        let gemm = |(filter, bias): (&[f32], &[f32])| {
            gemm_f32::Gemm::new(op.isa(), Precision::Single, patches, filter, bias, range)
        };
        groups.zip(bias.chunks_exact(conv.group_out)).map(gemm).collect::<Option<Vec<_>>>()
    });
    let Some(gemms) = gemms else { return conv_taps::real::<T>(op, conv) };
    op.absorb(1);
    if op.input_kind(0)? == OperandType::TensorFloat32 && !conv.sliding.input.is_nchw() {
        return conv.where_they_lie(op, "gemm_f32", gemm_f32::Gemm::isa, gemms);
    }
    for (group, gemm) in gemms.into_iter().enumerate() {
        let label = Label { kernel: "gemm_f32", form: gemm.isa(), ..conv.label_of_group()? };
        conv.staged(group).convolve(op, label, in_single_precision::<T>(), gemm);
    }
    Ok(())
}

fn byte(op: &mut OpBuilder<'_>, conv: Conv) -> Lowered {
    let requantise = Requantise::new(op, 0, conv.sliding.activation)?;
    if let (Some(depthwise), Some((filter, bias))) = (conv.depthwise(), constants(op)) {
        let filter = by_pixels(filter.as_slice(), conv.sliding.output.channels);
        if depthwise.bytes(op, &requantise, &filter, bias.typed())? {
            return Ok(());
        }
    }
    let together = conv.together();
    let gemms = constants(op).zip(together.patches()).and_then(|((filter, bias), patches)| {
        let (input, weights) = (op.input(0).ok()?, op.input(1).ok()?);
        let zero = weights.zero_point.to_le_bytes()[0];
        let filters = together.filters(filter.as_slice(), zero);
        let filters = filters.chunks_exact(patches.depth() * together.group_out);
        let biases = bias.typed().chunks_exact(together.group_out);
        let gemm = |(group, (filter, bias)): (usize, (&[u8], &[i32]))| {
            let scaling = requantise.scaling_of_group(group, together.group_out);
            let weights = gemm_i8::Weights { values: filter, bytes: bytes(&weights) };
            gemm_i8::Gemm::new(op.isa(), patches, bytes(&input), weights, bias, scaling)
        };
        filters.zip(biases).enumerate().map(gemm).collect::<Option<Vec<_>>>()
    });
    let Some(gemms) = gemms else { return conv_taps::byte(op, conv) };
    let conv = together;
    op.absorb(1);
    // Kernels of two windows at a time write as many channels, one behind the other.
    let by_windows = gemms.iter().all(|gemm| gemm.channels() == conv.group_out);
    if by_windows && !conv.sliding.input.is_nchw() {
        return conv.where_they_lie(op, "gemm_i8", gemm_i8::Gemm::isa, gemms);
    }
    for (group, gemm) in gemms.into_iter().enumerate() {
        let label = Label { kernel: "gemm_i8", form: gemm.isa(), ..conv.label_of_group()? };
        conv.staged(group).convolve(op, label, AS_IS, gemm);
    }
    Ok(())
}

impl Taps for Conv {
    fn lines(&self) -> usize {
        self.sliding.lines()
    }

    fn each(
        &self,
        lines: Range<usize>,
        mut each: impl FnMut(usize, usize, &mut dyn Iterator<Item = (usize, usize)>),
    ) {
        let Sliding { input, output, vertical, horizontal, .. } = self.sliding;
        let group_in = self.group_in;
        for (n, y) in lines.map(|line| (line / output.height, line % output.height)) {
            for x in poll::each(0..output.width, 8) {
                for o in poll::each(0..output.channels, 16) {
                    let first_channel = o / self.group_out * group_in;
                    let first = o * vertical.filter * horizontal.filter;
                    let mut taps = vertical.taps(y).flat_map(|(i, row)| {
                        horizontal.taps(x).flat_map(move |(j, column)| {
                            let weight = (first + i * horizontal.filter + j) * group_in;
                            (0..group_in).map(move |c| {
                                (input.at(n, row, column, first_channel + c), weight + c)
                            })
                        })
                    });
                    each(output.at(n, y, x, o), o, &mut taps);
                }
            }
        }
    }

    fn label(&self) -> Result<Label, OpError> {
        self.sliding.label("grouped_conv_2d", self.weighed)
    }

    fn activation(&self) -> FusedActivation {
        self.sliding.activation
    }
}
