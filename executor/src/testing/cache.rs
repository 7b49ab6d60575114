//! Plans by way of what a compilation cache keeps of them.

use nnburst_hal::Model;

use crate::{AlignedBytes, CompileOptions, Control, PackedEntry, Plan, Snapshot};

/// The same plan from what a cache keeps of it, and how many bytes of constants the cache lacks
/// because they are kept packed alone. `options` are those that the plan was compiled with.
/// `None` where [`Plan::snapshot`] or [`Plan::restore`] gives nothing.
pub fn through_a_cache(
    plan: &Plan,
    model: &Model,
    options: &CompileOptions,
) -> Option<(Plan, u64)> {
    let snapshot = plan.snapshot(model)?;
    let end = |entry: &PackedEntry| entry.offset.saturating_add(entry.length);
    let len = snapshot.entries.iter().map(end).max().unwrap_or(0);
    let mut weights = AlignedBytes::zeroed(usize::try_from(len).unwrap_or(0));
    for (entry, packed) in snapshot.entries.iter().zip(snapshot.weights()) {
        let at = usize::try_from(entry.offset).unwrap_or(0);
        weights.as_mut_slice()[at..][..packed.len()].copy_from_slice(packed);
    }
    let Snapshot { model, absent, entries, .. } = snapshot;
    let restored = Plan::restore(model, absent, &entries, weights, options, &Control::default());
    Some((restored.ok()?.0, absent))
}
