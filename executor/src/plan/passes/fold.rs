//! Constant folding: what is computed of constants alone is computed when the plan is made.
//!
//! Weights that a model stores narrow and widens with DEQUANTIZE or CAST become constants this way,
//! and are packed like any others.

use std::sync::Arc;

use nnburst_hal::OperationType;
use nnburst_kernels::simd::FloatMode;
use nnburst_kernels::tensor::{AlignedBytes, OpError, poll};

use crate::lowering::Io;
use crate::lowering::draft::{Draft, DraftPlace};
use crate::lowering::io::SlotMemory;
use crate::lowering::state::{State, Storage, ValueId};

/// Larger results, with what computing them takes, are left to the run: a few bytes of a model may
/// ask for gigabytes.
const MAX_BYTES: usize = 64 << 20;

/// Most that all results of a stage may take, for the same reason.
const MAX_TOTAL: usize = 1 << 30;

/// Runs the steps from `first` on, whose locals are those from `first_local` on, if they read
/// constants alone and write temporaries alone, and makes constants of what they write.
///
/// # Errors
/// A step meets a value that it can't compute with, as it would in every run.
pub(in crate::plan) fn fold(
    kind: OperationType,
    outputs: &[ValueId],
    state: &mut State,
    draft: &mut Draft,
    first: usize,
    first_local: usize,
) -> Result<(), OpError> {
    if !is_pure(kind) || !draft.steps.iter().skip(first).all(|step| reads_constants(&step.inputs)) {
        return Ok(());
    }
    let Some(results) = results(outputs, state, draft, first_local) else { return Ok(()) };
    if draft.steps.len() == first {
        return Ok(());
    }
    let Some(mut own) = draft.split_off(first, first_local) else { return Ok(()) };
    own.kept.extend(results.iter().map(|&(_, local, _)| local - first_local));
    let layout = own.lay_out(0);
    let total = state.folded.saturating_add(layout.bytes);
    if layout.bytes > 2 * MAX_BYTES || total > MAX_TOTAL {
        draft.put_back(own, first_local);
        return Ok(());
    }
    if poll::halted().is_err() {
        // Nothing is laid out then, and the steps are of no use.
        return Ok(());
    }
    state.folded = total;
    let mut arena = AlignedBytes::zeroed(layout.bytes);
    let slots = [SlotMemory::of(arena.view_mut())];
    for step in std::mem::take(&mut own.steps) {
        let step = layout.step(step);
        let ran = FloatMode::Flushed.within(|| step.work.run(Io::new(&slots, &step)));
        ran.map_err(OpError::rule)?;
    }
    for (value, local, len) in results {
        let (_, start) = layout.home(local - first_local);
        let bytes = arena.as_slice().get(start..start + len).unwrap_or_default();
        state.values[value].storage = Storage::Constant(Arc::new(AlignedBytes::copy_of(bytes)));
    }
    Ok(())
}

/// Returns whether an operation gives the same each time. What drivers add may keep state; draws
/// differ.
fn is_pure(kind: OperationType) -> bool {
    use OperationType as O;
    !matches!(kind, O::RandomMultinomial | O::OemOperation | O::Extension(_))
}

fn reads_constants(inputs: &[DraftPlace]) -> bool {
    inputs.iter().all(|place| matches!(place, DraftPlace::Constant(_) | DraftPlace::Omitted))
}

/// Value, local and bytes of each output; `None` if one is no temporary of this stage or they are
/// too large.
fn results(
    outputs: &[ValueId],
    state: &State,
    draft: &Draft,
    first_local: usize,
) -> Option<Vec<(ValueId, usize, usize)>> {
    let results = outputs
        .iter()
        .map(|&value| match state.values[value].storage {
            Storage::Local(local) if local >= first_local => {
                Some((value, local, draft.local_bytes(local)))
            }
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    let total: usize = results.iter().map(|&(_, _, len)| len).sum();
    (total <= MAX_BYTES).then_some(results)
}
