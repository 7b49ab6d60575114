//! Users of the process: the executions that each has, and the time that it has had.

use std::sync::atomic::{AtomicU64, Ordering};

use nnburst_hal::Priority;

use super::super::sync::Word;

/// Bits of a count in [`User::counts`]: more executions at a time than a process has threads.
const COUNT_BITS: u32 = 16;

/// The highest count of [`User::counts`].
const AT_WORK: u32 = 3 * COUNT_BITS;

/// A user of the process, for as long as it has clients.
#[derive(Debug)]
pub(crate) struct User {
    pub(super) uid: u32,
    /// Executions and preparations, in four counts: those of low, medium and high priority, at work
    /// or held up, and those of them at work. In one word, so that a small model's execution takes
    /// two exchanges here. SeqCst throughout: nothing is handed over, but one that begins must not
    /// find that none of a higher priority sees it.
    counts: Word,
    /// Nanoseconds at work, and what it began with. Relaxed: an account that hands nothing over.
    pub(super) had: AtomicU64,
    /// When it began or ended something last, in nanoseconds from the processor's start; noted
    /// while there are other users.
    pub(super) seen: AtomicU64,
}

/// What a user has, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserCounts(u64);

impl User {
    pub(super) fn new(uid: u32, had: u64) -> Self {
        let (had, seen) = (AtomicU64::new(had), AtomicU64::new(0));
        Self { uid, counts: Word::new(0), had, seen }
    }

    pub(super) fn had(&self) -> u64 {
        self.had.load(Ordering::Relaxed)
    }

    /// What it has now.
    pub(super) fn counts(&self) -> UserCounts {
        UserCounts(self.counts.load(Ordering::SeqCst))
    }

    /// Counts one more, as if at work, and returns what there was before it.
    pub(super) fn begin(&self, priority: Priority) -> UserCounts {
        let one = (1 << shift(priority)) + (1 << AT_WORK);
        UserCounts(self.counts.fetch_add(one, Ordering::SeqCst))
    }

    /// Counts one less.
    pub(super) fn end(&self, priority: Priority, is_at_work: bool) {
        let one = (1 << shift(priority)) + (u64::from(is_at_work) << AT_WORK);
        self.counts.fetch_sub(one, Ordering::SeqCst);
    }

    /// Counts one that it has among those at work, or no more.
    pub(super) fn set_at_work(&self, is_at_work: bool) {
        match is_at_work {
            true => self.counts.fetch_add(1 << AT_WORK, Ordering::SeqCst),
            false => self.counts.fetch_sub(1 << AT_WORK, Ordering::SeqCst),
        };
    }

    /// Returns whether it has something of a higher priority.
    pub(super) fn has_higher(&self, priority: Priority) -> bool {
        self.counts().has_higher(priority)
    }
}

impl UserCounts {
    /// Returns whether there is something of a higher priority.
    pub(super) fn has_higher(self, priority: Priority) -> bool {
        let above = shift(priority) + COUNT_BITS;
        (self.0 & ((1 << AT_WORK) - 1)) >> above > 0
    }

    /// Returns whether nothing is at work or held up.
    pub(super) fn is_absent(self) -> bool {
        self.0 & ((1 << AT_WORK) - 1) == 0
    }

    /// Returns whether nothing is at work.
    pub(super) fn is_idle(self) -> bool {
        self.0 >> AT_WORK == 0
    }
}

/// The place of a priority's count.
fn shift(priority: Priority) -> u32 {
    match priority {
        Priority::Low => 0,
        Priority::Medium => COUNT_BITS,
        Priority::High => 2 * COUNT_BITS,
    }
}
