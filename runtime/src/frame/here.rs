//! Frames that a device in this process executes again and again.

use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::{
    ErrorStatus, ExecutionFailure, ExecutionOptions, PreparedModel, RequestArgument,
    ReusableExecution, Timing,
};

use super::{Body, Frame, Last, MOST_KEPT};
use crate::error::Result;

/// The frame as a device in this process executes it again and again.
pub(super) struct Here {
    model: Arc<dyn PreparedModel>,
    inputs: Vec<RequestArgument>,
    outputs: Vec<RequestArgument>,
    pub(super) reusable: Box<dyn ReusableExecution>,
    pub(super) timing: Timing,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").field("timing", &self.timing).finish_non_exhaustive()
    }
}

impl Frame {
    /// Executes by the way that a device in this process has for what comes again and again; `None`
    /// where it has none.
    pub(crate) fn compute_here(
        &mut self,
        model: &Arc<dyn PreparedModel>,
        options: &ExecutionOptions,
    ) -> Option<std::result::Result<(), ExecutionFailure>> {
        let Body { here, request, current_here, last, .. } = &mut *self.0;
        let fits = |here: &Here| {
            Arc::ptr_eq(&here.model, model)
                && here.inputs == request.inputs
                && here.outputs == request.outputs
        };
        let known = current_here
            .filter(|&at| here.get(at).is_some_and(|here| Arc::ptr_eq(&here.model, model)))
            .or_else(|| here.iter().position(fits));
        let at = match known {
            Some(at) => at,
            None => {
                let reusable = model.reusable_execution(request)?;
                let (inputs, outputs) = (request.inputs.clone(), request.outputs.clone());
                if here.len() == MOST_KEPT {
                    here.remove(0);
                }
                let model = Arc::clone(model);
                here.push(Here { model, inputs, outputs, reusable, timing: Timing::NONE });
                here.len() - 1
            }
        };
        *current_here = Some(at);
        let Here { reusable, timing, .. } = here.get_mut(at)?;
        *last = Last::Nothing;
        match reusable.compute(&request.pools, options) {
            Ok(measured) => {
                *timing = measured;
                *last = Last::Here;
                Some(Ok(()))
            }
            Err(error) => {
                let has_shapes = error.status == ErrorStatus::OutputInsufficientSize;
                let shapes = if has_shapes { reusable.output_shapes() } else { &[] };
                Some(Err(ExecutionFailure { error, output_shapes: shapes.to_vec() }))
            }
        }
    }

    /// Takes note that [`Frame::compute_here`] succeeded.
    pub(crate) fn computed_here(&mut self, latency: Duration) -> Result<()> {
        self.0.latency = latency;
        self.check_pages()?;
        self.scatter()
    }

    pub(super) fn here(&self) -> Option<&Here> {
        self.0.here.get(self.0.current_here?)
    }
}
