//! Runs of steps, one behind the other, that a pass makes other steps of.

use std::ops::Range;

use nnburst_kernels::tensor::poll;

use crate::lowering::draft::{Draft, DraftStep, Readers};

/// What a pass found: the steps that it replaces, and how.
pub(super) trait Replacement {
    /// The steps, as they are counted before any is replaced.
    fn steps(&self) -> Range<usize>;

    /// Adds what comes in the place of the steps behind those that the stage has so far.
    fn replace(self, draft: &mut Draft, steps: Vec<DraftStep>, threads: usize);
}

/// Replaces each run that `find` sees from a step on, for so many threads; where it sees one, it
/// looks again behind it. A preparation that is to end leaves the steps as they are.
pub(super) fn replace_runs<R: Replacement>(
    draft: &mut Draft,
    threads: usize,
    find: impl Fn(&Draft, &Readers, usize) -> Option<R>,
) {
    // What is replaced reads less, but of nothing else than it wrote itself.
    let readers = draft.readers();
    let (mut all, mut from) = (Vec::new(), 0);
    while from < draft.steps.len() {
        if poll::work(256).is_err() {
            return;
        }
        let found = find(draft, &readers, from);
        from = found.as_ref().map_or(from + 1, |found| found.steps().end);
        all.extend(found);
    }
    if all.is_empty() {
        return;
    }
    let mut steps = std::mem::take(&mut draft.steps).into_iter();
    let mut at = 0;
    for found in all {
        let Range { start, end } = found.steps();
        draft.steps.extend(steps.by_ref().take(start - at));
        let replaced = steps.by_ref().take(end - start).collect();
        at = end;
        found.replace(draft, replaced, threads);
    }
    draft.steps.extend(steps);
}
