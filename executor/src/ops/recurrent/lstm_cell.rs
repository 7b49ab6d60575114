//! The float LSTM cell that LSTM and the sequence forms share.
//!
//! `z_k = x Wx_k^T + h Wh_k^T (+ aux A_k^T)` for the gates input, forget, cell, output; then
//! peephole, layer normalisation, activation. Source: NNAPI LSTM family, HAL 1.0 to 1.3 (ops:
//! recurrent).

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{OpError, poll};

use super::direction::{self, States};
use super::linear::{Inputs, Linear};
use super::math::{Activation, Functions};
use super::operands::{Id, Operands};
use crate::lowering::{Lowered, OpBuilder};

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
    /// The order that all operations of the family keep from the first weights to the projection's
    /// bias.
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

/// Indices of the scalar inputs of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalarInputs {
    activation: usize,
    cell_clip: usize,
    projection_clip: usize,
}

impl ScalarInputs {
    /// The order that all operations of the family keep.
    pub(super) fn starting_at(first: usize) -> Self {
        Self { activation: first, cell_clip: first + 1, projection_clip: first + 2 }
    }
}

/// Extents of what a cell reads at each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputWidths {
    pub(super) batch: usize,
    pub(super) input: usize,
    /// Of the auxiliary input; 0 without one.
    pub(super) aux: usize,
}

/// Extents of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) input: usize,
    pub(super) units: usize,
    pub(super) output: usize,
    /// Width of the auxiliary input; 0 without one.
    pub(super) aux: usize,
}

/// A cell whose operands were checked.
#[derive(Debug)]
pub(super) struct LstmCell {
    pub(super) extents: Extents,
    /// True if the input gate is one minus the forget gate.
    pub(super) coupled: bool,
    input_to: [Id; 4],
    recurrent_to: [Id; 4],
    peephole: [Id; 3],
    bias: [Id; 4],
    projection: Option<Linear>,
    projection_bias: Id,
    pub(super) output_state: Id,
    pub(super) cell_state: Id,
    layer_norm: Option<[Id; 4]>,
    aux_to: Option<[Id; 4]>,
    functions: Functions,
    isa: Isa,
    cell_clip: f32,
    projection_clip: f32,
}

const INPUT: usize = 0;
const FORGET: usize = 1;
const CELL: usize = 2;
const OUTPUT: usize = 3;

impl LstmCell {
    /// Checks the operands of a cell that reads `input` values per batch row (and `aux` auxiliary
    /// ones).
    pub(super) fn new(
        op: &OpBuilder<'_>,
        operands: &mut Operands,
        at: &CellInputs,
        widths: InputWidths,
        scalars: ScalarInputs,
    ) -> Lowered<Self> {
        let InputWidths { batch, input, aux } = widths;
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
        let projection = operands.optional(op, at.projection, &[output, units])?;
        let projection = operands
            .has(projection)
            .then(|| Linear::new(op.isa(), operands, vec![projection], output, units));
        let activation = Activation::from_code(scalars.activation, op.i32(scalars.activation)?)?;
        Ok(Self {
            extents: Extents { input, units, output, aux },
            coupled: cifg,
            input_to,
            recurrent_to,
            peephole,
            bias,
            projection,
            projection_bias: operands.optional(op, at.projection_bias, &[output])?,
            output_state: operands.required(op, at.output_state, &[batch, output])?,
            cell_state: operands.required(op, at.cell_state, &[batch, units])?,
            layer_norm,
            aux_to,
            functions: Functions::new(op.isa(), activation),
            isa: op.isa(),
            cell_clip: clip(op, scalars.cell_clip)?,
            projection_clip: clip(op, scalars.projection_clip)?,
        })
    }

    /// Returns the number of gates with accumulators.
    pub(super) fn gates(&self) -> usize {
        if self.coupled { 3 } else { 4 }
    }

    /// Of the gates that have sums, in order.
    fn of_gates(&self, ids: [Id; 4]) -> Vec<Id> {
        ids[4 - self.gates()..].to_vec()
    }

    /// The products of the input over a sequence of `rows`. With layer normalisation the bias comes
    /// behind it.
    pub(super) fn inputs(&self, isa: Isa, operands: &Operands, rows: usize) -> Inputs {
        let bias = self.layer_norm.is_none().then(|| self.of_gates(self.bias));
        let Extents { units, input, .. } = self.extents;
        Inputs::new(isa, operands, self.of_gates(self.input_to), bias, units, input, rows)
    }

    /// The products of the auxiliary input, where there are weights for one.
    pub(super) fn aux(&self, isa: Isa, operands: &Operands) -> Option<Linear> {
        let Extents { units, aux, .. } = self.extents;
        self.aux_to.map(|aux_to| Linear::new(isa, operands, self.of_gates(aux_to), units, aux))
    }

    /// The products of the state.
    pub(super) fn recurrent(&self, isa: Isa, operands: &Operands) -> Linear {
        let Extents { units, output, .. } = self.extents;
        Linear::new(isa, operands, self.of_gates(self.recurrent_to), units, output)
    }

    /// Multiplications of one row.
    pub(super) fn multiplies(&self) -> usize {
        let Extents { input, units, output, aux, .. } = self.extents;
        let projection = if self.projection.is_some() { units * output } else { 0 };
        self.gates() * units * (input + output + aux) + projection
    }

