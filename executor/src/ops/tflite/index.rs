//! Operations that look up, scatter, choose and order elements by indices.

use std::cmp::Ordering;

use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::tensor::{AlignedBytes, Element, In, OpError, Out, Shape, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused, sizes};
use super::copy::{Copy, axes};
use crate::lowering::{DynamicOutput, Io, Lowered};
use crate::ops::sort::Ranked as _;
use crate::ops::support::plain;

/// Reads an index of INT32, INT64 or INT16, whatever memory it lies in: once.
pub(super) fn index_at(io: &Io<'_>, input: usize, kind: ElementKind, at: usize) -> i64 {
    match kind {
        ElementKind::I64 => io.input::<i64>(input).get(at),
        ElementKind::I16 => i64::from(io.input::<i16>(input).get(at)),
        _ => i64::from(io.input::<i32>(input).get(at)),
    }
}

pub(super) fn check_index_kind(index: usize, kind: ElementKind) -> Result<(), OpError> {
    match kind {
        ElementKind::I16 | ElementKind::I32 | ElementKind::I64 => Ok(()),
        kind => Err(refused(index, kind)),
    }
}

/// Rows along an axis, by batches that both inputs begin with.
pub(super) fn gather(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, indices) = (call.arg(0)?, call.arg(1)?);
    check_index_kind(1, indices.kind)?;
    call.same(&input, 0)?;
    let rank = input.shape.rank();
    let axis = call.axis(i64::from(call.int(0)?), rank)?;
    let batch_dims = i64::from(call.int(1)?);
    let batches = if batch_dims < 0 {
        batch_dims + i64::try_from(indices.shape.rank()).unwrap_or(0)
    } else {
        batch_dims
    };
    let batches = usize::try_from(batches).ok();
    let batches = batches.filter(|&it| {
        it <= axis && it <= indices.shape.rank() && input.shape[..it] == indices.shape[..it]
    });
    let batches = batches.ok_or_else(|| OpError::rule("the batches don't agree"))?;
    let mut extents = input.shape[..axis].to_vec();
    extents.extend_from_slice(&indices.shape[batches..]);
    extents.extend_from_slice(&input.shape[axis + 1..]);
    let shape = call.set(0, &extents)?;
    let count = |extents: &[usize]| extents.iter().product::<usize>();
    let batch = count(&input.shape[..batches]);
    let outer = count(&input.shape[batches..axis]);
    let (extent, own) = (input.shape[axis], count(&indices.shape[batches..]));
    let row = count(&input.shape[axis + 1..]) * input.kind.bytes();
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        for at in poll::each(0..batch * own, 16) {
            let index = index_at(&io, 1, indices.kind, at);
            let place = usize::try_from(index).ok().filter(|&place| place < extent);
            let place = place.ok_or_else(|| format!("index {index} of {extent}"))?;
            let (batch, at) = (at / own, at % own);
            for outer_at in poll::each(0..outer, 8 + row / 8) {
                let block = batch * outer + outer_at;
                let source = (block * extent + place) * row;
                let target = (block * own + at) * row;
                to.slice(target..target + row).copy_from(from.slice(source..source + row));
            }
        }
        Ok(())
    });
    Ok(())
}

/// Slices whose positions the last dimension of the second input gives.
pub(super) fn gather_nd(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, indices) = (call.arg(0)?, call.arg(1)?);
    check_index_kind(1, indices.kind)?;
    call.same(&input, 0)?;
    let (outer, depth) = last_of(&indices, 1, input.shape.rank())?;
    let mut extents = outer.to_vec();
    extents.extend_from_slice(&input.shape[depth..]);
    let shape = call.set(0, &extents)?;
    let row = input.shape[depth..].iter().product::<usize>() * input.kind.bytes();
    let count: usize = outer.iter().product();
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        for at in poll::each(0..count, 16 + row / 8) {
            let place = position(&io, 1, &indices, at, &input.shape[..depth])?;
            let source = place * row;
            to.slice(at * row..(at + 1) * row).copy_from(from.slice(source..source + row));
        }
        Ok(())
    });
    Ok(())
}

/// The dimensions of indices but the last, and the extent of that: a position's entries.
fn last_of(indices: &Arg, index: usize, most: usize) -> Lowered<(Vec<usize>, usize)> {
    let found = indices.shape.split_last().filter(|&(&depth, _)| depth <= most);
    let (&depth, outer) = found
        .ok_or_else(|| OpError::input(index, format!("is of {:?} for {most}", indices.shape)))?;
    Ok((outer.to_vec(), depth))
}

