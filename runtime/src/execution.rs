//! Executions over the control connection: at once, in the background, and behind fences.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nnburst_hal::{
    ExecutionCallback, ExecutionOptions, ExecutionOutcome, ExecutionResult,
    FencedExecutionCallback, HalError, MeasureTiming, PreparedModel, Request, TimePoint, Timing,
    wait_for_fence,
};

use crate::compilation::Compilation;
use crate::error::{Result, RuntimeError};
use crate::frame::Frame;

/// How to execute: made by [`Compilation::execution`], used any number of times.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Execution<'a> {
    compilation: &'a Compilation,
    options: ExecutionOptions,
    timeout: Option<Duration>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(compilation: &'a Compilation) -> Self {
        Self { compilation, options: ExecutionOptions::default(), timeout: None }
    }

    /// Asks the driver to measure; see [`Frame::timing`].
    pub fn measure(mut self, yes: bool) -> Self {
        self.options.measure = if yes { MeasureTiming::Yes } else { MeasureTiming::No };
        self
    }

    /// How long each execution may take, from its start.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a WHILE may run.
    pub fn loop_timeout(mut self, timeout: Duration) -> Self {
        self.options.loop_timeout = Some(timeout);
        self
    }

    /// Executes and waits.
    ///
    /// # Errors
    /// What the driver answered; the frame's outputs are then undefined.
    pub fn compute(&self, frame: &mut Frame) -> Result<()> {
        let start = Instant::now();
        let outcome = self.compute_request(frame.request())?;
        frame.finish(outcome, start.elapsed())
    }

    /// Executes a request of the caller's making and waits.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn compute_request(&self, request: &Request) -> Result<ExecutionOutcome> {
        self.prepared()
            .execute_synchronously(request, self.options())
            .map_err(|failure| self.compilation.failed(failure))
    }

    /// Launches an execution in the background.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn start(&self, frame: Frame) -> Result<Event> {
        let pending = self.start_request(frame.request().clone())?;
        Ok(Event { frame, pending })
    }

    /// Launches an execution of a request of the caller's making in the background.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn start_request(&self, request: Request) -> Result<Pending> {
        let started = Instant::now();
        let (told, answer) = mpsc::sync_channel(1);
        let callback = Arc::new(Answer(Mutex::new(Some(told))));
        let compilation = self.compilation.clone();
        self.prepared()
            .execute(request, self.options(), callback)
            .map_err(|error| self.compilation.failed(error))?;
        Ok(Pending { started, compilation, kind: PendingKind::Callback(answer) })
    }

    /// Launches an execution that starts once every fence of `wait_for` has signalled.
    ///
    /// # Errors
    /// It could not be launched; fenced executions take outputs of known shape only.
    pub fn start_fenced(&self, frame: Frame, wait_for: Vec<OwnedFd>) -> Result<Event> {
        let pending = self.start_fenced_request(frame.request().clone(), wait_for, None)?;
        Ok(Event { frame, pending })
    }

    /// Launches a request of the caller's making once every fence of `wait_for` has signalled;
    /// `duration` is what it may take from there.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn start_fenced_request(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        duration: Option<Duration>,
    ) -> Result<Pending> {
        let started = Instant::now();
        let compilation = self.compilation.clone();
        let fenced = self
            .prepared()
            .execute_fenced(request, wait_for, self.options(), duration)
            .map_err(|error| self.compilation.failed(error))?;
        Ok(Pending {
            started,
            compilation,
            kind: PendingKind::Fence { fence: fenced.sync_fence, info: fenced.callback },
        })
    }

    /// The options of an execution that starts now.
    pub fn options(&self) -> ExecutionOptions {
        ExecutionOptions { deadline: self.timeout.map(TimePoint::after), ..self.options }
    }

    fn prepared(&self) -> &dyn PreparedModel {
        self.compilation.prepared().as_ref()
    }
}

/// An execution of a frame in the background.
#[derive(Debug)]
#[must_use = "the frame comes back from `wait`"]
pub struct Event {
    frame: Frame,
    pending: Pending,
}

impl Event {
    /// Waits for the end; the frame comes back however that was.
    pub fn wait(self) -> (Frame, Result<()>) {
        let Self { mut frame, pending } = self;
        let started = pending.started;
        let result = pending.wait().and_then(|outcome| frame.finish(outcome, started.elapsed()));
        (frame, result)
    }

    /// The fence that signals the end, where the execution has one and is not over yet.
    pub fn fence(&self) -> Option<BorrowedFd<'_>> {
        self.pending.fence()
    }
}

/// An execution of a request in the background.
#[derive(Debug)]
#[must_use = "an execution that nobody waits for can't say how it went"]
pub struct Pending {
    started: Instant,
    compilation: Compilation,
    kind: PendingKind,
}

enum PendingKind {
    Callback(mpsc::Receiver<ExecutionResult>),
    Fence { fence: Option<OwnedFd>, info: Arc<dyn FencedExecutionCallback> },
}

impl std::fmt::Debug for PendingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Callback(_) => "Callback",
            Self::Fence { .. } => "Fence",
        })
    }
}

impl Pending {
    /// Waits for the end. A fenced execution tells no shapes: its outputs have those of the model.
    ///
    /// # Errors
    /// How the execution failed.
    pub fn wait(self) -> Result<ExecutionOutcome> {
        let Self { compilation, kind, .. } = self;
        match kind {
            PendingKind::Callback(answer) => answer
                .recv()
                .map_err(|_| driver_went_away())?
                .map_err(|failure| compilation.failed(failure)),
            PendingKind::Fence { fence, info } => {
                let signalled = fence.map(|fence| wait_for_fence(fence.as_fd(), None));
                // A fence in error says that something failed; what it was the callback knows.
                let timing = info.execution_info().map_err(|error| compilation.failed(error))?;
                signalled.transpose()?;
                Ok(ExecutionOutcome { output_shapes: Vec::new(), timing: timing.launched })
            }
        }
    }

    /// The fence that signals the end, where the execution has one and is not over yet.
    pub fn fence(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            PendingKind::Fence { fence, .. } => fence.as_ref().map(AsFd::as_fd),
            PendingKind::Callback(_) => None,
        }
    }
}

/// Passes the first answer on; repeats find nobody listening.
struct Answer(Mutex<Option<mpsc::SyncSender<ExecutionResult>>>);

impl ExecutionCallback for Answer {
    fn notify(&self, result: ExecutionResult) {
        if let Some(told) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Nobody waits any more: then nobody wants to know.
            let _ = told.send(result);
        }
    }
}

fn driver_went_away() -> RuntimeError {
    RuntimeError::DeviceDied(HalError::unavailable(
        "the driver went away without telling how the execution ended",
    ))
}

/// What the driver measured, in the units of `Duration`; `None` where it didn't.
pub fn time_in_driver(timing: Timing) -> Option<Duration> {
    (timing.time_in_driver != u64::MAX).then(|| Duration::from_micros(timing.time_in_driver))
}
