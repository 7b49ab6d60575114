//! LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM, FLOAT32 and FLOAT16.
//!
//! Source: NNAPI, LSTM since HAL 1.0 (27 inputs and FLOAT16 since 1.2), the sequences since 1.2,
//! their state outputs since 1.3. FLOAT16 is computed in `f32` and rounded once.

use nnburst_kernels::tensor::{OpError, Shape};

use super::direction::{CellState, Direction, emit};
use super::lstm_cell::{CellInputs, InputWidths, LstmCell, ScalarInputs};
use super::operands::{Id, Operands, is_half};
use super::sequence::{Linking, Sequence, SequenceTo, set_sequence_outputs};
use crate::lowering::{Lowered, OpBuilder};
use crate::ops::Op;

pub(in crate::ops) static LSTM: Op = Op { lower: lower_lstm };
pub(in crate::ops) static UNIDIRECTIONAL_SEQUENCE_LSTM: Op = Op { lower: lower_unidirectional };
pub(in crate::ops) static BIDIRECTIONAL_SEQUENCE_LSTM: Op = Op { lower: lower_bidirectional };

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
    let widths = InputWidths { batch, input: width, aux: 0 };
    let cell = LstmCell::new(op, &mut operands, &at, widths, ScalarInputs::starting_at(20))?;
    let (units, output) = (cell.extents.units, cell.extents.output);
    op.set_output(0, Shape::new([batch, cell.gates() * units])?)?;
    op.set_output(1, Shape::new([batch, output])?)?;
    op.set_output(2, Shape::new([batch, units])?)?;
    op.set_output(3, Shape::new([batch, output])?)?;
    let (once, to) = (Sequence::single(batch), (3, output, 0));
    let direction = direction(op, &operands, cell, x, once, to, Some((1, 2)));
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
    let widths = InputWidths { batch: sequence.batch, input: width, aux: 0 };
    let cell = LstmCell::new(op, &mut operands, &at, widths, ScalarInputs::starting_at(20))?;
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
    let direction = direction(op, &operands, cell, x, sequence, (0, output, 0), states_to);
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
    let scalars = ScalarInputs::starting_at(48);
    let widths = InputWidths { batch, input: width, aux: cell_aux };
    let forward = LstmCell::new(op, &mut operands, &forward_at, widths, scalars)?;
    let widths = InputWidths { input: backward_width, ..widths };
    let backward = LstmCell::new(op, &mut operands, &backward_at, widths, scalars)?;
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
    let aux_of = |cell: &LstmCell| Some((aux?, cell.aux(op.isa(), &operands)?));
    let (forward_aux, backward_aux) = (aux_of(&forward), aux_of(&backward));
    let of = |cell, x, to, at| direction(op, &operands, cell, x, sequence, to, states_of(at));
    let forward = Direction { aux: forward_aux, ..of(forward, x, forward_to, 0) };
    let backward = of(backward, backward_x, backward_to, 2);
    let backward = Direction { aux: backward_aux, backward: true, ..backward };
    let directions = vec![forward, backward];
    emit(op, "lstm_bidirectional", half, sequence, operands, directions)
}

/// Of a cell that reads `x`; states go to `states_to`, output state first, where wanted.
fn direction(
    op: &OpBuilder<'_>,
    operands: &Operands,
    cell: LstmCell,
    x: Id,
    sequence: Sequence,
    sequence_to: SequenceTo,
    states_to: Option<(usize, usize)>,
) -> Direction<LstmCell> {
    let (isa, extents) = (op.isa(), cell.extents);
    Direction {
        columns: cell.gates() * extents.units,
        x: (x, cell.inputs(isa, operands, sequence.rows())),
        aux: None,
        recurrent: cell.recurrent(isa, operands),
        h: CellState { from: cell.output_state, len: extents.output, to: states_to.map(|to| to.0) },
        c: Some(CellState {
            from: cell.cell_state,
            len: extents.units,
            to: states_to.map(|to| to.1),
        }),
        backward: false,
        sequence_to,
        multiplies: sequence.rows() * cell.multiplies(),
        cell,
    }
}
