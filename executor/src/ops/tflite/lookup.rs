//! Lookups by key, and hashes of items.

use std::cmp::Ordering;

use nnburst_kernels::tensor::{In, OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall, refused, sizes};
use crate::lowering::{Io, Lowered};
use crate::ops::lsh_projection::{self, LshKind, LshProjection};

/// HASHTABLE_LOOKUP: rows of the third input whose key in the second, which ascends, is the one
/// looked up; zeros where there is none, and whether there was one.
pub(super) fn hashtable_lookup(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (lookups, keys, values) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    let list = |index: usize, arg: &Arg| match (&arg.shape[..], arg.kind) {
        (&[count], ElementKind::I32) => Ok(count),
        _ => Err(OpError::input(index, format!("is {:?} of {:?}", arg.kind, arg.shape))),
    };
    let (count, rows) = (list(0, &lookups)?, list(1, &keys)?);
    let Some((&own, rest)) = values.shape.split_first() else {
        return Err(OpError::input(2, "is a scalar").into());
    };
    if own != rows {
        return Err(OpError::rule(format!("{rows} keys for {own} rows")).into());
    }
    call.same(&values, 0)?;
    call.result_is(1, &[ElementKind::U8, ElementKind::I8, ElementKind::Bool])?;
    let row = rest.iter().product::<usize>() * values.kind.bytes();
    let mut extents = values.shape.to_vec();
    extents[0] = count;
    let shape = call.set(0, &extents)?;
    call.set(1, &[count])?;
    call.step(&shape, move |io| {
        let (lookups, keys, values) = (io.input::<i32>(0), io.input::<i32>(1), io.input::<u8>(2));
        let (found, hits) = (io.output::<u8>(0), io.output::<u8>(1));
        for at in poll::each(0..count, 60 + row / 8) {
            let place = find(keys, lookups.get(at));
            let to = found.slice(at * row..(at + 1) * row);
            match place {
                Some(place) => to.copy_from(values.slice(place * row..(place + 1) * row)),
                None => to.fill(std::iter::repeat_n(0, row)),
            }
            hits.set(at, u8::from(place.is_some()));
        }
        Ok(())
    });
    Ok(())
}

/// The place of a key among ascending ones, found by halves; differences wrap, as TFLite's do.
fn find(keys: In<'_, i32>, wanted: i32) -> Option<usize> {
    let (mut low, mut high) = (0, keys.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        match wanted.wrapping_sub(keys.get(middle)).cmp(&0) {
            Ordering::Less => high = middle,
            Ordering::Greater => low = middle + 1,
            Ordering::Equal => return Some(middle),
        }
    }
    None
}

/// LSH_PROJECTION: hash functions `[functions, bits]`, items, and their weights, which may be left
/// out.
pub(super) fn lsh_projection(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (hash, input) = (call.arg(0)?, call.arg(1)?);
    let &[functions, bits] = &hash.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", hash.shape)).into());
    };
    if hash.kind != ElementKind::F32 || bits > 32 {
        return Err(OpError::input(0, format!("is {:?} with {bits} bits", hash.kind)).into());
    }
    let Some(&items) = input.shape.first().filter(|&&items| items > 0) else {
        return Err(OpError::input(1, "has no items").into());
    };
    let weighted = call.has(2);
    if weighted {
        let weights = call.arg(2)?;
        if weights.kind != ElementKind::F32 {
            return Err(refused(2, weights.kind).into());
        }
        if weights.shape[..] != [items] {
            let what = format!("is of {:?} for {items} items", weights.shape);
            return Err(OpError::input(2, what).into());
        }
    }
    let (kind, outputs) = match call.int(0)? {
        1 => (LshKind::Sparse, functions),
        2 => (LshKind::Dense, functions * bits),
        code => return Err(OpError::rule(format!("there is no projection {code}")).into()),
    };
    call.result_is(0, &[ElementKind::I32])?;
    call.set(0, &[outputs])?;
    let item_bytes = input.shape.around(0).2 * input.kind.bytes();
    let projection = LshProjection { kind, functions, bits, items, item_bytes, weighted };
    lsh_projection::emit::<f32>(call, projection)
}

