//! SQUEEZE and EXPAND_DIMS: extents of 1 that go and come, over the same bytes.

use nnburst_kernels::tensor::{OpError, Shape};

use super::Op;
use super::support::same_quantisation;
use crate::lowering::{Lowered, OpBuilder};

pub(super) static SQUEEZE: Op = Op { lower: lower_squeeze };
pub(super) static EXPAND_DIMS: Op = Op { lower: lower_expand };

/// Without axes every extent of 1 goes; what is left of nothing is `[1]`.
///
/// Source: NNAPI `SQUEEZE`, since HAL 1.1.
fn lower_squeeze(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let mut gone: Vec<bool> = input.shape.iter().map(|&extent| extent == 1).collect();
    if op.has_input(1) {
        gone.fill(false);
        for axis in op.i32s(1)? {
            let at = input.shape.axis(axis)?;
            if input.shape[at] != 1 {
                let what = format!("axis {axis} is of {}, not 1", input.shape[at]);
                return Err(OpError::input(1, what).into());
            }
            gone[at] = true;
        }
    }
    let kept = input.shape.iter().zip(gone).filter(|(_, gone)| !gone);
    let mut extents: Vec<usize> = kept.map(|(&extent, _)| extent).collect();
    if extents.is_empty() {
        extents.push(1);
    }
    op.set_output(0, Shape::new(extents)?)?;
    Ok(op.alias(0, 0)?)
}

/// Source: NNAPI `EXPAND_DIMS`, since HAL 1.2.
fn lower_expand(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let mut extents = input.shape.to_vec();
    extents.push(1);
    // The new axis may stand behind the last.
    let axis = Shape::new(extents.clone())?.axis(op.i32(1)?)?;
    extents.pop();
    extents.insert(axis, 1);
    op.set_output(0, Shape::new(extents)?)?;
    Ok(op.alias(0, 0)?)
}
