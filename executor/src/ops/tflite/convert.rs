//! From one type of numbers to another.

use half::f16;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::quantize_f32::Quantizer;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Shape, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused};
use super::math::{Stored, cut, f32_of, f64_of, low, narrow, real_at};
use crate::lowering::{Label, Lowered};
use crate::ops::cast;
use crate::ops::support::plain;

/// FLOAT32 to stored values, or stored values to others by a multiplier.
pub(super) fn quantize(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = (call.arg(0)?, call.result(0)?);
    let extents = input.shape.to_vec();
    call.set(0, &extents)?;
    let (min, max) = result.kind.range();
    let (scale, zero_point) = (result.scale, result.zero_point);
    let to = Multiplier::new(f64::from(input.scale) / f64::from(result.scale));
    let from_zero = input.zero_point;
    match (input.kind, result.kind) {
        (ElementKind::F32, ElementKind::I8 | ElementKind::U8 | ElementKind::I16) => {
            let quantizer = Quantizer::new(call.isa(), scale, zero_point, (min, max));
            let size = result.kind.bytes();
            let label = Label { form: quantizer.isa(), ..plain("quantize_f32", &input.shape, 0) };
            call.emit(label, move |io| {
                let (from, to) = (io.input::<f32>(0), io.output::<u8>(0));
                in_chunks(from.len().min(to.len() / size), |part| {
                    let to = to.slice(part.start * size..part.end * size);
                    quantizer.compute(from.slice(part), to, size)
                })
            });
            Ok(())
        }
        (
            ElementKind::I8 | ElementKind::U8,
            ElementKind::I8 | ElementKind::U8 | ElementKind::I16,
        )
        | (ElementKind::I16, ElementKind::I8 | ElementKind::U8 | ElementKind::I16)
        | (ElementKind::I16, ElementKind::I32)
        | (ElementKind::I32, ElementKind::I8 | ElementKind::U8 | ElementKind::I16) => {
            each_integer(call, &input, result.kind, move |x| {
                let scaled = to.apply(x.wrapping_sub(from_zero));
                scaled.saturating_add(zero_point).clamp(min, max)
            })
        }
        (kind, _) => Err(refused(0, kind).into()),
    }
}

/// Adds a step that computes each integer of the result from that of the input: bytes from bytes by
/// a table, others some at a time. What is read from any type and written to any other is compiled
/// for each type, not for each pair and function.
pub(super) fn each_integer(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    result: ElementKind,
    each: impl Fn(i32) -> i32 + Send + Sync + 'static,
) -> Lowered {
    const SPAN: usize = 256;
    // One function for both: called from two places, `each` would not be inlined into a loop.
    let apply = move |values: &mut [i32]| values.iter_mut().for_each(|x| *x = each(*x));
    let is_byte = |kind| matches!(kind, ElementKind::I8 | ElementKind::U8);
    if is_byte(input.kind) && is_byte(result) {
        let stored = |byte: u8| match input.kind {
            ElementKind::I8 => i32::from(byte.cast_signed()),
            _ => i32::from(byte),
        };
        let mut values = [0; 256];
        values.iter_mut().zip(0..=u8::MAX).for_each(|(value, byte)| *value = stored(byte));
        apply(&mut values);
        call.look_up(&input.shape, values.map(|value| value.to_le_bytes()[0]));
        return Ok(());
    }
    let read: fn(In<'_, u8>, &mut [i32]) = match input.kind {
        ElementKind::I32 => |from, to| from.cast().copy_to(to),
        kind => by_kind!(kind, [I8 i8, U8 u8, I16 i16], T => |from, to| {
            to.iter_mut().zip(from.cast::<T>().iter()).for_each(|(to, x)| *to = x.wide());
        }),
    };
    let write: fn(&[i32], Out<'_, u8>) = match result {
        ElementKind::I32 => |from, to| to.cast().copy_from(In::of(from)),
        kind => by_kind!(kind, [I8 i8, U8 u8, I16 i16], T => |from, to| {
            to.cast::<T>().fill(from.iter().map(|&x| T::stored(x)));
        }),
    };
    let (bytes, result_bytes) = (input.kind.bytes(), result.bytes());
    call.step(&input.shape, move |io| {
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        let count = from.len() / bytes;
        let mut values = [0; SPAN];
        for first in poll::each((0..count).step_by(SPAN), 8 * SPAN) {
            let end = count.min(first + SPAN);
            let values = &mut values[..end - first];
            read(from.slice(first * bytes..end * bytes), values);
            apply(values);
            write(values, to.slice(first * result_bytes..end * result_bytes));
        }
        Ok(())
    });
    Ok(())
}