/// The position that entry `at` of some indices names, in row-major order of `extents`.
fn position(
    io: &Io<'_>,
    input: usize,
    indices: &Arg,
    at: usize,
    extents: &[usize],
) -> Result<usize, String> {
    let mut place = 0;
    for (axis, &extent) in extents.iter().enumerate() {
        let index = index_at(io, input, indices.kind, at * extents.len() + axis);
        let own = usize::try_from(index).ok().filter(|&own| own < extent);
        place = place * extent + own.ok_or_else(|| format!("index {index} of {extent}"))?;
    }
    Ok(place)
}

/// Zeros with updates added at positions; the shape comes last.
pub(super) fn scatter_nd(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (indices, updates) = (call.arg(0)?, call.arg(1)?);
    check_index_kind(0, indices.kind)?;
    call.same(&updates, 0)?;
    let extents = sizes(&call.ints(2)?)?;
    let shape = call.set(0, &extents)?;
    let (outer, depth) = last_of(&indices, 0, extents.len())?;
    let row: usize = extents[depth..].iter().product();
    let count: usize = outer.iter().product();
    let mut wanted = outer;
    wanted.extend_from_slice(&extents[depth..]);
    if *updates.shape != *wanted {
        let what = format!("is of {:?}, not {wanted:?}", updates.shape);
        return Err(OpError::input(1, what).into());
    }
    /// Adds a row to another.
    fn add<T: Element>(each: impl Fn(T, T) -> T, row: In<'_, u8>, to: Out<'_, u8>) {
        let (row, to) = (row.cast::<T>(), to.cast::<T>());
        for at in 0..to.len() {
            to.set(at, each(to.as_in().get(at), row.get(at)));
        }
    }
    let add: fn(In<'_, u8>, Out<'_, u8>) = match updates.kind {
        ElementKind::F32 => |row, to| add(|a: f32, b| a + b, row, to),
        ElementKind::I8 | ElementKind::U8 => |row, to| add(u8::wrapping_add, row, to),
        ElementKind::I16 => |row, to| add(i16::wrapping_add, row, to),
        ElementKind::I32 => |row, to| add(i32::wrapping_add, row, to),
        ElementKind::I64 => |row, to| add(i64::wrapping_add, row, to),
        ElementKind::Bool => |row, to| add(|a: u8, b| u8::from(a != 0 || b != 0), row, to),
        kind => return Err(refused(1, kind).into()),
    };
    let bytes = row * updates.kind.bytes();
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<u8>(1), io.output::<u8>(0));
        to.fill(std::iter::repeat(0));
        for at in poll::each(0..count, 16 + row) {
            let place = position(&io, 0, &indices, at, &extents[..depth])? * bytes;
            let own = from.slice(at * bytes..(at + 1) * bytes);
            add(own, to.slice(place..place + bytes));
        }
        Ok(())
    });
    Ok(())
}

