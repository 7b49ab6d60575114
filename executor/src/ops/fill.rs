//! FILL and RANK.

use nnburst_kernels::tensor::{Element, OpError, Shape};

use super::Op;
use super::support::{by_width, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static FILL: Op = Op { lower: lower_fill };
pub(super) static RANK: Op = Op { lower: lower_rank };

/// Source: NNAPI `FILL`, since HAL 1.3.
fn lower_fill(op: &mut OpBuilder<'_>) -> Lowered {
    let dims = op.i32s(0)?;
    let extents: Vec<usize> =
        dims.iter().filter_map(|&extent| usize::try_from(extent).ok()).collect();
    if extents.len() != dims.len() {
        return Err(OpError::input(0, format!("{dims:?} are no extents")).into());
    }
    op.set_output(0, Shape::new(extents)?)?;
    let value = op.input(1)?;
    let output = op.output(0)?;
    if value.kind.element_bytes() != output.kind.element_bytes() {
        return Err(OpError::input(1, format!("is {} for {}", value.kind, output.kind)).into());
    }
    by_width!(value.kind, emit_fill(op))
}

fn emit_fill<T: Element>(op: &mut OpBuilder<'_>) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit(plain("fill", &shape, 0), move |io: Io<'_>| {
        let value = io.input::<T>(1).get(0);
        io.output::<T>(0).fill(std::iter::repeat(value));
        Ok(())
    });
    Ok(())
}

/// Source: NNAPI `RANK`, since HAL 1.3. The output is a scalar.
fn lower_rank(op: &mut OpBuilder<'_>) -> Lowered {
    let rank = i32::try_from(op.input(0)?.shape.rank()).unwrap_or(i32::MAX);
    op.set_output(0, Shape::default())?;
    op.emit(plain("rank", &Shape::default(), 0), move |io: Io<'_>| {
        io.output::<i32>(0).set(0, rank);
        Ok(())
    });
    Ok(())
}
