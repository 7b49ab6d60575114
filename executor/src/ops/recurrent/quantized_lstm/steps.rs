//! Steps of a network that was unrolled: the same cell again and again, with what comes of all
//! inputs in one product.
//!
//! Alone each step reads all weights from L2, of which those of the input may be
//! three quarters.

use std::sync::Arc;

use nnburst_kernels::kernels::gates_i16::LANES;

use super::cell::Cell;
use crate::lowering::Io;

/// Steps, each with the number of inputs and outputs of the operation.
#[derive(Debug)]
pub(crate) struct Steps {
    steps: Vec<(Arc<Cell>, [usize; 2])>,
    batch: usize,
    /// Words that a row of the input is kept in, and sums of it.
    words: usize,
    sums: usize,
}

impl Cell {
    /// Returns whether a step may be computed with this one: the sums of its input come of the same
    /// weights.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
        let both = self.products.by_input().zip(other.products.by_input());
        self.batch == other.batch && both.is_some_and(|(one, other)| one.is_same(other))
    }
}

impl Steps {
    /// Steps that go with the first. `None` where there are none, or their weights are no
    /// constants.
    pub(crate) fn new(steps: Vec<(Arc<Cell>, [usize; 2])>) -> Option<Self> {
        let (first, _) = steps.first()?;
        let by_input = first.products.by_input()?;
        let (batch, words, sums) = (first.batch, by_input.words(), by_input.sums());
        Some(Self { steps, batch, words, sums })
    }

    fn rows(&self) -> usize {
        self.steps.len() * self.batch
    }

    /// Numbers of a cell's work memory.
    fn work(&self) -> usize {
        self.steps.iter().map(|(cell, _)| cell.work()).max().unwrap_or(0)
    }

    /// Scratch memory that [`Steps::run`] takes.
    pub(crate) fn scratch_bytes(&self) -> usize {
        // Gates are done in whole vectors, the last one beyond the last sum.
        (self.work() + self.rows() * (self.words + self.sums) + LANES) * size_of::<i32>()
    }

    /// All steps; their operands lie one behind the other.
    pub(crate) fn run(&self, mut io: Io<'_>) -> Result<(), String> {
        let all = io.inputs_and_outputs();
        let (work, rest) = io.scratch_slice::<i32>().split_at_mut(self.work());
        let (kept, sums) = rest.split_at_mut(self.rows() * self.words);
        let mut keeping = kept.chunks_exact_mut(self.words);
        self.each(&all, |cell, io, row| match (cell.products.by_input(), keeping.next()) {
            (Some(by_input), Some(kept)) => by_input.keep(cell.products.input(io, row), kept),
            _ => Ok(()),
        })?;
        if let Some(by_input) = self.steps.first().and_then(|(cell, _)| cell.products.by_input()) {
            by_input.compute(kept, self.rows(), sums)?;
        }
        let mut known = 0;
        self.each(&all, |cell, io, row| {
            let sums = sums.get(known..);
            known += self.sums;
            cell.run(io, row, sums, work)
        })
    }

    /// Calls for each batch row of each step, in order.
    fn each<'a>(
        &self,
        all: &Io<'a>,
        mut run: impl FnMut(&Cell, &Io<'a>, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        let [mut inputs, mut outputs] = [0; 2];
        for (cell, operands) in &self.steps {
            let io = all.behind(inputs, outputs);
            (0..self.batch).try_for_each(|row| run(cell, &io, row))?;
            (inputs, outputs) = (inputs + operands[0], outputs + operands[1]);
        }
        Ok(())
    }
}
