//! The execution of recurrent operations: directions of a cell over a sequence.
//!
//! ```text
//!   x, whole sequence ──one product──► sums [rows, gates] ──┐
//!   aux, if there is  ──one product──► added                │   per step, in order
//!   h ──product per step──► added to the step's rows ───────┴─► cell ─► h, c
//! ```
//!
//! What doesn't depend on the state is one product over all steps, in which weights are read once.

use nnburst_kernels::tensor::poll;

use super::linear::{Inputs, Linear};
use super::operands::{Id, Operands, store};
use super::sequence::{Sequence, SequenceTo};
use crate::lowering::{Io, Label, Lowered, OpBuilder, Words};

/// The function of a cell's gates.
pub(super) trait Cell: std::fmt::Debug + Send + Sync + 'static {
    /// Elements of work memory that [`Cell::finish`] takes.
    fn work(&self) -> usize;

    /// Matrices of the cell's own that nobody looks at any more, being packed.
    fn packed(&self) -> &[Id] {
        &[]
    }

    /// One batch row of one step: from the gates' sums and the previous states to the next.
    fn finish(
        &self,
        operands: &Operands,
        copies: &[f32],
        sums: &mut [f32],
        states: States<'_>,
        work: &mut [f32],
    ) -> Result<(), String>;
}

/// The states of one batch row.
#[derive(Debug)]
pub(super) struct States<'a> {
    /// The output of the last step.
    pub(super) h: &'a mut [f32],
    /// The cell's further state; may be empty.
    pub(super) c: &'a mut [f32],
}

/// A state: where it comes from, elements per batch row, which output wants it in the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellState {
    pub(super) from: Id,
    pub(super) len: usize,
    pub(super) to: Option<usize>,
}

/// One direction: a cell and what it reads.
#[derive(Debug)]
pub(super) struct Direction<C> {
    pub(super) cell: C,
    /// Sums per row.
    pub(super) columns: usize,
    /// The input, and its products.
    pub(super) x: (Id, Inputs),
    /// The auxiliary input, where the cell has weights for it.
    pub(super) aux: Option<(Id, Linear)>,
    pub(super) recurrent: Linear,
    pub(super) h: CellState,
    pub(super) c: Option<CellState>,
    pub(super) backward: bool,
    pub(super) sequence_to: SequenceTo,
    /// Of one run over the sequence.
    pub(super) multiplies: usize,
}

/// The operands of a run, and the elements of those that had to be copied.
#[derive(Clone, Copy, Debug)]
struct LoadedOperands<'a> {
    operands: &'a Operands,
    copies: &'a [f32],
}

/// Emits the step that runs all directions.
pub(super) fn emit<C: Cell>(
    op: &mut OpBuilder<'_>,
    kernel: &'static str,
    half: bool,
    sequence: Sequence,
    mut operands: Operands,
    directions: Vec<Direction<C>>,
) -> Lowered {
    for direction in &directions {
        operands.absorb(op, direction.packed());
    }
    let work = directions.iter().map(|direction| direction.work(sequence)).max().unwrap_or(0);
    let results = sequence.results(directions.iter().map(|direction| direction.sequence_to));
    let elements = operands.scratch + work + results.iter().map(|(_, len)| len).sum::<usize>();
    let multiplies: usize = directions.iter().map(|direction| direction.multiplies).sum();
    let Sequence { time, batch, .. } = sequence;
    let first = directions.first();
    let (columns, h) = first.map_or((0, 0), |first| (first.columns, first.h.len));
    let label = Label {
        kernel,
        form: first.map_or(nnburst_kernels::simd::Isa::Scalar, |first| first.x.1.isa()),
        shape: Words::new(move |f| write!(f, "{time} steps of {batch}, {columns} sums, {h} out")),
        operations: u64::try_from(2 * multiplies).unwrap_or(u64::MAX),
    };
    op.emit_with_scratch(label, elements * size_of::<f32>(), move |mut io: Io<'_>| {
        let outer = io.inputs_and_outputs();
        let (copies, rest) = operands.load(&mut io);
        let (work, mut sequences) = rest.split_at_mut(work);
        for &(output, len) in &results {
            let (values, rest) = std::mem::take(&mut sequences).split_at_mut(len);
            sequences = rest;
            for direction in directions.iter().filter(|it| it.sequence_to.0 == output) {
                let inputs = LoadedOperands { operands: &operands, copies };
                direction.run(inputs, sequence, work, values, &mut |output, values: &[f32]| {
                    store(&outer, output, half, values);
                })?;
            }
            store(&outer, output, half, values);
        }
        Ok(())
    });
    Ok(())
}

impl<C: Cell> Direction<C> {
    /// Matrices that nobody looks at any more, being packed.
    fn packed(&self) -> impl Iterator<Item = Id> {
        let aux = self.aux.iter().flat_map(|(_, linear)| linear.packed());
        let packed = self.x.1.packed().iter().chain(aux).chain(self.recurrent.packed());
        packed.chain(self.cell.packed()).copied()
    }

    fn work(&self, sequence: Sequence) -> usize {
        let states = sequence.batch * (self.h.len + self.c.map_or(0, |c| c.len));
        sequence.rows() * self.columns + states + self.cell.work().max(self.x.1.scratch())
    }

    /// Runs over the sequence into `values`; `keep` gets the states that are outputs of their own.
    fn run(
        &self,
        inputs: LoadedOperands<'_>,
        sequence: Sequence,
        work: &mut [f32],
        values: &mut [f32],
        keep: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), String> {
        let LoadedOperands { operands, copies } = inputs;
        let Sequence { batch, .. } = sequence;
        let c_len = self.c.map_or(0, |c| c.len);
        let (sums, rest) = work.split_at_mut(sequence.rows() * self.columns);
        let (h, rest) = rest.split_at_mut(batch * self.h.len);
        let (c, rest) = rest.split_at_mut(batch * c_len);
        h.copy_from_slice(operands.there(copies, self.h.from));
        if let Some(state) = self.c {
            c.copy_from_slice(operands.there(copies, state.from));
        }
        let (x, inputs) = &self.x;
        inputs.start(operands, copies, operands.there(copies, *x), sums, rest)?;
        if let Some((aux, linear)) = &self.aux {
            linear.add(operands, copies, operands.there(copies, *aux), sums, self.columns)?;
        }
        let (_, width, from) = self.sequence_to;
        let stride = self.columns * sequence.row_step();
        for step in poll::each(sequence.steps(self.backward), 64) {
            let sums = &mut sums[sequence.row(step, 0) * self.columns..];
            self.recurrent.add(operands, copies, h, sums, stride)?;
            for row in poll::each(0..batch, 64) {
                let states = States {
                    h: &mut h[row * self.h.len..][..self.h.len],
                    c: &mut c[row * c_len..][..c_len],
                };
                let sums = &mut sums[row * stride..][..self.columns];
                self.cell.finish(operands, copies, sums, states, rest)?;
            }
            sequence.put_rows(h, step, values, width, from);
        }
        for (state, values) in [(Some(self.h), &*h), (self.c, &*c)] {
            if let Some(output) = state.and_then(|state| state.to) {
                keep(output, values);
            }
        }
        Ok(())
    }
}
