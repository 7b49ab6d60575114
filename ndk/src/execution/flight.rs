//! Executions that are underway after the call that launched them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nnburst::hal::{
    ExecutionCallback, ExecutionOutcome, ExecutionResult, FenceSignal, FencedExecution,
    FencedExecutionCallback, FencedTiming, TimePoint, bound, wait_for_fence,
};

use super::call::Call;
use crate::compilation::Ready;
use crate::error::{Code, Error, Result};

/// An execution that is underway, or was: its execution object and its event share it.
#[derive(Debug)]
pub(crate) struct Flight {
    ready: Arc<Ready>,
    state: Mutex<State>,
    landed: Condvar,
    fenced: Option<Fenced>,
}

/// The additional state of a fenced execution.
struct Fenced {
    /// Signals the end; nothing where it was over when the launch returned.
    fence: Option<OwnedFd>,
    /// When the end is there at the latest.
    until: Option<TimePoint>,
    info: Arc<dyn FencedExecutionCallback>,
}

impl std::fmt::Debug for Fenced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fenced").field("fence", &self.fence).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    /// Until the execution object is freed.
    call: Option<Box<Call>>,
    /// Its result, once it has ended.
    result: Option<Result<()>>,
    /// The times of a fenced execution.
    timing: FencedTiming,
}

impl Flight {
    /// A flight that [`Told`] ends.
    pub(super) fn new(ready: Arc<Ready>) -> Arc<Self> {
        Arc::new(Self::with(ready, None, None))
    }

    /// A fenced one.
    pub(super) fn fenced(
        ready: Arc<Ready>,
        call: Box<Call>,
        launched: FencedExecution,
    ) -> Arc<Self> {
        let until = call.deadline.map(bound::answered_by);
        let fenced = Fenced { fence: launched.sync_fence, until, info: launched.callback };
        Arc::new(Self::with(ready, Some(call), Some(fenced)))
    }

    /// A fenced one whose outputs go to memory of the caller's when it is over: by a thread, and a
    /// fence of our own signals after that.
    ///
    /// # Errors
    /// There is no thread or fence to be had; the execution goes on without anybody who asks for
    /// it.
    pub(super) fn copying(
        ready: Arc<Ready>,
        call: Box<Call>,
        launched: FencedExecution,
    ) -> Result<Arc<Self>> {
        let FencedExecution { sync_fence, callback } = launched;
        let Some(driver_fence) = sync_fence else {
            return Ok(Self::fenced(ready, call, FencedExecution { sync_fence, callback }));
        };
        let (fence, signal) = FenceSignal::new().map_err(nnburst::RuntimeError::from)?;
        let launched = FencedExecution { sync_fence: Some(fence), callback };
        let flight = Self::fenced(ready, call, launched);
        let landing = Arc::clone(&flight);
        let task = move || {
            // Without a signal the fence turns to error.
            if landing.settle_behind(Some(&driver_fence)).is_ok() {
                signal.signal();
            }
        };
        let started = std::thread::Builder::new().name("nnburst-outputs".into()).spawn(task);
        started.map_err(|error| {
            let why = format!("no thread for the outputs of the execution: {error}");
            Error::new(Code::ResourceExhaustedTransient, why)
        })?;
        Ok(flight)
    }

    fn with(ready: Arc<Ready>, call: Option<Box<Call>>, fenced: Option<Fenced>) -> Self {
        let state = State { call, result: None, timing: FencedTiming::default() };
        Self { ready, state: Mutex::new(state), landed: Condvar::new(), fenced }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fence that signals the end, where there is one.
    pub(crate) fn fence(&self) -> Option<&OwnedFd> {
        self.fenced.as_ref()?.fence.as_ref()
    }

    /// Returns whether the end is told by a fence.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.is_some()
    }

