//! Functions of bytes that become one: `x * logistic(x)` of bytes is a function of `x` alone, whose
//! 256 results are known when the plan is made.

use nnburst_hal::{View, ViewMut};
use nnburst_kernels::kernels::byte_table::ByteTable;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::poll;

use crate::lowering::Label;
use crate::lowering::draft::{Draft, DraftPlace, DraftStep, Readers};
use crate::lowering::io::map_rows;
use crate::lowering::part::StepPart;
use crate::lowering::step::Work;

/// Makes one table of a table and what alone reads it, together with what the table is of.
pub(in crate::plan) fn compose(draft: &mut Draft, isa: Isa) {
    let readers = draft.readers();
    let mut composed = vec![false; draft.steps.len()];
    for at in 0..draft.steps.len() {
        if poll::work(64).is_err() {
            return;
        }
        if let Some((inner, table)) = find(draft, &readers, at) {
            let input = draft.steps[inner].inputs[0].clone();
            let step = &mut draft.steps[at];
            step.inputs = vec![input];
            step.in_place = &[0];
            step.part = Some(StepPart::Table(Box::new(table)));
            let table = ByteTable::new(isa, table);
            let shape = step.label.shape.clone();
            step.label = Label { kernel: "byte_table", form: table.isa(), shape, operations: 0 };
            step.work = Work::whole(move |io| map_rows(&io, |from, to| table.compute(from, to)));
            composed[inner] = true;
        }
    }
    let mut composed = composed.into_iter();
    draft.steps.retain(|_| !composed.next().unwrap_or(false));
}

/// The table that step `at` reads alone and could take the place of, and the results of both.
fn find(draft: &Draft, readers: &Readers, at: usize) -> Option<(usize, [u8; 256])> {
    let step = &draft.steps[at];
    let Some(StepPart::Sum(combine)) = &step.part else { return None };
    let [a, b, ..] = &step.inputs[..] else { return None };
    let [output] = &step.outputs[..] else { return None };
    if !step.label.is_integer() || a.len() != output.len() || b.len() != output.len() {
        return None;
    }
    let every: [u8; 256] = std::array::from_fn(|byte| u8::try_from(byte).unwrap_or(0));
    [(a, b, false), (b, a, true)].into_iter().find_map(|(of, result, swapped)| {
        let local = draft.whole_root(result)?;
        let makes = |step: &DraftStep| {
            step.outputs.first().and_then(|it| draft.whole_root(it)) == Some(local)
        };
        // It is near, mostly; nobody else makes the local.
        let inner = draft.steps[..at].iter().rposition(makes)?;
        let Some(StepPart::Table(table)) = &draft.steps[inner].part else { return None };
        if !readers.are(local, 1) || !same(draft, of, &draft.steps[inner].inputs[0]) {
            return None;
        }
        let (a, b) = if swapped { (&**table, &every) } else { (&every, &**table) };
        let mut results = [0; 256];
        combine(View::of(a), View::of(b), ViewMut::of(&mut results)).ok()?;
        Some((inner, results))
    })
}

/// Returns whether two places are one.
pub(super) fn same(draft: &Draft, a: &DraftPlace, b: &DraftPlace) -> bool {
    let at = |place: &DraftPlace| match draft.resolve(place) {
        DraftPlace::Local { local, offset, len, .. } => Some((false, local, offset, len)),
        DraftPlace::Slot { slot, offset, len, .. } => Some((true, slot, offset, len)),
        _ => None,
    };
    at(a).is_some_and(|place| at(b) == Some(place))
}
