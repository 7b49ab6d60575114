//! The options of a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use regex::Regex;

use super::{Accept, Progress, RunBudget, Suite, What};
use crate::protocol::CallMode;
use crate::run::Program;
use crate::target::Target;

impl Suite {
    /// Adds a driver.
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// Adds a folder of models with a manifest.
    pub fn models(mut self, dir: impl Into<PathBuf>) -> Self {
        self.models.push(dir.into());
        self
    }

    /// Has workers be this program, which calls [`serve_worker`](crate::serve_worker), with these
    /// arguments; by default the program that runs, without arguments. A test of a test harness
    /// names itself: `["--exact", "mlts_worker", "--nocapture"]`.
    pub fn worker(mut self, path: impl Into<PathBuf>, args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        self.program = Some(Program { path: path.into(), args });
        self
    }

    /// Compares latency with this device; with none at `None`.
    pub fn reference(mut self, reference: Option<Target>) -> Self {
        self.reference = reference;
        self
    }

    /// Calls in these modes, the first of which is the one for photos.
    pub fn modes(mut self, modes: &[CallMode]) -> Self {
        self.modes = modes.to_vec();
        self
    }

    /// Has this tier decide whether answers are right.
    pub fn accept(mut self, accept: Accept) -> Self {
        self.accept = accept;
        self
    }

    /// Runs only these kinds of items.
    pub fn only(mut self, what: &[What]) -> Self {
        self.what = what.to_vec();
        self
    }

    /// Runs only items whose id the expression finds.
    pub fn filter(mut self, filter: Regex) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Leaves out items whose id the expression finds.
    pub fn skip(mut self, skip: Regex) -> Self {
        self.skip = Some(skip);
        self
    }

    /// As much of each item as the quick budget has, of all items of this budget.
    pub fn quick_amounts(mut self) -> Self {
        self.amounts = Some(RunBudget::Quick);
        self
    }

    /// Seeds every random choice.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Keeps failing cases in a folder, for `replay`.
    pub fn keep(mut self, dir: impl Into<PathBuf>) -> Self {
        self.keep = Some(dir.into());
        self
    }

    /// The time without any progress that counts as a hang; 10 s if nothing is said.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Allows tests to kill a service that the suite didn't start.
    pub fn allow_kill(mut self, allow: bool) -> Self {
        self.allow_kill = allow;
        self
    }

    /// Allows floats to be computed with the precision of half floats.
    pub fn relaxed(mut self, relaxed: bool) -> Self {
        self.relaxed = relaxed;
        self
    }

    /// The time of the whole run instead of the budget's.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Rests for so long before each item, so that a machine that was heated by one is cool for the
    /// next; the time comes on top of the budget.
    pub fn rest(mut self, rest: Duration) -> Self {
        self.rest = rest;
        self
    }

    /// Adds the endurance test (c22), which takes this long on top of the budget.
    pub fn soak(mut self, soak: Duration) -> Self {
        self.soak = Some(soak);
        self
    }

    /// Looks for the first wrong operation of this model: every value becomes an output, and is
    /// compared with the reference device's.
    pub fn bisect(mut self, model: impl Into<String>) -> Self {
        self.bisect = Some(model.into());
        self
    }

    /// The wait strategy of both ends of bursts; adaptive if nothing is said.
    pub fn wait(mut self, wait: nnburst::Wait) -> Self {
        let name = match wait {
            nnburst::Wait::Spin => "spin",
            nnburst::Wait::Adaptive => "adaptive",
            nnburst::Wait::Block => "block",
            _ => "auto",
        };
        self.calls.wait = Some(name.to_owned());
        self
    }

    /// The processors that the calling thread and the driver's are to run on, in bursts.
    pub fn cpus(mut self, calling: &[u32], driver: &[u32]) -> Self {
        self.calls.cpus = calling.to_vec();
        self.calls.driver_cpus = driver.to_vec();
        self
    }

    /// Asks for real-time scheduling of both ends of bursts, and locked memory.
    pub fn realtime(mut self, realtime: bool) -> Self {
        self.calls.realtime = realtime;
        self
    }

    /// Measures calls at this period as well, in the first mode: as from a camera.
    pub fn period(mut self, period: Duration) -> Self {
        self.calls.period_us = Some(u64::try_from(period.as_micros()).unwrap_or(u64::MAX));
        self
    }

    /// Measures the throughput of so many clients at a time; 1, 2 and 4 in the full budget if
    /// nothing is said.
    pub fn clients(mut self, clients: &[usize]) -> Self {
        self.calls.clients = clients.to_vec();
        self
    }

    /// Ends the run with what there is once it is set.
    pub fn abort(mut self, abort: Arc<AtomicBool>) -> Self {
        self.abort = abort;
        self
    }

    /// Tells what happens.
    pub fn on_progress(mut self, on_progress: impl FnMut(&Progress) + Send + 'static) -> Self {
        self.on_progress = Box::new(on_progress);
        self
    }
}
