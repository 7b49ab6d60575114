//! TRANSPOSE_CONV_2D: every input pixel spreads over a window of the output.

use std::ops::Range;

use nnburst_hal::FusedActivation;
use nnburst_kernels::kernels::lines::Convolution;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::{Precision, gemm_f32, gemm_i8};
use nnburst_kernels::tensor::quant::{clamp_real, real_activation_range};
use nnburst_kernels::tensor::{Element, OpError, Out, Real, poll};

use super::Op;
use super::conv::{
    self, Requantise, Sliding, Types, bytes, check_bias, constants, filter_extents, types,
};
use super::conv_taps::{self, Taps};
use super::staged::{self, AS_IS, Convert, Staged, Tiled, in_single_precision};
use super::support::{Axis, Image};
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static TRANSPOSE_CONV_2D: Op = Op { lower };

/// One axis: the output position of a tap is `input * stride + tap - head`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransposedAxis {
    input: usize,
    pub(super) output: usize,
    filter: usize,
    stride: usize,
    head: usize,
}

impl TransposedAxis {
    /// With paddings given; the tail may be negative where it was deduced.
    ///
    /// # Errors
    /// They leave nothing.
    pub(super) fn new(
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

    /// The tiles of a stride of outputs, and where the input lies for ordinary convolutions to give
    /// them. They are cut where the filter's taps end: the outputs behind meet one tap less.
    fn tiles(self) -> staged::Tiles {
        let (first, reach) = (self.head / self.stride, self.filter.div_ceil(self.stride) - 1);
        let count = (self.head + self.output - 1) / self.stride + 1 - first;
        staged::Tiles {
            extent: count + reach,
            first: reach,
            origin: first,
            count,
            size: self.stride,
            cut: match self.filter % self.stride {
                0 => self.stride,
                more => more,
            },
            head: self.head % self.stride,
        }
    }

    /// The parts of a tile.
    fn parts(self) -> impl Iterator<Item = Part> {
        let (cut, window) = (self.tiles().cut, self.filter.div_ceil(self.stride));
        let whole = Part { place: 0, places: cut, window, shift: 0, stride: self.stride };
        let rest =
            Part { place: cut, places: self.stride - cut, window: window - 1, shift: 1, ..whole };
        [whole, rest].into_iter().filter(|part| part.places > 0)
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

/// Outputs of a tile that meet as many taps, along one axis.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The first of them, and how many.
    place: usize,
    places: usize,
    /// Pixels of the input that each meets, and the first of these among those of the tile.
    window: usize,
    shift: usize,
    stride: usize,
}

impl Part {
    /// The tap of the filter by which a place of the part meets a pixel of the window.
    fn tap(self, place: usize, pixel: usize) -> usize {
        self.place + place + (self.window - 1 - pixel) * self.stride
    }
}

/// A transposed convolution of input 0 by the filters of input 1, `[outputs, h, w, inputs]`, with
/// the bias of input 2.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransposeConv {
    pub(super) input: Image,
    pub(super) output: Image,
    pub(super) vertical: TransposedAxis,
    pub(super) horizontal: TransposedAxis,
    pub(super) activation: FusedActivation,
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
            TransposedAxis::deduce(filter_h, stride_h, height, same),
            TransposedAxis::deduce(filter_w, stride_w, width, same),
        )
    };
    let vertical = TransposedAxis::new(image.height, filter_h, stride_h, rows.0, rows.1)?;
    let horizontal = TransposedAxis::new(image.width, filter_w, stride_w, columns.0, columns.1)?;
    let extents = [image.batches, vertical.output, horizontal.output, channels_out];
    let output = Image::new(extents, nchw);
    op.set_output(0, output.shape()?)?;
    let conv = TransposeConv { input: image, output, vertical, horizontal, activation };
    match types(&input, &filter, &bias, &op.output(0)?)? {
        Types::Float32 => real::<f32>(op, conv),
        Types::Float16 => real::<half::f16>(op, conv),
        Types::Bytes => byte(op, conv),
    }
}

/// Outputs that a tile may have, and so many where it is larger than the result.
const MAX_TILE: usize = 1 << 10;
const SMALL_TILE: usize = 16;

/// What makes the outputs of a part.
#[derive(Debug)]
enum Maker<C: Convolution> {
    Convolution(C),
    /// They meet no tap: the values of a pixel's channels.
    Repeated(Vec<C::Element>),
}

