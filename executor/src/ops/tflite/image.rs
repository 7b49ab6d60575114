//! Pooling, resizing and normalisation of the types that NNAPI's operations don't take.

use nnburst_kernels::tensor::quant::{Multiplier, fixed};
use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{Activation, ElementKind, OperatorCall, by_kind, sizes};
use super::conv::ConvWindows;
use super::math::{Stored, cut, f32_of};
use crate::lowering::Lowered;
use crate::ops::support::Image;

/// Means or maxima of windows of stored values.
pub(super) fn pool(call: &mut OperatorCall<'_, '_>, is_max: bool) -> Lowered {
    let (input, result) = (call.arg(0)?, call.result(0)?);
    input.same_kind(&result)?;
    if input.kind == ElementKind::F32 && !is_max {
        return super::ordered_conv::average_pool_2d(call, &input);
    }
    let (width, height) = (call.count(3, 1)?, call.count(4, 1)?);
    let channels = input.shape.last().copied().unwrap_or(0);
    let windows = ConvWindows::read(call, &input.shape, [height, width, channels], None)?;
    let (min, max) = result.activated(call.activation(5)?)?;
    let extents = windows.output.shape()?;
    let shape = call.set(0, &extents)?;
    by_kind!(input.kind, [I8 i8, U8 u8, I16 i16], T => call.step(&shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<T>(0));
        for at in poll::each(0..to.len(), width * height) {
            let (channel, pixel) = (at % channels, at / channels);
            let (x, rest) = (pixel % windows.output.width, pixel / windows.output.width);
            let (y, batch) = (rest % windows.output.height, rest / windows.output.height);
            let (mut sum, mut most, mut count) = (0i32, i32::MIN, 0i32);
            for in_y in windows.vertical.covered(y) {
                for in_x in windows.horizontal.covered(x) {
                    let value = from.get(windows.input.at(batch, in_y, in_x, channel)).wide();
                    sum = sum.wrapping_add(value);
                    most = most.max(value);
                    count += 1;
                }
            }
            let half = if sum > 0 { count / 2 } else { -(count / 2) };
            let mean = sum.wrapping_add(half).checked_div(count).unwrap_or(0);
            let value = if is_max { most } else { mean };
            to.set(at, T::stored(value.clamp(min, max)));
        }
        Ok(())
    }));
    Ok(())
}

/// Input, its image and the extents of the result: height and width are the second input.
pub(super) fn resized(call: &mut OperatorCall<'_, '_>) -> Lowered<(ElementKind, Image, Image)> {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    let &[height, width] = &sizes(&call.ints(1)?)?[..] else {
        return Err(OpError::input(1, "is not height and width").into());
    };
    if height == 0 || width == 0 {
        return Err(OpError::input(1, format!("is {height} by {width}")).into());
    }
    let from = Image::of(0, &input.shape, false)?;
    let to = from.resized(height, width);
    let extents = to.shape()?;
    call.set(0, &extents)?;
    // Where each line and column comes from.
    call.claim((height + width).saturating_mul(size_of::<[usize; 3]>()))?;
    Ok((input.kind, from, to))
}

/// Elements of any type from the nearest pixel.
pub(super) fn resize_nearest(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (kind, from, to) = resized(call)?;
    let (is_aligned, is_half) = (call.flag(0)?, call.flag(1)?);
    let place = move |at: usize, input: usize, output: usize| {
        let scale = if is_aligned && output > 1 {
            ratio(input - 1) / ratio(output - 1)
        } else {
            ratio(input) / ratio(output)
        };
        let offset = if is_half { 0.5 } else { 0.0 };
        let real = (ratio(at) + offset) * scale;
        let cell = if is_aligned { real.round() } else { real.floor() };
        usize::try_from(cut(f64::from(cell)).max(0)).unwrap_or(0).min(input - 1)
    };
    let rows: Vec<usize> = (0..to.height).map(|y| place(y, from.height, to.height)).collect();
    let columns: Vec<usize> = (0..to.width).map(|x| place(x, from.width, to.width)).collect();
    let pixel = from.channels * kind.bytes();
    let shape = to.shape()?;
    call.step(&shape, move |io| {
        let (input, output) = (io.input::<u8>(0), io.output::<u8>(0));
        let mut at = 0;
        for batch in 0..to.batches {
            for &y in &rows {
                poll::work(columns.len() * (4 + pixel / 8))?;
                for &x in &columns {
                    let start = from.at(batch, y, x, 0) * kind.bytes();
                    let source = input.slice(start..start + pixel);
                    output.slice(at..at + pixel).copy_from(source);
                    at += pixel;
                }
            }
        }
        Ok(())
    });
    Ok(())
}

fn ratio(count: usize) -> f32 {
    f32_of(i32::try_from(count).unwrap_or(i32::MAX))
}

/// Rows of the last dimension divided by their length; quantised results have 7 bits of fraction.
pub(super) fn l2_normalization(call: &mut OperatorCall<'_, '_>) -> Lowered {
    const FRACTION_BITS: i32 = 7;
    let (input, result) = (call.arg(0)?, call.result(0)?);
    input.same_kind(&result)?;
    if call.activation(0)? != Activation::None {
        return Err(OpError::rule("an activation is not fused with a normalisation").into());
    }
    let depth = input.shape.last().copied().unwrap_or(1).max(1);
    let rows = input.shape.elements() / depth;
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let zero_point = input.zero_point;
    let (min, max) = result.kind.range();
    // Real zero of a result in steps of 1/128.
    let zero = if input.kind == ElementKind::U8 { 128 } else { 0 };
    if input.kind == ElementKind::F32 {
        call.step(&shape, move |io| {
            for row in poll::each(0..rows, 3 * depth) {
                let from = io.input::<f32>(0).slice(row * depth..(row + 1) * depth);
                let to = io.output::<f32>(0).slice(row * depth..(row + 1) * depth);
                let length = from.iter().fold(0.0f32, |sum, x| sum + x * x).sqrt().max(1e-6);
                to.fill(from.iter().map(|x| x / length));
            }
            Ok(())
        });
        return Ok(());
    }
    by_kind!(input.kind, [I8 i8, U8 u8], T => call.step(&shape, move |io| {
        for row in poll::each(0..rows, 6 * depth) {
            let from = io.input::<T>(0).slice(row * depth..(row + 1) * depth);
            let to = io.output::<T>(0).slice(row * depth..(row + 1) * depth);
            let squares = from.iter().fold(0i32, |sum, x| {
                let x = x.wide() - zero_point;
                sum.wrapping_add(x * x)
            });
            let (fraction, shift) = fixed::inverse_sqrt(squares);
            // Signed bytes gain their bits of fraction behind the product, unsigned ones before it.
            let (bits_ahead, bits_behind) =
                if zero == 0 { (0, FRACTION_BITS) } else { (FRACTION_BITS, 0) };
            let inverse = Multiplier { fraction, shift: shift + bits_behind };
            to.fill(from.iter().map(|x| {
                let wide = (x.wide() - zero_point) << bits_ahead;
                let scaled = inverse.apply(wide).saturating_add(zero);
                T::stored(scaled.clamp(min, max))
            }));
        }
        Ok(())
    }));
    Ok(())
}
