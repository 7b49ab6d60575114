//! The float LSTM cell that LSTM and the sequence forms share.
//!
//! `z_k = x Wx_k^T + h Wh_k^T (+ aux A_k^T)` for the gates input, forget, cell, output; then peephole,
//! layer normalisation, activation. Source: NNAPI LSTM family, HAL 1.0 to 1.3 (ops: recurrent).

use super::math::{Activation, add_batch_products, sigmoid};
use super::operands::{Id, Operands};
use crate::error::OpError;
use crate::plan::{Lowered, OpBuilder};

/// Positions of a cell's operands among the inputs of its operation; in each list the order of the
/// gates is input, forget, cell, output.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellInputs {
    pub(super) input_to: [usize; 4],
    pub(super) recurrent_to: [usize; 4],
    /// Of input, forget and output.
    pub(super) peephole: [usize; 3],
    pub(super) bias: [usize; 4],
    pub(super) projection: usize,
    pub(super) projection_bias: usize,
    pub(super) output_state: usize,
    pub(super) cell_state: usize,
    /// `None` where the operation has no such inputs.
    pub(super) layer_norm: Option<[usize; 4]>,
    /// Weights of an auxiliary input.
    pub(super) aux_to: Option<[usize; 4]>,
}

impl CellInputs {
    /// The order that all operations of the family keep from the first weights to the projection's bias.
    pub(super) fn starting_at(first: usize, output_state: usize, cell_state: usize) -> Self {
        let four = |at: usize| [first + at, first + at + 1, first + at + 2, first + at + 3];
        Self {
            input_to: four(0),
            recurrent_to: four(4),
            peephole: [first + 8, first + 9, first + 10],
            bias: four(11),
            projection: first + 15,
            projection_bias: first + 16,
            output_state,
            cell_state,
            layer_norm: None,
            aux_to: None,
        }
    }
}

/// Extents of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) batch: usize,
    pub(super) input: usize,
    pub(super) units: usize,
    pub(super) output: usize,
    /// Width of the auxiliary input; 0 without one.
    pub(super) aux: usize,
}

/// A cell whose operands were checked.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) extents: Extents,
    input_to: [Id; 4],
    recurrent_to: [Id; 4],
    peephole: [Id; 3],
    bias: [Id; 4],
    projection: Id,
    projection_bias: Id,
    pub(super) output_state: Id,
    pub(super) cell_state: Id,
    layer_norm: Option<[Id; 4]>,
    aux_to: Option<[Id; 4]>,
    pub(super) activation: Activation,
    pub(super) cell_clip: f32,
    pub(super) projection_clip: f32,
}

const INPUT: usize = 0;
const FORGET: usize = 1;
const CELL: usize = 2;
const OUTPUT: usize = 3;

impl Cell {
    /// Checks the operands of a cell that reads `input` values per batch row (and `aux` auxiliary ones).
    pub(super) fn new(
        op: &OpBuilder<'_>,
        operands: &mut Operands,
        at: &CellInputs,
        (batch, input, aux): (usize, usize, usize),
        (activation, cell_clip, projection_clip): (usize, usize, usize),
    ) -> Lowered<Self> {
        let cifg = input_gate_is_coupled(op, at)?;
        let units = extents_2d(op, at.input_to[OUTPUT])?[0];
        let output = extents_2d(op, at.recurrent_to[OUTPUT])?[1];
        for (what, extent) in [("inputs", input), ("units", units), ("outputs", output)] {
            if extent == 0 {
                return Err(OpError::rule(format!("a cell with 0 {what}")).into());
            }
        }
        if !op.has_input(at.projection) && output != units {
            let what = format!("without a projection {output} outputs must be the {units} units");
            return Err(OpError::rule(what).into());
        }
        if op.has_input(at.projection_bias) && !op.has_input(at.projection) {
            return Err(OpError::input(at.projection_bias, "is there without a projection").into());
        }
        check_peephole(op, at, cifg)?;
        let mut gates = |inputs: [usize; 4], extents: &[usize]| -> Lowered<[Id; 4]> {
            let first = operands.optional(op, inputs[INPUT], extents)?;
            let mut required = |gate: usize| operands.required(op, inputs[gate], extents);
            Ok([first, required(FORGET)?, required(CELL)?, required(OUTPUT)?])
        };
        let input_to = gates(at.input_to, &[units, input])?;
        let recurrent_to = gates(at.recurrent_to, &[units, output])?;
        let bias = gates(at.bias, &[units])?;
        let aux_to = match at.aux_to.filter(|aux| op.has_input(aux[OUTPUT])) {
            Some(inputs) => Some(gates(inputs, &[units, aux])?),
            None => None,
        };
        let layer_norm = match at.layer_norm.filter(|norm| op.has_input(norm[OUTPUT])) {
            Some(inputs) if cifg == op.has_input(inputs[INPUT]) => {
                let what = "goes with the input gate";
                return Err(OpError::input(inputs[INPUT], what).into());
            }
            Some(inputs) => Some(gates(inputs, &[units])?),
            None => None,
        };
        let mut peephole = |index: usize| operands.optional(op, at.peephole[index], &[units]);
        let peephole = [peephole(0)?, peephole(1)?, peephole(2)?];
        Ok(Self {
            extents: Extents { batch, input, units, output, aux },
            input_to,
            recurrent_to,
            peephole,
            bias,
            projection: operands.optional(op, at.projection, &[output, units])?,
            projection_bias: operands.optional(op, at.projection_bias, &[output])?,
            output_state: operands.required(op, at.output_state, &[batch, output])?,
            cell_state: operands.required(op, at.cell_state, &[batch, units])?,
            layer_norm,
            aux_to,
            activation: Activation::from_code(activation, op.i32(activation)?)?,
            cell_clip: clip(op, cell_clip)?,
            projection_clip: clip(op, projection_clip)?,
        })
    }

