//! QUANTIZED_LSTM: 8-bit activations and weights, 16-bit gates with scales of their own, optionally
//! with layer normalisation and projection.
//!
//! Source: NNAPI `QUANTIZED_LSTM`, since HAL 1.3. Decided otherwise than in the reference, where no
//! test of its own tells the difference: without layer normalisation the gates' biases are added
//! (the reference forgets them), and the peephole of the input and forget gates reads the previous
//! cell state (the reference reads its output buffer before writing it). An omitted clip is none.

mod cell;
mod gate;
mod products;
mod projection;
mod steps;

use std::sync::Arc;

use nnburst_hal::OperandType;

pub(crate) use self::cell::Cell;
pub(crate) use self::steps::Steps;
use crate::lowering::Io;
use crate::lowering::{Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::plain;
use nnburst_kernels::tensor::OpError;
use nnburst_kernels::tensor::Shape;
use nnburst_kernels::tensor::poll;

pub(in crate::ops) static QUANTIZED_LSTM: Op = Op { lower };

/// Operands by position; where there are four they are of the gates input, forget, cell, output.
const INPUT_TO: usize = 1;
const RECURRENT_TO: usize = 5;
const PEEPHOLE: [usize; 4] = [9, 10, usize::MAX, 11];
const BIAS: usize = 12;
const PROJECTION: usize = 16;
const PROJECTION_BIAS: usize = 17;
const OUTPUT_STATE: usize = 18;
const CELL_STATE: usize = 19;
const LAYER_NORM: usize = 20;
const CELL_CLIP: usize = 24;
const PROJECTION_CLIP: usize = 25;
const INTERMEDIATE_SCALE: usize = 26;
const HIDDEN_ZERO_POINT: usize = 30;
const HIDDEN_SCALE: usize = 31;

const INPUT: usize = 0;
const FORGET: usize = 1;
const CELL: usize = 2;
const OUTPUT: usize = 3;

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let cell = Arc::new(Cell::new(op)?);
    let Cell { batch, units, outputs, .. } = *cell;
    op.set_output(0, Shape::new([batch, outputs])?)?;
    op.set_output(1, Shape::new([batch, units])?)?;
    op.set_output(2, Shape::new([batch, outputs])?)?;
    let mut label = plain("quantized_lstm", &op.output(2)?.shape, 0);
    label.operations = cell.products.operations(batch);
    label.form = cell.products.isa();
    let this = Arc::clone(&cell);
    op.emit_with_scratch(label, cell.work() * 4, move |mut io: Io<'_>| {
        let inner = io.inputs_and_outputs();
        for row in poll::each(0..batch, 64) {
            this.run(&inner, row, None, io.scratch_slice::<i32>())?;
        }
        Ok(())
    });
    op.join_cell(cell);
    Ok(())
}

fn check(
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
fn clip(op: &OpBuilder<'_>, index: usize, scale: f32, most: i32) -> Lowered<Option<i32>> {
    let clip = if op.has_input(index) { op.f32(index)? } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
    let steps = (clip / scale) as i32;
    Ok((clip > 0.0).then_some(steps.clamp(0, most)))
}
