//! QUANTIZED_LSTM: 8-bit activations and weights, 16-bit gates with scales of their own, optionally with
//! layer normalisation and projection.
//!
//! Source: NNAPI `QUANTIZED_LSTM`, since HAL 1.3. Decided otherwise than in the reference, where no test of
//! its own tells the difference: without layer normalisation the gates' biases are added (the
//! reference forgets them), and the peephole of the input and forget gates reads the previous cell
//! state (the reference reads its output buffer before writing it). An omitted clip is none.

use nnburst_hal::OperandType;

use super::curves::{self, Curve};
use super::lstm_cell::extents_2d;
use super::quantized_16bit_lstm::saturate;
use crate::error::OpError;
use crate::io::{In, Io};
use crate::kernels::gates_i16::Gates;
use crate::kernels::gemv_i8::GemvBytes;
use crate::ops::Op;
use crate::ops::support::plain;
use crate::plan::{Lowered, OpBuilder};
use crate::quant::fixed::{inverse_sqrt, tanh};
use crate::quant::{Multiplier, rdbpot};
use crate::shape::Shape;

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

#[derive(Debug)]
struct Gate {
    /// Of the products with input and state.
    sum: Gates,
    peephole: Option<Multiplier>,
    layer_norm: Option<LayerNorm>,
}

#[derive(Clone, Copy, Debug)]
struct LayerNorm {
    multiplier: Multiplier,
    /// What stands for a variance below 1.
    least: i32,
}

#[derive(Clone, Copy, Debug)]
struct Projection {
    multiplier: Multiplier,
    has_bias: bool,
    /// In stored steps; `None` without a limit.
    clip: Option<i32>,
}

#[derive(Debug)]
struct Cell {
    batch: usize,
    width: usize,
    units: usize,
    outputs: usize,
    x_zero_point: i32,
    h_zero_point: i32,
    /// Without an input gate it is one minus the forget gate.
    gates: [Option<Gate>; 4],
    /// The cell state's scale is two to this power.
    cell_power: i32,
    cell_clip: Option<i32>,
    hidden: Multiplier,
    hidden_zero_point: i32,
    projection: Option<Projection>,
    /// The products of input and state by the weights of all gates, where these are constant.
    packed: Option<[GemvBytes; 2]>,
    sigmoid: Curve,
    tanh: Curve,
    /// Of the cell state, where there is a table for its scale.
    cell_tanh: Option<Curve>,
}

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let cell = Cell::new(op)?;
    let Cell { batch, width, units, outputs, .. } = cell;
    op.set_output(0, Shape::new([batch, outputs])?)?;
    op.set_output(1, Shape::new([batch, units])?)?;
    op.set_output(2, Shape::new([batch, outputs])?)?;
    let mut label = plain("quantized_lstm", &op.output(2)?.shape, 0);
    label.operations = (8 * batch * units * (width + outputs)) as u64;
    if let Some([x, _]) = &cell.packed {
        label.form = x.isa();
    }
    op.emit_with_scratch(label, cell.work() * 4, move |mut io: Io<'_>| {
        let inner = io.inputs_and_outputs();
        for row in 0..batch {
            cell.run(&inner, row, io.scratch_slice::<i32>())?;
        }
        Ok(())
    });
    Ok(())
}