/// Stored values, FLOAT16 and integers with a scale to FLOAT32.
pub(super) fn dequantize(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = (call.arg(0)?, call.result(0)?);
    if result.kind != ElementKind::F32 {
        return Err(OpError::output(0, "is not of floats").into());
    }
    let extents = input.shape.to_vec();
    call.set(0, &extents)?;
    if input.kind == ElementKind::F16 {
        call.step(&input.shape, |io| {
            io.output::<f32>(0).fill(io.input::<f16>(0).iter().map(f16::to_f32));
            Ok(())
        });
        return Ok(());
    }
    let zero_point = input.zero_point;
    if let Some(channels) = input.channels.clone() {
        let axis = usize::try_from(channels.channel_dim).unwrap_or(usize::MAX);
        if input.shape.get(axis) != Some(&channels.scales.len()) {
            return Err(OpError::input(0, "has not a scale per channel").into());
        }
        let inner: usize = input.shape[axis + 1..].iter().product();
        call.step(&input.shape, move |io| {
            let (from, to) = (io.input::<i8>(0), io.output::<f32>(0));
            for at in poll::each(0..to.len(), 2) {
                let channel = at / inner % channels.scales.len();
                let real = f64::from(channels.scales[channel]) * f64::from(from.get(at));
                to.set(at, narrow(real));
            }
            Ok(())
        });
        return Ok(());
    }
    let (scale, isa) = (f64::from(input.scale), call.isa());
    by_kind!(input.kind, [I8 i8, U8 u8, I16 i16], T => call.step(&input.shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<f32>(0));
        in_chunks(from.len().min(to.len()), |part| {
            let real = |x: T| narrow(scale * f64::from(x.wide() - zero_point));
            map(isa, from.slice(part.clone()), to.slice(part), real);
            Ok(())
        })
    }));
    Ok(())
}

/// Numbers as C casts them; stored values count as plain integers.
pub(super) fn cast(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (mut input, result) = (call.arg(0)?, call.result(0)?);
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    (input.scale, input.zero_point) = (1.0, 0);
    let to = result.kind;
    use ElementKind::{Bool, F32, I8, I32, I64, U8};
    // Those that networks have.
    match (input.kind, to) {
        (Bool, F32) => return directly(call, &shape, |x: u8| f32::from(u8::from(x != 0))),
        (Bool, I32) => return directly(call, &shape, |x: u8| i32::from(x != 0)),
        (U8, F32) => return directly(call, &shape, |x: u8| f32::from(x)),
        (U8, I32) => return directly(call, &shape, |x: u8| i32::from(x)),
        (I8, F32) => return directly(call, &shape, |x: i8| f32::from(x)),
        (I8, I32) => return directly(call, &shape, |x: i8| i32::from(x)),
        (I32, F32) => return directly(call, &shape, f32_of),
        (F32, I32) => {
            return directly(call, &shape, |x: f32| cast::saturated(x).unwrap_or(i32::MAX));
        }
        (F32, Bool) => return directly(call, &shape, |x: f32| u8::from(x != 0.0)),
        (I32, I64) => return directly(call, &shape, |x: i32| i64::from(x)),
        (I64, F32) => return directly(call, &shape, |x: i64| narrow(f64_of(x))),
        (I64, I32) => return directly(call, &shape, low),
        _ => {}
    }
    let width = to.bytes();
    call.step(&shape, move |io| {
        let (from, into) = (io.input::<u8>(0), io.output::<u8>(0));
        for at in poll::each(0..into.len() / width, 8) {
            put(&input, from, at, to, into);
        }
        Ok(())
    });
    Ok(())
}

/// Adds a step with one loop for a pair of types.
fn directly<T: Element, U: Element>(
    call: &mut OperatorCall<'_, '_>,
    shape: &Shape,
    each: impl Fn(T) -> U + Send + Sync + Copy + 'static,
) -> Lowered {
    let isa = call.isa();
    call.step(shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<U>(0));
        in_chunks(to.len(), |part| {
            map(isa, from.slice(part.clone()), to.slice(part), each);
            Ok(())
        })
    });
    Ok(())
}

