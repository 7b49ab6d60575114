//! Requests of other threads to the burst's thread: they post them and interrupt its wait.
//!
//! | edge | release | acquire | hands over |
//! |---|---|---|---|
//! | `word` | [`Mailbox::post`] | [`Mailbox::has_pending`], the lock | slots to drop, the end |

use nnburst_fmq::Cancel;

use super::MAX_SLOTS;
use super::listener::index;
use crate::sync::{Mutex, lock};

/// Shared by the burst's thread and those that post requests to it.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    /// Ends the thread's wait. The thread resets it before it takes what is pending.
    interrupt: Cancel,
    pending: Mutex<Pending>,
}

/// Requests since the thread last took them.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Slots to drop.
    pub(super) freed: Vec<i32>,
    /// `true` if the thread is to end.
    pub(super) stop: bool,
}

impl Pending {
    /// Has the thread drop `slot`. What is kept is bounded by the number of slots there are,
    /// however often a client frees them while the thread is busy.
    pub(super) fn free(&mut self, slot: i32) {
        if index(slot).is_none() {
            return;
        }
        if self.freed.len() >= 2 * MAX_SLOTS {
            self.freed.sort_unstable();
            self.freed.dedup();
        }
        self.freed.push(slot);
    }
}

impl Mailbox {
    /// The handle that the thread's waits have to be attached to.
    pub(super) fn interrupt(&self) -> &Cancel {
        &self.interrupt
    }

    pub(super) fn post(&self, change: impl FnOnce(&mut Pending)) {
        change(&mut lock(&self.pending));
        // edge word (release): who finds the interrupt raised finds what was posted.
        self.interrupt.cancel();
    }

    /// Returns whether something was posted since it was last taken.
    #[inline]
    pub(super) fn has_pending(&self) -> bool {
        // edge word (acquire): pairs with `post`.
        self.interrupt.is_cancelled()
    }

    /// Takes what is pending. A stop stays.
    pub(super) fn take_pending(&self) -> Pending {
        // Reset first: what is posted from here on interrupts again.
        self.interrupt.reset();
        let mut pending = lock(&self.pending);
        Pending { freed: std::mem::take(&mut pending.freed), stop: pending.stop }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_frees_without_end_costs_a_bounded_list() {
        let mut word = Pending::default();
        let most = i32::try_from(MAX_SLOTS).unwrap();
        for round in 0..8 {
            (-2..most + 2).for_each(|slot| word.free(slot));
            assert!(word.freed.len() <= 2 * MAX_SLOTS, "round {round}");
        }
        word.freed.sort_unstable();
        word.freed.dedup();
        assert_eq!(word.freed, Vec::from_iter(0..most), "every slot, and no other");
    }
}
