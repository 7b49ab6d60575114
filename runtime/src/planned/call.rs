//! Calls of the devices of a plan.

use std::sync::Arc;

use nnburst_hal::{ExecutionOptions, ExecutionResult, PreparedModel, Request, Result};

use crate::answer::call_in_turn;

/// The way to the devices: synchronous, by bursts, or behind fences.
pub(crate) trait StepCall {
    /// Has step `at` run a request.
    ///
    /// No shapes in the answer mean those that were known.
    fn call(
        &mut self,
        at: usize,
        model: &Arc<dyn PreparedModel>,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult;

    /// Waits until what was called is done, before values are looked at.
    ///
    /// # Errors
    /// How it failed.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns whether a step that failed may run on the reference device, and the others go on.
    fn may_mix(&self) -> bool {
        true
    }
}

/// One step after another, each waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InTurn;

impl StepCall for InTurn {
    fn call(
        &mut self,
        _at: usize,
        model: &Arc<dyn PreparedModel>,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult {
        call_in_turn(model, request, *options)
    }
}