/// EMBEDDING_LOOKUP_SPARSE: ids, the places of each in a sparse tensor, that tensor's shape,
/// weights, and the table. Rows of the table for the ids of one place, all but its last dimension,
/// are summed by weight; option 0 says what the sum is divided by.
pub(super) fn embedding_lookup_sparse(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let [ids, places, weights, table] = [call.arg(0)?, call.arg(1)?, call.arg(3)?, call.arg(4)?];
    let (lookups, depth) = match (&ids.shape[..], &places.shape[..], &weights.shape[..]) {
        (&[count], &[rows, depth], &[weighed]) if count == rows && count == weighed => {
            (count, depth)
        }
        _ => {
            let what = format!("{:?}, {:?}, {:?}", ids.shape, places.shape, weights.shape);
            return Err(OpError::rule(format!("lookups of {what}")).into());
        }
    };
    let kinds = [ids.kind, places.kind, weights.kind, table.kind];
    if kinds != [ElementKind::I32, ElementKind::I32, ElementKind::F32, ElementKind::F32] {
        return Err(OpError::rule(format!("lookups of {kinds:?}")).into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    let combiner = call.int(0)?;
    if !(0..=2).contains(&combiner) {
        return Err(OpError::rule(format!("there is no combiner {combiner}")).into());
    }
    let dense = sizes(&call.ints(2)?)?;
    let (Some((&rows, rest)), Some((_, outer))) =
        (table.shape.split_first().filter(|(_, rest)| !rest.is_empty()), dense.split_last())
    else {
        return Err(OpError::rule("a table without rows, or a shape without dimensions").into());
    };
    if dense.len() != depth {
        return Err(OpError::rule(format!("places of {depth} in {dense:?}")).into());
    }
    let (outer, row) = (outer.to_vec(), rest.iter().product::<usize>());
    let shape = call.set(0, &[&outer, rest].concat())?;
    call.step(&shape, move |io| {
        let (ids, weights) = (io.input::<i32>(0), io.input::<f32>(3));
        let (table, to) = (io.input::<f32>(4), io.output::<f32>(0));
        to.fill(std::iter::repeat(0.0));
        // The sum at work: its place, its weights and their squares.
        let (mut place, mut weight, mut squares, mut count) = (0, 0.0f32, 0.0f32, 0);
        for at in 0..=lookups {
            poll::work(40 + 2 * row)?;
            let next = match at < lookups {
                true => Some(place_of(&io, at * depth, &outer)?),
                false => None,
            };
            if next != Some(place) && count > 0 && combiner != 0 {
                let divisor = if combiner == 1 { weight } else { squares.sqrt() };
                for own in place * row..(place + 1) * row {
                    to.set(own, to.as_in().get(own) / divisor);
                }
            }
            let Some(next) = next else { break };
            if next != place {
                (place, weight, squares, count) = (next, 0.0, 0.0, 0);
            }
            let id = ids.get(at);
            let id = usize::try_from(id).ok().filter(|&id| id < rows);
            let id = id.ok_or_else(|| format!("id {} of {rows}", ids.get(at)))?;
            let own = weights.get(at);
            (weight, squares, count) = (weight + own, squares + own * own, count + 1);
            for entry in 0..row {
                let sum = to.as_in().get(place * row + entry) + table.get(id * row + entry) * own;
                to.set(place * row + entry, sum);
            }
        }
        Ok(())
    });
    Ok(())
}

/// The place among `outer` that the second input gives from entry `first` on.
fn place_of(io: &Io<'_>, first: usize, outer: &[usize]) -> Result<usize, String> {
    let places = io.input::<i32>(1);
    outer.iter().enumerate().try_fold(0, |place, (axis, &extent)| {
        let index = places.get(first + axis);
        let own = usize::try_from(index).ok().filter(|&own| own < extent);
        Ok(place * extent + own.ok_or_else(|| format!("place {index} of {extent}"))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_halves() {
        let keys = [-5, 0, 3, 7, 9];
        let found = [-5, 0, 3, 7, 9, 8, 100, i32::MIN].map(|key| find(In::of(&keys), key));
        // The greatest distances wrap: the least integer is looked for behind all keys.
        assert_eq!(found, [Some(0), Some(1), Some(2), Some(3), Some(4), None, None, None]);
        assert_eq!(find(In::of(&[]), 1), None);
    }
}
