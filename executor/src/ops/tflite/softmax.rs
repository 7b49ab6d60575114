//! SOFTMAX along the last dimension: FLOAT32 as NNAPI's for any factor, bytes and 16-bit values in
//! fixed point.

use half::f16;
use nnburst_kernels::tensor::quant::{Multiplier, round_half_away};
use nnburst_kernels::tensor::{OpError, Quantised, poll};

use super::arg::{Arg, ElementKind, OperatorCall, refused};
use super::math::{Stored, f32_of, low};
use super::tables::{between, wide_table_f64};
use crate::lowering::Lowered;
use crate::ops::softmax::{exponentials, fixed_byte, real};
use crate::ops::support::plain;

pub(super) fn softmax(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = (call.arg(0)?, call.result(0)?);
    input.same_kind(&result)?;
    let axis = input.shape.rank().checked_sub(1);
    let axis = axis.ok_or_else(|| OpError::input(0, "is a scalar"))?;
    let beta = call.real(0)?;
    let extents = input.shape.to_vec();
    call.set(0, &extents)?;
    match input.kind {
        ElementKind::F32 => real::<f32>(call, axis, beta),
        ElementKind::F16 => {
            halves(call, &input, beta);
            Ok(())
        }
        ElementKind::I8 => {
            // The interpreter takes scales that are nearly 1/256 for it.
            let is_near = (result.scale * 256.0 - 1.0).abs() <= 1e-3 && result.zero_point == -128;
            if !is_near {
                let what = format!("scale {} and zero point {}", result.scale, result.zero_point);
                return Err(OpError::output(0, what + ", must be 1/256 and -128").into());
            }
            bytes::<i8>(call, &input, &result, beta)
        }
        ElementKind::U8 => bytes::<u8>(call, &input, &result, beta),
        ElementKind::I16 => wide(call, &input, beta),
        kind => Err(refused(0, kind).into()),
    }
}

/// In fixed point, as the reference kernel; where its bits don't suffice for the scale, which ends
/// the interpreter's process, in floats, as its other kernel.
fn bytes<T: Quantised + Stored>(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    result: &Arg,
    beta: f32,
) -> Lowered {
    if let Ok(table) = exponentials(input.scale, beta) {
        return fixed_byte(call, input.shape.rank() - 1, &table, T::FLIP);
    }
    let factor = -input.scale * beta;
    let table: [f32; 256] =
        std::array::from_fn(|at| (factor * f32_of(i32::try_from(at).unwrap_or(0))).exp());
    let (scale, zero_point, (min, max)) = (result.scale, result.zero_point, result.kind.range());
    let depth = input.shape.last().copied().unwrap_or(1).max(1);
    let rows = input.shape.elements() / depth;
    call.step(&input.shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<T>(0));
        for row in poll::each(0..rows, 8 * depth) {
            let values = from.slice(row * depth..(row + 1) * depth);
            let most = values.iter().map(T::wide).max().unwrap_or(0);
            let power =
                |value: T| table[usize::try_from(most - value.wide()).unwrap_or(0).min(255)];
            let sum = values.iter().map(power).fold(0.0f32, |sum, power| sum + power);
            let inverse = 1.0 / (sum * scale);
            let to = to.slice(row * depth..(row + 1) * depth);
            to.fill(values.iter().map(|value| {
                let share = round_half_away(power(value) * inverse).saturating_add(zero_point);
                T::stored(share.clamp(min, max))
            }));
        }
        Ok(())
    });
    Ok(())
}

/// Of FLOAT16: exponentials are added up before they are rounded, and divided by the sum then.
fn halves(call: &mut OperatorCall<'_, '_>, input: &Arg, beta: f32) {
    let depth = input.shape.last().copied().unwrap_or(1).max(1);
    let rows = input.shape.elements() / depth;
    call.step(&input.shape, move |io| {
        let (from, to) = (io.input::<f16>(0), io.output::<f16>(0));
        for row in poll::each(0..rows, 8 * depth) {
            let places = row * depth..(row + 1) * depth;
            let values = from.slice(places.clone());
            let most = values.iter().fold(f16::MIN, |most, x| if x > most { x } else { most });
            let mut sum = 0.0f32;
            for (at, x) in places.clone().zip(values.iter()) {
                let power = ((f32::from(x) - f32::from(most)) * beta).exp();
                to.set(at, f16::from_f32(power));
                sum += power;
            }
            places.for_each(|at| to.set(at, f16::from_f32(f32::from(to.as_in().get(at)) / sum)));
        }
        Ok(())
    });
}

/// Of 16-bit values: exponentials and the reciprocal of their sum out of tables.
fn wide(call: &mut OperatorCall<'_, '_>, input: &Arg, beta: f32) -> Lowered {
    let depth = input.shape.last().copied().unwrap_or(1);
    let unit = (2.0 / 65535.0, 0);
    let powers = wide_table_f64((10.0 / 65535.0, 32767), unit, f64::exp);
    let inverses = wide_table_f64((1.0 / 65535.0, -32768), unit, |x| 1.0 / (1.0 + x));
    let scaled = f64::from(input.scale * beta) / (10.0 / 65535.0);
    let to_powers = Multiplier::new(scaled);
    let rows = input.shape.elements() / depth.max(1);
    let label = plain("tflite_softmax_i16", &input.shape, 0);
    call.emit_with_scratch(label, 2 * depth, move |mut io| {
        let (from, to) = (io.input::<i16>(0), io.output::<i16>(0));
        let exps = io.scratch_slice::<i16>();
        for row in poll::each(0..rows, 20 * depth) {
            let values = from.slice(row * depth..(row + 1) * depth);
            values.copy_to(exps);
            let most = exps.iter().copied().max().unwrap_or(0);
            let mut sum = 0i32;
            for value in exps.iter_mut() {
                let difference = i32::from(*value) - i32::from(most);
                let place = to_powers.apply(difference).saturating_add(32767);
                *value = between(&powers, i16::stored(place.clamp(-32768, 32767)));
                sum = sum.wrapping_add(i32::from(*value));
            }
            let headroom = sum.leading_zeros();
            let shifted = ((i64::from(sum) << headroom.saturating_sub(1)) + (1 << 13)) >> 14;
            let centred = low(shifted) - (1 << 15) - (1 << 16);
            let inverse = between(&inverses, i16::stored(centred.clamp(-32768, 32767)));
            let right = 31i32.saturating_sub(headroom.cast_signed()).max(1);
            for (at, &value) in exps.iter().enumerate() {
                let product = i64::from(value) * i64::from(inverse) + (1 << (right - 1));
                to.set(row * depth + at, i16::stored(low(product >> right).clamp(0, 32767)));
            }
        }
        Ok(())
    });
    Ok(())
}
