//! Steps along time: where the rows of a step lie, and in which order the steps go.

use nnburst_kernels::tensor::{OpError, Shape};

use crate::lowering::{Lowered, OpBuilder};

/// The time and batch extents of `[time, batch, width]` or `[batch, time, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) time: usize,
    pub(super) batch: usize,
    pub(super) time_major: bool,
}

impl Sequence {
    /// Takes a shape of rank 3 apart: the sequence and the width of a row.
    pub(super) fn of(
        index: usize,
        shape: &Shape,
        time_major: bool,
    ) -> Result<(Self, usize), OpError> {
        let &[first, second, width] = &shape[..] else {
            let what = format!("is of {shape:?} and must be of rank 3");
            return Err(OpError::input(index, what));
        };
        if shape.contains(&0) {
            return Err(OpError::input(index, format!("of {shape:?} is empty")));
        }
        let (time, batch) = if time_major { (first, second) } else { (second, first) };
        Ok((Self { time, batch, time_major }, width))
    }

    /// A single step of `batch` rows.
    pub(super) fn single(batch: usize) -> Self {
        Self { time: 1, batch, time_major: true }
    }

    /// The shape of a sequence of rows of `width`.
    pub(super) fn shape(self, width: usize) -> Result<Shape, OpError> {
        let (first, second) =
            if self.time_major { (self.time, self.batch) } else { (self.batch, self.time) };
        Shape::new([first, second, width])
    }

    /// Rows of the whole sequence.
    pub(super) fn rows(self) -> usize {
        self.time * self.batch
    }

    /// The steps in order, from the last to the first where `backward`.
    pub(super) fn steps(self, backward: bool) -> impl Iterator<Item = usize> {
        (0..self.time).map(move |step| if backward { self.time - 1 - step } else { step })
    }

    /// Puts the rows of one step into columns `from ..` of a sequence of rows of `width`.
    pub(super) fn put_rows(
        self,
        rows: &[f32],
        step: usize,
        values: &mut [f32],
        width: usize,
        from: usize,
    ) {
        let own = rows.len() / self.batch;
        for (batch, row) in rows.chunks_exact(own).enumerate() {
            let start = self.row(step, batch) * width + from;
            values[start..start + own].copy_from_slice(row);
        }
    }

    /// The sequence outputs that directions write, each once, with its elements.
    pub(super) fn results(self, to: impl Iterator<Item = SequenceTo>) -> Vec<(usize, usize)> {
        let mut results: Vec<(usize, usize)> =
            to.map(|(output, width, _)| (output, self.rows() * width)).collect();
        results.dedup();
        results
    }

    /// Rows from one of a step to the next of the same step.
    pub(super) fn row_step(self) -> usize {
        if self.time_major { 1 } else { self.time }
    }

    /// Returns the place of a row of a step.
    pub(super) fn row(self, step: usize, batch: usize) -> usize {
        if self.time_major { step * self.batch + batch } else { batch * self.time + step }
    }
}

/// Which output a direction writes: its position, the width of its rows, the first column.
pub(super) type SequenceTo = (usize, usize, usize);

/// States the shapes of the sequence outputs of a bidirectional operation: merged into one, forward
/// first, or one each. Returns where each direction goes and the first output behind them.
pub(super) fn set_sequence_outputs(
    op: &mut OpBuilder<'_>,
    sequence: Sequence,
    merge: bool,
    [forward, backward]: [usize; 2],
) -> Lowered<(SequenceTo, SequenceTo, usize)> {
    let count = if merge { 1 } else { 2 };
    if op.output_count() < count {
        let what = format!("{} outputs, at least {count} are needed", op.output_count());
        return Err(OpError::rule(what).into());
    }
    if merge {
        let width = forward + backward;
        op.set_output(0, sequence.shape(width)?)?;
        Ok(((0, width, 0), (0, width, forward), 1))
    } else {
        op.set_output(0, sequence.shape(forward)?)?;
        op.set_output(1, sequence.shape(backward)?)?;
        Ok(((0, forward, 0), (1, backward, 0), 2))
    }
}

/// The source of the second input of a bidirectional operation's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linking {
    /// No auxiliary input.
    None,
    /// The backward direction reads the auxiliary input in place of the first.
    Parallel,
    /// Both directions read both.
    Cross,
}

impl Linking {
    /// Which of the three: from whether the auxiliary input and its weights of each direction are
    /// there.
    pub(super) fn of(aux: bool, forward: bool, backward: bool) -> Result<Self, OpError> {
        match (aux, forward, backward) {
            (false, false, false) => Ok(Self::None),
            (true, false, false) => Ok(Self::Parallel),
            (true, true, true) => Ok(Self::Cross),
            _ => Err(OpError::rule(format!(
                "an auxiliary input {}, its forward weights {}, its backward weights {}",
                there(aux),
                there(forward),
                there(backward)
            ))),
        }
    }
}

fn there(yes: bool) -> &'static str {
    if yes { "given" } else { "left out" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_step_are_found_in_both_orders() {
        let time_major = Sequence { time: 3, batch: 2, time_major: true };
        let batch_major = Sequence { time_major: false, ..time_major };
        assert_eq!((time_major.row(1, 1), time_major.row_step()), (3, 1));
        assert_eq!((batch_major.row(1, 1), batch_major.row_step()), (4, 3));
        let mut out = [0.0; 18];
        batch_major.put_rows(&[1.0, 2.0], 2, &mut out, 3, 1);
        assert_eq!((out[7], out[16]), (1.0, 2.0));
        assert!(batch_major.steps(true).eq([2, 1, 0]));
    }

    #[test]
    fn half_a_link_is_refused() {
        assert_eq!(Linking::of(true, true, true), Ok(Linking::Cross));
        assert!(Linking::of(true, true, false).is_err());
        assert!(Linking::of(false, true, true).is_err());
    }
}
