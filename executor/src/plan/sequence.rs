//! Steps of an unrolled network that become one, so that what their inputs give is one product.

use std::ops::Range;
use std::sync::Arc;

use super::draft::{Draft, DraftPlace, DraftStep};
use super::fuse::Part;
use super::label::{Label, Words};
use super::stage::Work;
use crate::ops::{QuantizedCell, QuantizedSteps};

/// Between steps a run may be stopped: what is one lasts for a few milliseconds at most.
const MOST_OPERATIONS: u64 = 1 << 28;

/// The sums of so many inputs stay in the second cache.
const MOST_STEPS: usize = 64;

/// Joins steps of the same cell, one behind the other, whose inputs are there ahead of the first.
pub(super) fn sequence(draft: &mut Draft) {
    let mut from = 0;
    while from < draft.steps.len() {
        let end = end(draft, from);
        if end > from + 1 {
            join(draft, from..end);
        }
        from += 1;
    }
}

fn cell_of(draft: &Draft, at: usize) -> Option<&Arc<QuantizedCell>> {
    match &draft.steps.get(at)?.part {
        Some(Part::Cell(cell)) => Some(cell),
        _ => None,
    }
}

/// Behind the last step that goes with step `from`.
fn end(draft: &Draft, from: usize) -> usize {
    let Some(first) = cell_of(draft, from) else { return from };
    let (mut written, mut operations, mut end) = (Vec::new(), 0, from);
    while end - from < MOST_STEPS
        && let Some(cell) = cell_of(draft, end)
        && first.goes_with(cell)
        && let Some(step) = draft.steps.get(end)
        && let Some(input) = step.inputs.first()
        && operations + step.label.operations <= MOST_OPERATIONS
        && memory(draft, input).is_none_or(|input| !written.contains(&input))
    {
        written.extend(step.outputs.iter().filter_map(|output| memory(draft, output)));
        operations += step.label.operations;
        end += 1;
    }
    end
}

/// The local or slot that a place is in, if it can be written.
fn memory(draft: &Draft, place: &DraftPlace) -> Option<(bool, usize)> {
    match draft.resolve(place) {
        DraftPlace::Local { local, .. } => Some((true, local)),
        DraftPlace::Slot { slot, .. } => Some((false, slot)),
        DraftPlace::Omitted | DraftPlace::Constant(_) => None,
    }
}

fn join(draft: &mut Draft, steps: Range<usize>) {
    let cells = steps.clone().filter_map(|at| {
        let operands = [draft.steps[at].inputs.len(), draft.steps[at].outputs.len()];
        Some((Arc::clone(cell_of(draft, at)?), operands))
    });
    let Some(cells) = QuantizedSteps::new(cells.collect()) else { return };
    let scratch_share = cells.scratch_bytes();
    let scratch = DraftPlace::local(draft.add_local(scratch_share), scratch_share);
    let joined: Vec<DraftStep> = draft.steps.drain(steps.clone()).collect();
    let Some(first) = joined.first() else { return };
    let (count, shape) = (joined.len(), first.label.shape.clone());
    let label = Label {
        shape: Words::new(move |f| write!(f, "{count} of {shape}")),
        operations: joined.iter().map(|step| step.label.operations).sum(),
        ..first.label.clone()
    };
    let (index, name) = (first.index, first.name);
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for step in joined {
        inputs.extend(step.inputs);
        outputs.extend(step.outputs);
    }
    draft.steps.insert(
        steps.start,
        DraftStep {
            index,
            name,
            label,
            inputs,
            outputs,
            scratch,
            scratch_share,
            work: Work::Whole(Box::new(move |io| cells.run(io))),
            part: None,
            in_place: &[],
            rows: Vec::new(),
        },
    );
}
