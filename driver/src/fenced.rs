//! Fenced executions: launched at once, begun when the last fence signals, over when their own
//! does.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_hal::{
    AllowUnspecifiedOutput, ErrorStatus, ExecutionOptions, FencedEnd, FencedExecution,
    FencedTiming, HalError, MeasureTiming, Request, Result, TimePoint, Timing, unsignalled_fences,
};

use crate::compiled::Compiled;
use crate::execution;
use crate::figures::Asked;

/// Launches a fenced execution.
pub(crate) fn launch(
    compiled: &Arc<Compiled>,
    request: Request,
    wait_for: Vec<OwnedFd>,
    options: ExecutionOptions,
    duration: Option<Duration>,
) -> Result<FencedExecution> {
    let (asked, launched) = (compiled.asked(), Instant::now());
    execution::check(compiled, &request, AllowUnspecifiedOutput::No)?;
    if options.deadline.is_some_and(TimePoint::has_passed) {
        let status = ErrorStatus::MissedDeadlinePersistent;
        return Err(HalError::new(status, "the deadline had passed before the call"));
    }
    let pending = unsignalled_fences(wait_for)?;
    let (execution, end) = FencedEnd::new()?;
    let task = FencedTask {
        compiled: Arc::clone(compiled),
        request,
        options,
        duration,
        asked,
        launched,
        end,
    };
    if pending.is_empty() {
        task.begin();
    } else {
        let then = |ready: Result<()>| match ready {
            Ok(()) => task.begin(),
            Err(error) => task.end.report(Err(error)),
        };
        compiled.client().fences().wait(pending, options.deadline, then)?;
    }
    Ok(execution)
}

/// A fenced execution on its way.
struct FencedTask {
    compiled: Arc<Compiled>,
    request: Request,
    options: ExecutionOptions,
    duration: Option<Duration>,
    asked: Asked,
    launched: Instant,
    end: FencedEnd,
}

impl FencedTask {
    /// The last fence has signalled: goes to the client's threads.
    fn begin(mut self) {
        if let Some(duration) = self.duration {
            let end = TimePoint::after(duration);
            let deadline = self.options.deadline;
            self.options.deadline = Some(deadline.map_or(end, |deadline| deadline.min(end)));
        }
        self.asked.begin();
        let (fenced, compiled) = (Instant::now(), Arc::clone(&self.compiled));
        // If there is no thread, the task is dropped, which tells of it.
        compiled.client().executions(compiled.priority()).submit(move || {
            let result = self.run(fenced);
            self.asked.end(result.as_ref().err());
            self.end.report(result);
        });
    }

    fn run(&self, fenced: Instant) -> Result<FencedTiming> {
        let began = self.compiled.clock(&self.options);
        self.compiled.check_deadline(&self.options, self.launched.elapsed())?;
        let executed = self.compiled.execute(&self.request, &self.options, began);
        let outcome = executed.map_err(|failure| failure.error)?;
        if self.options.measure == MeasureTiming::No {
            return Ok(FencedTiming::default());
        }
        let since = |start| Timing {
            time_in_driver: execution::microseconds(start),
            time_on_device: outcome.timing.time_on_device,
        };
        Ok(FencedTiming { fenced: since(fenced), launched: since(self.launched) })
    }
}