/// Outputs that lie a stride apart meet the same taps. The tile of a stride of them both ways is
/// one pixel of ordinary convolutions, that have a channel for each output of a part of it, by the
/// filter's taps turned round.
impl TransposeConv {
    /// The tiles, on a border of bytes that are `zero`.
    pub(super) fn tiled(&self, zero: u8) -> Tiled {
        Tiled { rows: self.vertical.tiles(), columns: self.horizontal.tiles(), zero }
    }

    /// The parts of a tile; `None` where it has many outputs.
    pub(super) fn parts(&self) -> Option<Vec<TilePart>> {
        let Self { vertical, horizontal, .. } = *self;
        let is_within = [vertical, horizontal].iter().all(|axis| axis.stride <= axis.output);
        let most = if is_within { MAX_TILE } else { SMALL_TILE };
        if vertical.stride.checked_mul(horizontal.stride)? > most {
            return None;
        }
        let parts = vertical.parts().flat_map(|rows| {
            horizontal.parts().map(move |columns| TilePart { conv: *self, rows, columns })
        });
        Some(parts.collect())
    }

    /// With strides of 1, the ordinary convolution that gives the same, by the filters of the only
    /// part of a tile. `None` where some of its windows would be over nothing of the input.
    fn sliding(&self) -> Option<(TilePart, Sliding)> {
        let Self { input, output, vertical, horizontal, activation } = *self;
        let axis = |it: TransposedAxis| {
            let TransposedAxis { input, output, filter, stride, head } = it;
            let head = (filter - 1).checked_sub(head).filter(|_| stride == 1)?;
            Axis { input, output, filter, stride, dilation: 1, head }.within(0, 0)
        };
        let (vertical, horizontal) = (axis(vertical)?, axis(horizontal)?);
        let sliding = Sliding { input, output, vertical, horizontal, activation };
        self.parts()?.first().map(|part| (*part, sliding))
    }

    /// Adds a step that computes the parts one behind the other.
    fn emit<T: Element, C: Convolution + 'static>(
        &self,
        op: &mut OpBuilder<'_>,
        label: Label,
        convert: Convert<T, C::Element>,
        packed: Vec<(TilePart, Maker<C>)>,
        zero: u8,
    ) {
        let tiled = self.tiled(zero);
        let scratch_bytes = packed.iter().map(|(_, it)| it.scratch_bytes()).max().unwrap_or(0);
        let staged = Staged::new(self.input, self.output).tiled(tiled);
        staged.emit(op, label, scratch_bytes, convert, move |image, product, scratch| {
            for (part, packed) in &packed {
                let product = product.slice(part.first_of_product()..product.len());
                match packed {
                    Maker::Convolution(packed) => {
                        let image = image.slice(part.first_of_image()..image.len());
                        let lines = 0..packed.patches().lines();
                        packed.compute(image, product, lines, &mut *scratch)?;
                    }
                    Maker::Repeated(pixel) => part.repeat(|channel| pixel[channel], product),
                }
            }
            Ok(())
        });
    }
}

impl<C: Convolution> Maker<C> {
    fn convolution(&self) -> Option<&C> {
        match self {
            Self::Convolution(packed) => Some(packed),
            Self::Repeated(_) => None,
        }
    }

    fn scratch_bytes(&self) -> usize {
        self.convolution().map_or(0, C::scratch_bytes)
    }
}

/// The part of each tile that one ordinary convolution gives, or the bias alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct TilePart {
    conv: TransposeConv,
    rows: Part,
    columns: Part,
}

impl TilePart {
    /// Outputs of the part.
    pub(super) fn places(&self) -> usize {
        self.rows.places * self.columns.places
    }

    /// Returns whether outputs of the part meet taps; else none does.
    pub(super) fn meets_taps(&self) -> bool {
        self.rows.window > 0 && self.columns.window > 0
    }

    /// Where the part's image begins on that with the border.
    pub(super) fn first_of_image(&self) -> usize {
        let width = self.conv.horizontal.tiles().extent;
        (self.rows.shift * width + self.columns.shift) * self.conv.input.channels
    }

    /// Where its outputs begin among those of all parts.
    pub(super) fn first_of_product(&self) -> usize {
        let Image { batches, channels, .. } = self.conv.output;
        let places = [self.rows.place, self.columns.place];
        self.conv.tiled(0).first_of_part(batches, places) * channels
    }

    /// Gives all its outputs the channels of one pixel.
    pub(super) fn repeat<T: Element>(&self, pixel: impl Fn(usize) -> T, product: Out<'_, T>) {
        let channels = self.conv.output.channels;
        for at in poll::each(0..self.patches().rows() * self.places(), 4 + channels / 4) {
            product.slice(at * channels..(at + 1) * channels).fill((0..channels).map(&pixel));
        }
    }

