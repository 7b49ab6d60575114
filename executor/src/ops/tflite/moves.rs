//! Operations that move elements of any type: other shapes, slices, repetitions, borders.

use nnburst_kernels::tensor::{In, OpError, Out, Shape, poll};

use super::arg::{Arg, ElementKind, OperatorCall, refused, sizes};
use super::copy::{Copy, axes, strides};
use crate::lowering::Lowered;
use crate::lowering::part::StepPart;
use crate::ops::pad;
use crate::ops::strided::{Strided, emit_move};

/// The new shape: of the tensor that follows, where -1 stands for what is left.
pub(super) fn reshape(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let mut wanted = call.ints(1)?;
    if wanted == [0] && input.shape.elements() == 1 {
        wanted.clear(); // how old files say that the result is a scalar
    }
    let known = wanted.iter().filter(|&&extent| extent != -1);
    let known = known.fold(1i64, |all, &extent| all.saturating_mul(extent)).max(1);
    let total = i64::try_from(input.shape.elements()).unwrap_or(i64::MAX);
    for extent in wanted.iter_mut().filter(|extent| **extent == -1) {
        *extent = total / known;
    }
    under_shape(call, &input, &sizes(&wanted)?)
}

/// Leaves out extents of 1: those that the tensor which follows names, or all.
pub(super) fn squeeze(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let rank = input.shape.rank();
    let named = if call.has(1) { call.ints(1)? } else { Vec::new() };
    let named = named.iter().map(|&axis| call.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let goes = |axis: usize| input.shape[axis] == 1 && (named.is_empty() || named.contains(&axis));
    let left: Vec<usize> = (0..rank).filter(|&a| !goes(a)).map(|a| input.shape[a]).collect();
    under_shape(call, &input, &left)
}

pub(super) fn expand_dims(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let axis = call.axis(call.one_int(1)?, input.shape.rank() + 1)?;
    let mut extents = input.shape.to_vec();
    extents.insert(axis, 1);
    under_shape(call, &input, &extents)
}

/// The same bits as another type; widths that differ take or make the last dimension.
pub(super) fn bitcast(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, result) = (call.arg(0)?, call.result(0)?);
    let (from, to) = (input.kind.bytes(), result.kind.bytes());
    let mut extents = input.shape.to_vec();
    if from > to {
        extents.push(from / to);
    } else if from < to && extents.pop() != Some(to / from) {
        return Err(OpError::input(0, "has not the elements of wider ones at its end").into());
    }
    call.set(0, &extents)?;
    Ok(call.alias(0, 0)?)
}

fn under_shape(call: &mut OperatorCall<'_, '_>, input: &Arg, extents: &[usize]) -> Lowered {
    let shape = call.set(0, extents)?;
    if shape.elements() != input.shape.elements() {
        let what = format!("{:?} does not become {shape:?}", input.shape);
        return Err(OpError::rule(what).into());
    }
    call.same(input, 0)?;
    Ok(call.alias(0, 0)?)
}

/// Emits a copy of input 0 as the whole of output 0.
fn emit_view(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    extents: &[usize],
    from: &[isize],
    start: usize,
) -> Lowered {
    call.same(input, 0)?;
    let shape = call.set(0, extents)?;
    let width = input.kind.bytes();
    if !extents.contains(&0) && [1, 2, 4].contains(&width) {
        let walk = extents.iter().copied().zip(from.iter().copied());
        let moves = Strided::new(start, walk);
        let walk = moves.walk().filter(|_| width == size_of::<f32>());
        match width {
            1 => emit_move::<u8>(call, moves, 0)?,
            2 => emit_move::<u16>(call, moves, 0)?,
            _ => emit_move::<u32>(call, moves, 0)?,
        }
        walk.into_iter().for_each(|walk| call.part(StepPart::Move(Box::new(walk))));
        return Ok(());
    }
    let copy = Copy::new(&axes(extents, from, &strides(extents)), start, 0, input.kind.bytes());
    call.step(&shape, move |io| copy.run(io.input(0), io.output(0)));
    Ok(())
}

