//! Values that lie within others, and steps that this makes needless.
//!
//! A part that only has to be copied into a whole is written there by whoever computes it; an element-wise
//! result may take the memory of an operand that nobody reads any more; and borders of zeros need not exist
//! where convolutions read what is within them.

use super::draft::{Draft, DraftPlace};
use super::fuse::Part;

/// Drops steps that put borders around a value where nobody reads the result.
pub(super) fn drop_borders(draft: &mut Draft) {
    let mut read = draft.kept_roots();
    for place in draft.steps.iter().flat_map(|step| &step.inputs) {
        if let Some(root) = draft.root(place) {
            read[root] = true;
        }
    }
    let mut steps = std::mem::take(&mut draft.steps);
    steps.retain(|step| {
        let result = step.outputs.first().and_then(|place| draft.whole_root(place));
        !matches!(step.part, Some(Part::Border)) || result.is_none_or(|result| read[result])
    });
    draft.steps = steps;
}

/// Has parts computed where they belong in the whole, and drops steps that are left with nothing to copy.
pub(super) fn join(draft: &mut Draft) {
    let (kept, mut readers) = (draft.kept_roots(), vec![0usize; draft.local_count()]);
    for place in draft.steps.iter().flat_map(|step| &step.inputs) {
        if let Some(root) = draft.root(place) {
            readers[root] += 1;
        }
    }
    let mut steps = std::mem::take(&mut draft.steps);
    for step in &mut steps {
        let (Some(Part::Join(offsets)), [whole]) = (&step.part, &step.outputs[..]) else {
            continue;
        };
        for (input, &start) in step.inputs.iter_mut().zip(offsets) {
            // A tensor that comes twice is in its first place by the second time.
            let Some(local) = draft.whole_root(input) else { continue };
            let home = part(&draft.resolve(whole), start, input.len());
            let fits = match home {
                // The caller's memory takes results, it doesn't serve for what lies between.
                DraftPlace::Slot { .. } => readers[local] == 1 && !kept[local],
                DraftPlace::Local { local: other, .. } => other != local,
                _ => false,
            };
            if fits && !input.is_empty() {
                draft.settle(local, home);
                *input = DraftPlace::Omitted;
            }
        }
    }
    steps.retain(|step| match &step.part {
        Some(Part::Join(offsets)) => {
            step.inputs.iter().take(offsets.len()).any(|it| !it.is_empty())
        }
        _ => true,
    });
    draft.steps = steps;
}

fn part(whole: &DraftPlace, start: usize, len: usize) -> DraftPlace {
    match *whole {
        DraftPlace::Slot { slot, offset, .. } => {
            DraftPlace::Slot { slot, offset: offset + start, len }
        }
        DraftPlace::Local { local, offset, .. } => {
            DraftPlace::Local { local, offset: offset + start, len }
        }
        _ => DraftPlace::Omitted,
    }
}

/// Puts element-wise results where an operand was that is not read again: its lines are in the cache.
pub(super) fn share(draft: &mut Draft) {
    let (mut kept, mut last) = (draft.kept_roots(), vec![0; draft.local_count()]);
    for (at, step) in draft.steps.iter().enumerate() {
        for place in step.inputs.iter().chain(&step.outputs) {
            if let Some(root) = draft.root(place) {
                last[root] = at;
            }
        }
    }
    for at in 0..draft.steps.len() {
        let step = &draft.steps[at];
        let Some(result) = step.outputs.first().and_then(|place| draft.whole_root(place)) else {
            continue;
        };
        let dies = |&&input: &&usize| {
            let place = &step.inputs[input];
            let Some(root) = draft.root(place).filter(|&root| root != result) else { return false };
            // Beside it nothing else of the same memory may be read but the very same.
            let alone = step.inputs.iter().enumerate().all(|(other, it)| {
                let same =
                    step.in_place.contains(&other) && extent(draft, it) == extent(draft, place);
                same || draft.root(it) != Some(root)
            });
            last[root] == at && !kept[root] && alone && place.len() == step.outputs[0].len()
        };
        let Some(&input) = step.in_place.iter().find(dies) else { continue };
        let home = draft.resolve(&step.inputs[input]);
        let Some(root) = draft.root(&home) else { continue };
        draft.settle(result, home);
        last[root] = last[result];
        kept[root] |= kept[result];
    }
}

/// Where in its memory a place is.
fn extent(draft: &Draft, place: &DraftPlace) -> Option<(usize, usize)> {
    match draft.resolve(place) {
        DraftPlace::Local { offset, len, .. } => Some((offset, len)),
        _ => None,
    }
}
