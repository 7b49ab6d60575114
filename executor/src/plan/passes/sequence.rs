//! Steps of an unrolled network that become one, so that what their inputs give is one product.

use std::sync::Arc;

use nnburst_kernels::tensor::poll;

use crate::lowering::draft::{Draft, DraftPlace, DraftStep};
use crate::lowering::part::StepPart;
use crate::lowering::step::Work;
use crate::lowering::{Label, Words};
use crate::ops::{QuantizedCell, QuantizedSteps};

/// Between steps a run may be stopped: what is one lasts for a few milliseconds at most.
const MOST_OPERATIONS: u64 = 1 << 28;

/// The sums of so many inputs stay in L2.
const MOST_STEPS: usize = 64;

/// Joins steps of the same cell, one behind the other, whose inputs are there ahead of the first.
pub(in crate::plan) fn sequence(draft: &mut Draft) {
    let (mut all, mut from) = (Vec::new(), 0);
    while from < draft.steps.len() {
        if poll::work(64).is_err() {
            return;
        }
        let end = end(draft, from).max(from + 1);
        if end > from + 1 {
            all.push(from..end);
        }
        from = end;
    }
    if all.is_empty() {
        return;
    }
    let mut steps = std::mem::take(&mut draft.steps).into_iter();
    let mut at = 0;
    for cells in all {
        let alone = cells.start - at;
        draft.steps.extend(steps.by_ref().take(alone));
        at = cells.end;
        join(draft, steps.by_ref().take(cells.len()).collect());
    }
    draft.steps.extend(steps);
}

fn cell_of(draft: &Draft, at: usize) -> Option<&QuantizedCell> {
    cell(draft.steps.get(at)?)
}

fn cell(step: &DraftStep) -> Option<&QuantizedCell> {
    match &step.part {
        Some(StepPart::Cell(cell)) => cell.downcast_ref(),
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

/// Adds the steps as one; as they are, if they don't go together after all.
fn join(draft: &mut Draft, joined: Vec<DraftStep>) {
    let cells = joined.iter().filter_map(|step| {
        let operands = [step.inputs.len(), step.outputs.len()];
        let Some(StepPart::Cell(cell)) = &step.part else { return None };
        Some((Arc::clone(cell).downcast().ok()?, operands))
    });
    let Some(cells) = QuantizedSteps::new(cells.collect()) else {
        draft.steps.extend(joined);
        return;
    };
    let scratch_share = cells.scratch_bytes();
    let scratch = DraftPlace::local(draft.add_local(scratch_share), scratch_share);
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
    draft.steps.push(DraftStep {
        index,
        name,
        label,
        inputs,
        outputs,
        scratch,
        scratch_share,
        work: Work::whole(move |io| cells.run(io)),
        part: None,
        recipe: None,
        in_place: &[],
        rows: Vec::new(),
    });
}