impl Cell {
    fn new(op: &OpBuilder<'_>) -> Lowered<Self> {
        let [batch, width] = extents_2d(op, 0)?;
        let units = extents_2d(op, INPUT_TO + FORGET)?[0];
        let outputs = extents_2d(op, RECURRENT_TO + FORGET)?[1];
        if width == 0 || units == 0 || outputs == 0 {
            return Err(
                OpError::rule(format!("{width} inputs, {units} units, {outputs} outputs")).into()
            );
        }
        let (x, h, c) = (op.input(0)?, op.input(OUTPUT_STATE)?, op.input(CELL_STATE)?);
        let shapes = [(0, vec![batch, width]), (OUTPUT_STATE, vec![batch, outputs])];
        for (index, extents) in shapes {
            check(op, index, OperandType::TensorQuant8AsymmSigned, &extents)?;
        }
        check(op, CELL_STATE, OperandType::TensorQuant16Symm, &[batch, units])?;
        let cell_power = power_of_two(c.scale)?;
        let coupled = !op.has_input(INPUT_TO + INPUT);
        let mut gates = [const { None }; 4];
        for (index, gate) in gates.iter_mut().enumerate() {
            if !(index == INPUT && coupled) {
                *gate = Some(Gate::new(
                    op,
                    index,
                    (width, units, outputs),
                    (x.scale, h.scale),
                    cell_power,
                )?);
            }
        }
        let hidden_scale = op.f32(HIDDEN_SCALE)?;
        let clip = |index: usize, scale: f32, limit: i32| -> Lowered<Option<i32>> {
            let clip = if op.has_input(index) { op.f32(index)? } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
            let steps = (clip / scale) as i32;
            Ok((clip > 0.0).then_some(steps.clamp(0, limit)))
        };
        let projection = match op.optional_input(PROJECTION)? {
            None if outputs != units => {
                let what =
                    format!("without a projection {outputs} outputs must be the {units} units");
                return Err(OpError::rule(what).into());
            }
            None => None,
            Some(weights) => {
                check(op, PROJECTION, OperandType::TensorQuant8Symm, &[outputs, units])?;
                let has_bias = op.has_input(PROJECTION_BIAS);
                if has_bias {
                    check(op, PROJECTION_BIAS, OperandType::TensorInt32, &[outputs])?;
                }
                let real = weights.scale * hidden_scale / h.scale;
                // By the scale of the weights, odd as that is: the reference's rule.
                let clip = clip(PROJECTION_CLIP, weights.scale, i32::from(i8::MAX))?;
                Some(Projection { multiplier: Multiplier::new(f64::from(real)), has_bias, clip })
            }
        };
        let zero_points = [x.zero_point, h.zero_point];
        let packed = pack(op, &gates, (width, units, outputs), zero_points);
        Ok(Self {
            batch,
            width,
            units,
            outputs,
            packed,
            sigmoid: curves::logistic(),
            tanh: curves::gate_tanh(),
            cell_tanh: curves::tanh(cell_power + 15),
            x_zero_point: x.zero_point,
            h_zero_point: h.zero_point,
            gates,
            cell_power,
            cell_clip: clip(CELL_CLIP, c.scale, i32::from(i16::MAX))?,
            hidden: Multiplier::new(f64::from(2f32.powi(-30) / hidden_scale)),
            hidden_zero_point: hidden_zero_point(op)?,
            projection,
        })
    }

    /// Sums per product, whole vectors of them.
    fn columns(&self) -> usize {
        let plain = || self.gates.iter().flatten().count() * self.units;
        self.packed.as_ref().map_or_else(plain, |[by_x, _]| by_x.sums())
    }

    /// Numbers of work memory: gates, hidden values, both products and the row they are of.
    fn work(&self) -> usize {
        5 * self.units + 2 * self.columns() + self.width.max(self.outputs)
    }

