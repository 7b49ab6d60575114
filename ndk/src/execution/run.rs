//! The four ways to run an execution.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nnburst::RuntimeError;
use nnburst::hal::{ExecutionOptions, ExecutionOutcome, Timing, unsignalled_fences};

use super::flight::{Flight, Told};
use super::{Call, Execution, Phase, check_one_device};
use crate::burst::Burst;
use crate::compilation::Ready;
use crate::diagnostic::{self, DiagnosticMode};
use crate::error::{Error, Result};
use crate::event::{Dependency, Event};
use crate::handle::Handle;

/// `compute`.
pub(super) fn compute(execution: Handle<Execution>) -> Result<()> {
    let begun = diagnostic::begin();
    let (ready, mut call) =
        execution.with(|execution| execution.begin_with_ready(|ready, call| call.check(ready)))?;
    let result = call.run(&ready, None);
    let timing = call.timing;
    finish(execution, &ready, call, &result);
    diagnostic::executed(ready.facts.as_ref(), begun, DiagnosticMode::Sync, timing, &result);
    result
}

/// `burstCompute`.
pub(super) fn burst_compute(execution: Handle<Execution>, burst: &mut Burst) -> Result<()> {
    let begun = diagnostic::begin();
    let Burst { ready, channel } = burst;
    let mut call = execution.with(|execution| {
        if !Arc::ptr_eq(&execution.ready, ready) {
            return Err(Error::data("the burst is of another compilation"));
        }
        execution.begin(|ready, call| call.check(ready))
    })?;
    let result = call.run(ready, channel.as_mut());
    let timing = call.timing;
    finish(execution, ready, call, &result);
    diagnostic::executed(ready.facts.as_ref(), begun, DiagnosticMode::Burst, timing, &result);
    result
}

/// Gives the call back to its execution, or if that was freed meanwhile to those to come.
fn finish(execution: Handle<Execution>, ready: &Ready, call: Box<Call>, result: &Result<()>) {
    let mut call = call;
    ready.finished(&mut call);
    let mut call = Some(call);
    // An error says that the execution was freed.
    let _ = execution.with(|execution| {
        if let Some(call) = call.take() {
            execution.phase = Phase::Finished(call, result.clone());
        }
        Ok(())
    });
    if let Some(call) = call {
        ready.give_back(call);
    }
}

impl Call {
    /// Runs and waits, in a burst where there is one.
    fn run(&mut self, ready: &Ready, mut burst: Option<&mut nnburst::Burst>) -> Result<()> {
        if burst.is_none()
            && let Some(result) = self.run_in_place(ready)
        {
            return result;
        }
        if let Some(result) = self.run_framed(ready, burst.as_deref_mut()) {
            return result;
        }
        if let Some(burst) = burst.as_deref_mut()
            && let Some(result) = self.run_again(ready, burst)
        {
            return result;
        }
        self.run_request(ready, burst)
    }

    /// Runs by a request that is made for the occasion.
    fn run_request(&mut self, ready: &Ready, burst: Option<&mut nnburst::Burst>) -> Result<()> {
        let options = self.options();
        let outcome = self.fill_request().map(|()| match burst {
            Some(burst) => {
                let outcome = burst.compute_request(&self.request, &options);
                self.note_last(ready, burst);
                outcome
            }
            None => self.run_called(ready, options),
        });
        let outcome: std::result::Result<ExecutionOutcome, RuntimeError> = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                // Nothing was written.
                let _ = self.note_contents(ready, false);
                return Err(error.of_execution());
            }
        };
        self.settle(ready, outcome)?;
        self.copy_outputs();
        Ok(())
    }

    /// Has the device run the request by a call.
    fn run_called(
        &mut self,
        ready: &Ready,
        options: ExecutionOptions,
    ) -> std::result::Result<ExecutionOutcome, RuntimeError> {
        if ready.is_here {
            self.keep_memories_mapped();
            if let Some(outcome) = self.run_here(ready, &options) {
                return outcome;
            }
        }
        let outcome = ready.compilation.prepared().execute_synchronously(&self.request, options);
        outcome.map_err(|failure| ready.compilation.failed(failure))
    }
}

