//! LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM on the fly: inputs, hidden state and what is projected are
//! quantised row by row.

use std::ops::Range;

use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, OpError, poll};

use super::arg::{Activation, ElementKind, OperatorCall, refused};
use super::basic_lstm::{basic_lstm, is_basic};
use super::logistic::{in_vectors, logistic};
use super::math::f32_of;
use super::on_the_fly::OnTheFly;
use super::rnn::{ByteRow, ByteWeights};
use crate::lowering::{Io, Lowered};
use crate::ops::support::plain;

/// The places of tensors: for each gate the weights of input and state, the peephole, the bias and
/// the coefficients of the layer normalisation.
const INPUT: [usize; 5] = [1, 5, 9, 12, 20];
const FORGET: [usize; 5] = [2, 6, 10, 13, 21];
/// It has no peephole.
const CELL: [usize; 5] = [3, 7, usize::MAX, 14, 22];
const OUTPUT: [usize; 5] = [4, 8, 11, 15, 23];
const PROJECTION: usize = 16;
const PROJECTION_BIAS: usize = 17;
const OUTPUT_STATE: usize = 18;
const CELL_STATE: usize = 19;

/// Extents of the layer, and where a row of a step is.
#[derive(Clone, Copy, Debug)]
struct Extents {
    batches: usize,
    steps: usize,
    depth: usize,
    units: usize,
    outputs: usize,
    /// Rows from one step to the next, and from one batch to the next.
    strides: [usize; 2],
    /// True where the interpreter computes a step of all batches at once.
    is_joint: bool,
}

impl Extents {
    /// The units of a batch whose LOGISTIC the interpreter computes in vectors, of its `gate`-th
    /// gate: it keeps all batches of a gate one behind the other, and so the gates.
    fn in_vectors(&self, gate: usize, batch: usize) -> Range<usize> {
        let &Self { batches, units, is_joint, .. } = self;
        let (first, own) = (gate * batches * units, batch * units);
        if !is_joint {
            return in_vectors(first + own, units);
        }
        let all = in_vectors(first, batches * units);
        let within = |at: usize| at.saturating_sub(own).min(units);
        within(all.start)..within(all.end)
    }
}

/// A step of one batch: inputs `[n, depth]`.
pub(super) fn lstm(call: &mut OperatorCall<'_, '_>) -> Lowered {
    if is_basic(call) {
        return basic_lstm(call);
    }
    let input = call.arg(0)?.shape;
    let &[batches, depth] = &input[..] else {
        return Err(OpError::input(0, format!("is of {input:?}, not of rank 2")).into());
    };
    let [units, outputs] = extents_of_state(call)?;
    let strides = [0, 1];
    let extents = Extents { batches, steps: 1, depth, units, outputs, strides, is_joint: true };
    call.set(0, &[batches, outputs])?;
    emit(call, extents, 3)
}

/// All steps: inputs `[n, steps, depth]`, or `[steps, n, depth]` where time comes first.
pub(super) fn sequence(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?.shape;
    let &[first, second, depth] = &input[..] else {
        return Err(OpError::input(0, format!("is of {input:?}, not of rank 3")).into());
    };
    let [units, outputs] = extents_of_state(call)?;
    let is_joint = call.flag(3)?;
    let (batches, steps, strides) = match is_joint {
        true => (second, first, [second, 1]),
        false => (first, second, [1, second]),
    };
    call.set(0, &[first, second, outputs])?;
    emit(call, Extents { batches, steps, depth, units, outputs, strides, is_joint }, 4)
}

/// Units and outputs, as the weights of the state say.
fn extents_of_state(call: &OperatorCall<'_, '_>) -> Lowered<[usize; 2]> {
    let index = OUTPUT[1];
    let shape = call.arg(index)?.shape;
    match shape[..] {
        [units, outputs] if units > 0 && outputs > 0 => Ok([units, outputs]),
        _ => Err(OpError::input(index, format!("is of {shape:?}")).into()),
    }
}

/// Where a gate's weights are.
#[derive(Clone, Copy, Debug)]
struct Gate {
    from_input: ByteWeights,
    from_state: ByteWeights,
    peephole: Option<ByteWeights>,
    bias: usize,
    normalization: Option<usize>,
    activation: GateActivation,
}

#[derive(Clone, Copy, Debug)]
enum GateActivation {
    Logistic,
    Of(Activation),
}

impl Gate {
    fn new(
        call: &OperatorCall<'_, '_>,
        [input, state, peephole, bias, normalization]: [usize; 5],
        extents: &Extents,
        activation: GateActivation,
    ) -> Lowered<Self> {
        let &Extents { depth, units, outputs, .. } = extents;
        let has = |index: usize| index < call.tensors() && call.has(index);
        floats(call, bias, &[units])?;
        let peephole = match has(peephole) {
            true => Some(ByteWeights::new(call, peephole, &[units])?),
            false => None,
        };
        let normalization = has(normalization).then_some(normalization);
        if let Some(index) = normalization {
            floats(call, index, &[units])?;
        }
        Ok(Self {
            from_input: ByteWeights::new(call, input, &[units, depth])?,
            from_state: ByteWeights::new(call, state, &[units, outputs])?,
            peephole,
            bias,
            normalization,
            activation,
        })
    }

