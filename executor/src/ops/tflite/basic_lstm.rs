//! LSTM with the BASIC kernel, of bytes: one matrix for all gates, and gates and cell state of 16
//! bits. It differs from NNAPI's QUANTIZED_16BIT_LSTM in how sums become gates.

use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall};
use super::math::{Stored, apply_halves_up};
use crate::lowering::Lowered;
use crate::ops::recurrent::next_cell;
use crate::ops::support::plain;

/// The inputs in their order.
const INPUTS: usize = 5;
/// Steps of the sums' scale in 1, where 3 bits of 16 are before the point.
const STEPS: f64 = 4096.0;

/// Returns whether an LSTM is one with the BASIC kernel.
pub(super) fn is_basic(call: &OperatorCall<'_, '_>) -> bool {
    call.tensors() == INPUTS
}

/// A step: input `[n, depth]`, result before `[n, units]`, weights `[4 units, depth + units]` of
/// input, new value, forget and output gate, biases `[4 units]`, cell state `[n, units]`.
pub(super) fn basic_lstm(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let (&[batches, depth], &[_, units]) = (&input.shape[..], &call.arg(4)?.shape[..]) else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", input.shape)).into());
    };
    let wrong = || OpError::rule(format!("{depth} inputs and {units} units"));
    let width = depth.checked_add(units).filter(|_| depth > 0 && units > 0).ok_or_else(wrong)?;
    let rows = units.checked_mul(4).ok_or_else(wrong)?;
    check(0, &input, ElementKind::U8, &[batches, depth])?;
    check(1, &call.arg(1)?, ElementKind::U8, &[batches, units])?;
    let (weights, bias) = (call.arg(2)?, call.arg(3)?);
    check(2, &weights, ElementKind::U8, &[rows, width])?;
    check(3, &bias, ElementKind::I32, &[rows])?;
    check(4, &call.arg(4)?, ElementKind::I16, &[batches, units])?;
    call.result_is(0, &[ElementKind::U8])?;
    call.result_is(1, &[ElementKind::I16])?;
    let shape = call.set(0, &[batches, units])?;
    call.set(1, &[batches, units])?;
    let zero_point = weights.zero_point;
    let multiplier = Multiplier::new(STEPS * f64::from(bias.scale));
    let work = 2 * u64::try_from(batches.saturating_mul(rows * width)).unwrap_or(u64::MAX);
    let label = plain("tflite_basic_lstm", &shape, work);
    call.emit_with_scratch(label, 4 * width, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (input, before) = (fixed.input::<u8>(0), fixed.input::<u8>(1));
        let (weights, bias) = (fixed.input::<u8>(2), fixed.input::<i32>(3));
        let cells = fixed.input::<i16>(4);
        let (out, next) = (fixed.output::<u8>(0), fixed.output::<i16>(1));
        let vector = &mut io.scratch_slice::<i32>()[..width];
        for batch in 0..batches {
            let values = input.slice(batch * depth..(batch + 1) * depth);
            let known = before.slice(batch * units..(batch + 1) * units);
            let values = values.iter().chain(known.iter()).map(|value| i32::from(value) - 128);
            vector.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
            for unit in poll::each(0..units, 4 * width + 200) {
                let gates = [0, 2, 1, 3].map(|gate| {
                    let row = gate * units + unit;
                    let weights = weights.slice(row * width..(row + 1) * width);
                    let products = weights.iter().zip(&*vector);
                    let products = products.map(|(w, &value)| (i32::from(w) - zero_point) * value);
                    let sum = products.fold(bias.get(row), i32::wrapping_add);
                    i16::stored(apply_halves_up(multiplier, sum).clamp(-32768, 32767))
                });
                let at = batch * units + unit;
                let (cell, value) = next_cell(gates, cells.get(at));
                next.set(at, cell);
                out.set(at, value);
            }
        }
        Ok(())
    });
    Ok(())
}

fn check(index: usize, arg: &Arg, kind: ElementKind, extents: &[usize]) -> Result<(), OpError> {
    if arg.kind == kind && arg.shape[..] == *extents {
        return Ok(());
    }
    let what = format!("is {:?} of {:?}, not {kind:?} of {extents:?}", arg.kind, arg.shape);
    Err(OpError::input(index, what))
}