    pub(super) fn patches(&self) -> Patches {
        let TransposeConv { input, vertical, horizontal, .. } = self.conv;
        let (rows, columns) = (vertical.tiles(), horizontal.tiles());
        Patches {
            batches: input.batches,
            in_height: rows.extent,
            in_width: columns.extent,
            channels: input.channels,
            out_height: rows.count,
            out_width: columns.count,
            filter_h: self.rows.window,
            filter_w: self.columns.window,
            stride_h: 1,
            stride_w: 1,
            dilation_h: 1,
            dilation_w: 1,
            top: 0,
            left: 0,
        }
    }

    /// The filters of the part's outputs.
    pub(super) fn filters<T: Copy>(&self, filter: &[T]) -> Vec<T> {
        let TransposeConv { input, vertical, horizontal, .. } = self.conv;
        let channels = input.channels;
        let own = vertical.filter * horizontal.filter * channels;
        let mut filters = Vec::new();
        for (y, x) in grid(self.rows.places, self.columns.places) {
            for filter in filter.chunks_exact(own) {
                for (row, column) in grid(self.rows.window, self.columns.window) {
                    let (row, column) = (self.rows.tap(y, row), self.columns.tap(x, column));
                    let at = (row * horizontal.filter + column) * channels;
                    filters.extend(&filter[at..at + channels]);
                }
            }
        }
        filters
    }
}