pub(super) fn transpose(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let order = call.ints(1)?;
    let rank = input.shape.rank();
    let order = order.iter().map(|&axis| call.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut seen = order.clone();
    seen.sort_unstable();
    if !seen.into_iter().eq(0..rank) {
        return Err(OpError::input(1, format!("{order:?} is no order of {rank} axes")).into());
    }
    let own = strides(&input.shape);
    let extents: Vec<usize> = order.iter().map(|&axis| input.shape[axis]).collect();
    let from: Vec<isize> = order.iter().map(|&axis| own[axis]).collect();
    emit_view(call, &input, &extents, &from, 0)
}

pub(super) fn slice(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let (begin, size) = (call.ints(1)?, call.ints(2)?);
    if begin.len() != input.shape.rank() || size.len() != begin.len() {
        return Err(OpError::rule("begin and size have not an entry per dimension").into());
    }
    let mut extents = Vec::new();
    for (axis, (&begin, &size)) in begin.iter().zip(&size).enumerate() {
        let all = i64::try_from(input.shape[axis]).unwrap_or(i64::MAX);
        let size = if size == -1 { all.saturating_sub(begin) } else { size };
        if begin < 0 || size < 0 || begin.saturating_add(size) > all {
            let what = format!("{size} from {begin} on are not within {all}");
            return Err(OpError::rule(what).into());
        }
        extents.push(size);
    }
    let own = strides(&input.shape);
    let start = offset(&sizes(&begin)?, &own);
    emit_view(call, &input, &sizes(&extents)?, &own, start)
}

fn offset(position: &[usize], strides: &[isize]) -> usize {
    let sum = position.iter().zip(strides).map(|(&at, &stride)| at.cast_signed() * stride);
    usize::try_from(sum.sum::<isize>()).unwrap_or(0)
}

pub(super) fn strided_slice(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let [begin, end, steps] = [call.ints(1)?, call.ints(2)?, call.ints(3)?];
    let mask = |option: usize| call.int(option);
    let [begins, ends, ellipsis, new_axes, shrunk] =
        [mask(0)?, mask(1)?, mask(2)?, mask(3)?, mask(4)?];
    let is_offset = call.flag(5)?;
    let entries = begin.len();
    if end.len() != entries || steps.len() != entries || entries > 31 {
        return Err(OpError::rule("begin, end and strides have not the same length").into());
    }
    let bit = |mask: i32, at: usize| mask >> at & 1 == 1;
    let own = strides(&input.shape);
    let (mut extents, mut from, mut start) = (Vec::new(), Vec::new(), 0isize);
    let mut axis = 0;
    let mut seen_ellipsis = false;
    for at in 0..entries {
        if bit(ellipsis, at) {
            if std::mem::replace(&mut seen_ellipsis, true) {
                return Err(OpError::rule("there are two ellipses").into());
            }
            let behind = (at + 1..entries).filter(|&at| !bit(new_axes, at)).count();
            let covered = (input.shape.rank() - axis).saturating_sub(behind);
            for _ in 0..covered {
                extents.push(input.shape[axis]);
                from.push(own[axis]);
                axis += 1;
            }
            continue;
        }
        if bit(new_axes, at) {
            extents.push(1);
            from.push(0);
            continue;
        }
        let Some(&extent) = input.shape.get(axis) else {
            return Err(OpError::rule("there are more entries than dimensions").into());
        };
        let all = i64::try_from(extent).unwrap_or(i64::MAX);
        let step = steps[at];
        if step == 0 {
            return Err(OpError::rule("a stride is 0").into());
        }
        let within = |value: i64| if value < 0 { value.saturating_add(all) } else { value };
        let (low, high) = if step > 0 { (0, all) } else { (-1, all - 1) };
        let first = if bit(begins, at) {
            if step > 0 { 0 } else { all - 1 }
        } else {
            within(begin[at]).clamp(low, high)
        };
        if bit(shrunk, at) {
            let first = within(begin[at]);
            if !(0..all).contains(&first) {
                return Err(OpError::rule(format!("index {first} of {all}")).into());
            }
            start += size_of_step(first) * own[axis];
            axis += 1;
            continue;
        }
        let end = if is_offset { within(begin[at]).saturating_add(end[at]) } else { end[at] };
        let last = if bit(ends, at) {
            if step > 0 { all } else { -1 }
        } else if is_offset {
            end.clamp(low, high)
        } else {
            within(end).clamp(low, high)
        };
        let count = if step > 0 {
            (last - first).max(0).saturating_add(step - 1) / step
        } else {
            (first - last).max(0).saturating_sub(step.saturating_add(1)) / step.saturating_neg()
        };
        extents.push(usize::try_from(count).unwrap_or(0));
        from.push(own[axis].saturating_mul(size_of_step(step)));
        if count > 0 {
            start += size_of_step(first) * own[axis];
        }
        axis += 1;
    }
    while let Some(&extent) = input.shape.get(axis) {
        extents.push(extent);
        from.push(own[axis]);
        axis += 1;
    }
    let start = if extents.contains(&0) { 0 } else { usize::try_from(start).unwrap_or(0) };
    emit_view(call, &input, &extents, &from, start)
}

fn size_of_step(value: i64) -> isize {
    isize::try_from(value).unwrap_or(isize::MAX)
}

pub(super) fn tile(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let times = sizes(&call.ints(1)?)?;
    if times.len() != input.shape.rank() {
        return Err(OpError::input(1, "has not an entry per dimension").into());
    }
    call.same(&input, 0)?;
    let total: Vec<usize> = input
        .shape
        .iter()
        .zip(&times)
        .map(|(&extent, &times)| extent.saturating_mul(times))
        .collect();
    let shape = call.set(0, &total)?;
    // Each dimension twice: how often, and along the input.
    let (own, to) = (strides(&input.shape), strides(&total));
    let mut all = Vec::new();
    for axis in 0..times.len() {
        let extent = input.shape[axis];
        all.push(super::copy::Axis {
            count: times[axis],
            from: 0,
            to: to[axis].saturating_mul(extent.cast_signed()),
        });
        all.push(super::copy::Axis { count: extent, from: own[axis], to: to[axis] });
    }
    let copy = Copy::new(&all, 0, 0, input.kind.bytes());
    call.step(&shape, move |io| copy.run(io.input(0), io.output(0)));
    Ok(())
}

pub(super) fn broadcast_to(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let wanted = Shape::new(sizes(&call.ints(1)?)?)?;
    if input.shape.broadcast(&wanted)? != wanted {
        let what = format!("{:?} does not broadcast to {wanted:?}", input.shape);
        return Err(OpError::rule(what).into());
    }
    let from: Vec<isize> =
        input.shape.broadcast_strides(&wanted).into_iter().map(usize::cast_signed).collect();
    emit_view(call, &input, &wanted, &from, 0)
}

pub(super) fn broadcast_args(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let shapes = [call.ints(0)?, call.ints(1)?];
    let [a, b] = [Shape::new(sizes(&shapes[0])?)?, Shape::new(sizes(&shapes[1])?)?];
    let wide = a.broadcast(&b)?;
    let values: Vec<i64> = wide.iter().map(|&x| i64::try_from(x).unwrap_or(i64::MAX)).collect();
    super::shapes::emit_ints(call, values)
}

pub(super) fn reverse(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let mut from = strides(&input.shape);
    let mut start = 0;
    for axis in call.ints(1)? {
        let axis = call.axis(axis, input.shape.rank())?;
        if from[axis] > 0 {
            start += from[axis].unsigned_abs() * input.shape[axis].saturating_sub(1);
            from[axis] = -from[axis];
        }
    }
    let extents = input.shape.to_vec();
    emit_view(call, &input, &extents, &from, start)
}

/// Repeats the bytes of one element throughout a tensor, which ends early if the run is to end.
pub(super) fn fill_with(output: Out<'_, u8>, element: In<'_, u8>) {
    // Whole elements of every width.
    let mut block = [0; 256];
    let (first, others) = block.split_at_mut(element.len().clamp(1, 8));
    element.copy_to(first);
    others.chunks_exact_mut(first.len()).for_each(|bytes| bytes.copy_from_slice(first));
    for at in poll::each((0..output.len()).step_by(block.len()), block.len() / 8) {
        let len = block.len().min(output.len() - at);
        output.slice(at..at + len).copy_from(In::of(&block[..len]));
    }
}

/// The bytes of real zero.
pub(super) fn zero_bytes(of: &Arg) -> Vec<u8> {
    let [low, high, ..] = of.zero_point.to_le_bytes();
    match of.kind {
        ElementKind::I8 | ElementKind::U8 => vec![low],
        ElementKind::I16 => vec![low, high],
        kind => vec![0; kind.bytes()],
    }
}

pub(super) fn padded(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let sides = sides(call, &input)?;
    let mut extents = Vec::new();
    for (&extent, &(head, tail)) in input.shape.iter().zip(&sides) {
        extents.push(extent.saturating_add(head).saturating_add(tail));
    }
    call.same(&input, 0)?;
    let shape = call.set(0, &extents)?;
    let heads: Vec<usize> = sides.iter().map(|&(head, _)| head).collect();
    if !call.has(2) {
        let (from, fill) = (input.shape, zero_bytes(&call.result(0)?));
        return match fill.len() {
            1 => pad::emit::<u8>(call, &from, &shape, &heads, &fill),
            2 => pad::emit::<u16>(call, &from, &shape, &heads, &fill),
            4 => pad::emit::<u32>(call, &from, &shape, &heads, &fill),
            _ => pad::emit::<u64>(call, &from, &shape, &heads, &fill),
        };
    }
    call.one_element(2, input.kind)?;
    let to = strides(&extents);
    let width = input.kind.bytes();
    let own = axes(&input.shape, &strides(&input.shape), &to);
    let copy = Copy::new(&own, 0, offset(&heads, &to), width);
    call.step(&shape, move |io| {
        fill_with(io.output(0), io.input(2));
        copy.run(io.input(0), io.output(0))
    });
    Ok(())
}

/// The padding in front of and behind each dimension.
fn sides(call: &OperatorCall<'_, '_>, input: &Arg) -> Lowered<Vec<(usize, usize)>> {
    let values = sizes(&call.ints(1)?)?;
    let (pairs, rest) = values.as_chunks::<2>();
    if pairs.len() != input.shape.rank() || !rest.is_empty() {
        return Err(OpError::input(1, "has not two entries per dimension").into());
    }
    Ok(pairs.iter().map(|&[head, tail]| (head, tail)).collect())
}

/// Mode 0 leaves out the border itself, mode 1 repeats it.
pub(super) fn mirror_pad(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let sides = sides(call, &input)?;
    let skip = usize::from(call.int(0)? == 0);
    call.same(&input, 0)?;
    let mut extents = Vec::new();
    for (&extent, &(head, tail)) in input.shape.iter().zip(&sides) {
        if head.max(tail) + skip > extent {
            let what = format!("{head} and {tail} are not mirrored in {extent}");
            return Err(OpError::input(1, what).into());
        }
        extents.push(extent + head + tail);
    }
    let shape = call.set(0, &extents)?;
    let (own, to) = (strides(&input.shape), strides(&extents));
    // Head, middle and tail of each dimension: all their combinations are regular copies.
    let mut copies = vec![(Vec::new(), 0usize, 0usize)];
    for (axis, &(head, tail)) in sides.iter().enumerate() {
        let extent = input.shape[axis];
        let (from, into) = (own[axis], to[axis]);
        let mut parts = vec![(extent, from, 0, head)];
        if head > 0 {
            parts.push((head, -from, head - 1 + skip, 0));
        }
        if tail > 0 {
            parts.push((tail, -from, extent - 1 - skip, head + extent));
        }
        let mut next = Vec::new();
        for (made, start, end) in &copies {
            for &(count, from, first, place) in &parts {
                let mut made: Vec<super::copy::Axis> = made.clone();
                made.push(super::copy::Axis { count, from, to: into });
                let first = start + first * own[axis].unsigned_abs();
                next.push((made, first, end + place * into.unsigned_abs()));
            }
        }
        copies = next;
        if copies.len() > 1 << 12 {
            return Err(OpError::rule("too many dimensions are mirrored").into());
        }
    }
    let width = input.kind.bytes();
    let copies: Vec<Copy> =
        copies.iter().map(|(axes, from, to)| Copy::new(axes, *from, *to, width)).collect();
    call.step(&shape, move |io| {
        copies.iter().try_for_each(|copy| copy.run(io.input(0), io.output(0)))
    });
    Ok(())
}

/// The value comes second.
pub(super) fn fill(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let extents = sizes(&call.ints(0)?)?;
    let value = call.arg(1)?;
    call.one_element(1, value.kind)?;
    call.same(&value, 0)?;
    let shape = call.set(0, &extents)?;
    call.step(&shape, |io| {
        fill_with(io.output(0), io.input(1));
        Ok(())
    });
    Ok(())
}

pub(super) fn zeros_like(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    call.step(&shape, |io| {
        io.output::<u8>(0).fill(std::iter::repeat(0));
        Ok(())
    });
    Ok(())
}

/// The update takes the place of a part of the operand; where it would reach out, it is moved in.
pub(super) fn dynamic_update_slice(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (operand, update, starts) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    operand.same_kind(&update)?;
    call.same(&operand, 0)?;
    let room: Option<Vec<usize>> = (operand.shape.rank() == update.shape.rank())
        .then(|| operand.shape.iter().zip(&*update.shape))
        .and_then(|pairs| pairs.map(|(all, part)| all.checked_sub(*part)).collect());
    let room = room.ok_or_else(|| OpError::input(1, "is larger than what it updates"))?;
    if !matches!(starts.kind, ElementKind::I32 | ElementKind::I64) {
        return Err(refused(2, starts.kind).into());
    }
    if starts.shape.elements() != room.len() {
        return Err(OpError::input(2, "has not an entry per dimension").into());
    }
    let extents = operand.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let to = strides(&extents);
    let own = axes(&update.shape, &strides(&update.shape), &to);
    let (width, wide) = (operand.kind.bytes(), starts.kind == ElementKind::I64);
    call.step(&shape, move |io| {
        io.output::<u8>(0).copy_from(io.input(0));
        let place = |axis: usize| {
            let start = if wide {
                io.input::<i64>(2).get(axis)
            } else {
                i64::from(io.input::<i32>(2).get(axis))
            };
            usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(room[axis])
        };
        let starts: Vec<usize> = (0..room.len()).map(place).collect();
        Copy::new(&own, 0, offset(&starts, &to), width).run(io.input(1), io.output(0))
    });
    Ok(())
}
