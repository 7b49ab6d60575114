//! Values that lie within others, and steps that this makes needless.
//!
//! A part that only has to be copied into a whole is written there by whoever computes it; an
//! element-wise result may take the memory of an operand that nobody reads any more; and borders of
//! zeros need not exist where convolutions read what is within them.
//!
//! Rows may be of a single byte, and any number of bytes apart: convolutions and pooling take 0.31
//! to 0.99 of the time of copying them first, element-wise steps 0.15 to 0.9 where they read, 0.5
//! to 1.2 where they write (benches/results).

use std::ops::Range;

use nnburst_kernels::tensor::poll;
use nnburst_kernels::tensor::rows::{Apart, Port};

use crate::lowering::draft::{Draft, DraftPlace};
use crate::lowering::part::StepPart;

/// The steps that touch each local or a part of it.
struct Users(Vec<Vec<usize>>);

impl Users {
    fn of(draft: &Draft) -> Self {
        let mut users = vec![Vec::new(); draft.local_count()];
        for (at, step) in draft.steps.iter().enumerate() {
            for root in step.operands().filter_map(|(_, place)| draft.root(place)) {
                users[root].push(at);
            }
        }
        Self(users)
    }

    /// Those of a local that became a part of something else touch that.
    fn follow(&mut self, local: usize, root: Option<usize>) {
        let steps = std::mem::take(&mut self.0[local]);
        if let Some(root) = root {
            self.0[root].extend(steps);
        }
    }
}

/// Drops steps that put borders around a value where nobody reads the result.
pub(in crate::plan) fn drop_borders(draft: &mut Draft) {
    let readers = draft.readers();
    let mut steps = std::mem::take(&mut draft.steps);
    steps.retain(|step| {
        let result = step.outputs.first().and_then(|place| draft.whole_root(place));
        !matches!(step.part, Some(StepPart::Border))
            || result.is_none_or(|result| !readers.are(result, 0))
    });
    draft.steps = steps;
}

/// Has rows of a larger value read where they lie, and drops the steps that would copy them: where
/// all that read them take them so.
pub(in crate::plan) fn view(draft: &mut Draft) {
    let kept = draft.kept_roots();
    let mut users = Users::of(draft);
    // Parts of parts first: what is left to read those is then their parts alone.
    for at in (0..draft.steps.len()).rev() {
        if poll::work(16).is_err() {
            return;
        }
        let step = &draft.steps[at];
        let Some(StepPart::Take { output, start, apart }) = step.part else { continue };
        let Some(local) = step.outputs.get(output).and_then(|it| draft.whole_root(it)) else {
            continue;
        };
        if draft.local_bytes(local) == 0 {
            continue; // there are no rows of it, and whoever reads it need not take rows
        }
        let source = draft.resolve(&step.inputs[0]);
        let Some(home) = source.part(start, draft.local_bytes(local), Some(apart)) else {
            continue;
        };
        let here = |other, port| other == at && port == Port::Output;
        if !kept[local] && all_take_rows(draft, &users, local, apart.row, here) {
            users.follow(local, draft.root(&home));
            draft.settle(local, home);
            let step = &mut draft.steps[at];
            (step.inputs, step.outputs) = (Vec::new(), Vec::new());
        }
    }
    draft.steps.retain(|step| {
        !matches!(step.part, Some(StepPart::Take { .. })) || !step.outputs.is_empty()
    });
}

/// Has parts computed where they belong in the whole, and drops steps that are left with nothing to
/// copy.
pub(in crate::plan) fn join(draft: &mut Draft) {
    let mut readers = draft.readers();
    let mut users = Users::of(draft);
    for at in 0..draft.steps.len() {
        if poll::work(16).is_err() {
            return;
        }
        let Some(StepPart::Join { offsets, rows }) = draft.steps[at].part.clone() else { continue };
        let mut first = 0;
        while first < offsets.len() {
            // A tensor that comes twice is in its first place by the second time.
            let Some(found) = whole_of(draft, at, first, &offsets, rows) else {
                first += 1;
                continue;
            };
            let Whole { local, inputs, home } = found;
            let here = |other, port| {
                other == at && matches!(port, Port::Input(it) if inputs.contains(&it))
            };
            let fits = match &home {
                // The caller's memory takes results, it doesn't serve for what lies between.
                DraftPlace::Slot { .. } => readers.are(local, inputs.len()),
                DraftPlace::Local { local: other, .. } => *other != local,
                _ => false,
            };
            let fits = fits
                && home.apart().is_none_or(|apart| {
                    !readers.are_later(local)
                        && all_take_rows(draft, &users, local, apart.row, here)
                });
            first = inputs.end;
            if fits {
                if let DraftPlace::Local { local: root, .. } = home {
                    readers.follow(local, root, inputs.len());
                }
                users.follow(local, draft.root(&home));
                draft.settle(local, home);
                draft.steps[at].inputs[inputs].fill(DraftPlace::Omitted);
            }
        }
    }
    draft.steps.retain(|step| match &step.part {
        Some(StepPart::Join { offsets, .. }) => {
            step.inputs.iter().take(offsets.len()).any(|it| !it.is_empty())
        }
        _ => true,
    });
}