/// Places of a grid, line by line.
fn grid(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

impl TransposeConv {
    /// Adds the step for real numbers.
    ///
    /// # Errors
    /// The operands don't fit.
    pub(super) fn emit_real<T: Real>(self, op: &mut OpBuilder<'_>) -> Lowered {
        real::<T>(op, self)
    }
}

fn real<T: Real>(op: &mut OpBuilder<'_>, conv: TransposeConv) -> Lowered {
    let range = real_activation_range(conv.activation);
    let slides = conv.sliding().zip(constants(op)).and_then(|((part, sliding), (filter, bias))| {
        let filter = part.filters(&T::widened(filter.typed()));
        let (patches, bias) = (sliding.patches(1), T::widened(bias.typed()));
        let gemm =
            gemm_f32::Gemm::new(op.isa(), Precision::Single, patches, &filter, &bias, range)?;
        Some((sliding.staged(size_of::<T>(), size_of::<f32>(), 1), gemm))
    });
    if let Some((staged, gemm)) = slides {
        op.absorb(1);
        let label = Label { kernel: "gemm_f32", form: gemm.isa(), ..conv.label()? };
        staged::convolve(op, label, staged, in_single_precision::<T>(), gemm);
        return Ok(());
    }
    let packed = constants(op).zip(conv.parts()).and_then(|((filter, bias), parts)| {
        let filter = T::widened(filter.typed());
        let bias = T::widened(bias.typed());
        let pack = |part: TilePart| {
            if !part.meets_taps() {
                let pixel = bias.iter().map(|&x| clamp_real(x, range.0, range.1)).collect();
                return Some((part, Maker::Repeated(pixel)));
            }
            let (filters, bias) = (part.filters(&filter), bias.repeat(part.places()));
            let (isa, patches) = (op.isa(), part.patches());
            let gemm =
                gemm_f32::Gemm::new(isa, Precision::Single, patches, &filters, &bias, range)?;
            // A zero of the border must make nothing of any weight.
            gemm.is_finite().then_some((part, Maker::Convolution(gemm)))
        };
        parts.into_iter().map(pack).collect::<Option<Vec<_>>>()
    });
    let Some(packed) = packed else { return conv_taps::real::<T>(op, conv) };
    op.absorb(1);
    let form = packed.iter().find_map(|(_, it)| it.convolution().map(gemm_f32::Gemm::isa));
    let form = form.unwrap_or_else(|| op.isa());
    let label = Label { kernel: "gemm_f32", form, ..conv.label()? };
    conv.emit(op, label, in_single_precision::<T>(), packed, 0);
    Ok(())
}

fn byte(op: &mut OpBuilder<'_>, conv: TransposeConv) -> Lowered {
    let requantise = Requantise::new(op, 0, conv.activation)?;
    let input = op.input(0)?;
    let slides = conv.sliding().zip(constants(op)).and_then(|((part, sliding), (filter, bias))| {
        let filters = part.filters(filter.as_slice());
        let weights = gemm_i8::Weights { values: &filters, bytes: bytes(&op.input(1).ok()?) };
        let scaling = requantise.scaling(conv.output.channels);
        let (patches, bias) = (sliding.patches(1), bias.typed());
        let gemm = gemm_i8::Gemm::new(op.isa(), patches, bytes(&input), weights, bias, scaling)?;
        Some((sliding.staged(1, 1, 1), gemm))
    });
    if let Some((staged, gemm)) = slides {
        op.absorb(1);
        let label = Label { kernel: "gemm_i8", form: gemm.isa(), ..conv.label()? };
        staged::convolve(op, label, staged, AS_IS, gemm);
        return Ok(());
    }
    let packed = constants(op).zip(conv.parts()).and_then(|((filter, bias), parts)| {
        let weights = op.input(1).ok()?;
        let bias = bias.typed::<i32>();
        let pack = |part: TilePart| {
            if !part.meets_taps() {
                let own = bias.iter().enumerate().map(|(o, &sum)| requantise.apply(sum, o));
                return Some((part, Maker::Repeated(own.collect())));
            }
            let filters = part.filters(filter.as_slice());
            let weights = gemm_i8::Weights { values: &filters[..], bytes: bytes(&weights) };
            let scaling = requantise.scaling_of_tiles(part.places(), conv.output.channels);
            let (bias, patches) = (bias.repeat(part.places()), part.patches());
            let gemm =
                gemm_i8::Gemm::new(op.isa(), patches, bytes(&input), weights, &bias, scaling)?;
            Some((part, Maker::Convolution(gemm)))
        };
        parts.into_iter().map(pack).collect::<Option<Vec<_>>>()
    });
    let Some(packed) = packed else { return conv_taps::byte(op, conv) };
    op.absorb(1);
    let form = packed.iter().find_map(|(_, it)| it.convolution().map(gemm_i8::Gemm::isa));
    let form = form.unwrap_or_else(|| op.isa());
    let label = Label { kernel: "gemm_i8", form, ..conv.label()? };
    conv.emit(op, label, AS_IS, packed, input.zero_point.to_le_bytes()[0]);
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

impl Taps for TransposeConv {
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
        let spread = TransposedAxis::new(3, 3, 2, 1, 0).unwrap();
        assert_eq!(spread.output, 6);
        for output in 0..6 {
            let want: Vec<_> = (0..3)
                .flat_map(|input| (0..3).map(move |tap| (tap, input)))
                .filter(|&(tap, input)| input * 2 + tap == output + 1)
                .collect();
            assert_eq!(spread.taps(output).collect::<Vec<_>>(), want, "output {output}");
        }
    }

    /// An output meets in its tile's window what spreads to it, and nothing else.
    #[test]
    fn tiles_meet_the_taps_of_their_outputs() {
        for (filter, stride) in grid(6, 5).map(|(filter, stride)| (filter + 1, stride + 1)) {
            for (input, head) in grid(5, filter).map(|(input, head)| (input + 1, head)) {
                for tail in [-1, 0, 2] {
                    let spread = TransposedAxis::new(input, filter, stride, head, tail);
                    let Ok(spread) = spread else { continue };
                    let tiles = spread.tiles();
                    for output in 0..spread.output {
                        let at = output + tiles.head;
                        let (tile, place) = (at / tiles.size, at % tiles.size);
                        assert!(tile < tiles.count);
                        let is_of =
                            |part: &Part| (part.place..part.place + part.places).contains(&place);
                        let part = spread.parts().find(is_of).unwrap();
                        let pixel = |pixel: usize| {
                            let tap = part.tap(place - part.place, pixel);
                            let place = tile + part.shift + pixel + tiles.origin;
                            let input = place.checked_sub(tiles.first)?;
                            (input < spread.input).then_some((tap, input))
                        };
                        let got: Vec<_> = (0..part.window).filter_map(pixel).collect();
                        let want: Vec<_> = spread.taps(output).collect();
                        assert_eq!(got, want, "output {output} of {spread:?}");
                        assert!(tiles.extent >= tile + part.shift + part.window);
                    }
                }
            }
        }
    }

    #[test]
    fn deduced_tails_may_be_negative() {
        // Stride 3 above filter 1: the last two positions of 6 are reached by no tap.
        assert_eq!(TransposedAxis::deduce(1, 3, 6, true), (0, -2));
        assert_eq!(TransposedAxis::new(2, 1, 3, 0, -2).unwrap().output, 6);
    }
}
