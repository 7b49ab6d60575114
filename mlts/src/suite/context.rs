//! The context of every item of a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::budget::RunBudget;
use crate::error::MltsError;
use crate::protocol::{Job, Task, Via};
use crate::run::{Ended, OnReady, Program, Supervision, TestedDriver, supervise};
use crate::target::Target;

/// The options of a run that its items share.
#[derive(Clone)]
pub(super) struct RunContext {
    pub(super) program: Program,
    pub(super) budget: RunBudget,
    pub(super) seed: u64,
    pub(super) patience: Duration,
    pub(super) abort: Arc<AtomicBool>,
    pub(super) keep: Option<PathBuf>,
    pub(super) allow_kill: bool,
    /// The time of the endurance test; without it there is none.
    pub(super) soak: Option<Duration>,
}

impl RunContext {
    /// Returns whether the user has stopped the run.
    pub(super) fn is_aborted(&self) -> bool {
        // Relaxed: a switch, nothing is handed over.
        self.abort.load(Ordering::Relaxed)
    }

    /// A job for a worker.
    pub(super) fn job(&self, target: &Target, work: Task) -> Job {
        Job { target: target.clone(), via: Via::Own, seed: self.seed, work, driver_pid: None }
    }

    /// Runs a piece of work in a worker.
    ///
    /// # Errors
    /// The worker can't be started.
    pub(super) fn work<'a>(
        &'a self,
        target: &Target,
        work: Task,
        driver: &mut TestedDriver,
        planned: Duration,
        on_ready: Option<OnReady<'a>>,
    ) -> Result<Ended, MltsError> {
        let (patience, abort) = (self.patience, &*self.abort);
        let supervision = Supervision { patience, planned, abort, on_ready };
        supervise(&self.program, self.job(target, work), driver, supervision)
    }
}
