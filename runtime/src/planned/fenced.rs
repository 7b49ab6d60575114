//! Plans behind fences: each step waits for the fence of the one before.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::{
    ExecutionOptions, ExecutionOutcome, ExecutionResult, FencedExecution, FencedExecutionCallback,
    FencedTiming, HalError, Memory, PreparedModel, Request, Result, TimePoint, Timing,
    unsignalled_fences, wait_for_driver, wait_for_fences,
};

use super::Planned;
use super::call::StepCall;
use crate::background;

/// Launches all steps, each behind the last one's fence.
pub(super) fn run(
    planned: &Arc<Planned>,
    request: &Request,
    wait_for: Vec<OwnedFd>,
    options: ExecutionOptions,
    duration: Option<Duration>,
) -> Result<FencedExecution> {
    let original = duplicate(&wait_for)?;
    let arena = planned.arena()?;
    let mut call = Behind {
        fences: wait_for,
        duration,
        last: None,
        before: Vec::new(),
        deadline: options.deadline,
    };
    match planned.start(request, &options, arena.clone()).go(&mut call) {
        Ok(_) => Ok(call.finish(arena)),
        Err(stop) if planned.may_fall_back && stop.may_be_retried => {
            tracing::warn!(target: "nnburst::execution", error = %stop.failure, "on the reference device");
            on_reference(planned, request, original, call.before, options)
        }
        Err(stop) => Err(stop.failure.error),
    }
}

/// Runs the whole model on the reference device: once the fences have signalled, and the steps that
/// were launched are over, however they end.
fn on_reference(
    planned: &Arc<Planned>,
    request: &Request,
    wait_for: Vec<OwnedFd>,
    launched: Vec<Launched>,
    options: ExecutionOptions,
) -> Result<FencedExecution> {
    let pending = unsignalled_fences(wait_for)?;
    let (planned, request) = (Arc::clone(planned), request.clone());
    let work = move || {
        for Launched { fence, callback } in &launched {
            let _ = wait_for_driver(fence.as_fd(), None, callback.as_ref());
        }
        planned.on_reference(&request, &options).map_err(|failure| failure.error)?;
        Ok(FencedExecution::complete(FencedTiming::default()))
    };
    if pending.is_empty() { work() } else { background::launch(pending, options.deadline, work) }
}

fn duplicate(fences: &[OwnedFd]) -> Result<Vec<OwnedFd>> {
    let again = |fence: &OwnedFd| {
        fence
            .try_clone()
            .map_err(|error| HalError::failure(format!("duplicating a fence: {error}")))
    };
    fences.iter().map(again).collect()
}

struct Behind {
    /// The fences that the next step waits for.
    fences: Vec<OwnedFd>,
    duration: Option<Duration>,
    last: Option<Arc<dyn FencedExecutionCallback>>,
    /// The steps before the one that is being launched.
    before: Vec<Launched>,
    /// The end of the execution, as far as those who wait for the application's fences know it.
    deadline: Option<TimePoint>,
}

/// A step that was launched.
struct Launched {
    fence: OwnedFd,
    callback: Arc<dyn FencedExecutionCallback>,
}

impl Behind {
    fn finish(mut self, arena: Option<Memory>) -> FencedExecution {
        let Some(callback) = self.last.take() else {
            return FencedExecution::complete(FencedTiming::default());
        };
        FencedExecution {
            sync_fence: self.fences.pop(),
            callback: Arc::new(Keeping { callback, _arena: arena }),
        }
    }
}

impl StepCall for Behind {
    fn call(
        &mut self,
        _at: usize,
        model: &Arc<dyn PreparedModel>,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult {
        if let Some(callback) = &self.last {
            let fences = duplicate(&self.fences)?.into_iter();
            let launched = |fence| Launched { fence, callback: Arc::clone(callback) };
            self.before = fences.map(launched).collect();
        }
        let wait_for = std::mem::take(&mut self.fences);
        let launched =
            model.execute_fenced(request.clone(), wait_for, *options, self.duration.take())?;
        self.fences.extend(launched.sync_fence);
        self.last = Some(launched.callback);
        Ok(ExecutionOutcome { output_shapes: Vec::new(), timing: Timing::NONE })
    }

    fn settle(&mut self) -> Result<()> {
        for fence in std::mem::take(&mut self.fences) {
            match &self.last {
                Some(callback) => {
                    let signalled = wait_for_driver(fence.as_fd(), None, callback.as_ref());
                    callback.execution_info()?;
                    signalled.map(drop)?;
                }
                None => wait_for_fences(&[fence], self.deadline)?,
            }
        }
        Ok(())
    }

    fn may_mix(&self) -> bool {
        false
    }
}

/// Keeps the values between steps for as long as somebody may write them.
struct Keeping {
    callback: Arc<dyn FencedExecutionCallback>,
    _arena: Option<Memory>,
}

impl FencedExecutionCallback for Keeping {
    fn execution_info(&self) -> Result<FencedTiming> {
        self.callback.execution_info()
    }

    fn check_driver(&self) -> Result<()> {
        self.callback.check_driver()
    }
}
