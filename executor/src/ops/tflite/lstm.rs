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
use super::row_products::{ByteWeights, RowProducts};
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

/// What becomes of the sums of a gate's products.
#[derive(Clone, Copy, Debug)]
struct Gate {
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
        [_, _, peephole, bias, normalization]: [usize; 5],
        units: usize,
        activation: GateActivation,
    ) -> Lowered<Self> {
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
        Ok(Self { peephole, bias, normalization, activation })
    }

    /// What products are added to.
    fn begin(&self, io: &Io<'_>, sums: &mut [f32]) {
        match self.normalization {
            Some(_) => sums.fill(0.0),
            None => io.input::<f32>(self.bias).copy_to(sums),
        }
    }

    /// The gate's values of one batch, from its sums and cell state; `vectors` as
    /// [`Extents::in_vectors`] gives them.
    fn finish(&self, io: &Io<'_>, isa: Isa, cell: &[f32], vectors: Range<usize>, sums: &mut [f32]) {
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
            GateActivation::Of(activation) => activation.apply_to(isa, sums),
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
    /// Of inputs and of the hidden state, by the weights of forget, cell, output and input gate.
    from_input: RowProducts,
    from_state: RowProducts,
    isa: Isa,
}

#[derive(Debug)]
struct Projection {
    products: RowProducts,
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
    let way = OnTheFly::new(call.flag(asymmetric)?);
    let logistic = |at: [usize; 5]| Gate::new(call, at, units, GateActivation::Logistic);
    let input = if call.has(INPUT[0]) { Some(logistic(INPUT)?) } else { None };
    let (forget, output) = (logistic(FORGET)?, logistic(OUTPUT)?);
    let cell = Gate::new(call, CELL, units, GateActivation::Of(activation))?;
    let gates = [FORGET, CELL, OUTPUT, INPUT];
    let gates = &gates[..3 + usize::from(input.is_some())];
    let weights = |at: usize| gates.iter().map(|gate| gate[at]).collect::<Vec<_>>();
    let from_input = RowProducts::new(call, &weights(0), [units, depth], way)?;
    let from_state = RowProducts::new(call, &weights(1), [units, outputs], way)?;
    floats(call, OUTPUT_STATE, &[batches, outputs])?;
    floats(call, CELL_STATE, &[batches, units])?;
    let projection = match call.has(PROJECTION) {
        true => {
            let products = RowProducts::new(call, &[PROJECTION], [outputs, units], way)?;
            let has_bias = call.has(PROJECTION_BIAS);
            if has_bias {
                floats(call, PROJECTION_BIAS, &[outputs])?;
            }
            Some(Projection { products, has_bias, clip: call.real(2)? })
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
    let (cell_clip, isa) = (call.real(1)?, call.isa());
    let layer = Layer {
        extents,
        input,
        forget,
        cell,
        output,
        activation,
        cell_clip,
        projection,
        from_input,
        from_state,
        isa,
    };
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

    /// Bytes of the floats, and what products take.
    fn scratch(&self) -> usize {
        let projection = self.projection.as_ref().map(|projection| &projection.products);
        let products = [&self.from_input, &self.from_state].into_iter().chain(projection);
        4 * self.floats() + products.map(RowProducts::scratch).max().unwrap_or(0)
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
                poll::work(4 * units + 8)?;
                let row = step * strides[0] + batch * strides[1];
                let values = input.slice(row * depth..(row + 1) * depth);
                self.step(io, batch, values, State { hidden, cell }, gates, bytes)?;
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
    ) -> Result<(), String> {
        let (units, isa) = (self.extents.units, self.isa);
        let own = [Some(&self.forget), Some(&self.cell), Some(&self.output), self.input.as_ref()];
        let each = own.into_iter().flatten().zip(gates.chunks_exact_mut(units));
        each.for_each(|(gate, sums)| gate.begin(io, sums));
        let sums = &mut gates[..units * own.iter().flatten().count()];
        self.from_input.add(io, values, sums, bytes)?;
        self.from_state.add(io, In::of(&*hidden), sums, bytes)?;
        let (forget, rest) = gates.split_at_mut(units);
        let (fresh, rest) = rest.split_at_mut(units);
        let (weighed, input) = rest.split_at_mut(units);
        // The interpreter's gates: that of the input if there is one, cell, forget, output.
        let first = usize::from(self.input.is_some());
        let vectors = |gate: usize| self.extents.in_vectors(gate, batch);
        self.forget.finish(io, isa, cell, vectors(first + 1), forget);
        self.cell.finish(io, isa, cell, vectors(first), fresh);
        match &self.input {
            Some(gate) => gate.finish(io, isa, cell, vectors(0), input),
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
        self.output.finish(io, isa, cell, vectors(first + 2), weighed);
        // The gate of new values is not needed any more.
        fresh.copy_from_slice(cell);
        self.activation.apply_to(isa, fresh);
        weighed.iter_mut().zip(&*fresh).for_each(|(weighed, cell)| *weighed *= cell);
        let Some(Projection { products, has_bias, clip }) = &self.projection else {
            hidden.copy_from_slice(weighed);
            return Ok(());
        };
        match has_bias {
            true => io.input::<f32>(PROJECTION_BIAS).copy_to(hidden),
            false => hidden.fill(0.0),
        }
        products.add(io, In::of(&*weighed), hidden, bytes)?;
        if *clip > 0.0 {
            hidden.iter_mut().for_each(|x| *x = x.clamp(-clip, *clip));
        }
        Ok(())
    }
}
