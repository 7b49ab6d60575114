//! Executions on the memory of callers in the driver's own process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nnburst_executor::{Input, Output};
use nnburst_hal::{
    ExecutionInPlace, ExecutionOptions, HalError, Layer, Phase, Result, Timing, View, ViewMut,
    trace_span, vlog,
};

use crate::arguments::{FEW, FEWER, room};
use crate::compiled::Compiled;
use crate::execution;

/// A model whose arguments lie where their caller has them.
#[derive(Debug)]
pub(crate) struct InPlace(Arc<Compiled>);

impl InPlace {
    pub(crate) fn new(compiled: &Arc<Compiled>) -> Self {
        Self(Arc::clone(compiled))
    }

    fn run(
        &self,
        inputs: &[View<'_>],
        outputs: &[ViewMut<'_>],
        options: &ExecutionOptions,
    ) -> Result<Timing> {
        match inputs.len().max(outputs.len()) {
            0..=FEWER => self.run_with_room::<FEWER>(inputs, outputs, options),
            _ => self.run_with_room::<FEW>(inputs, outputs, options),
        }
    }

    /// With room on the stack for `ROOM` inputs and outputs.
    fn run_with_room<const ROOM: usize>(
        &self,
        inputs: &[View<'_>],
        outputs: &[ViewMut<'_>],
        options: &ExecutionOptions,
    ) -> Result<Timing> {
        let compiled = &*self.0;
        compiled.check_origin()?;
        let began = compiled.clock(options);
        compiled.check_deadline(options, Duration::ZERO)?;
        let _span = trace_span(Layer::Driver, Phase::Execution, "execute");
        vlog!(Execution, "{} inputs in place", inputs.len());
        // One by one, as for requests.
        let mut few_inputs: [_; ROOM] = std::array::from_fn(|_| Input::NoValue);
        let mut many_inputs = Vec::new();
        let given = room(&mut few_inputs, &mut many_inputs, inputs.len(), Input::NoValue)?;
        given.iter_mut().zip(inputs).for_each(|(to, &bytes)| *to = Input::new(bytes));
        let mut few_outputs: [_; ROOM] = std::array::from_fn(|_| Output::NoValue);
        let mut many_outputs = Vec::new();
        let wanted = room(&mut few_outputs, &mut many_outputs, outputs.len(), Output::NoValue)?;
        wanted.iter_mut().zip(outputs).for_each(|(to, &bytes)| *to = Output::new(bytes));
        let mut scratch = compiled.scratch();
        let ran = execution::run_session(compiled, &mut scratch.session, given, wanted, options);
        compiled.give_back(scratch);
        Ok(execution::timing(compiled, options, began, ran?))
    }
}

impl ExecutionInPlace for InPlace {
    /// A panic costs this execution its result and its session.
    fn compute(
        &mut self,
        inputs: &[View<'_>],
        outputs: &[ViewMut<'_>],
        options: &ExecutionOptions,
    ) -> Result<Timing> {
        catch_unwind(AssertUnwindSafe(|| self.run(inputs, outputs, options)))
            .unwrap_or_else(|_| Err(HalError::failure("the driver panicked")))
    }
}