fn put(input: &Arg, from: In<'_, u8>, at: usize, to: ElementKind, into: Out<'_, u8>) {
    let place = at * to.bytes();
    let real = real_at(input, from, at);
    // Integers of 64 bits have more digits than doubles.
    let whole = match input.kind {
        ElementKind::I64 | ElementKind::U64 => i64::from_le_bytes(from.block(8 * at)),
        kind if is_real(kind) => saturated(real, to),
        _ => cut(real),
    };
    match to {
        ElementKind::F32 => into.set_block(place, narrow(real).to_le_bytes()),
        ElementKind::F16 => into.set_block(place, f16::from_f64(real).to_le_bytes()),
        ElementKind::F64 => into.set_block(place, real.to_le_bytes()),
        ElementKind::C64 => {
            into.set_block(place, narrow(real).to_le_bytes());
            let imaginary: [u8; 4] =
                if input.kind == ElementKind::C64 { from.block(8 * at + 4) } else { [0; 4] };
            into.set_block(place + 4, imaginary);
        }
        ElementKind::Bool => into.set(place, u8::from(real != 0.0)),
        ElementKind::I64 | ElementKind::U64 => into.set_block(place, whole.to_le_bytes()),
        ElementKind::I32 | ElementKind::U32 => into.set_block(place, low(whole).to_le_bytes()),
        ElementKind::I16 | ElementKind::U16 => {
            let [first, second, ..] = whole.to_le_bytes();
            into.set_block(place, [first, second]);
        }
        ElementKind::I8 | ElementKind::U8 => {
            let [first, ..] = whole.to_le_bytes();
            into.set(place, first);
        }
    }
}

/// A real number, cut towards zero, as an integer of a type: the nearest where it has none, and the
/// greatest for what is no number.
fn saturated(real: f64, to: ElementKind) -> i64 {
    let (min, max) = match to {
        ElementKind::I8 | ElementKind::U8 | ElementKind::I16 | ElementKind::I32 => {
            let (min, max) = to.range();
            (i64::from(min), i64::from(max))
        }
        ElementKind::U16 => (0, i64::from(u16::MAX)),
        ElementKind::U32 => (0, i64::from(u32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    if real.is_nan() { max } else { cut(real).clamp(min, max) }
}

fn is_real(kind: ElementKind) -> bool {
    matches!(kind, ElementKind::F32 | ElementKind::F16 | ElementKind::F64 | ElementKind::C64)
}

/// The real or imaginary part of complex numbers, or their absolute value.
pub(super) fn part(
    call: &mut OperatorCall<'_, '_>,
    f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
) -> Lowered {
    let (input, result) = (call.arg(0)?, call.result(0)?);
    if (input.kind, result.kind) != (ElementKind::C64, ElementKind::F32) {
        return Err(refused(0, input.kind).into());
    }
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let isa = call.isa();
    let f = move |pair: u64| {
        let [real, imaginary]: [f32; 2] = bytemuck::cast(pair);
        f(real, imaginary)
    };
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<u64>(0), io.output::<f32>(0));
        in_chunks(from.len().min(to.len()), |part| {
            map(isa, from.slice(part.clone()), to.slice(part), &f);
            Ok(())
        })
    });
    Ok(())
}

/// The absolute value of a complex number: infinite where a part of it is.
pub(super) fn absolute(real: f32, imaginary: f32) -> f32 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let size = narrow((square(real) + square(imaginary)).sqrt());
    if real.is_infinite() | imaginary.is_infinite() { f32::INFINITY } else { size }
}

/// FAKE_QUANT: what is left of floats that were stored in so many bits between two bounds, which
/// move until one of the stored numbers stands for 0.
pub(super) fn fake_quant(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    if input.kind != ElementKind::F32 {
        return Err(refused(0, input.kind).into());
    }
    call.same(&input, 0)?;
    let (least, most, bits) = (call.real(0)?, call.real(1)?, call.int(2)?);
    let is_range = least <= 0.0 && most >= 0.0 && least < most && most - least < f32::INFINITY;
    if !is_range || !(1..=30).contains(&bits) || call.flag(3)? {
        return Err(OpError::rule(format!("{bits} bits from {least} to {most}")).into());
    }
    let steps = f32_of((1 << bits) - 1);
    let scale = (most - least) / steps;
    let zero_point = (0.0 - least / scale).round().clamp(0.0, steps);
    let (least, most, inverse) =
        ((0.0 - zero_point) * scale, (steps - zero_point) * scale, 1.0 / scale);
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    call.step(&shape, move |io| {
        let values = io.input::<f32>(0).iter();
        // A float that is none becomes the least, as there.
        io.output::<f32>(0).fill(values.map(|x| {
            let inside = if x > least { x } else { least };
            let inside = if inside < most { inside } else { most };
            ((inside - least) * inverse).round() * scale + least
        }));
        Ok(())
    });
    Ok(())
}