    /// Layer normalisation of a gate's sums, where the cell has it.
    fn normalise(&self, operands: &Operands, copies: &[f32], gate: usize, sums: &mut [f32]) {
        let Some(weights) = self.layer_norm else { return };
        let weights = operands.there(copies, weights[gate]);
        let bias = operands.there(copies, self.bias[gate]);
        // A unit takes less than half a nanosecond.
        if poll::work(sums.len() / 2).is_ok() {
            self.isa.run(Normalise { sums, weights, bias });
        }
    }

    fn project(
        &self,
        operands: &Operands,
        copies: &[f32],
        m: &[f32],
        h: &mut [f32],
    ) -> Result<(), String> {
        let Some(projection) = &self.projection else {
            h.copy_from_slice(m);
            return Ok(());
        };
        match operands.get(copies, self.projection_bias) {
            Some(bias) => h.copy_from_slice(bias),
            None => h.fill(0.0),
        }
        projection.add(operands, copies, m, h, h.len())?;
        clamp(h, self.projection_clip);
        Ok(())
    }
}

impl direction::Cell for LstmCell {
    fn packed(&self) -> &[Id] {
        self.projection.as_ref().map_or(&[], Linear::packed)
    }

    /// An input gate for cells that have no sums for it.
    fn work(&self) -> usize {
        self.extents.units
    }

    fn finish(
        &self,
        operands: &Operands,
        copies: &[f32],
        sums: &mut [f32],
        States { h, c }: States<'_>,
        work: &mut [f32],
    ) -> Result<(), String> {
        let units = self.extents.units;
        let (i, rest) =
            if self.coupled { (&mut work[..units], sums) } else { sums.split_at_mut(units) };
        let (f, rest) = rest.split_at_mut(units);
        let (g, o) = rest.split_at_mut(units);
        let functions = &self.functions;
        let peephole = |gate: usize| operands.get(copies, self.peephole[gate]);
        if let Some(weights) = peephole(1) {
            add_scaled(f, c, weights);
        }
        self.normalise(operands, copies, FORGET, f);
        functions.sigmoid(f);
        if self.coupled {
            i.iter_mut().zip(&*f).for_each(|(i, f)| *i = 1.0 - f);
        } else {
            if let Some(weights) = peephole(0) {
                add_scaled(i, c, weights);
            }
            self.normalise(operands, copies, INPUT, i);
            functions.sigmoid(i);
        }
        self.normalise(operands, copies, CELL, g);
        functions.activate(g);
        // Without a bound it is one that nothing passes.
        let limit = if self.cell_clip > 0.0 { self.cell_clip } else { f32::INFINITY };
        poll::work(units)?;
        self.isa.run(Update { c, f, i, g, limit });
        if let Some(weights) = peephole(2) {
            add_scaled(o, c, weights);
        }
        self.normalise(operands, copies, OUTPUT, o);
        functions.sigmoid(o);
        functions.activate(g);
        poll::work(units / 2)?;
        self.isa.run(Weigh { values: g, o });
        self.project(operands, copies, g, h)
    }
}

/// `(z - mean) / sqrt(var + 1e-8) * w + b` over the units.
struct Normalise<'a> {
    sums: &'a mut [f32],
    weights: &'a [f32],
    bias: &'a [f32],
}

impl Loop for Normalise<'_> {
    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "units are far fewer than 2^24")]
    fn run(self) {
        let Self { sums, weights, bias } = self;
        let count = sums.len() as f32;
        let mean = sum(sums, |z| z) / count;
        let variance = sum(sums, |z| (z - mean) * (z - mean)) / count;
        let scale = 1.0 / (variance + 1e-8).sqrt();
        for ((z, w), b) in sums.iter_mut().zip(weights).zip(bias) {
            *z = (*z - mean) * scale * w + b;
        }
    }
}

/// A sum in sixteen parts, which one after the other would wait for each addition.
#[inline(always)]
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (blocks, rest) = values.as_chunks::<16>();
    let mut parts = [0.0; 16];
    for block in blocks {
        parts.iter_mut().zip(block).for_each(|(part, &z)| *part += of(z));
    }
    parts.iter_mut().zip(rest).for_each(|(part, &z)| *part += of(z));
    for half in [8, 4, 2, 1] {
        let (first, second) = parts.split_at_mut(half);
        first.iter_mut().zip(second).for_each(|(first, second)| *first += *second);
    }
    parts[0]
}

/// The next state, from the one before and the gates; the candidates make room for it too.
struct Update<'a> {
    c: &'a mut [f32],
    f: &'a [f32],
    i: &'a [f32],
    g: &'a mut [f32],
    limit: f32,
}

impl Loop for Update<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { c, f, i, g, limit } = self;
        for (((c, f), i), g) in c.iter_mut().zip(f).zip(i).zip(g) {
            *c = (f * *c + i * *g).clamp(-limit, limit);
            *g = *c;
        }
    }
}

/// The weighting by the output gate.
struct Weigh<'a> {
    values: &'a mut [f32],
    o: &'a [f32],
}

impl Loop for Weigh<'_> {
    #[inline(always)]
    fn run(self) {
        self.values.iter_mut().zip(self.o).for_each(|(value, o)| *value *= o);
    }
}

/// Returns whether the input gate is left out whole; half of it is an error.
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

/// `sums += state * weights`.
fn add_scaled(sums: &mut [f32], state: &[f32], weights: &[f32]) {
    for ((sum, state), weight) in sums.iter_mut().zip(state).zip(weights) {
        *sum += state * weight;
    }
}

fn clamp(values: &mut [f32], limit: f32) {
    if limit > 0.0 {
        values.iter_mut().for_each(|value| *value = value.clamp(-limit, limit));
    }
}
