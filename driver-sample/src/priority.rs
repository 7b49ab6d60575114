//! Priorities: among the executions of one client, a higher one overtakes lower ones and holds them up
//! between their steps.
//!
//! ```text
//!   low    step step │ held up ............... │ step step ...
//!   high             └ step step step ─ result ┘
//! ```
//!
//! Nobody starves: one that was held up for [`PATIENCE`] takes a step all the same. While no other
//! priority is at work, a checkpoint costs two loads, and takes no lock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use nnburst_executor::Checkpoint;
use nnburst_hal::Priority;

/// How long a higher priority may hold up the next step of a lower one.
const PATIENCE: Duration = Duration::from_millis(50);

/// The executions of one client, by priority.
#[derive(Debug, Default)]
pub(crate) struct Priorities {
    medium: AtomicU32,
    high: AtomicU32,
    /// Executions that are held up: while there are none, nobody is to be woken, and an end costs no
    /// system call.
    held_up: AtomicU32,
    lock: Mutex<()>,
    ended: Condvar,
}

impl Priorities {
    /// Counts an execution in until what it returns is dropped; that is also its checkpoint.
    pub(crate) fn begin(&self, priority: Priority) -> Running<'_> {
        if let Some(count) = self.count(priority) {
            // SeqCst, here and below: pairs with the loads of `higher`. Nothing is handed over, but an
            // execution that begins must not find that one of a higher priority doesn't see it.
            count.fetch_add(1, Ordering::SeqCst);
        }
        Running { among: self, priority }
    }

    /// Nobody is held up by the lowest.
    fn count(&self, priority: Priority) -> Option<&AtomicU32> {
        match priority {
            Priority::Low => None,
            Priority::Medium => Some(&self.medium),
            Priority::High => Some(&self.high),
        }
    }

    fn has_higher(&self, priority: Priority) -> bool {
        match priority {
            Priority::Low => {
                self.medium.load(Ordering::SeqCst) > 0 || self.high.load(Ordering::SeqCst) > 0
            }
            Priority::Medium => self.high.load(Ordering::SeqCst) > 0,
            Priority::High => false,
        }
    }
}

/// An execution at work.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    among: &'a Priorities,
    priority: Priority,
}

impl Checkpoint for Running<'_> {
    fn pass(&self) {
        if !self.among.has_higher(self.priority) {
            return;
        }
        let lock = self.among.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SeqCst: pairs with the load in `drop`. Either we see there that the last one ended, or that one
        // sees us here.
        self.among.held_up.fetch_add(1, Ordering::SeqCst);
        let waited = self
            .among
            .ended
            .wait_timeout_while(lock, PATIENCE, |()| self.among.has_higher(self.priority));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.among.held_up.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Some(count) = self.among.count(self.priority) else { return };
        let was_last = count.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.among.held_up.load(Ordering::SeqCst) > 0 {
            // Under the lock, so that nobody is between a look at the counts and their sleep.
            drop(self.among.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.among.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_higher_priority_holds_lower_ones_up_but_not_for_ever() {
        let among = Arc::new(Priorities::default());
        let high = among.begin(Priority::High);
        high.pass();
        among.begin(Priority::High).pass();
        let lower = [Priority::Low, Priority::Medium].map(|priority| {
            let among = Arc::clone(&among);
            std::thread::spawn(move || {
                let began = Instant::now();
                among.begin(priority).pass();
                began.elapsed()
            })
        });
        for held in lower {
            assert!(held.join().unwrap() >= PATIENCE, "takes a step all the same, in the end");
        }
        drop(high);
        among.begin(Priority::Low).pass();
        assert!(!among.has_higher(Priority::Low));
    }

    #[test]
    fn the_end_of_the_higher_one_lets_lower_ones_go_on() {
        let among = Arc::new(Priorities::default());
        let high = among.begin(Priority::High);
        let low = {
            let among = Arc::clone(&among);
            std::thread::spawn(move || among.begin(Priority::Low).pass())
        };
        std::thread::sleep(Duration::from_millis(5));
        drop(high);
        low.join().unwrap();
    }
}