    /// The gate's values of one batch, from its input, hidden state and cell state; `vectors` as
    /// [`Extents::in_vectors`] gives them.
    fn compute(
        &self,
        io: &Io<'_>,
        isa: Isa,
        rows: [ByteRow<'_>; 2],
        cell: &[f32],
        vectors: Range<usize>,
        sums: &mut [f32],
    ) {
        match self.normalization {
            Some(_) => sums.fill(0.0),
            None => io.input::<f32>(self.bias).copy_to(sums),
        }
        for (row, weights) in rows.into_iter().zip([self.from_input, self.from_state]) {
            row.add_products(isa, io.input::<i8>(weights.input), weights.scale, sums);
        }
        if let Some(weights) = self.peephole {
            let own = io.input::<i8>(weights.input).iter();
            for ((sum, &cell), weight) in sums.iter_mut().zip(cell).zip(own) {
                *sum += f32::from(weight) * weights.scale * cell;
            }
        }
        if let Some(index) = self.normalization {
            normalize(sums);
            let own = io.input::<f32>(index).iter().zip(io.input::<f32>(self.bias).iter());
            for (sum, (coefficient, bias)) in sums.iter_mut().zip(own) {
                *sum = *sum * coefficient + bias;
            }
        }
        match self.activation {
            GateActivation::Logistic => logistic(isa, sums, vectors),
            GateActivation::Of(activation) => {
                sums.iter_mut().for_each(|sum| *sum = activation.apply(*sum));
            }
        }
    }
}

/// Takes the mean off and divides by the standard deviation.
fn normalize(values: &mut [f32]) {
    let count = i32::try_from(values.len()).map_or(f32::INFINITY, f32_of);
    let mean = values.iter().sum::<f32>() / count;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
    let inverse = 1.0 / (variance + 1e-8).sqrt();
    values.iter_mut().for_each(|x| *x = (*x - mean) * inverse);
}

/// Checks that a tensor is of floats of this shape.
fn floats(call: &OperatorCall<'_, '_>, index: usize, shape: &[usize]) -> Lowered {
    let arg = call.arg(index)?;
    if arg.kind == ElementKind::F32 && arg.shape[..] == *shape {
        return Ok(());
    }
    let what = format!("is {:?} of {:?}, not F32 of {shape:?}", arg.kind, arg.shape);
    Err(OpError::input(index, what).into())
}

/// The layer whose operands were checked.
#[derive(Debug)]
struct Layer {
    extents: Extents,
    /// `None` where it is one minus the forget gate.
    input: Option<Gate>,
    forget: Gate,
    cell: Gate,
    output: Gate,
    activation: Activation,
    cell_clip: f32,
    projection: Option<Projection>,
    way: OnTheFly,
    isa: Isa,
}

#[derive(Clone, Copy, Debug)]
struct Projection {
    weights: ByteWeights,
    has_bias: bool,
    clip: f32,
}

/// Adds the step; `asymmetric` is the option that says how rows are quantised.
fn emit(call: &mut OperatorCall<'_, '_>, extents: Extents, asymmetric: usize) -> Lowered {
    let Extents { batches, steps, depth, units, outputs, .. } = extents;
    let kind = call.arg(0)?.kind;
    if kind != ElementKind::F32 {
        return Err(refused(0, kind).into());
    }
    let activation = call.activation(0)?;
    let logistic = |at: [usize; 5]| Gate::new(call, at, &extents, GateActivation::Logistic);
    let input = if call.has(INPUT[0]) { Some(logistic(INPUT)?) } else { None };
    let (forget, output) = (logistic(FORGET)?, logistic(OUTPUT)?);
    let cell = Gate::new(call, CELL, &extents, GateActivation::Of(activation))?;
    floats(call, OUTPUT_STATE, &[batches, outputs])?;
    floats(call, CELL_STATE, &[batches, units])?;
    let projection = match call.has(PROJECTION) {
        true => {
            let weights = ByteWeights::new(call, PROJECTION, &[outputs, units])?;
            let has_bias = call.has(PROJECTION_BIAS);
            if has_bias {
                floats(call, PROJECTION_BIAS, &[outputs])?;
            }
            Some(Projection { weights, has_bias, clip: call.real(2)? })
        }
        false if outputs != units => {
            let what = format!("{outputs} outputs of {units} units without a projection");
            return Err(OpError::rule(what).into());
        }
        false => None,
    };
    for result in 0..3 {
        call.result_is(result, &[ElementKind::F32])?;
    }
    call.set(1, &[batches, outputs])?;
    call.set(2, &[batches, units])?;
    let (cell_clip, way) = (call.real(1)?, OnTheFly::new(call.flag(asymmetric)?));
    let isa = call.isa();
    let layer =
        Layer { extents, input, forget, cell, output, activation, cell_clip, projection, way, isa };
    let shape = call.result(0)?.shape;
    let work = 2 * batches * steps * 4 * units * (depth + outputs);
    let label = plain("tflite_lstm_on_the_fly", &shape, work as u64);
    call.emit_with_scratch(label, layer.scratch(), move |mut io| {
        let fixed = io.inputs_and_outputs();
        layer.run(&fixed, io.scratch_slice::<u8>())
    });
    Ok(())
}

/// The states of a batch.
struct State<'a> {
    hidden: &'a mut [f32],
    cell: &'a mut [f32],
}

