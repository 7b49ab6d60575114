//! Stages: runs of steps that need nothing that isn't known when they are lowered.

use nnburst_hal::Charge;

use crate::lowering::state::{State, ValueId};
use crate::lowering::step::{DynamicTarget, KnownOutput, Place, RunDynamic, Step, Work};

/// The continuation of a stage's steps.
pub(crate) enum Tail {
    /// Nothing: the graph is done.
    End,
    /// The next stage depends on this value's bytes.
    Value { value: ValueId, place: Place },
    /// An operation whose output shapes are known when it has run; the next stage depends on them.
    Dynamic { step: Step, run: Box<dyn RunDynamic>, outputs: Vec<DynamicTarget> },
    /// A WHILE; the next stage depends on the shapes of its results.
    Loop(LoopTail),
}

/// A WHILE: which graphs, on what.
#[derive(Clone, Debug)]
pub(crate) struct LoopTail {
    pub(crate) index: usize,
    pub(crate) condition: usize,
    pub(crate) body: usize,
    pub(crate) inputs: Vec<(Place, Vec<u32>)>,
    pub(crate) outputs: Vec<DynamicTarget>,
}

/// Steps that run one after the other, and what comes then.
pub(crate) struct Stage {
    pub(crate) steps: Vec<Step>,
    pub(crate) arena_bytes: usize,
    /// Slot of the stage's arena.
    pub(crate) arena_slot: usize,
    pub(crate) outputs: Vec<KnownOutput>,
    pub(crate) tail: Tail,
    /// The state in which lowering goes on; `None` at the end.
    pub(crate) state: Option<State>,
    /// Graph, operation and input of constants that are wholly in packed weights.
    pub(crate) absorbed: Vec<(usize, usize, usize)>,
    /// The charges of the steps' tables to a budget.
    pub(crate) _claims: Vec<Charge>,
}

/// A run is polled about this often between steps, in nanoseconds: a look at who else wants the
/// core takes as long as a part of a tiny network's step.
const POLL_EVERY: u64 = 5_000;

/// Has a run be polled ahead of the first step, and of those that come long enough after one that
/// is polled.
pub(super) fn note_polls(steps: &mut [Step]) {
    let mut since = POLL_EVERY;
    for step in steps {
        step.polls = since >= POLL_EVERY;
        since = if step.polls { 0 } else { since }.saturating_add(step.estimate());
    }
}

impl Stage {
    /// Returns whether threads share a step, or one of a stage that is not known yet.
    pub(crate) fn may_share(&self) -> bool {
        let is_shared = |step: &Step| matches!(step.work, Work::Bands { shared: true, .. });
        self.steps.iter().any(is_shared) || !matches!(self.tail, Tail::End)
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage")
            .field("steps", &self.steps)
            .field("arena_bytes", &self.arena_bytes)
            .finish_non_exhaustive()
    }
}
