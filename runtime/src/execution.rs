//! Executions over the control connection: at once, in the background, and behind fences.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_hal::{
    ExecutionOptions, ExecutionOutcome, FencedExecutionCallback, Layer, MeasureTiming, Phase,
    PreparedModel, Request, TimePoint, bound, trace_span, vlog, wait_for_driver,
};

use crate::answer::{Answer, call_in_turn};
use crate::compilation::Compilation;
use crate::error::{Result, RuntimeError};
use crate::frame::Frame;
use crate::settings::Settings;

/// The options of an execution: made by [`Compilation::execution`], used any number of times.
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

    /// Limits the time of each execution, from its start.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// These options, the deadline among them.
    pub(crate) fn with(mut self, options: ExecutionOptions) -> Self {
        (self.options, self.timeout) = (options, None);
        self
    }

    /// Limits the time that a WHILE may run.
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
        frame.gather()?;
        if Settings::of_process().synchronous_drivers {
            let _span = trace_span(Layer::Runtime, Phase::Execution, "compute");
            self.log("compute");
            if let Some(computed) = frame.compute_here(self.compilation.prepared(), &self.options())
            {
                computed.map_err(|failure| self.compilation.failed(failure))?;
                self.compilation.check_shapes(frame.output_shapes())?;
                return frame.computed_here(start.elapsed());
            }
        }
        let outcome = self.compute_request(frame.request())?;
        frame.finish(outcome, start.elapsed())
    }

    /// Executes a request of the caller's making and waits.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn compute_request(&self, request: &Request) -> Result<ExecutionOutcome> {
        let _span = trace_span(Layer::Runtime, Phase::Execution, "compute");
        self.log("compute");
        let prepared = self.compilation.prepared();
        self.compilation.answer(call_in_turn(prepared, request, self.options()))
    }

    /// Launches an execution in the background.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn start(&self, frame: Frame) -> Result<Event> {
        self.try_start(frame).map_err(|(_, error)| error)
    }

    /// As [`Execution::start`], with the frame handed back where it could not be launched.
    pub(crate) fn try_start(
        &self,
        frame: Frame,
    ) -> std::result::Result<Event, (Frame, RuntimeError)> {
        let launched = frame.gather().and_then(|()| self.start_request(frame.request().clone()));
        match launched {
            Ok(pending) => Ok(Event { frame, pending }),
            Err(error) => Err((frame, error)),
        }
    }

    /// Launches an execution of a request of the caller's making in the background.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn start_request(&self, request: Request) -> Result<Pending> {
        let _span = trace_span(Layer::Runtime, Phase::Execution, "start");
        self.log("start");
        let started = Instant::now();
        let answer = Answer::default();
        let compilation = self.compilation.clone();
        if Settings::of_process().synchronous_runtime {
            let prepared = self.compilation.prepared();
            answer.tell(call_in_turn(prepared, &request, self.options()));
        } else {
            self.prepared()
                .execute(request, self.options(), answer.callback())
                .map_err(|error| self.compilation.failed(error))?;
        }
        Ok(Pending { started, compilation, kind: PendingKind::Callback(answer) })
    }

    /// Launches an execution that starts once every fence of `wait_for` has signalled; the call
    /// returns before that.
    ///
    /// # Errors
    /// It could not be launched; fenced executions take outputs of known shape only, and frames
    /// with padded rows only if they wait for nothing.
    pub fn start_fenced(&self, frame: Frame, wait_for: Vec<OwnedFd>) -> Result<Event> {
        if frame.has_padded_rows() && !wait_for.is_empty() {
            let why = "a frame with padded rows, which are copied first, can't wait for fences";
            return Err(RuntimeError::Argument(why.into()));
        }
        frame.gather()?;
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
        let _span = trace_span(Layer::Runtime, Phase::Execution, "start fenced");
        self.log("start fenced");
        let started = Instant::now();
        let compilation = self.compilation.clone();
        let options = self.options();
        let deadline = options.deadline;
        let fenced = self.compilation.launch_fenced(request, wait_for, options, duration)?;
        Ok(Pending {
            started,
            compilation,
            kind: PendingKind::Fence { fence: fenced.sync_fence, info: fenced.callback, deadline },
        })
    }

    /// The options of an execution that starts now.
    pub fn options(&self) -> ExecutionOptions {
        let deadline = self.timeout.map(TimePoint::after).or(self.options.deadline);
        let deadline = bound::earlier(deadline, bound::bound());
        ExecutionOptions { deadline, ..self.options }
    }

    fn log(&self, what: &str) {
        vlog!(Execution, "{what} on {}", self.compilation.first_device());
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

    /// Waits for the end, until `deadline` at most; returns whether it has come. Then
    /// [`Event::wait`] returns at once.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.pending.wait_until(deadline)
    }

    /// Returns whether the end has come; if not, `waker` is woken when it has. For executions
    /// without fences; others are waited for.
    #[cfg(feature = "futures")]
    pub(crate) fn is_over(&self, waker: &std::task::Waker) -> bool {
        match &self.pending.kind {
            PendingKind::Callback(answer) => answer.is_there(waker),
            PendingKind::Fence { .. } => true,
        }
    }

    /// The fence that signals the end, where the execution has one and is not over yet.
    pub fn fence(&self) -> Option<BorrowedFd<'_>> {
        self.pending.fence()
    }

    /// The two halves, for whoever waits in a way of their own.
    #[cfg(feature = "futures")]
    pub(crate) fn into_parts(self) -> (Frame, Pending) {
        (self.frame, self.pending)
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

/// The end of an execution in the background.
#[cfg(feature = "futures")]
pub(crate) enum Ending {
    Answer(Answer),
    /// The fence, and whom to ask whether its driver is there.
    Fence(OwnedFd, Arc<dyn FencedExecutionCallback>),
    /// It is over already.
    Now,
}

enum PendingKind {
    Callback(Answer),
    Fence {
        fence: Option<OwnedFd>,
        info: Arc<dyn FencedExecutionCallback>,
        /// When the execution is over at the latest.
        deadline: Option<TimePoint>,
    },
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
    /// Returns the event to wait for, so that it can wake a task.
    #[cfg(feature = "futures")]
    pub(crate) fn ending(&self) -> Result<Ending> {
        Ok(match &self.kind {
            PendingKind::Callback(answer) => Ending::Answer(answer.clone()),
            PendingKind::Fence { fence: Some(fence), info, .. } => {
                let again = fence.try_clone().map_err(|error| {
                    nnburst_hal::HalError::failure(format!("duplicating a fence: {error}"))
                })?;
                Ending::Fence(again, Arc::clone(info))
            }
            PendingKind::Fence { fence: None, .. } => Ending::Now,
        })
    }

    /// When the execution was launched.
    #[cfg(feature = "futures")]
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Waits for the end. A fenced execution tells no shapes: its outputs have those of the model.
    ///
    /// # Errors
    /// How the execution failed.
    pub fn wait(self) -> Result<ExecutionOutcome> {
        let Self { compilation, kind, .. } = self;
        match kind {
            PendingKind::Callback(answer) => compilation.answer(answer.wait()),
            PendingKind::Fence { fence, info, deadline } => {
                let until = bound::earlier(deadline.map(bound::answered_by), bound::bound());
                let left = || until.map(TimePoint::remaining);
                let signalled =
                    fence.map(|fence| wait_for_driver(fence.as_fd(), left(), info.as_ref()));
                if matches!(signalled, Some(Ok(false))) {
                    return Err(bound::missed("fenced execution").into());
                }
                // A fence in error says that something failed; what it was the callback knows.
                let info = || info.execution_info();
                let timing = match until {
                    Some(until) => bound::until(until, info),
                    None => info(),
                };
                let timing = timing.map_err(|error| compilation.failed(error))?;
                signalled.transpose()?;
                Ok(ExecutionOutcome { output_shapes: Vec::new(), timing: timing.launched })
            }
        }
    }

    /// Waits for the end, until `deadline` at most; returns whether it has come. Then
    /// [`Pending::wait`] returns at once.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        match &self.kind {
            PendingKind::Callback(answer) => answer.wait_until(deadline),
            PendingKind::Fence { fence: None, .. } => true,
            PendingKind::Fence { fence: Some(fence), info, .. } => {
                let left = deadline.saturating_duration_since(Instant::now());
                // A fence in error, or a driver that is gone, is an end as well.
                !matches!(wait_for_driver(fence.as_fd(), Some(left), info.as_ref()), Ok(false))
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
