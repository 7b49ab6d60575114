//! The memory of SVDF: each feature keeps its last few activations, weighs them and moves on.
//!
//! A feature's slots are some ten floats, so calls and copies per feature would cost more than the
//! sums: weighing, adding up over the features of a unit and shifting are one pass over the state,
//! which is read and written where it lies.

mod vectors;

use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out, poll};

/// One batch row: `units` times `rank` features of `memory` slots each.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The slots, oldest first; what the last holds isn't read.
    state: *const f32,
    /// The newest activation of each feature.
    newest: *const f32,
    weights: *const f32,
    /// The slots, one further; the last of each feature becomes 0.
    next: *mut f32,
    /// Added to, one per unit.
    sums: *mut f32,
    units: usize,
    rank: usize,
    memory: usize,
}

/// # Safety
/// The row is as large as [`Row`] says, at any alignment, and what is written overlaps nothing
/// else; the machine has the instruction set.
type Run = unsafe fn(&Row);

/// Best first.
const VARIANTS: Variants<Run> = variants!(vectors::Filter, scalar);

/// The filter in its best variant.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    variant: Variant<Run>,
    /// Outputs of a batch.
    pub units: usize,
    /// Filters of a unit.
    pub rank: usize,
    /// Slots of a feature; at least 1.
    pub memory: usize,
}

impl Filter {
    /// Takes the best variant up to `isa`; `memory` is the number of frames that are kept.
    pub fn new(isa: Isa, units: usize, rank: usize, memory: usize) -> Self {
        Self { variant: VARIANTS.best(isa), units, rank, memory: memory.max(1) }
    }

    /// The variant that was chosen.
    pub fn isa(self) -> Isa {
        self.variant.isa
    }

    /// One batch row: adds to `sums` what the slots, `newest` being the last of each, weigh, and
    /// writes them to `next`, one further.
    ///
    /// # Errors
    /// An operand is too short.
    pub fn compute(
        self,
        state: In<'_, f32>,
        newest: &[f32],
        weights: &[f32],
        next: Out<'_, f32>,
        sums: &mut [f32],
    ) -> Result<(), String> {
        let Self { variant, units, rank, memory } = self;
        let slots = units * rank * memory;
        crate::tensor::check_lengths(state.len().min(weights.len()).min(next.len()), slots)?;
        crate::tensor::check_lengths(newest.len(), units * rank)?;
        crate::tensor::check_lengths(sums.len(), units)?;
        let row = Row {
            state: state.as_ptr(),
            newest: newest.as_ptr(),
            weights: weights.as_ptr(),
            next: next.as_mut_ptr(),
            sums: sums.as_mut_ptr(),
            units,
            rank,
            memory,
        };
        let unit = (rank * memory).max(1);
        // Whole groups of units that the variants take together.
        let most = (poll::CHUNK / unit / 4 * 4).max(4);
        for first in (0..units).step_by(most) {
            let units = most.min(units - first);
            poll::work(units * unit)?;
            let part = Row {
                state: row.state.wrapping_add(first * unit),
                newest: row.newest.wrapping_add(first * rank),
                weights: row.weights.wrapping_add(first * unit),
                next: row.next.wrapping_add(first * unit),
                sums: row.sums.wrapping_add(first),
                units,
                ..row
            };
            // SAFETY: lengths as checked; weights, newest and sums are ours, and a plan lays the
            // old state and the next one apart; `best` chose what the machine has.
            unsafe { (variant.run)(&part) };
        }
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(row: &Row) {
    let last = row.memory - 1;
    for feature in 0..row.units * row.rank {
        let first = feature * row.memory;
        let mut sum = 0.0;
        for slot in 0..row.memory {
            // SAFETY: within the row.
            unsafe {
                let value = match slot {
                    slot if slot == last => row.newest.add(feature).read_unaligned(),
                    slot => row.state.add(first + slot).read_unaligned(),
                };
                sum += value * row.weights.add(first + slot).read_unaligned();
                if slot > 0 {
                    row.next.add(first + slot - 1).write_unaligned(value);
                }
            }
        }
        // SAFETY: within the row.
        unsafe {
            row.next.add(first + last).write_unaligned(0.0);
            *row.sums.add(feature / row.rank) += sum;
        }
    }
}

#[cfg(test)]
mod tests;
