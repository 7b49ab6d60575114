//! Control of work: what may end or hold up a run or a compilation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nnburst_hal::TimePoint;
use nnburst_kernels::tensor::poll::{self, Halt};

/// The points at which a run may be held up: called before each step, and every millisecond or so
/// within longer ones; while a model is compiled, before each operation and within longer ones and
/// passes. Whoever schedules runs waits in here.
pub trait Checkpoint: std::fmt::Debug + Sync {
    /// Returns when the run may go on.
    fn pass(&self);
}

/// The conditions that end a run early or hold it up. Polled between steps, between operations that
/// are compiled, and every millisecond or so within those that take long.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    /// Passed at each poll, ahead of what follows.
    pub checkpoint: Option<&'a dyn Checkpoint>,
    /// Set by whoever wants the run to stop.
    pub stop: Option<&'a AtomicBool>,
    /// When the result is of no use any more.
    pub deadline: Option<TimePoint>,
    /// The time that a WHILE may run.
    pub loop_timeout: Duration,
}

impl Default for Control<'_> {
    fn default() -> Self {
        Self {
            checkpoint: None,
            stop: None,
            deadline: None,
            loop_timeout: nnburst_hal::DEFAULT_LOOP_TIMEOUT,
        }
    }
}

impl Control<'_> {
    /// Returns whether the work may go on.
    pub(crate) fn check(&self) -> Result<(), Halt> {
        if let Some(checkpoint) = self.checkpoint {
            checkpoint.pass();
        }
        // Relaxed: the flag hands nothing over but itself, and a step later is soon enough.
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Halt::Stopped);
        }
        if self.deadline.is_some_and(TimePoint::has_passed) {
            return Err(Halt::DeadlineMissed);
        }
        Ok(())
    }
}

impl poll::Poll for Control<'_> {
    fn poll(&self) -> Result<(), Halt> {
        self.check()
    }
}
