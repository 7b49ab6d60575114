//! The operands by position, and what is checked of them.

use nnburst_hal::OperandType;
use nnburst_kernels::tensor::OpError;

use crate::lowering::{Lowered, OpBuilder};

// Where there are four, they are of the gates input, forget, cell, output.
pub(super) const INPUT_TO: usize = 1;
pub(super) const RECURRENT_TO: usize = 5;
pub(super) const PEEPHOLE: [usize; 4] = [9, 10, usize::MAX, 11];
pub(super) const BIAS: usize = 12;
pub(super) const PROJECTION: usize = 16;
pub(super) const PROJECTION_BIAS: usize = 17;
pub(super) const OUTPUT_STATE: usize = 18;
pub(super) const CELL_STATE: usize = 19;
pub(super) const LAYER_NORM: usize = 20;
pub(super) const CELL_CLIP: usize = 24;
pub(super) const PROJECTION_CLIP: usize = 25;
pub(super) const INTERMEDIATE_SCALE: usize = 26;
pub(super) const HIDDEN_ZERO_POINT: usize = 30;
pub(super) const HIDDEN_SCALE: usize = 31;

// The gates, by their order among these four.
pub(super) const INPUT: usize = 0;
pub(super) const FORGET: usize = 1;
pub(super) const CELL: usize = 2;
pub(super) const OUTPUT: usize = 3;

/// Checks an operand's type and extents.
pub(super) fn check(
    op: &OpBuilder<'_>,
    index: usize,
    kind: OperandType,
    extents: &[usize],
) -> Result<(), OpError> {
    let tensor = op.input(index)?;
    if tensor.kind == kind && *tensor.shape == *extents {
        return Ok(());
    }
    let what = format!("is {} of {:?}, not {kind} of {extents:?}", tensor.kind, tensor.shape);
    Err(OpError::input(index, what))
}

/// A limit in steps of `scale`, at most `most`; `None` where there is none.
pub(super) fn clip(
    op: &OpBuilder<'_>,
    index: usize,
    scale: f32,
    most: i32,
) -> Lowered<Option<i32>> {
    let clip = if op.has_input(index) { op.f32(index)? } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
    let steps = (clip / scale) as i32;
    Ok((clip > 0.0).then_some(steps.clamp(0, most)))
}
