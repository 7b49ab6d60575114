//! Executions that are underway after the call that launched them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nnburst::hal::process::{self, PerProcess};
use nnburst::hal::{
    ExecutionCallback, ExecutionOutcome, ExecutionResult, FenceSignal, FencedExecution,
    FencedExecutionCallback, FencedTiming, HalError, TimePoint, bound, wait_for_fence,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::call::Call;
use crate::compilation::Ready;
use crate::diagnostic::{self, DiagnosticMode};
use crate::error::{Code, Error, Result};

/// An execution that is underway, or was: its execution object and its event share it.
#[derive(Debug)]
pub(crate) struct Flight {
    ready: Arc<Ready>,
    state: Mutex<State>,
    landed: Condvar,
    fenced: Option<Fenced>,
    /// When it began, where call-backs may ask.
    begun: Option<Instant>,
}

/// The additional state of a fenced execution.
#[derive(Debug)]
struct Fenced {
    end: Mutex<End>,
    /// When the end is there at the latest.
    until: Option<TimePoint>,
}

/// The end of a fenced execution.
#[derive(Clone)]
struct End {
    /// Signals it; nothing where it was over when the launch returned.
    fence: Option<Arc<OwnedFd>>,
    /// Knows how it went; given up once that was asked, as the service counts it.
    info: Option<Arc<dyn FencedExecutionCallback>>,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("End").field("fence", &self.fence).finish_non_exhaustive()
    }
}

impl Fenced {
    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up what an execution that is over needs no more, so that it may stay unfreed at no
    /// cost: one fence for all of those that went well.
    fn settled(&self, went_well: bool) {
        let mut end = self.end();
        end.info = None;
        if went_well && end.fence.is_some() {
            // Without another descriptor it keeps its own.
            end.fence = signalled().or_else(|| end.fence.take());
        }
    }
}

/// This process's fence that has signalled: readable however often it is read.
fn signalled() -> Option<Arc<OwnedFd>> {
    static FENCE: PerProcess<Option<Arc<OwnedFd>>> = PerProcess::new();
    let mut fence = FENCE.get().lock().unwrap_or_else(PoisonError::into_inner);
    if fence.is_none() {
        // As a semaphore: each read takes 1.
        let flags = EfdFlags::EFD_SEMAPHORE | EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let made = EventFd::from_value_and_flags(u32::MAX, flags);
        *fence = made.ok().map(|made| Arc::new(made.into()));
    }
    fence.clone()
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
    pub(super) fn new(ready: Arc<Ready>, begun: Option<Instant>) -> Arc<Self> {
        Arc::new(Self::with(ready, None, None, begun))
    }

    /// A fenced one.
    pub(super) fn fenced(
        ready: Arc<Ready>,
        call: Box<Call>,
        launched: FencedExecution,
        begun: Option<Instant>,
    ) -> Arc<Self> {
        let until = call.deadline.map(bound::answered_by);
        let FencedExecution { sync_fence, callback } = launched;
        let end = End { fence: sync_fence.map(Arc::new), info: Some(callback) };
        let fenced = Fenced { end: Mutex::new(end), until };
        Arc::new(Self::with(ready, Some(call), Some(fenced), begun))
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
        begun: Option<Instant>,
    ) -> Result<Arc<Self>> {
        let FencedExecution { sync_fence, callback } = launched;
        let Some(driver_fence) = sync_fence else {
            let launched = FencedExecution { sync_fence, callback };
            return Ok(Self::fenced(ready, call, launched, begun));
        };
        let (fence, signal) = FenceSignal::new().map_err(nnburst::RuntimeError::from)?;
        let launched = FencedExecution { sync_fence: Some(fence), callback };
        let flight = Self::fenced(ready, call, launched, begun);
        let landing = Arc::clone(&flight);
        let task = move || {
            // What has settled gives its fence up, for which somebody may be waiting.
            let _kept = landing.fence();
            // Without a signal the fence turns to error.
            if landing.settle_behind(Some(&driver_fence)).is_ok() {
                signal.signal();
            }
        };
        let started = process::spawn("nnburst-outputs", task);
        started.map_err(|error| {
            let why = format!("no thread for the outputs of the execution: {error}");
            Error::new(Code::ResourceExhaustedTransient, why)
        })?;
        Ok(flight)
    }

    fn with(
        ready: Arc<Ready>,
        call: Option<Box<Call>>,
        fenced: Option<Fenced>,
        begun: Option<Instant>,
    ) -> Self {
        let state = State { call, result: None, timing: FencedTiming::default() };
        Self { ready, state: Mutex::new(state), landed: Condvar::new(), fenced, begun }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fence that signals the end, where there is one.
    pub(crate) fn fence(&self) -> Option<Arc<OwnedFd>> {
        self.fenced.as_ref()?.end().fence.clone()
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
            let is_over = self
                .fence()
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
        let fence = fenced.end().fence.clone();
        self.settle_behind(fence.as_deref())
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
        let gone = || HalError::failure("the result of the execution was given up");
        let end = fenced.end().clone();
        let info = || end.info.as_ref().ok_or_else(gone)?.execution_info();
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
        let timing = state.timing.fenced;
        drop(state);
        fenced.settled(result.is_ok());
        diagnostic::executed(
            self.ready.facts.as_ref(),
            self.begun,
            DiagnosticMode::Fenced,
            timing,
            &result,
        );
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
        diagnostic::executed(
            self.ready.facts.as_ref(),
            self.begun,
            DiagnosticMode::Async,
            call.timing,
            &result,
        );
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
            let error = HalError::failure("the driver never reported how the execution ended");
            self.flight.land(call, Err(error.into()));
        }
    }
}
