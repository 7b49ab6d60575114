//! Requests that come again to a device of this process, which checks them once.

use nnburst::RuntimeError;
use nnburst::hal::{ErrorStatus, ExecutionFailure, ExecutionOptions, ExecutionOutcome};

use super::call::Call;
use super::kept::Here;
use crate::compiled::Compiled;

impl Call {
    /// Runs the request on the device of this process; `None` where that has no shorter way for it
    /// than the ordinary.
    pub(super) fn run_here(
        &mut self,
        ready: &Compiled,
        options: &ExecutionOptions,
    ) -> Option<Result<ExecutionOutcome, RuntimeError>> {
        let request = &self.request;
        let is_last = |here: &Here| {
            here.pools == request.pools.len()
                && here.inputs == request.inputs
                && here.outputs == request.outputs
        };
        if !self.here.as_ref().is_some_and(is_last) {
            let reusable = ready.compilation.prepared().reusable_execution(request)?;
            let (inputs, outputs) = (request.inputs.clone(), request.outputs.clone());
            self.here = Some(Here { inputs, outputs, pools: request.pools.len(), reusable });
        }
        let Here { reusable, .. } = self.here.as_mut()?;
        let computed = reusable.compute(&request.pools, options);
        let has_shapes = match &computed {
            // What the model says of them need not be told.
            Ok(_) => ready.has_open_output,
            Err(error) => error.status == ErrorStatus::OutputInsufficientSize,
        };
        let output_shapes = if has_shapes { reusable.output_shapes().to_vec() } else { Vec::new() };
        Some(match computed {
            Ok(timing) => Ok(ExecutionOutcome { output_shapes, timing }),
            Err(error) => Err(ready.compilation.failed(ExecutionFailure { error, output_shapes })),
        })
    }
}