    /// The products of input and state by the weights of all gates there are, one gate after the other.
    fn multiply(
        &self,
        io: &Io<'_>,
        row: usize,
        sums: [&mut [i32]; 2],
        words: &mut [i32],
    ) -> Result<(), String> {
        let x = io.input::<i8>(0).slice(row * self.width..(row + 1) * self.width);
        let h = io.input::<i8>(OUTPUT_STATE).slice(row * self.outputs..(row + 1) * self.outputs);
        let [from_x, from_h] = sums;
        if let Some([by_x, by_h]) = &self.packed {
            by_x.compute(x, words, from_x)?;
            return by_h.compute(h, words, from_h);
        }
        let products = |q: In<'_, i8>, weights: In<'_, i8>, unit: usize, zero_point: i32| {
            let weights = weights.slice(unit * q.len()..(unit + 1) * q.len()).iter();
            q.iter().zip(weights).fold(0i32, |sum, (q, w)| {
                sum.wrapping_add((i32::from(q) - zero_point) * i32::from(w))
            })
        };
        let there =
            self.gates.iter().enumerate().filter_map(|(at, gate)| Some((at, gate.as_ref()?)));
        let rows = from_x.chunks_exact_mut(self.units).zip(from_h.chunks_exact_mut(self.units));
        for ((index, gate), (from_x, from_h)) in there.zip(rows) {
            let bias = io.input::<i32>(BIAS + index);
            let (w_x, w_h) = (io.input(INPUT_TO + index), io.input(RECURRENT_TO + index));
            for unit in 0..self.units {
                let start = if gate.layer_norm.is_none() { bias.get(unit) } else { 0 };
                from_x[unit] = start.wrapping_add(products(x, w_x, unit, self.x_zero_point));
                from_h[unit] = products(h, w_h, unit, self.h_zero_point);
            }
        }
        Ok(())
    }

    /// One batch row.
    fn run(&self, io: &Io<'_>, row: usize, work: &mut [i32]) -> Result<(), String> {
        let units = self.units;
        let (gates, work) = work.split_at_mut(4 * units);
        let (hidden, work) = work.split_at_mut(units);
        let (from_x, work) = work.split_at_mut(self.columns());
        let (from_h, words) = work.split_at_mut(self.columns());
        self.multiply(io, row, [from_x, from_h], words)?;
        let first = self.gates.iter().take_while(|gate| gate.is_none()).count();
        let sums_of = |gate: usize| {
            let range = (gate - first) * units..(gate - first + 1) * units;
            [&from_x[range.clone()], &from_h[range]]
        };
        let cells = io.input::<i16>(CELL_STATE).slice(row * units..(row + 1) * units);
        let cell_out = io.output::<i16>(1).slice(row * units..(row + 1) * units);
        let mut activate = |gate: usize, peephole: &dyn Fn(usize) -> i32| {
            let values = &mut gates[gate * units..(gate + 1) * units];
            match &self.gates[gate] {
                Some(parameters) => {
                    self.gate(io, (gate, parameters), sums_of(gate), values, peephole)?;
                }
                None => values.fill(0),
            }
            Ok::<(), String>(())
        };
        let previous = |unit: usize| i32::from(cells.get(unit));
        activate(FORGET, &previous)?;
        activate(INPUT, &previous)?;
        activate(CELL, &previous)?;
        // Rows of plain numbers, which the compiler makes vectors of; the hidden values come later.
        hidden.iter_mut().zip(cells.iter()).for_each(|(to, c)| *to = i32::from(c));
        let (first, outer) = gates.split_at_mut(OUTPUT * units);
        let (first, new_cells) = first.split_at_mut(CELL * units);
        let (i, f) = first.split_at_mut(FORGET * units);
        if self.gates[INPUT].is_none() {
            i.iter_mut().zip(&*f).for_each(|(i, f)| *i = 32_767 - f);
        }
        let limit = self.cell_clip.map_or((-32_768, 32_767), |clip| (-clip, clip));
        // The new state takes the place of the cell gate, which is used up.
        for (((c, i), f), previous) in new_cells.iter_mut().zip(&*i).zip(&*f).zip(&*hidden) {
            // All are of 16 bits and the power is at least -24: the sum doesn't overflow.
            let (kept, added) = (rdbpot(f * previous, 15), rdbpot(i * *c, 30 + self.cell_power));
            *c = (kept + added).clamp(limit.0, limit.1);
        }
        if let Some(parameters) = &self.gates[OUTPUT] {
            let sums = sums_of(OUTPUT);
            self.gate(io, (OUTPUT, parameters), sums, outer, &|unit| new_cells[unit])?;
        }
        for unit in 0..units {
            let c = saturate(new_cells[unit]);
            cell_out.set(unit, c);
            let t = match self.cell_tanh {
                Some(curve) => curves::at(curve, c),
                None => tanh(c, self.cell_power + 15),
            };
            let t = i32::from(t);
            let m = self.hidden.apply(outer[unit] * t);
            // Minus: the projection adds it back, so it has the opposite of the usual sign.
            hidden[unit] = m.saturating_sub(self.hidden_zero_point).clamp(-128, 127);
        }
        self.project(io, row, hidden);
        Ok(())
    }