    /// Whether the input gate is one minus the forget gate.
    pub(super) fn is_coupled(&self, operands: &Operands) -> bool {
        !operands.has(self.input_to[INPUT])
    }

    /// Elements of work memory that [`Cell::step`] takes.
    pub(super) fn work(&self) -> usize {
        4 * self.extents.batch * self.extents.units
    }

    /// One step for a whole batch: `h` (`[batch, output]`) and `c` (`[batch, units]`) from the previous to
    /// the next state; `x` is `[batch, input]`, `aux` `[batch, aux]`.
    pub(super) fn step(
        &self,
        operands: &Operands,
        copies: &[f32],
        (x, aux): (&[f32], Option<&[f32]>),
        (h, c): (&mut [f32], &mut [f32]),
        work: &mut [f32],
    ) {
        let Extents { batch, units, .. } = self.extents;
        let coupled = self.is_coupled(operands);
        let [i, f, g, o] = quarters(work, batch * units);
        let gates: [(usize, &mut [f32]); 4] =
            [(INPUT, &mut *i), (FORGET, &mut *f), (CELL, &mut *g), (OUTPUT, &mut *o)];
        for (gate, sums) in gates {
            if !(gate == INPUT && coupled) {
                self.sum_gate(operands, copies, gate, (x, aux, h), sums);
            }
        }
        let get = |id: Id| operands.get(copies, id);
        if let Some(weights) = get(self.peephole[1]) {
            add_scaled(f, c, weights);
        }
        self.normalise(operands, copies, FORGET, f);
        f.iter_mut().for_each(|value| *value = sigmoid(*value));
        if coupled {
            i.iter_mut().zip(&*f).for_each(|(i, f)| *i = 1.0 - f);
        } else {
            if let Some(weights) = get(self.peephole[0]) {
                add_scaled(i, c, weights);
            }
            self.normalise(operands, copies, INPUT, i);
            i.iter_mut().for_each(|value| *value = sigmoid(*value));
        }
        self.normalise(operands, copies, CELL, g);
        self.activation.apply(g);
        for (((c, f), i), g) in c.iter_mut().zip(&*f).zip(&*i).zip(&*g) {
            *c = f * *c + i * g;
        }
        clamp(c, self.cell_clip);
        if let Some(weights) = get(self.peephole[2]) {
            add_scaled(o, c, weights);
        }
        self.normalise(operands, copies, OUTPUT, o);
        g.copy_from_slice(c);
        self.activation.apply(g);
        g.iter_mut().zip(&*o).for_each(|(m, o)| *m *= sigmoid(*o));
        self.project(operands, copies, g, h);
    }

    fn sum_gate(
        &self,
        operands: &Operands,
        copies: &[f32],
        gate: usize,
        (x, aux, h): (&[f32], Option<&[f32]>, &[f32]),
        sums: &mut [f32],
    ) {
        let Extents { input, units, output, aux: aux_width, .. } = self.extents;
        match operands.get(copies, self.bias[gate]) {
            // With layer normalisation the bias is added behind it.
            Some(bias) if self.layer_norm.is_none() => {
                sums.chunks_exact_mut(units).for_each(|row| row.copy_from_slice(bias));
            }
            _ => sums.fill(0.0),
        }
        let there = |id: Id| operands.there(copies, id);
        add_batch_products(there(self.input_to[gate]), x, input, sums, units);
        if let (Some(aux), Some(weights)) = (aux, self.aux_to) {
            add_batch_products(there(weights[gate]), aux, aux_width, sums, units);
        }
        add_batch_products(there(self.recurrent_to[gate]), h, output, sums, units);
    }

