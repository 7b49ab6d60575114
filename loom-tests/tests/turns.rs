//! Turns of executions on the driver's processor. Time doesn't pass here, so whoever is not told to
//! go on never does, which loom reports as a deadlock.
#![cfg(loom)]

#[path = "../../driver/src/processor/sync.rs"]
mod sync;
#[path = "../../driver/src/processor/turns/mod.rs"]
#[allow(dead_code, reason = "the driver uses more of it than the models")]
mod turns;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loom::cell::UnsafeCell;
use loom::thread;
use nnburst_hal::Priority;

use turns::{Processor, User};

static NOBODY_IS_GONE: AtomicBool = AtomicBool::new(false);

/// A core that one execution at a time has.
struct Core {
    processor: Processor,
    /// Written by whoever is at work.
    work: UnsafeCell<u32>,
}

// SAFETY: what the models show; loom checks every access.
unsafe impl Sync for Core {}
// SAFETY: as above.
unsafe impl Send for Core {}

impl Core {
    fn new() -> Arc<Self> {
        Arc::new(Self { processor: Processor::new(1), work: UnsafeCell::new(0) })
    }

    /// An execution of so many steps.
    fn run(&self, user: &Arc<User>, priority: Priority, steps: u32) {
        let running = self.processor.begin(user, priority, &NOBODY_IS_GONE, None);
        for step in 0..steps {
            if step > 0 {
                running.pass();
            }
            // SAFETY: as above.
            self.work.with_mut(|work| unsafe { *work += 1 });
        }
    }

    fn work(&self) -> u32 {
        // SAFETY: as above.
        self.work.with(|work| unsafe { *work })
    }
}

/// Runs two executions of a user beside each other.
fn two_take_turns(priorities: [Priority; 2], steps: u32) {
    loom::model(move || {
        let core = Core::new();
        let [ours, theirs] = [1, 1].map(|uid| core.processor.user(uid));
        let other = {
            let core = Arc::clone(&core);
            thread::spawn(move || core.run(&theirs, priorities[1], steps))
        };
        core.run(&ours, priorities[0], steps);
        other.join().unwrap();
        assert_eq!(core.work(), 2 * steps);
    });
}

#[test]
fn one_that_waits_goes_on_when_the_core_is_free() {
    two_take_turns([Priority::Medium, Priority::Medium], 1);
}

#[test]
fn one_that_a_higher_priority_held_up_goes_on_after_it() {
    two_take_turns([Priority::Low, Priority::High], 2);
}