    /// A gate of one batch row, activated: 16-bit values in `[-1, 1)`.
    fn gate(
        &self,
        io: &Io<'_>,
        (index, gate): (usize, &Gate),
        [from_x, from_h]: [&[i32]; 2],
        values: &mut [i32],
        cell: &dyn Fn(usize) -> i32,
    ) -> Result<(), String> {
        gate.sum.compute(from_x, from_h, values)?;
        if let Some(multiplier) = gate.peephole {
            let weights = io.input::<i16>(PEEPHOLE[index]);
            for (unit, value) in values.iter_mut().enumerate() {
                let more = multiplier.apply(i32::from(weights.get(unit)) * cell(unit));
                *value = i32::from(saturate(value.saturating_add(more)));
            }
        }
        if let Some(norm) = gate.layer_norm {
            norm.apply(io, index, values);
        }
        let curve = if index == CELL { self.tanh } else { self.sigmoid };
        for value in values {
            *value = i32::from(curves::at(curve, saturate(*value)));
        }
        Ok(())
    }

    fn project(&self, io: &Io<'_>, row: usize, hidden: &[i32]) {
        let (state, output) = (io.output::<i8>(0), io.output::<i8>(2));
        for at in 0..self.outputs {
            let y = match self.projection {
                None => hidden[at],
                Some(projection) => {
                    let weights =
                        io.input::<i8>(PROJECTION).slice(at * self.units..(at + 1) * self.units);
                    let zero_point = if projection.has_bias { self.hidden_zero_point } else { 0 };
                    let bias = if projection.has_bias {
                        io.input::<i32>(PROJECTION_BIAS).get(at)
                    } else {
                        0
                    };
                    let sum = hidden.iter().zip(weights.iter()).fold(bias, |sum, (m, w)| {
                        sum.wrapping_add((m + zero_point).wrapping_mul(i32::from(w)))
                    });
                    let y = projection.multiplier.apply(sum).saturating_add(self.h_zero_point);
                    let y = y.clamp(-128, 127);
                    projection.clip.map_or(y, |clip| y.clamp(-clip, clip))
                }
            };
            let y = i8::try_from(y.clamp(-128, 127)).unwrap_or(0);
            state.set(row * self.outputs + at, y);
            output.set(row * self.outputs + at, y);
        }
    }
}

/// The weights of all gates there are, for products with input and state; `None` where some aren't constant.
fn pack(
    op: &OpBuilder<'_>,
    gates: &[Option<Gate>; 4],
    (width, units, outputs): (usize, usize, usize),
    zero_points: [i32; 2],
) -> Option<[GemvBytes; 2]> {
    let (mut weights, mut bias) = ([Vec::<i8>::new(), Vec::new()], Vec::<i32>::new());
    for (index, gate) in gates.iter().enumerate() {
        let Some(gate) = gate else { continue };
        weights[0].extend_from_slice(op.constant(INPUT_TO + index)?.typed());
        weights[1].extend_from_slice(op.constant(RECURRENT_TO + index)?.typed());
        match gate.layer_norm {
            None => bias.extend_from_slice(op.constant(BIAS + index)?.typed()),
            // Then it comes behind the normalisation.
            Some(_) => bias.extend(std::iter::repeat_n(0, units)),
        }
    }
    let none = vec![0; bias.len()];
    let [of_x, of_h] = zero_points;
    Some([
        GemvBytes::new(op.isa(), &weights[0], width, of_x, &bias)?,
        GemvBytes::new(op.isa(), &weights[1], outputs, of_h, &none)?,
    ])
}

