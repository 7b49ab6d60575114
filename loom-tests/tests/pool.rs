//! The hand-over of jobs to the helpers of a session's thread pool. A lost wake-up shows as a model
//! that never ends, which loom reports.
#![cfg(loom)]

#[path = "../../executor/src/session/handoff.rs"]
mod handoff;
#[path = "../../executor/src/session/sync.rs"]
mod sync;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::{self, JoinHandle};

use handoff::Handoff;

/// A pool of one helper.
struct Pool {
    handoff: Arc<Handoff>,
    helper: JoinHandle<()>,
}

impl Pool {
    fn new() -> Self {
        let handoff = Arc::new(Handoff::new(1));
        let theirs = Arc::clone(&handoff);
        Self { handoff, helper: thread::spawn(move || theirs.help(0)) }
    }

    fn share(&self, job: &(dyn Fn(usize) + Sync)) {
        // SAFETY: `job` is borrowed until the drop below has ended.
        let opened = unsafe { self.handoff.open(job, &|| ()) };
        job(0);
        drop(opened);
    }

    fn end(self) {
        self.handoff.end();
        self.helper.join().unwrap();
    }
}

/// Results that each thread of a job leaves in a place of its own.
struct Results([UnsafeCell<u32>; 2]);

// SAFETY: what the models show; loom checks every access.
unsafe impl Sync for Results {}

impl Results {
    fn new() -> Self {
        Self([UnsafeCell::new(0), UnsafeCell::new(0)])
    }

    /// Adds to the place of a thread.
    fn add(&self, worker: usize, number: u32) {
        // SAFETY: as above.
        self.0[worker].with_mut(|place| unsafe { *place += number });
    }

    fn get(&self, worker: usize) -> u32 {
        // SAFETY: as above.
        self.0[worker].with(|place| unsafe { *place })
    }
}

#[test]
fn the_owner_sees_what_helpers_did_in_every_job() {
    loom::model(|| {
        let pool = Pool::new();
        let results = Results::new();
        for number in [1, 10] {
            pool.share(&|worker| results.add(worker, number));
            // The owner reads the places of all: no helper is inside any more.
            let helped = results.get(1);
            assert!([0, 1, 10, 11].contains(&helped), "{helped}");
        }
        assert_eq!(results.get(0), 11);
        pool.end();
    });
}

#[test]
fn a_helper_that_sleeps_is_woken_by_the_next_job() {
    loom::model(|| {
        let pool = Pool::new();
        let came = AtomicBool::new(false);
        pool.share(&|worker| match worker {
            0 => {
                while !came.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            }
            _ => came.store(true, Ordering::Release),
        });
        pool.end();
    });
}
