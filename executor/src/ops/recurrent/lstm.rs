//! LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM, FLOAT32 and FLOAT16.
//!
//! Source: NNAPI, LSTM since HAL 1.0 (27 inputs and FLOAT16 since 1.2), the sequences since 1.2, their
//! state outputs since 1.3. FLOAT16 is computed in `f32` and rounded once.

use super::lstm_cell::{Cell, CellInputs};
use super::operands::{Id, Operands, is_half, store};
use super::sequence::{Linking, Sequence, SequenceTo, set_sequence_outputs};
use crate::error::OpError;
use crate::io::Io;
use crate::kernels::Isa;
use crate::ops::Op;
use crate::plan::{Label, Lowered, OpBuilder};
use crate::shape::Shape;

pub(in crate::ops) static LSTM: Op = Op { lower: lower_lstm };
pub(in crate::ops) static UNIDIRECTIONAL_SEQUENCE_LSTM: Op = Op { lower: lower_unidirectional };
pub(in crate::ops) static BIDIRECTIONAL_SEQUENCE_LSTM: Op = Op { lower: lower_bidirectional };

/// One direction: a cell and what it reads.
#[derive(Debug)]
struct Direction {
    cell: Cell,
    /// `[rows, width]`, the width that the cell's input weights take.
    x: Id,
    aux: Option<Id>,
    backward: bool,
    sequence_to: SequenceTo,
    /// Outputs of the last output state and cell state, where wanted.
    states_to: Option<(usize, usize)>,
}

fn lower_lstm(op: &mut OpBuilder<'_>) -> Lowered {
    let x = op.input(0)?;
    let half = is_half(0, x.kind)?;
    let &[batch, width] = &x.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?} and must be of rank 2", x.shape)).into());
    };
    let mut at = CellInputs::starting_at(1, 18, 19);
    if op.input_count() >= 27 {
        at.layer_norm = Some([23, 24, 25, 26]);
    }
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &[batch, width])?;
    let cell = Cell::new(op, &mut operands, &at, (batch, width, 0), (20, 21, 22))?;
    let (units, output) = (cell.extents.units, cell.extents.output);
    let gates = if cell.is_coupled(&operands) { 3 } else { 4 };
    op.set_output(0, Shape::new([batch, gates * units])?)?;
    op.set_output(1, Shape::new([batch, output])?)?;
    op.set_output(2, Shape::new([batch, units])?)?;
    op.set_output(3, Shape::new([batch, output])?)?;
    let direction = Direction {
        cell,
        x,
        aux: None,
        backward: false,
        sequence_to: (3, output, 0),
        states_to: Some((1, 2)),
    };
    emit(op, "lstm", half, Sequence::single(batch), operands, vec![direction])
}

fn lower_unidirectional(op: &mut OpBuilder<'_>) -> Lowered {
    let x = op.input(0)?;
    let half = is_half(0, x.kind)?;
    let (sequence, width) = Sequence::of(0, &x.shape, op.bool(23)?)?;
    let mut at = CellInputs::starting_at(1, 18, 19);
    at.layer_norm = Some([24, 25, 26, 27]);
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &x.shape)?;
    let cell = Cell::new(op, &mut operands, &at, (sequence.batch, width, 0), (20, 21, 22))?;
    let (batch, units, output) = (sequence.batch, cell.extents.units, cell.extents.output);
    op.set_output(0, sequence.shape(output)?)?;
    let states_to = match op.output_count() {
        1 => None,
        3 => {
            op.set_output(1, Shape::new([batch, output])?)?;
            op.set_output(2, Shape::new([batch, units])?)?;
            Some((1, 2))
        }
        other => return Err(OpError::rule(format!("{other} outputs, not 1 or 3")).into()),
    };
    let sequence_to = (0, output, 0);
    let direction = Direction { cell, x, aux: None, backward: false, sequence_to, states_to };
    emit(op, "lstm_sequence", half, sequence, operands, vec![direction])
}

