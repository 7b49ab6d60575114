//! Long work ends when it is to end: each operation, of a size that takes seconds or so many polls
//! that one more or less doesn't matter, is stopped at one of its polls; and so are the passes that
//! compile a model.
//!
//! Nothing is timed: a checkpoint counts the polls, and sets the stop flag at one that only a poll
//! within a step is.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod compiling;
mod detection;
mod elementwise;
mod matrices;
mod movement;
mod recurrent;
mod single;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nnburst_executor::{Checkpoint, CompileOptions, Control, RunError};
use nnburst_hal::{OperandType as T, OperationType as Op, TimePoint};

use single::{A, Single, f, tensor};

/// Counts polls, those of helpers too, and stops the work at one of them: whoever takes most of it.
#[derive(Debug, Default)]
struct StopAt {
    poll: usize,
    polls: AtomicUsize,
    stop: AtomicBool,
    /// Polls of the run's own thread, and of helpers, behind that one.
    late: [AtomicUsize; 2],
}

impl StopAt {
    fn new(poll: usize) -> Self {
        Self { poll, ..Self::default() }
    }

    fn control(&self) -> Control<'_> {
        Control { checkpoint: Some(self), stop: Some(&self.stop), ..Control::default() }
    }

    fn count(&self, late: &AtomicUsize) {
        let polls = self.polls.fetch_add(1, Ordering::Relaxed) + 1;
        if polls == self.poll {
            self.stop.store(true, Ordering::Relaxed);
        } else if polls > self.poll {
            late.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Checkpoint for StopAt {
    fn pass(&self) {
        self.count(&self.late[0]);
    }

    fn most_threads(&self) -> usize {
        2
    }

    fn helper(&self) -> Option<Box<dyn Checkpoint + Send + '_>> {
        Some(Box::new(Helper(self)))
    }
}

/// A helper's polls are polls of the run.
#[derive(Debug)]
struct Helper<'a>(&'a StopAt);

impl Checkpoint for Helper<'_> {
    fn pass(&self) {
        self.0.count(&self.0.late[1]);
    }
}

/// Far behind the polls between the few steps of a model.
const WITHIN: usize = 12;

#[test]
fn a_deadline_is_met_within_a_step() {
    let operands = [f(&[1, 1, 1, 1 << 18]), A::I(1 << 18), A::F(1.0), A::F(1.0), A::F(0.5)];
    let output = tensor(T::TensorFloat32, &[1, 1, 1, 1 << 18]);
    let single = Single::new(Op::LocalResponseNormalization, &operands, &[output]);
    let deadline = Some(TimePoint::after(Duration::from_millis(100)));
    let ran = single.run(&CompileOptions::default(), &Control { deadline, ..Control::default() });
    assert_eq!(ran, Err(RunError::DeadlineMissed));
}
