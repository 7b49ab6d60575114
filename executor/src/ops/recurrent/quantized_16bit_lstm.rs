//! QUANTIZED_16BIT_LSTM: 8-bit activations and weights, 16-bit gates and cell state.
//!
//! Source: NNAPI `QUANTIZED_16BIT_LSTM`, since HAL 1.2. Decided as the reference is, since all its
//! test data depends on it: a gate's weight row is laid out as recurrent weights, then input
//! weights, but the vector it multiplies as input, then previous output; so entry `k` of the one
//! meets entry `k` of the other whatever the two are.

use nnburst_hal::OperandType;
use nnburst_kernels::tensor::quant::fixed::{scale_by_power, srdhm16};
use nnburst_kernels::tensor::quant::{Multiplier, rdbpot};
use nnburst_kernels::tensor::{In, OpError, Shape, Tensor, poll};

use super::curves::{self, Curve};
use super::lstm_cell::extents_2d;
use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::plain;

pub(in crate::ops) static QUANTIZED_16BIT_LSTM: Op = Op { lower };

const X: usize = 0;
const INPUT_WEIGHTS: usize = 1;
const RECURRENT_WEIGHTS: usize = 5;
const BIASES: usize = 9;
const CELL: usize = 13;
const PREVIOUS: usize = 14;

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let [batch, width] = extents_2d(op, X)?;
    let units = extents_2d(op, RECURRENT_WEIGHTS)?[0];
    if width == 0 || units == 0 {
        return Err(OpError::rule(format!("{width} inputs and {units} units")).into());
    }
    let weights = op.input(INPUT_WEIGHTS)?;
    for gate in 0..4 {
        same_weights(&weights, gate, &op.input(INPUT_WEIGHTS + gate)?, &[units, width])?;
        same_weights(&weights, gate + 4, &op.input(RECURRENT_WEIGHTS + gate)?, &[units, units])?;
        check(BIASES + gate, &op.input(BIASES + gate)?, OperandType::TensorInt32, &[units])?;
    }
    check(X, &op.input(X)?, OperandType::TensorQuant8Asymm, &[batch, width])?;
    check(CELL, &op.input(CELL)?, OperandType::TensorQuant16Symm, &[batch, units])?;
    check(PREVIOUS, &op.input(PREVIOUS)?, OperandType::TensorQuant8Asymm, &[batch, units])?;
    let shape = Shape::new([batch, units])?;
    op.set_output(0, shape.clone())?;
    op.set_output(1, shape)?;
    let cell = Cell {
        width,
        units,
        zero_point: weights.zero_point,
        multiplier: Multiplier::new(4096.0 * f64::from(op.input(BIASES)?.scale)),
        next: NextCell::new(),
    };
    let mut label = plain("quantized_16bit_lstm", &op.output(0)?.shape, 0);
    label.operations = (8 * batch * units * (width + units)) as u64;
    op.emit_with_scratch(label, (width + units) * 4, move |mut io: Io<'_>| {
        let inner = io.inputs_and_outputs();
        for row in poll::each(0..batch, 32) {
            cell.run(&inner, row, io.scratch_slice::<i32>());
        }
        Ok(())
    });
    Ok(())
}

fn check(
    index: usize,
    tensor: &Tensor,
    kind: OperandType,
    extents: &[usize],
) -> Result<(), OpError> {
    if tensor.kind == kind && *tensor.shape == *extents {
        return Ok(());
    }
    let what = format!("is {} of {:?}, not {kind} of {extents:?}", tensor.kind, tensor.shape);
    Err(OpError::input(index, what))
}

fn same_weights(
    first: &Tensor,
    at: usize,
    tensor: &Tensor,
    extents: &[usize],
) -> Result<(), OpError> {
    check(INPUT_WEIGHTS + at, tensor, OperandType::TensorQuant8Asymm, extents)?;
    if tensor.scale.to_bits() != first.scale.to_bits() || tensor.zero_point != first.zero_point {
        return Err(OpError::input(
            INPUT_WEIGHTS + at,
            "differs in quantisation from the other weights",
        ));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    width: usize,
    units: usize,
    zero_point: i32,
    multiplier: Multiplier,
    next: NextCell,
}

impl Cell {
    fn run(&self, io: &Io<'_>, row: usize, vector: &mut [i32]) {
        let Self { width, units, .. } = *self;
        let x = io.input::<u8>(X).slice(row * width..(row + 1) * width);
        let previous = io.input::<u8>(PREVIOUS).slice(row * units..(row + 1) * units);
        let values = x.iter().chain(previous.iter()).map(|q| i32::from(q) - 128);
        vector.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
        let cells = io.input::<i16>(CELL);
        let (cell_out, out) = (io.output::<i16>(0), io.output::<u8>(1));
        for unit in poll::each(0..units, 200) {
            let gate = |gate: usize| self.gate(io, gate, unit, vector);
            let at = row * units + unit;
            let (cell, value) = self.next.run([0, 1, 2, 3].map(gate), cells.get(at));
            cell_out.set(at, cell);
            out.set(at, value);
        }
    }

    /// A gate before its activation, with 3 integer bits.
    fn gate(&self, io: &Io<'_>, gate: usize, unit: usize, vector: &[i32]) -> i16 {
        let row = |from: usize, len: usize| -> In<'_, u8> {
            io.input::<u8>(from + gate).slice(unit * len..(unit + 1) * len)
        };
        let weights =
            row(RECURRENT_WEIGHTS, self.units).iter().chain(row(INPUT_WEIGHTS, self.width).iter());
        let products =
            weights.zip(vector).map(|(w, &value)| (i32::from(w) - self.zero_point) * value);
        let bias = io.input::<i32>(BIASES + gate).get(unit);
        let sum = poll::each(products, 2).fold(bias, i32::wrapping_add);
        saturate(self.multiplier.apply(sum))
    }
}

/// How cells of 16 bits go on: the functions of their gates.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct NextCell {
    logistic: Curve,
    tanh: Curve,
}

impl NextCell {
    pub(in crate::ops) fn new() -> Self {
        Self { logistic: curves::logistic(), tanh: curves::gate_tanh() }
    }

    /// The next cell state, with 4 integer bits, and the result: from the sums of input, forget,
    /// new value and output gate, with 3 integer bits, and the cell state before.
    #[inline]
    pub(in crate::ops) fn run(self, [i, f, g, o]: [i16; 4], cell: i16) -> (i16, u8) {
        let [i, f, o] = [i, f, o].map(|gate| curves::at(self.logistic, gate));
        let added = rdbpot(i32::from(srdhm16(i, curves::at(self.tanh, g))), 4);
        let next = saturate(added + i32::from(srdhm16(f, cell)));
        let shown = curves::at(self.tanh, scale_by_power(next, 1));
        let value = 128 + rdbpot(i32::from(srdhm16(o, shown)), 8).clamp(-128, 127);
        (next, u8::try_from(value).unwrap_or(u8::MAX))
    }
}

/// To 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "clamped")]
pub(super) fn saturate(x: i32) -> i16 {
    x.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}
