//! Plans behind fences: each step waits for the fence of the one before.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::{
    ExecutionOptions, ExecutionOutcome, ExecutionResult, FencedExecution, FencedExecutionCallback,
    FencedTiming, HalError, Memory, PreparedModel, Request, Result, TimePoint, Timing,
    wait_for_fence,
};

use super::Planned;
use super::call::Call;
use super::run::Run;

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
    let mut call = Behind { fences: wait_for, duration, last: None };
    match Run::new(planned, request, &options, arena.clone()).go(&mut call) {
        Ok(_) => Ok(call.finish(arena)),
        Err(stop) if planned.may_fall_back && stop.may_be_retried => {
            for fence in original {
                wait_for_fence(fence.as_fd(), options.deadline.map(TimePoint::remaining))?;
            }
            planned.on_reference(request, &options).map_err(|failure| failure.error)?;
            Ok(FencedExecution { sync_fence: None, callback: Arc::new(Over) })
        }
        Err(stop) => Err(stop.failure.error),
    }
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
    /// What the next step waits for.
    fences: Vec<OwnedFd>,
    duration: Option<Duration>,
    last: Option<Arc<dyn FencedExecutionCallback>>,
}

impl Behind {
    fn finish(mut self, arena: Option<Memory>) -> FencedExecution {
        let callback = self.last.take().unwrap_or_else(|| Arc::new(Over));
        FencedExecution {
            sync_fence: self.fences.pop(),
            callback: Arc::new(Keeping { callback, _arena: arena }),
        }
    }
}

impl Call for Behind {
    fn call(
        &mut self,
        _at: usize,
        model: &Arc<dyn PreparedModel>,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult {
        let wait_for = std::mem::take(&mut self.fences);
        let launched =
            model.execute_fenced(request.clone(), wait_for, *options, self.duration.take())?;
        self.fences.extend(launched.sync_fence);
        self.last = Some(launched.callback);
        Ok(ExecutionOutcome { output_shapes: Vec::new(), timing: Timing::NONE })
    }

    fn settle(&mut self) -> Result<()> {
        for fence in std::mem::take(&mut self.fences) {
            let signalled = wait_for_fence(fence.as_fd(), None);
            if let Some(callback) = &self.last {
                callback.execution_info()?;
            }
            signalled?;
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
}

/// An execution that is over and was not measured.
struct Over;

impl FencedExecutionCallback for Over {
    fn execution_info(&self) -> Result<FencedTiming> {
        Ok(FencedTiming::default())
    }
}