    /// `(z - mean) / sqrt(var + 1e-8) * w + b` over the units of each row.
    fn normalise(&self, operands: &Operands, copies: &[f32], gate: usize, sums: &mut [f32]) {
        let Some(weights) = self.layer_norm else { return };
        let weights = operands.there(copies, weights[gate]);
        let bias = operands.there(copies, self.bias[gate]);
        let units = self.extents.units;
        #[expect(clippy::cast_precision_loss, reason = "units are far fewer than 2^24")]
        let count = units as f32;
        for row in sums.chunks_exact_mut(units) {
            let mean = row.iter().sum::<f32>() / count;
            let variance = row.iter().map(|z| (z - mean) * (z - mean)).sum::<f32>() / count;
            let scale = 1.0 / (variance + 1e-8).sqrt();
            for ((z, w), b) in row.iter_mut().zip(weights).zip(bias) {
                *z = (*z - mean) * scale * w + b;
            }
        }
    }

    fn project(&self, operands: &Operands, copies: &[f32], m: &[f32], h: &mut [f32]) {
        let Extents { units, output, .. } = self.extents;
        let Some(weights) = operands.get(copies, self.projection) else {
            h.copy_from_slice(m);
            return;
        };
        match operands.get(copies, self.projection_bias) {
            Some(bias) => h.chunks_exact_mut(output).for_each(|row| row.copy_from_slice(bias)),
            None => h.fill(0.0),
        }
        add_batch_products(weights, m, units, h, output);
        clamp(h, self.projection_clip);
    }
}

/// Whether the input gate is left out whole; half of it is an error.
fn input_gate_is_coupled(op: &OpBuilder<'_>, at: &CellInputs) -> Lowered<bool> {
    let gate = [at.input_to[INPUT], at.recurrent_to[INPUT], at.bias[INPUT]];
    let there = gate.map(|index| op.has_input(index));
    match there {
        [true, true, true] => Ok(false),
        [false, false, false] => Ok(true),
        _ => {
            let what = format!("inputs {gate:?} of the input gate must be there all or none");
            Err(OpError::rule(what).into())
        }
    }
}

fn check_peephole(op: &OpBuilder<'_>, at: &CellInputs, cifg: bool) -> Lowered {
    let there = at.peephole.map(|index| op.has_input(index));
    let fine = match there {
        [false, false, false] => true,
        [input, true, true] => input != cifg,
        _ => false,
    };
    if fine {
        return Ok(());
    }
    let what = format!("peephole inputs {:?} must be there all or none", at.peephole);
    Err(OpError::rule(what).into())
}

fn clip(op: &OpBuilder<'_>, index: usize) -> Lowered<f32> {
    let clip = op.f32(index)?;
    if clip >= 0.0 {
        Ok(clip)
    } else {
        Err(OpError::input(index, format!("is a clip of {clip}, less than 0")).into())
    }
}

pub(super) fn extents_2d(op: &OpBuilder<'_>, index: usize) -> Lowered<[usize; 2]> {
    let tensor = op.input(index)?;
    <[usize; 2]>::try_from(&tensor.shape[..]).map_err(|_| {
        OpError::input(index, format!("is of {:?} and must be of rank 2", tensor.shape)).into()
    })
}

/// `sums += state * weights`, the weights repeated for each row.
fn add_scaled(sums: &mut [f32], state: &[f32], weights: &[f32]) {
    if weights.is_empty() {
        return;
    }
    for (sums, state) in sums.chunks_exact_mut(weights.len()).zip(state.chunks_exact(weights.len()))
    {
        for ((sum, state), weight) in sums.iter_mut().zip(state).zip(weights) {
            *sum += state * weight;
        }
    }
}

fn clamp(values: &mut [f32], limit: f32) {
    if limit > 0.0 {
        values.iter_mut().for_each(|value| *value = value.clamp(-limit, limit));
    }
}

fn quarters(work: &mut [f32], len: usize) -> [&mut [f32]; 4] {
    let (a, rest) = work.split_at_mut(len);
    let (b, rest) = rest.split_at_mut(len);
    let (c, rest) = rest.split_at_mut(len);
    [a, b, c, &mut rest[..len]]
}
