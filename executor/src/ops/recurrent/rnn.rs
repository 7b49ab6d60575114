//! RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN: `act(x W^T + h R^T + b)`.
//!
//! Source: NNAPI, RNN since HAL 1.0, the sequences since 1.2, their state outputs since 1.3. FLOAT16 is
//! computed in `f32` and rounded once, where the reference rounds every step; both are within the
//! tolerance of half precision.

use super::lstm_cell::extents_2d;
use super::math::{Activation, add_batch_products};
use super::operands::{Id, Operands, is_half, store};
use super::sequence::{Linking, Sequence, SequenceTo, set_sequence_outputs};
use crate::error::OpError;
use crate::io::Io;
use crate::kernels::Isa;
use crate::ops::Op;
use crate::plan::{Label, Lowered, OpBuilder};
use crate::shape::Shape;

pub(in crate::ops) static RNN: Op = Op { lower: lower_rnn };
pub(in crate::ops) static UNIDIRECTIONAL_SEQUENCE_RNN: Op = Op { lower: lower_unidirectional };
pub(in crate::ops) static BIDIRECTIONAL_SEQUENCE_RNN: Op = Op { lower: lower_bidirectional };

/// One direction: weights, state and what it reads.
#[derive(Debug)]
struct Direction {
    width: usize,
    units: usize,
    x: Id,
    weights: Id,
    recurrent: Id,
    bias: Id,
    state: Id,
    /// Auxiliary input, its weights, its width.
    aux: Option<(Id, Id, usize)>,
    activation: Activation,
    backward: bool,
    sequence_to: SequenceTo,
    state_to: Option<usize>,
}

fn lower_rnn(op: &mut OpBuilder<'_>) -> Lowered {
    let x = op.input(0)?;
    let half = is_half(0, x.kind)?;
    let [batch, width] = extents_2d(op, 0)?;
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &[batch, width])?;
    let mut direction = Direction::new(op, &mut operands, (x, batch, width), [1, 2, 3, 4], 5)?;
    for output in 0..2 {
        op.set_output(output, Shape::new([batch, direction.units])?)?;
    }
    direction.sequence_to = (1, direction.units, 0);
    direction.state_to = Some(0);
    emit(op, "rnn", half, Sequence::single(batch), operands, vec![direction])
}

fn lower_unidirectional(op: &mut OpBuilder<'_>) -> Lowered {
    let x = op.input(0)?;
    let half = is_half(0, x.kind)?;
    // An INT32 here, where the others take a BOOL.
    let time_major = match op.i32(6)? {
        0 => false,
        1 => true,
        other => return Err(OpError::input(6, format!("time_major is {other}")).into()),
    };
    let (sequence, width) = Sequence::of(0, &x.shape, time_major)?;
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &x.shape)?;
    let from = (x, sequence.batch, width);
    let mut direction = Direction::new(op, &mut operands, from, [1, 2, 3, 4], 5)?;
    op.set_output(0, sequence.shape(direction.units)?)?;
    direction.sequence_to = (0, direction.units, 0);
    if op.output_count() > 1 {
        op.set_output(1, Shape::new([sequence.batch, direction.units])?)?;
        direction.state_to = Some(1);
    }
    emit(op, "rnn_sequence", half, sequence, operands, vec![direction])
}

fn lower_bidirectional(op: &mut OpBuilder<'_>) -> Lowered {
    let x = op.input(0)?;
    let half = is_half(0, x.kind)?;
    let merge = op.bool(14)?;
    let (sequence, width) = Sequence::of(0, &x.shape, op.bool(13)?)?;
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &x.shape)?;
    let linking = Linking::of(op.has_input(9), op.has_input(10), op.has_input(11))?;
    let (mut backward_x, mut backward_width, mut aux) = (x, width, None);
    if let Some(tensor) = op.optional_input(9)? {
        let (like, aux_width) = Sequence::of(9, &tensor.shape, sequence.time_major)?;
        if like != sequence {
            let what = format!("of {:?} doesn't go with the input", tensor.shape);
            return Err(OpError::input(9, what).into());
        }
        let id = operands.required(op, 9, &tensor.shape)?;
        match linking {
            Linking::Parallel => (backward_x, backward_width) = (id, aux_width),
            _ => aux = Some((id, aux_width)),
        }
    }
    let batch = sequence.batch;
    let mut forward = Direction::new(op, &mut operands, (x, batch, width), [1, 2, 3, 4], 12)?;
    let from = (backward_x, batch, backward_width);
    let mut backward = Direction::new(op, &mut operands, from, [5, 6, 7, 8], 12)?;
    backward.backward = true;
    if let Some((id, width)) = aux {
        let weights = operands.required(op, 10, &[forward.units, width])?;
        forward.aux = Some((id, weights, width));
        let weights = operands.required(op, 11, &[backward.units, width])?;
        backward.aux = Some((id, weights, width));
    }
    let units = [forward.units, backward.units];
    let first_state;
    (forward.sequence_to, backward.sequence_to, first_state) =
        set_sequence_outputs(op, sequence, merge, units)?;
    match op.output_count() - first_state {
        0 => {}
        2 => {
            for (at, units) in units.into_iter().enumerate() {
                op.set_output(first_state + at, Shape::new([batch, units])?)?;
            }
            forward.state_to = Some(first_state);
            backward.state_to = Some(first_state + 1);
        }
        other => return Err(OpError::rule(format!("{other} state outputs, not 0 or 2")).into()),
    }
    emit(op, "rnn_bidirectional", half, sequence, operands, vec![forward, backward])
}

