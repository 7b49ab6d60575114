//! Fenced executions: launched at once, begun when the last fence signals, over when their own does.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nnburst_hal::{
    AllowUnspecifiedOutput, ErrorStatus, ExecutionOptions, FencedExecution,
    FencedExecutionCallback, FencedTiming, HalError, MeasureTiming, Request, Result, TimePoint,
    Timing,
};

use crate::device::no_thread;
use crate::execution;
use crate::fence::{self, Signal};
use crate::prepared_model::Compiled;

/// Launches a fenced execution.
pub(crate) fn launch(
    compiled: &Arc<Compiled>,
    request: Request,
    wait_for: Vec<OwnedFd>,
    options: ExecutionOptions,
    duration: Option<Duration>,
) -> Result<FencedExecution> {
    let launched = Instant::now();
    execution::check(compiled, &request, AllowUnspecifiedOutput::No)?;
    if options.deadline.is_some_and(TimePoint::has_passed) {
        let status = ErrorStatus::MissedDeadlinePersistent;
        return Err(HalError::new(status, "the deadline had passed before the call"));
    }
    let mut pending = Vec::new();
    for fence in wait_for {
        if !fence::check(&fence)? {
            pending.push(fence);
        }
    }
    let (sync_fence, signal) = Signal::new()?;
    let info = Arc::new(FencedInfo::default());
    let task = FencedTask {
        compiled: Arc::clone(compiled),
        request,
        options,
        duration,
        launched,
        end: End { info: Arc::clone(&info), signal: Some(signal) },
    };
    if pending.is_empty() {
        task.begin();
    } else {
        let then = |ready: Result<()>| match ready {
            Ok(()) => task.begin(),
            Err(error) => task.end.tell(Err(error)),
        };
        compiled.client().fences().wait(pending, options.deadline, then)?;
    }
    Ok(FencedExecution { sync_fence: Some(sync_fence), callback: info })
}

/// A fenced execution on its way.
struct FencedTask {
    compiled: Arc<Compiled>,
    request: Request,
    options: ExecutionOptions,
    duration: Option<Duration>,
    launched: Instant,
    end: End,
}

impl FencedTask {
    /// The last fence has signalled: goes to the client's threads.
    fn begin(mut self) {
        if let Some(duration) = self.duration {
            let end = TimePoint::after(duration);
            let deadline = self.options.deadline;
            self.options.deadline = Some(deadline.map_or(end, |deadline| deadline.min(end)));
        }
        let (fenced, compiled) = (Instant::now(), Arc::clone(&self.compiled));
        // If there is no thread, the task is dropped, which tells of it.
        compiled.client().executions(compiled.priority()).submit(move || {
            let result = self.run(fenced);
            self.end.tell(result);
        });
    }

    fn run(&self, fenced: Instant) -> Result<FencedTiming> {
        let began = self.compiled.clock(&self.options);
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

/// Where the end of an execution is told: once, also if nobody gets to it.
struct End {
    info: Arc<FencedInfo>,
    signal: Option<Signal>,
}

impl End {
    fn tell(mut self, result: Result<FencedTiming>) {
        self.set(result);
    }

    fn set(&mut self, result: Result<FencedTiming>) {
        let Some(signal) = self.signal.take() else { return };
        let good = result.is_ok();
        self.info.tell(result);
        // Without a signal the fence turns to error.
        if good {
            signal.signal();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.set(Err(no_thread("the execution")));
    }
}

/// How a fenced execution went, once it is over.
#[derive(Debug, Default)]
struct FencedInfo(Mutex<Option<Result<FencedTiming>>>);

impl FencedInfo {
    fn tell(&self, result: Result<FencedTiming>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

impl FencedExecutionCallback for FencedInfo {
    fn execution_info(&self) -> Result<FencedTiming> {
        let info = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        info.clone().unwrap_or_else(|| Err(HalError::failure("the execution is not over yet")))
    }
}
