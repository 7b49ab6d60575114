//! A prepared model whose methods are closures of the test.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nnburst_fmq::Descriptor;

use crate::{
    BurstCallback, BurstContext, BurstOptions, ErrorStatus, ExecutionCallback, ExecutionOptions,
    ExecutionResult, FencedExecution, HalError, PreparedModel, Request, Result,
};

type Check = dyn Fn() -> Result<()> + Send + Sync;
type Execute = dyn Fn(&Request, ExecutionOptions) -> ExecutionResult + Send + Sync;
type ExecuteFenced = dyn Fn(Request, Vec<OwnedFd>, ExecutionOptions, Option<Duration>) -> Result<FencedExecution>
    + Send
    + Sync;
type OpenBurst = dyn Fn(Arc<dyn BurstCallback>, [Descriptor; 2], BurstOptions) -> Result<Arc<dyn BurstContext>>
    + Send
    + Sync;

/// A prepared model that a test scripts method by method.
///
/// A method without a script is passed on to the model that the mock stands before
/// ([`MockModel::over`]), and fails with `GENERAL_FAILURE` where there is none. Bursts are never
/// passed on: calls that go through one would miss the scripts.
#[derive(Clone, Default)]
pub struct MockModel {
    over: Option<Arc<dyn PreparedModel>>,
    check: Option<Arc<Check>>,
    execute: Option<Arc<Execute>>,
    execute_fenced: Option<Arc<ExecuteFenced>>,
    open_burst: Option<Arc<OpenBurst>>,
    has_threads: bool,
    waits_in_background: bool,
}

impl std::fmt::Debug for MockModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockModel").finish_non_exhaustive()
    }
}

fn not_scripted() -> HalError {
    HalError::failure("the test has no script for this call")
}

impl MockModel {
    /// A model whose every method fails until it is scripted.
    pub fn new() -> Self {
        Self::default()
    }

    /// A mock before a model, which has the methods that are not scripted. A driver that is handed
    /// the mock finds its own model behind it ([`PreparedModel::as_any`]).
    pub fn over(model: Arc<dyn PreparedModel>) -> Self {
        let waits_in_background = model.waits_in_background();
        Self { over: Some(model), waits_in_background, ..Self::default() }
    }

    /// Runs `check` before each execution of any kind, which fails where it does.
    #[must_use]
    pub fn checked(self, check: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self { check: Some(Arc::new(check)), ..self }
    }

    /// The body of synchronous executions, and of asynchronous ones.
    #[must_use]
    pub fn executing(
        self,
        execute: impl Fn(&Request, ExecutionOptions) -> ExecutionResult + Send + Sync + 'static,
    ) -> Self {
        Self { execute: Some(Arc::new(execute)), ..self }
    }

    /// Asynchronous executions run in threads of their own rather than in the call.
    #[must_use]
    pub fn with_threads(self) -> Self {
        Self { has_threads: true, ..self }
    }

    /// The body of fenced executions: request, fences to wait for, options, duration.
    #[must_use]
    pub fn executing_fenced(
        self,
        execute: impl Fn(
            Request,
            Vec<OwnedFd>,
            ExecutionOptions,
            Option<Duration>,
        ) -> Result<FencedExecution>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { execute_fenced: Some(Arc::new(execute)), ..self }
    }

    /// Fenced executions return while their fences are yet to signal.
    #[must_use]
    pub fn waiting_in_background(self) -> Self {
        Self { waits_in_background: true, ..self }
    }

    /// Opens bursts over a queue of requests and one of results.
    #[must_use]
    pub fn opening_bursts(
        self,
        open: impl Fn(
            Arc<dyn BurstCallback>,
            [Descriptor; 2],
            BurstOptions,
        ) -> Result<Arc<dyn BurstContext>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { open_burst: Some(Arc::new(open)), ..self }
    }

    fn check(&self) -> Result<()> {
        self.check.as_ref().map_or(Ok(()), |check| check())
    }

    fn behind(&self) -> Result<&dyn PreparedModel> {
        self.over.as_deref().ok_or_else(not_scripted)
    }
}

impl PreparedModel for MockModel {
    fn execute_synchronously(
        &self,
        request: &Request,
        options: ExecutionOptions,
    ) -> ExecutionResult {
        self.check()?;
        match &self.execute {
            Some(execute) => execute(request, options),
            None => self.behind()?.execute_synchronously(request, options),
        }
    }

    fn execute(
        &self,
        request: Request,
        options: ExecutionOptions,
        callback: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        if let Err(error) = self.check() {
            callback.notify(Err(error.clone().into()));
            return Err(error);
        }
        let this = self.clone();
        let run = move |request: &Request| match &this.execute {
            Some(execute) => execute(request, options),
            None => Err(not_scripted().into()),
        };
        match &self.over {
            Some(model) if self.execute.is_none() => {
                return model.execute(request, options, callback);
            }
            _ if self.has_threads => {
                std::thread::spawn(move || callback.notify(run(&request)));
                return Ok(());
            }
            _ => {}
        }
        let result = run(&request);
        let launched = match &result {
            Err(failure) if failure.error.status == ErrorStatus::InvalidArgument => {
                Err(failure.error.clone())
            }
            _ => Ok(()),
        };
        callback.notify(result);
        launched
    }

    fn execute_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        self.check()?;
        match &self.execute_fenced {
            Some(execute) => execute(request, wait_for, options, duration),
            None => self.behind()?.execute_fenced(request, wait_for, options, duration),
        }
    }

    fn waits_in_background(&self) -> bool {
        self.waits_in_background
    }

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        match &self.open_burst {
            Some(open) => open(callback, [request_channel, result_channel], options),
            None => Err(HalError::failure("the driver has no bursts")),
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self.over.as_deref().map_or(self, PreparedModel::as_any)
    }
}