fn emit(
    op: &mut OpBuilder<'_>,
    kernel: &'static str,
    half: bool,
    sequence: Sequence,
    operands: Operands,
    directions: Vec<Direction>,
) -> Lowered {
    let work = directions.iter().map(|direction| direction.work(sequence)).max().unwrap_or(0);
    let results = sequence.results(directions.iter().map(|direction| direction.sequence_to));
    let elements = operands.scratch + work + results.iter().map(|(_, len)| len).sum::<usize>();
    let multiplies: usize = directions
        .iter()
        .map(|direction| sequence.rows() * direction.units * (direction.width + direction.units))
        .sum();
    let operations = u64::try_from(2 * multiplies).unwrap_or(u64::MAX);
    let label = Label { kernel, form: Isa::Scalar, shape: format!("{sequence:?}"), operations };
    op.emit_with_scratch(label, elements * size_of::<f32>(), move |mut io: Io<'_>| {
        let outer = io.inputs_and_outputs();
        let (copies, rest) = operands.load(&mut io);
        let (work, mut sequences) = rest.split_at_mut(work);
        for &(output, len) in &results {
            let (values, rest) = std::mem::take(&mut sequences).split_at_mut(len);
            sequences = rest;
            for direction in directions.iter().filter(|it| it.sequence_to.0 == output) {
                let state = direction.run(&operands, copies, sequence, work, values);
                if let Some(output) = direction.state_to {
                    store(&outer, output, half, state);
                }
            }
            store(&outer, output, half, values);
        }
        Ok(())
    });
    Ok(())
}

impl Direction {
    /// `[weights, recurrent weights, bias, state]` are at `at`, the activation's code at `activation`.
    fn new(
        op: &OpBuilder<'_>,
        operands: &mut Operands,
        (x, batch, width): (Id, usize, usize),
        at: [usize; 4],
        activation: usize,
    ) -> Lowered<Self> {
        let units = extents_2d(op, at[0])?[0];
        if units == 0 || width == 0 {
            return Err(OpError::input(at[0], format!("has {units} units of {width}")).into());
        }
        Ok(Self {
            width,
            units,
            x,
            weights: operands.required(op, at[0], &[units, width])?,
            recurrent: operands.required(op, at[1], &[units, units])?,
            bias: operands.required(op, at[2], &[units])?,
            state: operands.required(op, at[3], &[batch, units])?,
            aux: None,
            activation: Activation::from_code(activation, op.i32(activation)?)?,
            backward: false,
            sequence_to: (0, units, 0),
            state_to: None,
        })
    }

    fn work(&self, sequence: Sequence) -> usize {
        let aux = self.aux.map_or(0, |(_, _, width)| width);
        sequence.batch * (2 * self.units + self.width + aux)
    }

    /// Runs over the sequence; returns the last state.
    fn run<'w>(
        &self,
        operands: &Operands,
        copies: &[f32],
        sequence: Sequence,
        work: &'w mut [f32],
        values: &mut [f32],
    ) -> &'w [f32] {
        let there = |id: Id| operands.there(copies, id);
        let (mut state, rest) = work.split_at_mut(sequence.batch * self.units);
        let (mut next, rest) = rest.split_at_mut(sequence.batch * self.units);
        let (x_rows, aux_rows) = rest.split_at_mut(sequence.batch * self.width);
        state.copy_from_slice(there(self.state));
        let (_, width, from) = self.sequence_to;
        for step in sequence.steps(self.backward) {
            next.chunks_exact_mut(self.units).for_each(|row| row.copy_from_slice(there(self.bias)));
            let x = sequence.step_rows(there(self.x), self.width, step, x_rows);
            add_batch_products(there(self.weights), x, self.width, next, self.units);
            if let Some((aux, weights, width)) = self.aux {
                let aux = sequence.step_rows(there(aux), width, step, aux_rows);
                add_batch_products(there(weights), aux, width, next, self.units);
            }
            add_batch_products(there(self.recurrent), state, self.units, next, self.units);
            self.activation.apply(next);
            std::mem::swap(&mut state, &mut next);
            sequence.put_rows(state, step, values, (width, from));
        }
        state
    }
}