impl Gate {
    fn new(
        op: &OpBuilder<'_>,
        index: usize,
        (width, units, outputs): (usize, usize, usize),
        (x_scale, h_scale): (f32, f32),
        cell_power: i32,
    ) -> Lowered<Self> {
        let weights = OperandType::TensorQuant8Symm;
        check(op, INPUT_TO + index, weights, &[units, width])?;
        check(op, RECURRENT_TO + index, weights, &[units, outputs])?;
        check(op, BIAS + index, OperandType::TensorInt32, &[units])?;
        let scale = op.f32(INTERMEDIATE_SCALE + index)?;
        let multiplier = |weights: usize, of: f32| -> Lowered<Multiplier> {
            Ok(Multiplier::new(f64::from(op.input(weights)?.scale * of / scale)))
        };
        let optional = |input: usize| -> Lowered<bool> {
            let there = input != usize::MAX && op.has_input(input);
            if there {
                check(op, input, OperandType::TensorQuant16Symm, &[units])?;
            }
            Ok(there)
        };
        let peephole = if optional(PEEPHOLE[index])? {
            Some(multiplier(PEEPHOLE[index], 2f32.powi(cell_power))?)
        } else {
            None
        };
        let layer_norm = if optional(LAYER_NORM + index)? {
            let scale = op.input(LAYER_NORM + index)?.scale;
            let mut multiplier = Multiplier::new(f64::from(scale));
            multiplier.shift += 12;
            #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
            let least = ((10_000.0 * scale) as i32).min(1);
            Some(LayerNorm { multiplier, least })
        } else {
            None
        };
        let multipliers =
            [multiplier(INPUT_TO + index, x_scale)?, multiplier(RECURRENT_TO + index, h_scale)?];
        Ok(Self { sum: Gates::new(op.isa(), multipliers), peephole, layer_norm })
    }
}

impl LayerNorm {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "means of 16-bit values with ten more bits, and clamped results"
    )]
    fn apply(self, io: &Io<'_>, gate: usize, values: &mut [i32]) {
        let (weights, bias) = (io.input::<i16>(LAYER_NORM + gate), io.input::<i32>(BIAS + gate));
        let count = values.len() as i64;
        let sum: i64 = values.iter().map(|&v| i64::from(v)).sum();
        let squares: i64 = values.iter().map(|&v| i64::from(v) * i64::from(v)).sum();
        let mean = sum * 1024 / count;
        let variance = (squares * ((1 << 20) / count) - mean * mean) / (1 << 20);
        let variance =
            if variance < 1 { self.least } else { i32::try_from(variance).unwrap_or(i32::MAX) };
        let (fraction, shift) = inverse_sqrt(variance);
        let inverse = Multiplier { fraction, shift };
        for (unit, value) in values.iter_mut().enumerate() {
            let centered = i64::from(*value) * 1024 - mean;
            let scaled = inverse.apply(centered as i32);
            let p = i64::from(scaled) * i64::from(weights.get(unit)) + i64::from(bias.get(unit));
            let q = (if p > 0 { p + 512 } else { p - 512 }) / 1024;
            *value = i32::from(saturate(self.multiplier.apply(q as i32)));
        }
    }
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

/// What stands for 0 in the hidden state, which is of signed bytes.
fn hidden_zero_point(op: &OpBuilder<'_>) -> Lowered<i32> {
    let zero_point = op.i32(HIDDEN_ZERO_POINT)?;
    if (-128..=127).contains(&zero_point) {
        Ok(zero_point)
    } else {
        let what = format!("is {zero_point}, no zero point of signed bytes");
        Err(OpError::input(HIDDEN_ZERO_POINT, what).into())
    }
}

/// The exponent of a cell state's scale.
fn power_of_two(scale: f32) -> Result<i32, OpError> {
    let power = scale.log2();
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
    let rounded = power.round() as i32;
    if (power - power.round()).abs() < 1e-3 && (-24..=-9).contains(&rounded) {
        Ok(rounded)
    } else {
        let what = format!("has a scale of {scale}, not a power of two of at most 2^-9");
        Err(OpError::input(CELL_STATE, what))
    }
}
