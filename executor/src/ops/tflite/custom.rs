//! Custom operators of MediaPipe and of TFLite's perception kernels, FLOAT32 alone.

use nnburst_hal::FusedActivation;
use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall, refused};
use super::conv::{ConvWindows, padding};
use super::math::{cut_i32, f32_of, low};
use crate::lowering::Lowered;
use crate::ops::support::{Image, Padding};
use crate::ops::transpose_conv_2d::{TransposeConv, TransposedAxis};

/// The extents of an image or of a filter of FLOAT32.
fn extents(index: usize, arg: &Arg) -> Result<[usize; 4], OpError> {
    if arg.kind != ElementKind::F32 {
        return Err(refused(index, arg.kind));
    }
    let extents = arg.shape[..].try_into();
    extents.map_err(|_| OpError::input(index, format!("is of {:?}, not of rank 4", arg.shape)))
}

/// CONVOLUTION_2D_TRANSPOSE_BIAS: images `[n, h, w, inputs]`, filters `[outputs, h, w, inputs]`,
/// biases.
pub(super) fn transpose_conv_bias(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let [batches, in_h, in_w, channels] = extents(0, &call.arg(0)?)?;
    let [outputs, filter_h, filter_w, own] = extents(1, &call.arg(1)?)?;
    let bias = call.arg(2)?;
    if bias.kind != ElementKind::F32 || bias.shape.elements() != outputs || own != channels {
        let what = format!("{own} by {outputs} channels, a bias of {:?}", bias.shape);
        return Err(OpError::rule(format!("{what} on {channels}")).into());
    }
    if [in_h, in_w, channels, outputs, filter_h, filter_w].contains(&0) {
        return Err(OpError::rule("an image or a filter is empty").into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    let padding = padding(call)?;
    let (stride_w, stride_h) = (call.count(1, 1)?, call.count(2, 1)?);
    let vertical = transposed_axis(in_h, filter_h, stride_h, padding)?;
    let horizontal = transposed_axis(in_w, filter_w, stride_w, padding)?;
    let extents = [batches, vertical.output, horizontal.output, outputs];
    call.set(0, &extents)?;
    let input = Image::new([batches, in_h, in_w, channels], false);
    let output = Image::new(extents, false);
    let activation = FusedActivation::None;
    TransposeConv { input, output, vertical, horizontal, activation }.emit_real::<f32>(call)
}

/// One axis: with the padding SAME as much is cut off as an ordinary convolution of the result
/// pads.
fn transposed_axis(
    count: usize,
    filter: usize,
    stride: usize,
    padding: Padding,
) -> Result<TransposedAxis, OpError> {
    let cut = match padding {
        Padding::Same => filter.saturating_sub((count - 1) % stride + 1),
        _ => 0,
    };
    let tail = i64::try_from(cut - cut / 2).unwrap_or(i64::MAX);
    TransposedAxis::new(count, filter, stride, cut / 2, tail)
}

/// What stands for a place in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// FLOAT32: the tap within the window, plus a tenth. MediaPipe's.
    Taps,
    /// INT32: the element within the image. Those of TFLite's perception kernels.
    Elements,
}

impl Places {
    fn of(kind: ElementKind) -> Option<Self> {
        match kind {
            ElementKind::F32 => Some(Self::Taps),
            ElementKind::I32 => Some(Self::Elements),
            _ => None,
        }
    }
}

/// An integer that fits 32 bits, else some other one.
fn int(value: usize) -> i32 {
    low(i64::try_from(value).unwrap_or(0))
}

/// MAX_POOLING_WITH_ARGMAX_2D: the greatest of each window, and where it was.
pub(super) fn max_pool_with_argmax(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let [_, _, in_w, channels] = extents(0, &input)?;
    let (filter_w, filter_h) = (call.count(3, 1)?, call.count(4, 1)?);
    let windows = ConvWindows::read(call, &input.shape, [filter_h, filter_w, channels], None)?;
    let activation = call.activation(5)?;
    call.result_is(0, &[ElementKind::F32])?;
    call.result_is(1, &[ElementKind::F32, ElementKind::I32])?;
    let is_taps = Places::of(call.result(1)?.kind) == Some(Places::Taps);
    let extents = windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    call.set(1, &extents)?;
    let pixels = windows.output.batches * windows.output.height * windows.output.width;
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
        for pixel in poll::each(0..pixels, channels * filter_h * filter_w + 8) {
            let (x, line) = (pixel % windows.output.width, pixel / windows.output.width);
            let (y, batch) = (line % windows.output.height, line / windows.output.height);
            for channel in 0..channels {
                // Tap and element of nothing are the first.
                let (mut most, mut tap, mut element) = (f32::MIN, 0, channel);
                for (tap_y, in_y) in windows.vertical.taps(y) {
                    for (tap_x, in_x) in windows.horizontal.taps(x) {
                        let value = from.get(windows.input.at(batch, in_y, in_x, channel));
                        if value > most {
                            most = value;
                            tap = tap_y * filter_w + tap_x;
                            element = (in_y * in_w + in_x) * channels + channel;
                        }
                    }
                }
                let at = pixel * channels + channel;
                to.set(at, activation.apply(most));
                match is_taps {
                    true => io.output::<f32>(1).set(at, f32_of(int(tap)) + 0.1),
                    false => io.output::<i32>(1).set(at, int(element)),
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// MAX_UNPOOLING_2D: values where places say, zeros elsewhere.
pub(super) fn max_unpooling(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, places) = (call.arg(0)?, call.arg(1)?);
    let [batches, in_h, in_w, channels] = extents(0, &input)?;
    let kind = Places::of(places.kind).ok_or_else(|| refused(1, places.kind))?;
    if places.shape != input.shape || input.shape.elements() == 0 {
        let what = format!("places of {:?} for {:?}", places.shape, input.shape);
        return Err(OpError::rule(what).into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    let padding = padding(call)?;
    let strides = [call.count(2, 1)?, call.count(1, 1)?];
    let filter = [call.count(4, 1)?, call.count(3, 1)?];
    let extent = |at: usize, count: usize| match (kind, padding) {
        (Places::Taps, _) => count.checked_mul(filter[at]),
        (_, Padding::Same) => count.checked_mul(strides[at]),
        _ => (count - 1).checked_mul(strides[at]).and_then(|span| span.checked_add(filter[at])),
    };
    let (Some(out_h), Some(out_w)) = (extent(0, in_h), extent(1, in_w)) else {
        return Err(OpError::rule("an image too large").into());
    };
    let shape = call.set(0, &[batches, out_h, out_w, channels])?;
    let image = Image::of(0, &shape, false)?;
    let taps = Taps {
        filter_w: i64::try_from(filter[1]).unwrap_or(i64::MAX),
        vertical: TapAxis::new(in_h, out_h, filter[0], strides[0]),
        horizontal: TapAxis::new(in_w, out_w, filter[1], strides[1]),
    };
    let count = input.shape.elements();
    let own = out_h * out_w * channels;
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
        for at in poll::each(0..to.len(), 1) {
            to.set(at, 0.0);
        }
        for at in poll::each(0..count, 16) {
            let (channel, pixel) = (at % channels, at / channels);
            let (x, line) = (pixel % in_w, pixel / in_w);
            let (y, batch) = (line % in_h, line / in_h);
            let place = match kind {
                Places::Taps => {
                    // What is outside is left out.
                    let tap = i64::from(cut_i32(io.input::<f32>(1).get(at)));
                    let Some([y, x]) = taps.place([y, x], tap) else { continue };
                    image.at(batch, y, x, channel)
                }
                Places::Elements => {
                    let element = io.input::<i32>(1).get(at);
                    let within = usize::try_from(element).ok().filter(|&it| it < own);
                    let within = within.ok_or_else(|| format!("no place {element} in {own}"))?;
                    batch * own + within
                }
            };
            to.set(place, from.get(at));
        }
        Ok(())
    });
    Ok(())
}

/// The windows of an unpooled image.
#[derive(Clone, Copy, Debug)]
struct Taps {
    filter_w: i64,
    vertical: TapAxis,
    horizontal: TapAxis,
}

impl Taps {
    /// Where a tap of a window is; `None` outside of the image.
    fn place(&self, [y, x]: [usize; 2], tap: i64) -> Option<[usize; 2]> {
        let y = self.vertical.place(y, tap / self.filter_w)?;
        Some([y, self.horizontal.place(x, tap % self.filter_w)?])
    }
}

#[derive(Clone, Copy, Debug)]
struct TapAxis {
    output: usize,
    stride: usize,
    head: usize,
}

impl TapAxis {
    fn new(input: usize, output: usize, filter: usize, stride: usize) -> Self {
        let reach = (input - 1).saturating_mul(stride).saturating_add(filter);
        Self { output, stride, head: reach.saturating_sub(output) / 2 }
    }

    fn place(&self, window: usize, tap: i64) -> Option<usize> {
        let start = i64::try_from(window.checked_mul(self.stride)?).ok()?;
        let at = start.checked_sub(i64::try_from(self.head).ok()?)?.checked_add(tap)?;
        usize::try_from(at).ok().filter(|&at| at < self.output)
    }
}
