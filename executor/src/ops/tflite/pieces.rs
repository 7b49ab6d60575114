//! Operations that take tensors apart along an axis, and put them together.

use nnburst_kernels::tensor::quant::round_half_away;
use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall, sizes};
use super::copy::{Copy, axes, strides};
use crate::lowering::Lowered;

/// The axis comes first.
pub(super) fn split(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(1)?;
    let axis = call.axis(call.one_int(0)?, input.shape.rank())?;
    let parts = call.output_count();
    if parts == 0 || !input.shape[axis].is_multiple_of(parts) {
        let what = format!("{:?} is not split into {parts} parts along {axis}", input.shape);
        return Err(OpError::rule(what).into());
    }
    let part = input.shape[axis] / parts;
    emit_parts(call, 1, &input, axis, &vec![part; parts], false)
}

pub(super) fn split_v(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let axis = call.axis(call.one_int(2)?, input.shape.rank())?;
    let mut parts = call.ints(1)?;
    let all = i64::try_from(input.shape[axis]).unwrap_or(i64::MAX);
    let known = parts.iter().filter(|&&part| part != -1);
    let known = known.fold(0i64, |all, &part| all.saturating_add(part));
    for part in parts.iter_mut().filter(|part| **part == -1) {
        *part = all.saturating_sub(known);
    }
    let parts = sizes(&parts)?;
    if parts.len() != call.output_count() || parts.iter().sum::<usize>() != input.shape[axis] {
        return Err(OpError::rule(format!("parts of {parts:?} are not {all}")).into());
    }
    emit_parts(call, 0, &input, axis, &parts, false)
}

pub(super) fn unpack(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let axis = call.axis(i64::from(call.int(0)?), input.shape.rank())?;
    let count = call.output_count();
    if input.shape[axis] != count {
        let what = format!("{} parts for {count} outputs", input.shape[axis]);
        return Err(OpError::rule(what).into());
    }
    emit_parts(call, 0, &input, axis, &vec![1; count], true)
}

fn emit_parts(
    call: &mut OperatorCall<'_, '_>,
    from: usize,
    input: &Arg,
    axis: usize,
    parts: &[usize],
    drops_axis: bool,
) -> Lowered {
    let own = strides(&input.shape);
    let mut start = 0;
    let mut copies = Vec::new();
    for (index, &part) in parts.iter().enumerate() {
        call.same(input, index)?;
        let mut extents = input.shape.to_vec();
        extents[axis] = part;
        let to = strides(&extents);
        let first = start * own[axis].unsigned_abs();
        copies.push(Copy::new(&axes(&extents, &own, &to), first, 0, input.kind.bytes()));
        if drops_axis {
            extents.remove(axis);
        }
        call.set(index, &extents)?;
        start += part;
    }
    call.step(&input.shape, move |io| {
        let mut outputs = copies.iter().enumerate();
        outputs.try_for_each(|(at, copy)| copy.run(io.input(from), io.output(at)))
    });
    Ok(())
}

/// Inputs side by side. Unsigned 8-bit ones of another scale are requantised on the way.
pub(super) fn concatenation(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let count = call.tensors();
    let inputs = (0..count).map(|at| call.arg(at)).collect::<Result<Vec<_>, _>>()?;
    let first = inputs.first().ok_or_else(|| OpError::rule("there are no inputs"))?;
    let axis = call.axis(i64::from(call.int(0)?), first.shape.rank())?;
    let mut extents = first.shape.to_vec();
    extents[axis] = 0;
    for input in &inputs {
        let fits = input.shape.rank() == extents.len()
            && (0..extents.len()).all(|at| at == axis || input.shape[at] == extents[at]);
        if !fits {
            let what = format!("{:?} beside {:?}", input.shape, first.shape);
            return Err(OpError::rule(what).into());
        }
        extents[axis] += input.shape[axis];
    }
    let result = call.result(0)?;
    let parts: Vec<Option<[u8; 256]>> = inputs
        .iter()
        .map(|input| (input.kind == ElementKind::U8).then(|| requantised(input, &result)).flatten())
        .collect();
    emit_joined(call, &inputs, &extents, axis, |input| input.shape[axis], parts)
}

/// What each byte of another scale becomes; `None` where it stays.
fn requantised(input: &Arg, result: &Arg) -> Option<[u8; 256]> {
    if input.scale.to_bits() == result.scale.to_bits() && input.zero_point == result.zero_point {
        return None;
    }
    let scale = input.scale * (1.0 / result.scale);
    let bias = super::math::f32_of(-input.zero_point) * scale;
    Some(std::array::from_fn(|byte| {
        let value = super::math::f32_of(i32::try_from(byte).unwrap_or(0)) * scale + bias;
        let stored = round_half_away(value).saturating_add(result.zero_point);
        u8::try_from(stored.clamp(0, 255)).unwrap_or(0)
    }))
}

pub(super) fn pack(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let count = call.tensors();
    let inputs = (0..count).map(|at| call.arg(at)).collect::<Result<Vec<_>, _>>()?;
    let first = inputs.first().ok_or_else(|| OpError::rule("there are no inputs"))?;
    if inputs.iter().any(|input| input.shape != first.shape) {
        return Err(OpError::rule("inputs differ in shape").into());
    }
    let axis = call.axis(i64::from(call.int(0)?), first.shape.rank() + 1)?;
    let mut extents = first.shape.to_vec();
    extents.insert(axis, count);
    let parts = vec![None; count];
    emit_joined(call, &inputs, &extents, axis, |_| 1, parts)
}

fn emit_joined(
    call: &mut OperatorCall<'_, '_>,
    inputs: &[Arg],
    extents: &[usize],
    axis: usize,
    part: impl Fn(&Arg) -> usize,
    tables: Vec<Option<[u8; 256]>>,
) -> Lowered {
    let shape = call.set(0, extents)?;
    let to = strides(extents);
    let mut start = 0;
    let mut copies = Vec::new();
    for (input, table) in inputs.iter().zip(tables) {
        call.same(input, 0)?;
        let mut own = extents.to_vec();
        own[axis] = part(input);
        let first = start * to[axis].unsigned_abs();
        let copy = Copy::new(&axes(&own, &strides(&own), &to), 0, first, input.kind.bytes());
        let marks = table.map(|table| (table, own.clone(), to.clone(), first));
        copies.push((copy, marks));
        start += part(input);
    }
    call.step(&shape, move |io| {
        for (at, (copy, marks)) in copies.iter().enumerate() {
            let output = io.output::<u8>(0);
            copy.run(io.input(at), output)?;
            if let Some((table, own, to, first)) = marks {
                each_place(own, to, *first, |place| {
                    output.set(place, table[usize::from(output.as_in().get(place))]);
                })?;
            }
        }
        Ok(())
    });
    Ok(())
}

/// Calls `each` with the place of every element of a part of a tensor.
fn each_place(
    extents: &[usize],
    strides: &[isize],
    start: usize,
    mut each: impl FnMut(usize),
) -> Result<(), String> {
    let total: usize = extents.iter().product();
    for at in poll::each(0..total, 4) {
        let (mut rest, mut place) = (at, start);
        for (&extent, &stride) in extents.iter().zip(strides).rev() {
            place += rest % extent * stride.unsigned_abs();
            rest /= extent;
        }
        each(place);
    }
    Ok(())
}
