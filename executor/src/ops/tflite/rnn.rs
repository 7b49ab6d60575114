//! RNN and UNIDIRECTIONAL_SEQUENCE_RNN on the fly: both inputs and the hidden state are quantised
//! row by row.

use nnburst_kernels::tensor::{In, OpError, poll};

use super::arg::{Activation, ElementKind, OperatorCall, refused};
use super::on_the_fly::OnTheFly;
use super::row_products::RowProducts;
use crate::lowering::Lowered;
use crate::ops::support::plain;

/// Extents of the layer, and where a row of a step is.
#[derive(Clone, Copy, Debug)]
struct Layer {
    batches: usize,
    steps: usize,
    depth: usize,
    units: usize,
    /// Rows from one step to the next, and from one batch to the next.
    strides: [usize; 2],
}

/// A step of one batch: inputs `[n, depth]`.
pub(super) fn rnn(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?.shape;
    let &[batches, depth] = &input[..] else {
        return Err(OpError::input(0, format!("is of {input:?}, not of rank 2")).into());
    };
    let layer = Layer { batches, steps: 1, depth, units: units(call)?, strides: [0, 1] };
    call.set(0, &[batches, layer.units])?;
    emit(call, layer, 0)
}

/// All steps: inputs `[n, steps, depth]`, or `[steps, n, depth]` where time comes first.
pub(super) fn sequence(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?.shape;
    let &[first, second, depth] = &input[..] else {
        return Err(OpError::input(0, format!("is of {input:?}, not of rank 3")).into());
    };
    let units = units(call)?;
    let layer = match call.flag(0)? {
        true => Layer { batches: second, steps: first, depth, units, strides: [second, 1] },
        false => Layer { batches: first, steps: second, depth, units, strides: [1, second] },
    };
    call.set(0, &[first, second, units])?;
    emit(call, layer, 1)
}

fn units(call: &OperatorCall<'_, '_>) -> Lowered<usize> {
    let units = call.arg(1)?.shape.first().copied().filter(|&units| units > 0);
    Ok(units.ok_or_else(|| OpError::input(1, "has no units"))?)
}

/// Adds the step; its options but the first ones begin at `first`.
fn emit(call: &mut OperatorCall<'_, '_>, layer: Layer, first: usize) -> Lowered {
    let Layer { batches, steps, depth, units, strides } = layer;
    let way = OnTheFly::new(call.flag(first + 1)?);
    let from_input = RowProducts::new(call, &[1], [units, depth], way)?;
    let from_state = RowProducts::new(call, &[2], [units, units], way)?;
    for (index, shape) in [(3, &[units][..]), (4, &[batches, units])] {
        let arg = call.arg(index)?;
        if arg.kind != ElementKind::F32 || arg.shape[..] != *shape {
            let what = format!("is {:?} of {:?}, not F32 of {shape:?}", arg.kind, arg.shape);
            return Err(OpError::input(index, what).into());
        }
    }
    if call.arg(0)?.kind != ElementKind::F32 {
        return Err(refused(0, call.arg(0)?.kind).into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    call.result_is(1, &[ElementKind::F32])?;
    call.set(1, &[batches, units])?;
    let activation: Activation = call.activation(first)?;
    let shape = call.result(0)?.shape;
    let (label, isa) = (plain("tflite_rnn_on_the_fly", &shape, 0), call.isa());
    // The state, the sums of a row, and what products take.
    let room = 4 * units * (batches + 1) + from_input.scratch().max(from_state.scratch());
    call.emit_with_scratch(label, room, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (input, output) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let floats = 4 * units * (batches + 1);
        let (floats, bytes) = io.scratch_slice::<u8>().split_at_mut(floats);
        let floats = bytemuck::cast_slice_mut::<u8, f32>(floats);
        let (state, sums) = floats.split_at_mut(units * batches);
        fixed.input::<f32>(4).copy_to(state);
        for step in 0..steps {
            for (batch, state) in state.chunks_exact_mut(units).enumerate() {
                poll::work(units + 8)?;
                let row = step * strides[0] + batch * strides[1];
                fixed.input::<f32>(3).copy_to(sums);
                let values = input.slice(row * depth..(row + 1) * depth);
                from_input.add(&fixed, values, sums, bytes)?;
                from_state.add(&fixed, In::of(&*state), sums, bytes)?;
                state.copy_from_slice(sums);
                activation.apply_to(isa, state);
                output.slice(row * units..(row + 1) * units).copy_from(In::of(state));
            }
        }
        fixed.output::<f32>(1).fill(state.iter().copied());
        Ok(())
    });
    Ok(())
}
