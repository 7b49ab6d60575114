//! A driver that does nothing by itself: the other end of a controller's queues, for a test to play.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nnburst_fmq::Descriptor;
use nnburst_hal::{
    BurstCallback, BurstContext, BurstOptions, BurstTerms, ExecutionCallback, ExecutionOptions,
    ExecutionResult, FencedExecution, HalError, PreparedModel, Request, Result,
};

/// A driver that keeps the queues it is given, for the test to do with them what it likes.
#[derive(Debug, Default)]
pub struct Hooked {
    queues: Mutex<Option<[Descriptor; 2]>>,
    terms: BurstTerms,
}

struct Quiet(BurstTerms);

impl BurstContext for Quiet {
    fn free_memory(&self, _slot: i32) {}

    fn terms(&self) -> BurstTerms {
        self.0.clone()
    }
}

impl Hooked {
    /// A driver that agrees to `terms`.
    pub fn with(terms: BurstTerms) -> Self {
        Self { queues: Mutex::default(), terms }
    }

    /// The request queue and the result queue of the last burst that was opened, once.
    pub fn take_queues(&self) -> Option<[Descriptor; 2]> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl PreparedModel for Hooked {
    fn execute_synchronously(&self, _: &Request, _: ExecutionOptions) -> ExecutionResult {
        Err(HalError::failure("bursts alone").into())
    }

    fn execute(
        &self,
        _: Request,
        _: ExecutionOptions,
        _: Arc<dyn ExecutionCallback>,
    ) -> Result<()> {
        Err(HalError::failure("bursts alone"))
    }

    fn execute_fenced(
        &self,
        _: Request,
        _: Vec<OwnedFd>,
        _: ExecutionOptions,
        _: Option<Duration>,
    ) -> Result<FencedExecution> {
        Err(HalError::failure("bursts alone"))
    }

    fn configure_execution_burst(
        &self,
        _callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        _options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        let queues = Some([request_channel, result_channel]);
        *self.queues.lock().unwrap_or_else(PoisonError::into_inner) = queues;
        Ok(Arc::new(Quiet(self.terms.clone())))
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