/// `startCompute`.
pub(super) fn start(execution: Handle<Execution>) -> Result<Handle<Arc<Event>>> {
    let begun = diagnostic::begin();
    let (ready, mut call) =
        execution.with(|execution| execution.begin_with_ready(|ready, call| call.check(ready)))?;
    let flight = Flight::new(Arc::clone(&ready), begun);
    let event = Handle::new(Arc::new(Event::Execution(Arc::clone(&flight))))?;
    let options = call.options();
    let filled = call.fill_request();
    let request = call.request.clone();
    let told = Told::new(Arc::clone(&flight), call);
    launch(execution, &flight);
    match filled {
        // However the launch ends, the callback is told.
        Ok(()) => drop(ready.compilation.prepared().execute(request, options, told)),
        Err(error) => told.fail(error),
    }
    Ok(event)
}

/// `startComputeWithDependencies`.
pub(super) fn start_fenced(
    execution: Handle<Execution>,
    dependencies: &[Handle<Arc<Event>>],
    duration: Option<Duration>,
) -> Result<Handle<Arc<Event>>> {
    let begun = diagnostic::begin();
    let dependencies: Vec<_> = dependencies
        .iter()
        .map(|event| event.with(|event| Ok(Arc::clone(event))))
        .collect::<Result<_>>()?;
    let (ready, mut call) = execution.with(|execution| {
        execution.call()?;
        if duration.is_some() {
            check_one_device(&execution.ready)?;
        }
        execution.begin_with_ready(|ready, call| {
            call.check(ready)?;
            call.check_outputs_are_known(ready)
        })
    })?;
    let options = call.options();
    call.deadline = options.deadline;
    let launched = wait_for(&dependencies).and_then(|fences| {
        call.fill_request()?;
        let fences = unsignalled_fences(fences).map_err(RuntimeError::from)?;
        let is_held_up = !fences.is_empty();
        let request = call.request.clone();
        let launched = ready.compilation.launch_fenced(request, fences, options, duration)?;
        Ok((launched, is_held_up))
    });
    let (launched, is_held_up) = match launched {
        Ok(launched) => launched,
        Err(error) => {
            let _ = call.note_contents(&ready, false);
            // The execution may have been freed meanwhile; then nobody asks.
            let _ = execution.with(|execution| {
                execution.phase = Phase::Finished(call, Err(error.clone()));
                Ok(())
            });
            let failed = Err(error.clone());
            diagnostic::executed(
                ready.facts.as_ref(),
                begun,
                DiagnosticMode::Fenced,
                Timing::NONE,
                &failed,
            );
            return Err(error);
        }
    };
    // Whoever waits for this execution's fence finds its outputs written.
    let _ = call.note_contents(&ready, true);
    let has_pointer_output = call.has_pointer_output();
    let flight = if has_pointer_output && is_held_up {
        // Whoever is to signal the fences may be this thread, after the call.
        Flight::copying(Arc::clone(&ready), call, launched, begun)?
    } else {
        Flight::fenced(Arc::clone(&ready), call, launched, begun)
    };
    launch(execution, &flight);
    if flight.fence().is_none() || (has_pointer_output && !is_held_up) {
        // Where the outputs are the caller's own memory, they are there when the call returns.
        flight.wait()?;
    }
    Handle::new(Arc::new(Event::Execution(flight)))
}

fn launch(execution: Handle<Execution>, flight: &Arc<Flight>) {
    // An execution that was freed meanwhile flies on by its event alone.
    let _ = execution.with(|execution| {
        execution.phase = Phase::Launched(Arc::clone(flight));
        Ok(())
    });
}

/// The fences among what an execution depends on; the rest is waited for here.
fn wait_for(dependencies: &[Arc<Event>]) -> Result<Vec<OwnedFd>> {
    let mut fences = Vec::new();
    for event in dependencies {
        match event.dependency()? {
            Dependency::Fence(fence) => fences.push(fence),
            Dependency::Over => {}
        }
    }
    Ok(fences)
}
