//! QUANTIZED_LSTM: 8-bit activations and weights, 16-bit gates with scales of their own, optionally
//! with layer normalisation and projection.
//!
//! Source: NNAPI `QUANTIZED_LSTM`, since HAL 1.3. Decided otherwise than in the reference, where no
//! test of its own tells the difference: without layer normalisation the gates' biases are added
//! (the reference forgets them), and the peephole of the input and forget gates reads the previous
//! cell state (the reference reads its output buffer before writing it). An omitted clip is none.

mod cell;
mod gate;
mod operands;
mod products;
mod projection;
mod steps;

use std::sync::Arc;

pub(crate) use self::cell::Cell;
pub(crate) use self::steps::Steps;
use crate::lowering::Io;
use crate::lowering::{Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::plain;
use nnburst_kernels::tensor::Shape;
use nnburst_kernels::tensor::poll;

pub(in crate::ops) static QUANTIZED_LSTM: Op = Op { lower };

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
