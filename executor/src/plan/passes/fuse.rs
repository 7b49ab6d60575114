//! Steps one behind the other that become one, so that what lies between them stays in the cache.
//!
//! An inverted residual (expand, depthwise, project, and the sum with what went in) and the pairs
//! and triples of convolutions around a depthwise one are computed in bands of lines, and so is any
//! convolution with a sum behind it: see `kernels::chain`.

use std::ops::Range;
use std::sync::Arc;

use nnburst_kernels::kernels::chain::{Chain, Combine, MAX_STAGES};
use nnburst_kernels::kernels::lines::Lines;
use nnburst_kernels::tensor::rows::Port;

use super::runs::{Replacement, replace_runs};
use crate::lowering::draft::{Draft, DraftPlace, DraftStep, Readers};
use crate::lowering::io::share_stride;
use crate::lowering::part::StepPart;
use crate::lowering::pieces::Pieces;
use crate::lowering::step::Work;
use crate::lowering::{Io, Label, Words};

/// Where less lies between steps they are as quick alone: it stays in L2 anyway.
const WORTH_BYTES: usize = 512 << 10;

/// Joins what can be joined.
pub(in crate::plan) fn fuse(draft: &mut Draft, threads: usize) {
    replace_runs(draft, threads, find);
}

/// Steps to join, and how.
struct Found {
    steps: Range<usize>,
    chain: Chain,
    /// What adds the residual, and where that comes from.
    residual: Option<(Combine, DraftPlace)>,
}

impl Replacement for Found {
    fn steps(&self) -> Range<usize> {
        self.steps.clone()
    }

    fn replace(self, draft: &mut Draft, steps: Vec<DraftStep>, threads: usize) {
        join(draft, steps, self, threads);
    }
}

/// The longest chain around a depthwise convolution that starts at step `from`; of bytes, of which
/// a quarter lies in between, a convolution and a sum alone are worth it.
fn find(draft: &Draft, readers: &Readers, from: usize) -> Option<Found> {
    let mut kernels = vec![lines_of(draft, from)?];
    let mut end = from + 1;
    while kernels.len() < MAX_STAGES
        && !draft.steps[from].label.is_integer()
        && let Some(next) = lines_of(draft, end)
        && is_only_reader(draft, readers, end, 0)
        // A depthwise convolution with what is on either side of it, no more.
        && is_depthwise(&kernels) != is_depthwise(std::slice::from_ref(&next))
    {
        kernels.push(next);
        end += 1;
    }
    let chain = Chain::new(&kernels)?;
    let saved = chain.saved_bytes();
    if saved < WORTH_BYTES || saved <= chain.reread_bytes() {
        return None;
    }
    let residual = residual(draft, readers, end);
    if kernels.len() == 1 && residual.is_none() {
        return None;
    }
    let end = end + usize::from(residual.is_some());
    Some(Found { steps: from..end, chain, residual })
}

fn lines_of(draft: &Draft, at: usize) -> Option<Arc<dyn Lines>> {
    match &draft.steps.get(at)?.part {
        Some(StepPart::Lines(lines)) => Some(Arc::clone(lines)),
        _ => None,
    }
}

fn is_depthwise(kernels: &[Arc<dyn Lines>]) -> bool {
    kernels.iter().any(|kernel| kernel.is_depthwise())
}

/// Returns whether step `at` alone reads what the step before it wrote, as its input `input`.
fn is_only_reader(draft: &Draft, readers: &Readers, at: usize, input: usize) -> bool {
    let Some([before, this]) = draft.steps.get(at - 1..=at) else { return false };
    let [output] = &before.outputs[..] else { return false };
    let Some(local) = draft.whole_root(output) else { return false };
    readers.are(local, 1)
        && this.inputs.get(input).is_some_and(|place| draft.whole_root(place) == Some(local))
}

/// The sum that step `end` makes of the result before it and something else.
fn residual(draft: &Draft, readers: &Readers, end: usize) -> Option<(Combine, DraftPlace)> {
    let step = draft.steps.get(end)?;
    let Some(StepPart::Sum(combine)) = &step.part else { return None };
    let combine = Arc::clone(combine);
    if is_only_reader(draft, readers, end, 0) {
        return Some((combine, step.inputs.get(1)?.clone()));
    }
    let swapped: Combine = Arc::new(move |result, residual, to| combine(residual, result, to));
    is_only_reader(draft, readers, end, 1).then(|| Some((swapped, step.inputs.first()?.clone())))?
}

fn join(draft: &mut Draft, mut joined: Vec<DraftStep>, found: Found, threads: usize) {
    let Found { chain, residual, .. } = found;
    let Some(last) = joined.pop() else { return };
    let Some(first) = joined.first_mut() else { return };
    let input = std::mem::replace(&mut first.inputs[0], DraftPlace::Omitted);
    let (combine, more) = residual.unzip();
    let label = label(&joined, &last);
    let group = if chain.overlaps() { Pieces::overlapping } else { Pieces::of };
    let Pieces { pieces, shared } = group(&label, chain.lines(), threads);
    let scratch_share = chain.scratch_bytes();
    let sharers = if shared { threads } else { 1 };
    let len = share_stride(scratch_share) * (sharers - 1) + scratch_share;
    let scratch = DraftPlace::local(draft.add_local(len), len);
    let count = chain.lines();
    let (read, written) = chain.pixel_bytes();
    let rows =
        vec![(Port::Input(0), Some(read)), (Port::Input(1), None), (Port::Output, Some(written))];
    let run = move |mut io: Io<'_>, lines: Range<usize>| {
        let (image, output) = (io.input_rows(0), io.output_rows(0));
        let residual = combine.as_ref().map(|combine| (combine, io.input_rows(1)));
        chain.compute(image, residual, output, lines, io.scratch_slice::<u8>())
    };
    let step = DraftStep {
        label,
        inputs: std::iter::once(input).chain(more).collect(),
        scratch,
        scratch_share,
        work: Work::Bands { count, pieces, shared, run: Box::new(run) },
        part: None,
        recipe: None,
        in_place: &[],
        rows,
        ..last
    };
    draft.steps.push(step);
}

fn label(joined: &[DraftStep], last: &DraftStep) -> Label {
    let steps = || joined.iter().chain(std::iter::once(last));
    let integer = steps().all(|step| step.label.is_integer());
    Label {
        kernel: if integer { "chain_i8" } else { "chain_f32" },
        form: joined.first().map_or(last.label.form, |step| step.label.form),
        shape: Words::list(steps().map(|step| step.label.shape.clone()).collect()),
        operations: steps().map(|step| step.label.operations).sum(),
    }
}
