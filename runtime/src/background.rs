//! Fenced executions on what would wait where it is called: models of older drivers, plans with
//! control flow, the reference device in place of a driver that failed.

use std::os::fd::{AsFd, OwnedFd};

use nnburst_hal::process;
use nnburst_hal::{
    ErrorStatus, FencedEnd, FencedExecution, FencedTiming, HalError, Result, TimePoint,
    wait_for_driver, wait_for_fences,
};

/// Launches work in a thread of its own, which waits for the fences first, and then for what the
/// work launched.
///
/// # Errors
/// `RESOURCE_EXHAUSTED_TRANSIENT` where no thread or pipe can be had. What comes later is reported
/// by the callback: `MISSED_DEADLINE_TRANSIENT` where the deadline passes before the fences signal,
/// a fence in error, what the work returned.
pub(crate) fn launch(
    wait_for: Vec<OwnedFd>,
    deadline: Option<TimePoint>,
    work: impl FnOnce() -> Result<FencedExecution> + Send + 'static,
) -> Result<FencedExecution> {
    let (launched, end) = FencedEnd::new()?;
    let task = move || {
        let result = wait_for_fences(&wait_for, deadline).and_then(|()| outcome_of(work()?));
        end.report(result);
    };
    process::spawn("nnburst-fenced", task).map_err(|error| {
        let reason = format!("no thread for the fenced execution: {error}");
        HalError::new(ErrorStatus::ResourceExhaustedTransient, reason)
    })?;
    Ok(launched)
}

/// Waits for the end of a fenced execution.
///
/// # Errors
/// How it failed.
pub(crate) fn outcome_of(execution: FencedExecution) -> Result<FencedTiming> {
    let callback = execution.callback.as_ref();
    let signalled =
        execution.sync_fence.map(|fence| wait_for_driver(fence.as_fd(), None, callback));
    // A fence in error says that something failed; what it was the callback knows.
    let timing = execution.callback.execution_info()?;
    signalled.transpose()?;
    Ok(timing)
}
