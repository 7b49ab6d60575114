//! Layout of a stage's values in its arena.

use super::arena::{Lifetime, lay_out};
use crate::lowering::draft::{Draft, DraftPlace, DraftStep};
use crate::lowering::step::{Place, Step};

/// The places of locals, once laid out.
pub(super) struct ArenaLayout {
    pub(super) slot: usize,
    /// The place of each in its slot.
    homes: Vec<DraftPlace>,
    pub(super) bytes: usize,
}

impl Draft {
    /// Lays the locals out by the steps that touch them.
    pub(super) fn lay_out(&self, slot: usize) -> ArenaLayout {
        let mut lifetimes: Vec<Lifetime> = self
            .local_sizes()
            .map(|bytes| Lifetime { bytes, first: usize::MAX, last: 0 })
            .collect();
        for (at, step) in self.steps.iter().enumerate() {
            for place in step.places() {
                if let Some(root) = self.root(place) {
                    lifetimes[root].first = lifetimes[root].first.min(at);
                    lifetimes[root].last = at;
                }
            }
        }
        for (lifetime, _) in lifetimes.iter_mut().zip(self.kept_roots()).filter(|(_, kept)| *kept) {
            lifetime.last = self.steps.len();
        }
        for lifetime in &mut lifetimes {
            // Touched by no step but kept: live throughout. Touched by none at all: no memory.
            if lifetime.first == usize::MAX {
                lifetime.first = 0;
                lifetime.bytes = if lifetime.last > 0 { lifetime.bytes } else { 0 };
            }
        }
        let (offsets, bytes) = lay_out(&lifetimes);
        let home = |local| match self.resolve(&self.all_of(local)) {
            DraftPlace::Local { local, offset, len, apart } => {
                DraftPlace::Slot { slot, offset: offsets[local] + offset, len, apart }
            }
            place => place,
        };
        ArenaLayout { slot, homes: (0..self.local_count()).map(home).collect(), bytes }
    }
}

impl ArenaLayout {
    /// Slot and offset of a local.
    pub(super) fn home(&self, local: usize) -> (usize, usize) {
        match self.homes[local] {
            DraftPlace::Slot { slot, offset, .. } => (slot, offset),
            _ => (self.slot, 0),
        }
    }

    pub(super) fn place(&self, place: DraftPlace) -> Place {
        let place = match place {
            DraftPlace::Local { local, offset, len, apart } => {
                self.homes[local].part(offset, len, apart).unwrap_or(DraftPlace::Omitted)
            }
            place => place,
        };
        match place {
            DraftPlace::Constant(bytes) => Place::Constant(bytes),
            DraftPlace::Slot { slot, offset, len, apart } => {
                Place::Slot { slot, offset, len, apart }
            }
            DraftPlace::Omitted | DraftPlace::Local { .. } => Place::Omitted,
        }
    }

    pub(super) fn step(&self, step: DraftStep) -> Step {
        let DraftStep { index, name, label, inputs, outputs, scratch, scratch_share, work, .. } =
            step;
        let places = |places: Vec<DraftPlace>| places.into_iter().map(|p| self.place(p)).collect();
        let (inputs, outputs) = (places(inputs), places(outputs));
        let scratch = self.place(scratch);
        Step { index, name, label, inputs, outputs, scratch, scratch_share, work, polls: true }
    }
}
