//! Those that are held up, and who of them goes on next.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

use nnburst_hal::Priority;

use super::super::sync::{Condvar, Mutex, MutexGuard, elapsed};
use super::{PATIENCE, User};

#[derive(Debug, Default)]
pub(super) struct TurnQueue {
    pub(super) users: BTreeMap<u32, Weak<User>>,
    pub(super) held_up: Vec<HeldUp>,
    /// The time in nanoseconds that the user who went on last had had: what others begin with.
    pub(super) now: u64,
}

#[derive(Debug)]
pub(super) struct HeldUp {
    pub(super) user: Arc<User>,
    pub(super) priority: Priority,
    pub(super) since: Instant,
    /// True if it has had no turn yet.
    pub(super) is_new: bool,
    pub(super) place: Arc<TurnPlace>,
}

/// The place in which one that is held up waits.
#[derive(Debug)]
pub(super) struct TurnPlace {
    pub(super) may_go_on: Mutex<bool>,
    pub(super) told: Condvar,
}

impl TurnPlace {
    pub(super) fn lock(&self) -> MutexGuard<'_, bool> {
        self.may_go_on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnQueue {
    /// Returns the next that goes on, of those that may: of the user who has had least the highest
    /// priority, and of those who waited longest.
    pub(super) fn next(&self) -> Option<usize> {
        let held_up = self.held_up.iter().enumerate().filter(|(_, it)| it.may_go_on());
        let rank = |it: &HeldUp| {
            // One that lost its patience is no longer behind those of higher priorities.
            let priority = match elapsed(it.since) < PATIENCE {
                true => it.priority,
                false => Priority::High,
            };
            (it.user.had(), std::cmp::Reverse(priority), it.since)
        };
        held_up.min_by_key(|(_, it)| rank(it)).map(|(at, _)| at)
    }
}

impl HeldUp {
    fn may_go_on(&self) -> bool {
        !self.user.has_higher(self.priority) || elapsed(self.since) >= PATIENCE
    }
}
