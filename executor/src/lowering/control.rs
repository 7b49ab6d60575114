//! Control of work: what may end or hold up a run or a compilation.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nnburst_hal::TimePoint;
use nnburst_kernels::tensor::poll::{self, Halt};

/// The points at which a run may be held up: called between steps, every few microseconds, and
/// every millisecond or so within longer ones; while a model is compiled, before each operation and
/// within longer ones and passes. Whoever schedules runs waits in here.
pub trait Checkpoint: std::fmt::Debug + Sync {
    /// Returns when the run may go on.
    fn pass(&self);

    /// Returns the number of threads that may work on a step of the run now, the one that owns it
    /// included: at least 1.
    fn most_threads(&self) -> usize {
        usize::MAX
    }

    /// Returns the checkpoint of another thread that works on a step of the run, which takes its
    /// own turns from then on; `None` if there are no turns. Returns when that thread may go on.
    fn helper(&self) -> Option<Box<dyn Checkpoint + Send + '_>> {
        None
    }

    /// Lets others go first until the run passes the next time: it only waits for its helpers.
    fn rest(&self) {}
}

/// The checkpoint of a helper, which passes for as long as its owner's run may have it beside.
#[derive(Debug)]
pub(crate) struct Helping<'a> {
    owner: Option<&'a dyn Checkpoint>,
    own: OnceLock<Option<Box<dyn Checkpoint + Send + 'a>>>,
}

impl<'a> Helping<'a> {
    /// That of a helper in a run under this control.
    pub(crate) fn of(owner: &Control<'a>) -> Self {
        Self { owner: owner.checkpoint, own: OnceLock::new() }
    }
}

impl Checkpoint for Helping<'_> {
    fn pass(&self) {
        let Some(owner) = self.owner else { return };
        match self.own.get() {
            Some(own) => own.iter().for_each(|own| own.pass()),
            None if owner.most_threads() == usize::MAX => {}
            None => {
                self.own.get_or_init(|| owner.helper());
            }
        }
    }
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

impl Control<'_> {
    /// The number of threads that may work on a step now.
    pub(crate) fn most_threads(&self) -> usize {
        self.checkpoint.map_or(usize::MAX, Checkpoint::most_threads)
    }

    /// Waits a little for helpers, while others go first.
    pub(crate) fn rest(&self) {
        /// Longer than a thread takes to change, shorter than a turn.
        const LITTLE: Duration = Duration::from_micros(200);
        if let Some(checkpoint) = self.checkpoint {
            checkpoint.rest();
            std::thread::sleep(LITTLE);
        }
    }
}

impl poll::Poll for Control<'_> {
    fn poll(&self) -> Result<(), Halt> {
        self.check()
    }
}
