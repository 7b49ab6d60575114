//! LSTM with the BASIC kernel, of bytes: one matrix for all gates, and gates and cell state of 16
//! bits. It differs from NNAPI's QUANTIZED_16BIT_LSTM in how sums become gates.

use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{In, OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall};
use super::math::{Stored, apply_halves_up};
use super::products::{ByteProducts, RowBytes};
use crate::lowering::{Io, Label, Lowered};
use crate::ops::recurrent::NextCell;
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
    let multiplier = Multiplier::new(STEPS * f64::from(bias.scale));
    let work = 2 * u64::try_from(batches.saturating_mul(rows * width)).unwrap_or(u64::MAX);
    let label = plain("tflite_basic_lstm", &shape, work);
    let cells = Cells { depth, units, multiplier, next: NextCell::new() };
    // Inputs and the result before, as 8 bits less 128.
    let values = RowBytes::UNSIGNED_HALF;
    let start = call.constant(3).map(|bias| bias.typed::<i32>().to_vec());
    if let Some(start) = start
        && let Some(products) = ByteProducts::new(call, 2, &weights, width, values, Some(&start))?
    {
        let label = Label { form: products.isa(), ..label };
        let scratch = products.scratch_bytes() + width;
        call.emit_with_scratch(label, scratch, move |mut io| {
            let fixed = io.inputs_and_outputs();
            let (kept, rest) = io.scratch_slice::<u8>().split_at_mut(products.scratch_bytes());
            let (kept, sums) = products.split(kept);
            let row = &mut rest[..width];
            for batch in 0..batches {
                let [values, known] = cells.rows(&fixed, batch);
                values.copy_to(&mut row[..depth]);
                known.copy_to(&mut row[depth..]);
                products.keep(In::of(&*row), kept);
                products.compute(kept, sums)?;
                cells.store(&fixed, batch, 8, |row| sums[row]);
            }
            Ok(())
        });
        return Ok(());
    }
    let zero_point = weights.zero_point;
    call.emit_with_scratch(label, 4 * width, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (weights, bias) = (fixed.input::<u8>(2), fixed.input::<i32>(3));
        let vector = &mut io.scratch_slice::<i32>()[..width];
        for batch in 0..batches {
            let [values, known] = cells.rows(&fixed, batch);
            let values = values.iter().chain(known.iter()).map(|value| i32::from(value) - 128);
            vector.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
            cells.store(&fixed, batch, 4 * width, |row| {
                let weights = weights.slice(row * width..(row + 1) * width);
                let products = weights.iter().zip(&*vector);
                let products = products.map(|(w, &value)| (i32::from(w) - zero_point) * value);
                products.fold(bias.get(row), i32::wrapping_add)
            });
        }
        Ok(())
    });
    Ok(())
}

/// The cells of a step.
#[derive(Clone, Copy, Debug)]
struct Cells {
    depth: usize,
    units: usize,
    multiplier: Multiplier,
    next: NextCell,
}

impl Cells {
    /// The inputs of a batch and its results before.
    fn rows<'a>(&self, io: &Io<'a>, batch: usize) -> [In<'a, u8>; 2] {
        let row =
            |input: usize, len: usize| io.input::<u8>(input).slice(batch * len..(batch + 1) * len);
        [row(0, self.depth), row(1, self.units)]
    }

    /// Brings a batch's cells on, from the sum of each row of weights; one takes `work_ns`.
    fn store(&self, io: &Io<'_>, batch: usize, work_ns: usize, sum: impl Fn(usize) -> i32) {
        let Self { units, multiplier, next, .. } = *self;
        let cells = io.input::<i16>(4);
        let (out, after) = (io.output::<u8>(0), io.output::<i16>(1));
        for unit in poll::each(0..units, work_ns + 16) {
            let gates = [0, 2, 1, 3].map(|gate| {
                let sum = apply_halves_up(multiplier, sum(gate * units + unit));
                i16::stored(sum.clamp(-32768, 32767))
            });
            let at = batch * units + unit;
            let (cell, value) = next.run(gates, cells.get(at));
            after.set(at, cell);
            out.set(at, value);
        }
    }
}

fn check(index: usize, arg: &Arg, kind: ElementKind, extents: &[usize]) -> Result<(), OpError> {
    if arg.kind == kind && arg.shape[..] == *extents {
        return Ok(());
    }
    let what = format!("is {:?} of {:?}, not {kind:?} of {extents:?}", arg.kind, arg.shape);
    Err(OpError::input(index, what))
}