/// A value that belongs into the output of a step as it is.
struct Whole {
    local: usize,
    /// Inputs of the step that make it up.
    inputs: Range<usize>,
    /// The place that it belongs to.
    home: DraftPlace,
}

/// The value that the input `first` of a step is, or that it and those behind it are all parts of,
/// one behind the other.
fn whole_of(
    draft: &Draft,
    at: usize,
    first: usize,
    offsets: &[usize],
    rows: usize,
) -> Option<Whole> {
    let step = &draft.steps[at];
    let output = draft.resolve(step.outputs.first()?);
    let (local, ..) = row_of(draft, &step.inputs[first], rows)?;
    let (bytes, mut end, mut done) = (draft.local_bytes(local), first, 0);
    let row = bytes / rows;
    while done < row && end < offsets.len() {
        let input = &step.inputs[end];
        if !input.is_empty() {
            let (_, start, len) = row_of(draft, input, rows).filter(|it| it.0 == local)?;
            if start != done {
                return None;
            }
            done += len;
        }
        end += 1;
    }
    let pitch = output.len() / rows;
    let apart = (rows > 1 && row < pitch).then_some(Apart { row, pitch });
    let home = output.part(offsets[first], bytes, apart)?;
    (done == row).then_some(Whole { local, inputs: first..end, home })
}

/// What a place has of each of the rows of a local: which one, from which byte on, and how many.
fn row_of(draft: &Draft, place: &DraftPlace, rows: usize) -> Option<(usize, usize, usize)> {
    let DraftPlace::Local { local, offset, len, apart } = draft.resolve(place) else { return None };
    let bytes = draft.local_bytes(local);
    if len == 0 || !bytes.is_multiple_of(rows) {
        return None;
    }
    match apart {
        None if rows == 1 => Some((local, offset, len)),
        None if len == bytes => Some((local, 0, bytes / rows)),
        Some(Apart { row, pitch }) if pitch == bytes / rows && offset + row <= pitch => {
            Some((local, offset, row))
        }
        _ => None,
    }
}

/// Returns whether all operands that are a local or rows of it, but for those `but` says, may lie
/// in rows of `row` bytes.
fn all_take_rows(
    draft: &Draft,
    users: &Users,
    local: usize,
    row: usize,
    but: impl Fn(usize, Port) -> bool,
) -> bool {
    users.0[local].iter().all(|&at| {
        let step = &draft.steps[at];
        step.operands().all(|(port, place)| match draft.resolve(place) {
            DraftPlace::Local { local: root, len, apart, .. } if root == local => match apart {
                _ if but(at, port) || len == 0 => true,
                None => len == draft.local_bytes(local) && step.takes(port, row),
                // It takes rows already; they only come to lie further apart.
                Some(apart) => apart.pitch == row,
            },
            _ => true,
        })
    })
}

/// Puts element-wise results where an operand was that is not read again: its lines are in the
/// cache.
pub(in crate::plan) fn share(draft: &mut Draft) {
    let (mut kept, mut last) = (draft.kept_roots(), vec![0; draft.local_count()]);
    for (at, step) in draft.steps.iter().enumerate() {
        for place in step.inputs.iter().chain(&step.outputs) {
            if let Some(root) = draft.root(place) {
                last[root] = at;
            }
        }
    }
    for at in 0..draft.steps.len() {
        if poll::work(16).is_err() {
            return;
        }
        let step = &draft.steps[at];
        let Some(result) = step.outputs.first().and_then(|place| draft.whole_root(place)) else {
            continue;
        };
        let dies = |&&input: &&usize| {
            let place = &step.inputs[input];
            let Some(root) = draft.root(place).filter(|&root| root != result) else { return false };
            let is_piece = extent(draft, place).is_some();
            // Beside it nothing else of the same memory may be read but the very same.
            let alone = step.inputs.iter().enumerate().all(|(other, it)| {
                let same =
                    step.in_place.contains(&other) && extent(draft, it) == extent(draft, place);
                same || draft.root(it) != Some(root)
            });
            is_piece
                && last[root] == at
                && !kept[root]
                && alone
                && place.len() == step.outputs[0].len()
        };
        let Some(&input) = step.in_place.iter().find(dies) else { continue };
        let home = draft.resolve(&step.inputs[input]);
        let Some(root) = draft.root(&home) else { continue };
        draft.settle(result, home);
        last[root] = last[result];
        kept[root] |= kept[result];
    }
}

/// Where in its memory a place is, if it is in one piece.
fn extent(draft: &Draft, place: &DraftPlace) -> Option<(usize, usize)> {
    match draft.resolve(place) {
        DraftPlace::Local { offset, len, apart: None, .. } => Some((offset, len)),
        _ => None,
    }
}
