//! GATHER, EMBEDDING_LOOKUP and HASHTABLE_LOOKUP: rows by their number or key.
//!
//! Numbers come from tensors that may change while the step runs: each is read once, checked, used.

use nnburst_kernels::kernels::gathered_rows::GatheredRows;
use nnburst_kernels::tensor::{Element, OpError, Shape, poll};

use super::Op;
use super::support::{by_width, compiled, plain, same_quantisation};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static GATHER: Op = Op { lower: lower_gather };
pub(super) static EMBEDDING_LOOKUP: Op = Op { lower: lower_embedding };
pub(super) static HASHTABLE_LOOKUP: Op = Op { lower: lower_hashtable };

/// Rows of a tensor seen as `[outer, extent, inner]`.
#[derive(Clone, Copy, Debug)]
struct Rows {
    outer: usize,
    extent: usize,
    inner: usize,
    count: usize,
    /// Positions of the operands.
    values: usize,
    indices: usize,
}

/// Source: NNAPI `GATHER`, since HAL 1.2.
fn lower_gather(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, indices) = (op.input(0)?, op.input(2)?);
    same_quantisation(&input, &op.output(0)?)?;
    let axis = input.shape.axis(op.i32(1)?)?;
    let (outer, extent, inner) = input.shape.around(axis);
    let mut extents = input.shape[..axis].to_vec();
    extents.extend_from_slice(&indices.shape);
    extents.extend_from_slice(&input.shape[axis + 1..]);
    op.set_output(0, Shape::new(extents)?)?;
    let count = indices.shape.elements();
    let rows = Rows { outer, extent, inner, count, values: 0, indices: 2 };
    by_width!(input.kind, emit_rows(op, rows))
}

/// Source: NNAPI `EMBEDDING_LOOKUP`, since HAL 1.0.
fn lower_embedding(op: &mut OpBuilder<'_>) -> Lowered {
    let (lookups, values) = (op.input(0)?, op.input(1)?);
    same_quantisation(&values, &op.output(0)?)?;
    let &[count] = &lookups.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 1", lookups.shape)).into());
    };
    if values.shape.rank() < 2 {
        return Err(OpError::input(1, format!("is of {:?}, below rank 2", values.shape)).into());
    }
    let mut extents = values.shape.to_vec();
    extents[0] = count;
    op.set_output(0, Shape::new(extents)?)?;
    let (outer, extent, inner) = values.shape.around(0);
    let rows = Rows { outer, extent, inner, count, values: 1, indices: 0 };
    by_width!(values.kind, emit_rows(op, rows))
}

fn emit_rows<T: Element>(op: &mut OpBuilder<'_>, rows: Rows) -> Lowered {
    let shape = op.output(0)?.shape;
    let isa = op.isa();
    op.emit(compiled(isa, "gather", &shape, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(rows.values), io.output::<T>(0));
        let indices = io.input::<i32>(rows.indices);
        let numbers = indices.slice(0..rows.count);
        let (from, to) = (rows.extent * rows.inner, rows.count * rows.inner);
        let len = rows.inner * size_of::<T>();
        for outer in poll::each(0..rows.outer, 8) {
            let table = input.slice(outer * from..(outer + 1) * from).bytes();
            let output = output.slice(outer * to..(outer + 1) * to).bytes();
            let gathered = GatheredRows { table, rows: rows.extent, len, numbers };
            let copied = gathered.copy(isa, output);
            copied.map_err(|index| format!("index {index} of {} rows", rows.extent))?;
        }
        Ok(())
    });
    Ok(())
}

/// A missing key gives a row of zero bytes, whatever the zero point, and a hit of 0.
///
/// Source: NNAPI `HASHTABLE_LOOKUP`, since HAL 1.0. The reference compares keys by a subtraction
/// that overflows; here they are compared.
fn lower_hashtable(op: &mut OpBuilder<'_>) -> Lowered {
    let (lookups, keys, values) = (op.input(0)?, op.input(1)?, op.input(2)?);
    same_quantisation(&values, &op.output(0)?)?;
    let (&[count], &[rows]) = (&lookups.shape[..], &keys.shape[..]) else {
        let what = format!("lookups of {:?}, keys of {:?}", lookups.shape, keys.shape);
        return Err(OpError::rule(what).into());
    };
    if values.shape.first() != Some(&rows) {
        return Err(OpError::input(2, format!("is of {:?} for {rows} keys", values.shape)).into());
    }
    let mut extents = values.shape.to_vec();
    extents[0] = count;
    op.set_output(0, Shape::new(extents)?)?;
    op.set_output(1, Shape::new([count])?)?;
    let row_bytes = values.shape.around(0).2 * values.kind.element_bytes().unwrap_or(1);
    op.emit_with_scratch(
        plain("hashtable_lookup", &values.shape, 0),
        rows * 4,
        move |mut io: Io<'_>| {
            let (lookups, keys) = (io.input::<i32>(0), io.input::<i32>(1));
            let (values, output) = (io.input::<u8>(2), io.output::<u8>(0));
            let hits = io.output::<u8>(1);
            let own = io.scratch_slice::<i32>();
            keys.copy_to(own);
            for at in poll::each(0..count, 200 + row_bytes / 8) {
                let found = own.binary_search(&lookups.get(at)).ok();
                let target = output.slice(at * row_bytes..(at + 1) * row_bytes);
                match found {
                    Some(row) => {
                        target.copy_from(values.slice(row * row_bytes..(row + 1) * row_bytes));
                    }
                    None => target.fill(std::iter::repeat(0)),
                }
                hits.set(at, u8::from(found.is_some()));
            }
            Ok(())
        },
    );
    Ok(())
}