impl Layer {
    /// Floats of the hidden state, the cell state, four gates and a hidden row.
    fn floats(&self) -> usize {
        let Extents { batches, units, outputs, .. } = self.extents;
        batches * (outputs + units) + 4 * units
    }

    /// Bytes of the floats, and of the rows of input and hidden state.
    fn scratch(&self) -> usize {
        let Extents { depth, units, outputs, .. } = self.extents;
        4 * self.floats() + depth + outputs.max(units)
    }

    fn run(&self, io: &Io<'_>, scratch: &mut [u8]) -> Result<(), String> {
        let Extents { batches, steps, depth, units, outputs, strides, .. } = self.extents;
        let (floats, bytes) = scratch.split_at_mut(4 * self.floats());
        let (hidden, rest) =
            bytemuck::cast_slice_mut::<u8, f32>(floats).split_at_mut(batches * outputs);
        let (cells, gates) = rest.split_at_mut(batches * units);
        io.input::<f32>(OUTPUT_STATE).copy_to(hidden);
        io.input::<f32>(CELL_STATE).copy_to(cells);
        let (input, output) = (io.input::<f32>(0), io.output::<f32>(0));
        for step in 0..steps {
            let states = hidden.chunks_exact_mut(outputs).zip(cells.chunks_exact_mut(units));
            for (batch, (hidden, cell)) in states.enumerate() {
                poll::work(4 * units * (depth + outputs) + 8)?;
                let row = step * strides[0] + batch * strides[1];
                let values = input.slice(row * depth..(row + 1) * depth);
                self.step(io, batch, values, State { hidden, cell }, gates, bytes);
                output.slice(row * outputs..(row + 1) * outputs).copy_from(In::of(hidden));
            }
        }
        io.output::<f32>(1).copy_from(In::of(hidden));
        io.output::<f32>(2).copy_from(In::of(cells));
        Ok(())
    }

    /// A step of one batch, which changes its states.
    fn step(
        &self,
        io: &Io<'_>,
        batch: usize,
        values: In<'_, f32>,
        State { hidden, cell }: State<'_>,
        gates: &mut [f32],
        bytes: &mut [u8],
    ) {
        let Extents { depth, units, .. } = self.extents;
        let (way, isa) = (self.way, self.isa);
        let (of_input, of_hidden) = bytes.split_at_mut(depth);
        let (forget, rest) = gates.split_at_mut(units);
        let (fresh, rest) = rest.split_at_mut(units);
        let (input, weighed) = rest.split_at_mut(units);
        let rows = [
            ByteRow::new(way, isa, values, of_input),
            ByteRow::new(way, isa, In::of(&*hidden), of_hidden),
        ];
        // The interpreter's gates: that of the input if there is one, cell, forget, output.
        let first = usize::from(self.input.is_some());
        let vectors = |gate: usize| self.extents.in_vectors(gate, batch);
        self.forget.compute(io, isa, rows, cell, vectors(first + 1), forget);
        self.cell.compute(io, isa, rows, cell, vectors(first), fresh);
        match &self.input {
            Some(gate) => gate.compute(io, isa, rows, cell, vectors(0), input),
            None => {
                input.iter_mut().zip(&*forget).for_each(|(input, forget)| *input = 1.0 - forget);
            }
        }
        let limit = if self.cell_clip > 0.0 { self.cell_clip } else { f32::INFINITY };
        for (((cell, forget), fresh), input) in
            cell.iter_mut().zip(&*forget).zip(&*fresh).zip(&*input)
        {
            *cell = (*cell * forget + fresh * input).clamp(-limit, limit);
        }
        self.output.compute(io, isa, rows, cell, vectors(first + 2), weighed);
        for (weighed, cell) in weighed.iter_mut().zip(&*cell) {
            *weighed *= self.activation.apply(*cell);
        }
        let Some(Projection { weights, has_bias, clip }) = self.projection else {
            hidden.copy_from_slice(weighed);
            return;
        };
        match has_bias {
            true => io.input::<f32>(PROJECTION_BIAS).copy_to(hidden),
            false => hidden.fill(0.0),
        }
        let row = ByteRow::new(way, isa, In::of(&*weighed), of_hidden);
        row.add_products(isa, io.input::<i8>(weights.input), weights.scale, hidden);
        if clip > 0.0 {
            hidden.iter_mut().for_each(|x| *x = x.clamp(-clip, clip));
        }
    }
}
