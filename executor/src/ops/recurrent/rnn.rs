//! RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN: `act(x W^T + h R^T + b)`.
//!
//! Source: NNAPI, RNN since HAL 1.0, the sequences since 1.2, their state outputs since 1.3.
//! FLOAT16 is computed in `f32` and rounded once, where the reference rounds every step; both are
//! within the tolerance of half precision.

use nnburst_kernels::tensor::{OpError, Shape};

use super::direction::{Cell, CellState, Direction, States, emit};
use super::linear::{Inputs, Linear};
use super::lstm_cell::extents_2d;
use super::math::{Activation, Functions};
use super::operands::{Id, Operands, is_half};
use super::sequence::{Linking, Sequence, SequenceTo, set_sequence_outputs};
use crate::lowering::{Lowered, OpBuilder};
use crate::ops::Op;

pub(in crate::ops) static RNN: Op = Op { lower: lower_rnn };
pub(in crate::ops) static UNIDIRECTIONAL_SEQUENCE_RNN: Op = Op { lower: lower_unidirectional };
pub(in crate::ops) static BIDIRECTIONAL_SEQUENCE_RNN: Op = Op { lower: lower_bidirectional };

/// Nothing but an activation.
#[derive(Debug)]
struct RnnCell(Functions);

impl Cell for RnnCell {
    fn work(&self) -> usize {
        0
    }

    fn finish(
        &self,
        _operands: &Operands,
        _copies: &[f32],
        sums: &mut [f32],
        States { h, .. }: States<'_>,
        _work: &mut [f32],
    ) -> Result<(), String> {
        self.0.activate(sums);
        h.copy_from_slice(sums);
        Ok(())
    }
}

/// The operands of one direction.
struct Parts {
    units: usize,
    width: usize,
    x: Id,
    weights: Id,
    recurrent: Id,
    bias: Id,
    state: Id,
    functions: Functions,
    /// Auxiliary input, its weights, its width.
    aux: Option<(Id, Id, usize)>,
}

fn lower_rnn(op: &mut OpBuilder<'_>) -> Lowered {
    let x = op.input(0)?;
    let half = is_half(0, x.kind)?;
    let [batch, width] = extents_2d(op, 0)?;
    let mut operands = Operands::default();
    let x = operands.required(op, 0, &[batch, width])?;
    let parts = Parts::new(op, &mut operands, x, batch, width, [1, 2, 3, 4], 5)?;
    for output in 0..2 {
        op.set_output(output, Shape::new([batch, parts.units])?)?;
    }
    let (sequence, to) = (Sequence::single(batch), (1, parts.units, 0));
    let direction = parts.direction(op, &operands, sequence, to, Some(0));
    emit(op, "rnn", half, sequence, operands, vec![direction])
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
    let batch = sequence.batch;
    let parts = Parts::new(op, &mut operands, x, batch, width, [1, 2, 3, 4], 5)?;
    op.set_output(0, sequence.shape(parts.units)?)?;
    let state_to = (op.output_count() > 1).then_some(1);
    if let Some(output) = state_to {
        op.set_output(output, Shape::new([sequence.batch, parts.units])?)?;
    }
    let to = (0, parts.units, 0);
    let direction = parts.direction(op, &operands, sequence, to, state_to);
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
    let mut forward = Parts::new(op, &mut operands, x, batch, width, [1, 2, 3, 4], 12)?;
    let (x, width) = (backward_x, backward_width);
    let mut backward = Parts::new(op, &mut operands, x, batch, width, [5, 6, 7, 8], 12)?;
    if let Some((id, width)) = aux {
        let weights = operands.required(op, 10, &[forward.units, width])?;
        forward.aux = Some((id, weights, width));
        let weights = operands.required(op, 11, &[backward.units, width])?;
        backward.aux = Some((id, weights, width));
    }
    let units = [forward.units, backward.units];
    let (forward_to, backward_to, first_state) = set_sequence_outputs(op, sequence, merge, units)?;
    let states_to = match op.output_count() - first_state {
        0 => [None, None],
        2 => {
            for (at, units) in units.into_iter().enumerate() {
                op.set_output(first_state + at, Shape::new([batch, units])?)?;
            }
            [Some(first_state), Some(first_state + 1)]
        }
        other => return Err(OpError::rule(format!("{other} state outputs, not 0 or 2")).into()),
    };
    let forward = forward.direction(op, &operands, sequence, forward_to, states_to[0]);
    let backward = backward.direction(op, &operands, sequence, backward_to, states_to[1]);
    let directions = vec![forward, Direction { backward: true, ..backward }];
    emit(op, "rnn_bidirectional", half, sequence, operands, directions)
}

impl Parts {
    /// `[weights, recurrent weights, bias, state]` are at `at`, the activation's code at
    /// `activation`.
    fn new(
        op: &OpBuilder<'_>,
        operands: &mut Operands,
        x: Id,
        batch: usize,
        width: usize,
        at: [usize; 4],
        activation: usize,
    ) -> Lowered<Self> {
        let units = extents_2d(op, at[0])?[0];
        if units == 0 || width == 0 {
            return Err(OpError::input(at[0], format!("has {units} units of {width}")).into());
        }
        let code = Activation::from_code(activation, op.i32(activation)?)?;
        Ok(Self {
            units,
            width,
            x,
            weights: operands.required(op, at[0], &[units, width])?,
            recurrent: operands.required(op, at[1], &[units, units])?,
            bias: operands.required(op, at[2], &[units])?,
            state: operands.required(op, at[3], &[batch, units])?,
            functions: Functions::new(op.isa(), code),
            aux: None,
        })
    }

    fn direction(
        self,
        op: &OpBuilder<'_>,
        operands: &Operands,
        sequence: Sequence,
        sequence_to: SequenceTo,
        state_to: Option<usize>,
    ) -> Direction<RnnCell> {
        let Self { units, width, .. } = self;
        let linear = |id, width| Linear::new(op.isa(), operands, vec![id], units, width);
        let (weights, bias) = (vec![self.weights], Some(vec![self.bias]));
        let rows = sequence.rows();
        let aux_width = self.aux.map_or(0, |(_, _, width)| width);
        Direction {
            cell: RnnCell(self.functions),
            columns: units,
            x: (self.x, Inputs::new(op.isa(), operands, weights, bias, units, width, rows)),
            aux: self.aux.map(|(aux, weights, width)| (aux, linear(weights, width))),
            recurrent: linear(self.recurrent, units),
            h: CellState { from: self.state, len: units, to: state_to },
            c: None,
            backward: false,
            sequence_to,
            multiplies: rows * units * (width + aux_width + units),
        }
    }
}
