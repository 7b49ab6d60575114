//! SVDF: a low-rank filter over the recent activations of features.
//!
//! Source: NNAPI SVDF, since HAL 1.0, FLOAT16 since 1.2. The state is `[batch, memory * features]`
//! wide: the documentation says one memory slot less, the implementation and every test say this.

use half::f16;

use super::lstm_cell::extents_2d;
use super::math::{Activation, Functions, dot};
use super::operands::{Operands, is_half};
use crate::error::OpError;
use crate::io::Io;
use crate::kernels::Isa;
use crate::ops::Op;
use crate::plan::{Label, Lowered, OpBuilder};
use crate::shape::Shape;

pub(in crate::ops) static SVDF: Op = Op { lower };

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let half = is_half(0, op.input(0)?.kind)?;
    let [batch, width] = extents_2d(op, 0)?;
    let features = extents_2d(op, 1)?[0];
    let memory = extents_2d(op, 2)?[1];
    let rank = op.extent(5, 1)?;
    if features == 0 || memory == 0 || features % rank != 0 {
        let what = format!("{features} features of rank {rank} with a memory of {memory}");
        return Err(OpError::input(1, what).into());
    }
    let units = features / rank;
    let functions = Functions::new(op.isa(), Activation::from_code(6, op.i32(6)?)?);
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &[batch, width])?;
    let feature_weights = operands.required(op, 1, &[features, width])?;
    let time_weights = operands.required(op, 2, &[features, memory])?;
    let bias = operands.optional(op, 3, &[units])?;
    let state_in = operands.required(op, 4, &[batch, memory * features])?;
    op.set_output(0, Shape::new([batch, memory * features])?)?;
    op.set_output(1, Shape::new([batch, units])?)?;
    let work = features * memory + units;
    let multiplies = batch * features * (width + memory);
    let operations = u64::try_from(2 * multiplies).unwrap_or(u64::MAX);
    let shape = format!("{batch}x{width} features {features} memory {memory} rank {rank}");
    let label = Label { kernel: "svdf", form: Isa::Scalar, shape, operations };
    let bytes = (operands.scratch + work) * size_of::<f32>();
    op.emit_with_scratch(label, bytes, move |mut io: Io<'_>| {
        let outer = io.inputs_and_outputs();
        let (copies, work) = operands.load(&mut io);
        let (state, output) = work.split_at_mut(features * memory);
        let xs = operands.there(copies, x).chunks_exact(width.max(1));
        let states = operands.there(copies, state_in).chunks_exact(features * memory);
        for (row, (x, previous)) in xs.zip(states).enumerate() {
            state.copy_from_slice(previous);
            let weights = operands.there(copies, feature_weights).chunks_exact(width.max(1));
            for (slots, weights) in state.chunks_exact_mut(memory).zip(weights) {
                slots[memory - 1] = dot(weights, x);
            }
            output.fill(0.0);
            if let Some(bias) = operands.get(copies, bias) {
                output.copy_from_slice(bias);
            }
            let times = operands.there(copies, time_weights).chunks_exact(memory);
            for (feature, (slots, times)) in state.chunks_exact(memory).zip(times).enumerate() {
                output[feature / rank] += dot(slots, times);
            }
            functions.activate(output);
            // The newest value makes room: shifted left, a zero at the end.
            for slots in state.chunks_exact_mut(memory) {
                slots.copy_within(1.., 0);
                slots[memory - 1] = 0.0;
            }
            store_row(&outer, 0, half, row, state);
            store_row(&outer, 1, half, row, output);
        }
        Ok(())
    });
    Ok(())
}

fn store_row(io: &Io<'_>, output: usize, half: bool, row: usize, values: &[f32]) {
    let range = row * values.len()..(row + 1) * values.len();
    if half {
        let out = io.output::<f16>(output).slice(range);
        out.fill(values.iter().map(|&value| f16::from_f32(value)));
    } else {
        io.output::<f32>(output).slice(range).fill(values.iter().copied());
    }
}