/// The greatest elements of each row and where they are; among equals the first.
pub(super) fn top_k(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let k = usize::try_from(call.one_int(1)?).map_err(|_| OpError::rule("k is negative"))?;
    let rank = input.shape.rank();
    let (&extent, outer) = input
        .shape
        .split_last()
        .filter(|&(&extent, _)| k <= extent)
        .ok_or_else(|| OpError::rule(format!("{k} elements of rows of {:?}", input.shape)))?;
    call.same(&input, 0)?;
    let rows: usize = outer.iter().product();
    let mut extents = input.shape.to_vec();
    extents[rank - 1] = k;
    let shape = call.set(0, &extents)?;
    call.set(1, &extents)?;
    call.result_is(1, &[ElementKind::I16, ElementKind::I32])?;
    let is_short = call.result(1)?.kind == ElementKind::I16;
    let label = plain("tflite_topk", &shape, 0);
    let width = input.kind.bytes();
    let find = row_order(input.kind)?;
    let scratch = extent * (8 + width);
    call.emit_with_scratch(label, scratch, move |mut io| {
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        let outputs = io.inputs_and_outputs();
        if extent == 0 {
            return Ok(()); // and there is no scratch memory
        }
        let (order, values) = io.scratch_slice::<u8>().split_at_mut(extent * 8);
        let order: &mut [u64] = bytemuck::cast_slice_mut(order);
        for row in poll::each(0..rows, extent * 20) {
            from.slice(row * extent * width..(row + 1) * extent * width).copy_to(values);
            find(values, order, k);
            for (at, &key) in order[..k].iter().enumerate() {
                let [place, ..] = bytemuck::cast::<_, [u32; 2]>(key.to_le());
                let first = place as usize * width;
                let value = In::of(&values[first..first + width]);
                to.slice((row * k + at) * width..(row * k + at + 1) * width).copy_from(value);
                let place = place.cast_signed();
                if is_short {
                    let short = i16::try_from(place).unwrap_or(i16::MAX);
                    outputs.output::<i16>(1).set(row * k + at, short);
                } else {
                    outputs.output::<i32>(1).set(row * k + at, place);
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// See [`row_order`].
type RowOrder = fn(&[u8], &mut [u64], usize);

/// The function that puts the places of a row's elements into the lower halves of integers: of as
/// many as are asked for from the greatest element to the least, of equals the first place first
/// and last what is no number; then of the others.
fn row_order(kind: ElementKind) -> Lowered<RowOrder> {
    if kind == ElementKind::I64 {
        return Ok(|values, order, count| {
            let values: &[i64] = bytemuck::cast_slice(values);
            order.iter_mut().zip(0..).for_each(|(place, at)| *place = at);
            let value = |place: u64| usize::try_from(place).map_or(0, |place| values[place]);
            first_sorted(order, count, |&a, &b| value(b).cmp(&value(a)).then(a.cmp(&b)));
        });
    }
    by_kind!(kind, [F32 f32, I8 i8, U8 u8, I16 i16, I32 i32], T => Ok(|values, order, count| {
        let values: &[T] = bytemuck::cast_slice(values);
        for ((key, value), place) in order.iter_mut().zip(values).zip(0u32..) {
            *key = u64::from(!value.rank()) << 32 | u64::from(place);
        }
        first_sorted(order, count, u64::cmp);
    }))
}

/// Brings the first `count` keys of an order to the front, and sorts these.
fn first_sorted(keys: &mut [u64], count: usize, order: impl Fn(&u64, &u64) -> Ordering) {
    if (1..keys.len()).contains(&count) {
        keys.select_nth_unstable_by(count - 1, &order);
    }
    keys[..count].sort_unstable_by(order);
}

/// The index of the greatest or least element along an axis; among equals the first.
pub(super) fn arg(call: &mut OperatorCall<'_, '_>, least: bool) -> Lowered {
    let input = call.arg(0)?;
    let axis = call.axis(call.one_int(1)?, input.shape.rank())?;
    let (outer, extent, inner) = input.shape.around(axis);
    if extent == 0 {
        return Err(OpError::input(0, "has no element along the axis").into());
    }
    call.result_is(0, &[ElementKind::I32, ElementKind::I64])?;
    let mut extents = input.shape.to_vec();
    extents.remove(axis);
    let shape = call.set(0, &extents)?;
    let wide = call.result(0)?.kind == ElementKind::I64;
    by_kind!(input.kind, [F32 f32, I8 i8, U8 u8, I16 i16, I32 i32, I64 i64, Bool u8], T => {
        call.step(&shape, move |io| {
            let from = io.input::<T>(0);
            for at in poll::each(0..outer * inner, extent) {
                let start = at / inner * extent * inner + at % inner;
                let mut best = (0usize, from.get(start));
                for place in 1..extent {
                    let value = from.get(start + place * inner);
                    if if least { value < best.1 } else { value > best.1 } {
                        best = (place, value);
                    }
                }
                let place = i64::try_from(best.0).unwrap_or(i64::MAX);
                if wide {
                    io.output::<i64>(0).set(at, place);
                } else {
                    io.output::<i32>(0).set(at, super::math::low(place));
                }
            }
            Ok(())
        });
    });
    Ok(())
}

/// The positions of what is not 0: as many rows as a run finds.
pub(super) fn where_true(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let rank = input.shape.rank();
    let extents = input.shape.to_vec();
    let label = plain("tflite_where", &input.shape, 0);
    let width = input.kind.bytes();
    call.result_is(0, &[ElementKind::I64])?;
    call.claim(input.shape.elements().saturating_mul(8 * (rank + 2)))?;
    call.dynamic(label, move |io| {
        let bytes = io.input::<u8>(0);
        let total: usize = extents.iter().product();
        let is_set = |at: &usize| {
            let element = bytes.slice(at * width..(at + 1) * width);
            element.iter().any(|byte| byte != 0)
        };
        let found: Vec<usize> = poll::each(0..total, 4).filter(is_set).collect();
        let mut rows = AlignedBytes::zeroed(8 * found.len() * rank);
        for (row, &place) in rows.typed_mut::<i64>().chunks_exact_mut(rank.max(1)).zip(&found) {
            let mut rest = place;
            for (to, &extent) in row.iter_mut().zip(&extents).rev() {
                *to = i64::try_from(rest % extent).unwrap_or(0);
                rest /= extent;
            }
        }
        let shape = Shape::new([found.len(), rank]).map_err(|error| error.to_string())?;
        Ok(vec![DynamicOutput { shape, bytes: rows }])
    })
}

/// Rows of a table, for each lookup.
pub(super) fn embedding_lookup(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (lookups, table) = (call.arg(0)?, call.arg(1)?);
    check_index_kind(0, lookups.kind)?;
    let (&rows, rest) =
        table.shape.split_first().ok_or_else(|| OpError::input(1, "is a scalar"))?;
    let mut extents = lookups.shape.to_vec();
    extents.extend_from_slice(rest);
    let shape = call.set(0, &extents)?;
    let row: usize = rest.iter().product();
    let result = call.result(0)?;
    let count = lookups.shape.elements();
    if result.kind == ElementKind::F32 && table.kind == ElementKind::I8 {
        if table.channels.as_ref().is_some_and(|of| of.channel_dim != 0) {
            return Err(OpError::input(1, "has no scale for each row").into());
        }
        let scales = table.scales(if table.channels.is_some() { rows } else { 1 })?;
        let blocks = blocks_of_a_row(call, rows, row)?;
        let parts = blocks.unwrap_or(1);
        let block = row.checked_div(parts).unwrap_or(0);
        let (isa, zero_point) = (call.isa(), table.zero_point);
        call.step(&shape, move |io| {
            let (from, to) = (io.input::<i8>(1), io.output::<f32>(0));
            for at in 0..count {
                let place = row_of(&io, &lookups, at, rows)?;
                let of_row = scales.get(place).or_else(|| scales.first()).copied().unwrap_or(0.0);
                for part in 0..parts {
                    let scale = match blocks {
                        Some(_) => io.input::<f32>(BLOCK_SCALES).get(place * parts + part),
                        None => of_row,
                    };
                    let real = |x: i8| super::math::f32_of(i32::from(x) - zero_point) * scale;
                    let [own, given] = [place, at].map(|of| of * row + part * block);
                    let (own, given) =
                        (from.slice(own..own + block), to.slice(given..given + block));
                    in_chunks(block, |part| {
                        map(isa, own.slice(part.clone()), given.slice(part), real);
                        Ok(())
                    })?;
                }
            }
            Ok(())
        });
        return Ok(());
    }
    if call.has(BLOCK_SCALES) {
        return Err(OpError::input(BLOCK_SCALES, "is for rows of bytes as floats").into());
    }
    table.same_kind(&result)?;
    let bytes = row * table.kind.bytes();
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<u8>(1), io.output::<u8>(0));
        for at in poll::each(0..count, 16 + bytes / 8) {
            let place = row_of(&io, &lookups, at, rows)? * bytes;
            to.slice(at * bytes..(at + 1) * bytes).copy_from(from.slice(place..place + bytes));
        }
        Ok(())
    });
    Ok(())
}

/// The input that has the scales of a table's blocks, `[rows, blocks of a row]`.
const BLOCK_SCALES: usize = 2;

/// How many blocks a row has that have scales of their own, if they have.
fn blocks_of_a_row(
    call: &OperatorCall<'_, '_>,
    rows: usize,
    row: usize,
) -> Result<Option<usize>, OpError> {
    if !call.has(BLOCK_SCALES) {
        return Ok(None);
    }
    let scales = call.arg(BLOCK_SCALES)?;
    let refused = |what: String| Err(OpError::input(BLOCK_SCALES, what));
    match scales.shape[..] {
        _ if scales.kind != ElementKind::F32 => refused("is not of floats".to_owned()),
        [of, blocks] if of == rows && blocks > 0 && row.is_multiple_of(blocks) => Ok(Some(blocks)),
        _ => refused(format!("is of {:?} for {rows} rows of {row}", scales.shape)),
    }
}

fn row_of(io: &Io<'_>, lookups: &Arg, at: usize, rows: usize) -> Result<usize, String> {
    let index = index_at(io, 0, lookups.kind, at);
    let row = usize::try_from(index).ok().filter(|&row| row < rows);
    row.ok_or_else(|| format!("index {index} of {rows} rows"))
}

/// Each row turned around as far as its entry in the second input says.
pub(super) fn reverse_sequence(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, lengths) = (call.arg(0)?, call.arg(1)?);
    check_index_kind(1, lengths.kind)?;
    call.same(&input, 0)?;
    let rank = input.shape.rank();
    let seq = call.axis(i64::from(call.int(0)?), rank)?;
    let batch = call.axis(i64::from(call.int(1)?), rank)?;
    if seq == batch || lengths.shape.elements() != input.shape[batch] {
        return Err(OpError::input(1, "has not an entry per batch").into());
    }
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let strides = super::copy::strides(&extents);
    let width = input.kind.bytes();
    call.step(&shape, move |io| {
        for at in 0..extents[batch] {
            let length = index_at(&io, 1, lengths.kind, at);
            let length = usize::try_from(length).ok().filter(|&it| it <= extents[seq]);
            let length = length.ok_or_else(|| "a length beyond its row".to_owned())?;
            let first = at * strides[batch].unsigned_abs();
            let along = strides[seq];
            let mut own = extents.clone();
            own[batch] = 1;
            own[seq] = length;
            let mut from = strides.clone();
            from[seq] = -along;
            let start = first + length.saturating_sub(1) * along.unsigned_abs();
            let turned = Copy::new(&axes(&own, &from, &strides), start, first, width);
            turned.run(io.input(0), io.output(0))?;
            own[seq] = extents[seq] - length;
            let rest = first + length * along.unsigned_abs();
            let kept = Copy::new(&axes(&own, &strides, &strides), rest, rest, width);
            kept.run(io.input(0), io.output(0))?;
        }
        Ok(())
    });
    Ok(())
}

/// Bytes that a run takes for each element at the most: its entry in a table that doubles, the
/// element and its place in lists that do, and both as results.
const UNIQUE_BYTES: usize = 128;

/// The distinct elements in the order of their first appearance, and which of them each is.
pub(super) fn unique(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    call.result_is(1, &[ElementKind::I32, ElementKind::I64])?;
    let wide = call.result(1)?.kind == ElementKind::I64;
    call.claim(input.shape.elements().saturating_mul(UNIQUE_BYTES))?;
    let label = plain("tflite_unique", &input.shape, 0);
    by_kind!(input.kind, [F32 f32, I8 i8, U8 u8, I16 i16, I32 i32, I64 i64], T => {
        call.dynamic(label, move |io| {
            let (found, places) = distinct(io.input::<T>(0));
            let fail = |error: OpError| error.to_string();
            let mut values = AlignedBytes::zeroed(size_of::<T>() * found.len());
            values.typed_mut::<T>().copy_from_slice(&found);
            let mut indices = AlignedBytes::zeroed(if wide { 8 } else { 4 } * places.len());
            for (at, &place) in places.iter().enumerate() {
                let place = i64::try_from(place).unwrap_or(i64::MAX);
                if wide {
                    indices.typed_mut::<i64>()[at] = place;
                } else {
                    indices.typed_mut::<i32>()[at] = super::math::low(place);
                }
            }
            Ok(vec![
                DynamicOutput { shape: Shape::new([found.len()]).map_err(fail)?, bytes: values },
                DynamicOutput { shape: Shape::new([places.len()]).map_err(fail)?, bytes: indices },
            ])
        })
    })
}

fn distinct<T: Element + PartialEq>(values: In<'_, T>) -> (Vec<T>, Vec<usize>) {
    let mut known = std::collections::HashMap::new();
    let (mut found, mut places) = (Vec::new(), Vec::new());
    for value in poll::each(values.iter(), 40) {
        // Zeros of either sign are the same; numbers take eight bytes at the most.
        let mut key = [0u8; 8];
        if value != T::default() {
            let bytes = bytemuck::bytes_of(&value);
            key[..bytes.len()].copy_from_slice(bytes);
        }
        let place = *known.entry(key).or_insert_with(|| {
            found.push(value);
            found.len() - 1
        });
        places.push(place);
    }
    (found, places)
}