fn lower_bidirectional(op: &mut OpBuilder<'_>) -> Lowered {
    let x = op.input(0)?;
    let half = is_half(0, x.kind)?;
    let merge = op.bool(51)?;
    let (sequence, width) = Sequence::of(0, &x.shape, op.bool(52)?)?;
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &x.shape)?;
    // The weights of an absent input gate are left out, so the output gate's tell.
    let linking = Linking::of(op.has_input(39), op.has_input(43), op.has_input(47))?;
    let (aux, aux_width) = match op.optional_input(39)? {
        None => (None, 0),
        Some(aux) => {
            let (like, aux_width) = Sequence::of(39, &aux.shape, sequence.time_major)?;
            if like != sequence {
                let what = format!("of {:?} doesn't go with the input", aux.shape);
                return Err(OpError::input(39, what).into());
            }
            (Some(operands.required(op, 39, &aux.shape)?), aux_width)
        }
    };
    let mut forward_at = CellInputs::starting_at(1, 35, 36);
    forward_at.layer_norm = Some([53, 54, 55, 56]);
    let mut backward_at = CellInputs::starting_at(18, 37, 38);
    backward_at.layer_norm = Some([57, 58, 59, 60]);
    let mut cell_aux = 0;
    if linking == Linking::Cross {
        forward_at.aux_to = Some([40, 41, 42, 43]);
        backward_at.aux_to = Some([44, 45, 46, 47]);
        cell_aux = aux_width;
    }
    let (backward_x, backward_width) = match (linking, aux) {
        (Linking::Parallel, Some(aux)) => (aux, aux_width),
        _ => (x, width),
    };
    let batch = sequence.batch;
    let scalars = (48, 49, 50);
    let forward = Cell::new(op, &mut operands, &forward_at, (batch, width, cell_aux), scalars)?;
    let extents = (batch, backward_width, cell_aux);
    let backward = Cell::new(op, &mut operands, &backward_at, extents, scalars)?;
    let (forward_to, backward_to, first_state) = set_sequence_outputs(
        op,
        sequence,
        merge,
        [forward.extents.output, backward.extents.output],
    )?;
    let states = op.output_count() - first_state;
    if states != 0 && states != 4 {
        return Err(OpError::rule(format!("{states} state outputs, not 0 or 4")).into());
    }
    let states_of = |at: usize| (states == 4).then_some((first_state + at, first_state + at + 1));
    if states == 4 {
        for (at, extents) in [(0, forward.extents), (2, backward.extents)] {
            op.set_output(first_state + at, Shape::new([batch, extents.output])?)?;
            op.set_output(first_state + at + 1, Shape::new([batch, extents.units])?)?;
        }
    }
    let aux = aux.filter(|_| linking == Linking::Cross);
    let directions = vec![
        Direction {
            cell: forward,
            x,
            aux,
            backward: false,
            sequence_to: forward_to,
            states_to: states_of(0),
        },
        Direction {
            cell: backward,
            x: backward_x,
            aux,
            backward: true,
            sequence_to: backward_to,
            states_to: states_of(2),
        },
    ];
    emit(op, "lstm_bidirectional", half, sequence, operands, directions)
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
    let shape = format!("{sequence:?} {:?}", directions.first().map(|first| first.cell.extents));
    let multiplies: usize = directions.iter().map(|direction| direction.multiplies(sequence)).sum();
    let operations = u64::try_from(2 * multiplies).unwrap_or(u64::MAX);
    let label = Label { kernel, form: Isa::Scalar, shape, operations };
    op.emit_with_scratch(label, elements * size_of::<f32>(), move |mut io: Io<'_>| {
        let outer = io.inputs_and_outputs();
        let (copies, rest) = operands.load(&mut io);
        let (work, mut sequences) = rest.split_at_mut(work);
        for &(output, len) in &results {
            let (values, rest) = std::mem::take(&mut sequences).split_at_mut(len);
            sequences = rest;
            for direction in directions.iter().filter(|it| it.sequence_to.0 == output) {
                direction.run(&operands, copies, sequence, work, values, &outer, half);
            }
            store(&outer, output, half, values);
        }
        Ok(())
    });
    Ok(())
}

impl Direction {
    fn work(&self, sequence: Sequence) -> usize {
        let extents = self.cell.extents;
        let state = sequence.batch * (extents.output + extents.units);
        self.cell.work() + state + sequence.batch * (extents.input + extents.aux)
    }

    fn multiplies(&self, sequence: Sequence) -> usize {
        let extents = self.cell.extents;
        let gate = extents.units * (extents.input + extents.aux + extents.output);
        sequence.rows() * 4 * gate
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the pieces of one run, made apart by the caller"
    )]
    fn run(
        &self,
        operands: &Operands,
        copies: &[f32],
        sequence: Sequence,
        work: &mut [f32],
        values: &mut [f32],
        io: &Io<'_>,
        half: bool,
    ) {
        let cell = &self.cell;
        let extents = cell.extents;
        let (h, rest) = work.split_at_mut(sequence.batch * extents.output);
        let (c, rest) = rest.split_at_mut(sequence.batch * extents.units);
        let (x_rows, rest) = rest.split_at_mut(sequence.batch * extents.input);
        let (aux_rows, cell_work) = rest.split_at_mut(sequence.batch * extents.aux);
        h.copy_from_slice(operands.there(copies, cell.output_state));
        c.copy_from_slice(operands.there(copies, cell.cell_state));
        let x = operands.there(copies, self.x);
        let aux = self.aux.map(|aux| operands.there(copies, aux));
        let (_, width, from) = self.sequence_to;
        for step in sequence.steps(self.backward) {
            let x = sequence.step_rows(x, extents.input, step, x_rows);
            let aux = aux.map(|aux| sequence.step_rows(aux, extents.aux, step, aux_rows));
            cell.step(operands, copies, (x, aux), (h, c), cell_work);
            sequence.put_rows(h, step, values, (width, from));
        }
        if let Some((output_state, cell_state)) = self.states_to {
            store(io, output_state, half, h);
            store(io, cell_state, half, c);
        }
    }
}
