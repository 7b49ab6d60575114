//! How others speak to the burst's thread: they leave word and interrupt its wait.
//!
//! | edge   | release                                | acquire                        | hands over                 |
//! |--------|----------------------------------------|--------------------------------|----------------------------|
//! | `word` | [`Control::leave_word`], the interrupt | [`Control::has_word`], the lock | slots to drop, and the end |

use nnburst_fmq::Cancel;

use super::MAX_SLOTS;
use super::listener::index;
use crate::sync::{Mutex, lock};

/// Shared by the burst's thread and those who have something to say to it.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Ends the thread's wait. The thread resets it before it takes the word.
    interrupt: Cancel,
    word: Mutex<Word>,
}

/// What was said since the thread last listened.
#[derive(Debug, Default)]
pub(super) struct Word {
    /// Slots to drop.
    pub(super) freed: Vec<i32>,
    /// Whether to end.
    pub(super) stop: bool,
}

impl Word {
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

impl Control {
    /// What the thread's waits have to be attached to.
    pub(super) fn interrupt(&self) -> &Cancel {
        &self.interrupt
    }

    pub(super) fn leave_word(&self, say: impl FnOnce(&mut Word)) {
        say(&mut lock(&self.word));
        // edge word (release): who finds the interrupt raised finds what was said.
        self.interrupt.cancel();
    }

    /// Whether somebody left word since it was last taken.
    #[inline]
    pub(super) fn has_word(&self) -> bool {
        // edge word (acquire): pairs with `leave_word`.
        self.interrupt.is_cancelled()
    }

    /// Takes the word. A stop stays said.
    pub(super) fn take_word(&self) -> Word {
        // Reset first: what is said from here on interrupts again.
        self.interrupt.reset();
        let mut word = lock(&self.word);
        Word { freed: std::mem::take(&mut word.freed), stop: word.stop }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_frees_without_end_costs_a_bounded_list() {
        let mut word = Word::default();
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