    /// Waits for the end, within the calling thread's bound.
    ///
    /// # Errors
    /// How the execution failed; `MISSED_DEADLINE_TRANSIENT` where it is not over by then.
    pub(crate) fn wait(&self) -> Result<()> {
        if let Some(fenced) = &self.fenced {
            return self.settle_fenced(fenced);
        }
        let mut state = self.state();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state = match bound::bound() {
                None => self.landed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) if until.has_passed() => return Err(late()),
                Some(until) => {
                    let waited = self.landed.wait_timeout(state, until.remaining());
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Returns its result, if it has ended.
    pub(crate) fn result(&self) -> Option<Result<()>> {
        if let Some(fenced) = &self.fenced {
            let zero = Some(std::time::Duration::ZERO);
            let is_over = fenced
                .fence
                .as_ref()
                .is_none_or(|fence| !matches!(wait_for_fence(fence.as_fd(), zero), Ok(false)));
            return is_over.then(|| self.settle_fenced(fenced));
        }
        self.state().result.clone()
    }

    /// Works with the call, if it is here: not before the end, nor after the execution was freed.
    pub(crate) fn with_call<R>(&self, work: impl FnOnce(&Call, FencedTiming) -> R) -> Option<R> {
        let state = self.state();
        state.call.as_ref().map(|call| work(call, state.timing))
    }

    /// Takes the call, to be used by another execution.
    pub(super) fn take_call(&self) -> Option<Box<Call>> {
        let mut state = self.state();
        if state.result.is_some() { state.call.take() } else { None }
    }

    /// Waits for the fence and notes how it went, once.
    fn settle_fenced(&self, fenced: &Fenced) -> Result<()> {
        self.settle_behind(fenced.fence.as_ref())
    }

    fn settle_behind(&self, fence: Option<&OwnedFd>) -> Result<()> {
        let Some(fenced) = &self.fenced else { return Ok(()) };
        let until = bound::earlier(fenced.until, bound::bound());
        let signalled = match fence {
            Some(fence) => wait_for_fence(fence.as_fd(), until.map(TimePoint::remaining)),
            None => Ok(true),
        };
        if signalled == Ok(false) {
            // Whoever asks again waits again: the driver may go on.
            return Err(late());
        }
        let mut state = self.state();
        if let Some(result) = &state.result {
            return result.clone();
        }
        // A fence in error says that something failed; what it was the callback knows.
        let info = || fenced.info.execution_info();
        let info = until.map_or_else(info, |until| bound::until(until, info));
        let result = match info {
            Ok(timing) => {
                state.timing = timing;
                signalled.map(drop).map_err(|error| Error::new(Code::OpFailed, error.to_string()))
            }
            Err(error) => Err(Error::from(self.ready.compilation.failed(error)).of_execution()),
        };
        if let Some(call) = &mut state.call {
            if result.is_ok() {
                call.copy_outputs();
            }
            // Optimistically noted at the launch, so that the next execution may be launched behind
            // this one.
            if let Err(error) = &result {
                let _ = call.note_contents(&self.ready, false);
                if error.code == Code::MissedDeadlineTransient {
                    call.abandon_memory();
                }
            }
            self.ready.finished(call);
        }
        state.result = Some(result.clone());
        result
    }

    fn land(
        &self,
        mut call: Box<Call>,
        outcome: std::result::Result<ExecutionOutcome, nnburst::RuntimeError>,
    ) {
        let result = call.settle(&self.ready, outcome);
        if result.is_ok() {
            call.copy_outputs();
        }
        self.arrive(call, result);
    }

    fn arrive(&self, mut call: Box<Call>, result: Result<()>) {
        self.ready.finished(&mut call);
        let mut state = self.state();
        state.call = Some(call);
        state.result = Some(result);
        drop(state);
        self.landed.notify_all();
    }
}

/// The error of who waits for an execution that is not over in time.
fn late() -> Error {
    Error::from(bound::missed("event"))
}

/// Lands a flight when the driver answers: at the first answer, whatever it says later.
pub(super) struct Told {
    flight: Arc<Flight>,
    call: Mutex<Option<Box<Call>>>,
}

impl Told {
    pub(super) fn new(flight: Arc<Flight>, call: Box<Call>) -> Arc<Self> {
        Arc::new(Self { flight, call: Mutex::new(Some(call)) })
    }
}

impl Told {
    /// Lands the flight before it was launched.
    pub(super) fn fail(&self, error: Error) {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(call) = call {
            let _ = call.note_contents(&self.flight.ready, false);
            self.flight.arrive(call, Err(error.of_execution()));
        }
    }
}

impl ExecutionCallback for Told {
    fn notify(&self, result: ExecutionResult) {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(call) = call {
            let compilation = &self.flight.ready.compilation;
            let outcome = result.map_err(|failure| compilation.failed(failure));
            self.flight.land(call, outcome);
        }
    }
}

/// A driver that forgets its callback has failed the execution: nobody waits for ever.
impl Drop for Told {
    fn drop(&mut self) {
        let call = self.call.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(call) = call {
            let error = nnburst::hal::HalError::failure("the driver never told how it ended");
            self.flight.land(call, Err(error.into()));
        }
    }
}
