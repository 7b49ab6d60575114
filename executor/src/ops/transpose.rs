//! TRANSPOSE and CHANNEL_SHUFFLE.

use nnburst_kernels::tensor::{OpError, Shape};

use super::Op;
use super::strided::{Strided, signed};
use super::support::same_quantisation;
use crate::lowering::{Lowered, OpBuilder};

pub(super) static TRANSPOSE: Op = Op { lower: lower_transpose };
pub(super) static CHANNEL_SHUFFLE: Op = Op { lower: lower_shuffle };

/// Without a permutation the input must be a matrix, as in the reference.
///
/// Source: NNAPI `TRANSPOSE`, since HAL 1.1.
fn lower_transpose(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let rank = input.shape.rank();
    let axes = if op.has_input(1) {
        permutation(&op.i32s(1)?, rank)?
    } else if rank == 2 {
        vec![1, 0]
    } else {
        let what = format!("is left out, and {:?} is no matrix", input.shape);
        return Err(OpError::input(1, what).into());
    };
    let extents: Vec<usize> = axes.iter().map(|&axis| input.shape[axis]).collect();
    op.set_output(0, Shape::new(extents)?)?;
    let strides = input.shape.strides();
    let walk = axes.iter().map(|&axis| (input.shape[axis], signed(strides[axis])));
    Strided::new(0, walk).emit(op, 0)
}

/// Every axis once.
fn permutation(values: &[i32], rank: usize) -> Result<Vec<usize>, OpError> {
    let axes: Vec<usize> = values.iter().filter_map(|&axis| usize::try_from(axis).ok()).collect();
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank) && values.len() == rank {
        Ok(axes)
    } else {
        Err(OpError::input(1, format!("{values:?} is no permutation of {rank} axes")))
    }
}

/// The axis is read as `[groups, size]` and turned to `[size, groups]`.
///
/// Source: NNAPI `CHANNEL_SHUFFLE`, since HAL 1.2.
fn lower_shuffle(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let groups = op.extent(1, 1)?;
    let axis = input.shape.axis(op.i32(2)?)?;
    let (outer, extent, inner) = input.shape.around(axis);
    if extent % groups != 0 {
        let what = format!("{groups} groups of {extent} along axis {axis}");
        return Err(OpError::input(1, what).into());
    }
    op.set_output(0, input.shape)?;
    let size = extent / groups;
    let walk = [
        (outer, signed(extent * inner)),
        (size, signed(inner)),
        (groups, signed(size * inner)),
        (inner, 1),
    ];
    Strided::new(0, walk).emit(op, 0)
}
