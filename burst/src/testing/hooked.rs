//! A driver that does nothing by itself: the other end of a controller's queues, for a test to
//! play.

use std::sync::{Arc, Mutex, PoisonError};

use nnburst_fmq::Descriptor;
use nnburst_hal::{BurstCallback, BurstContext, BurstOptions, BurstTerms, PreparedModel, Result};

/// Methods that a [`PreparedModel`] has besides `configure_execution_burst` where it executes in
/// bursts alone.
#[macro_export]
macro_rules! bursts_alone {
    () => {
        fn execute_synchronously(
            &self,
            _: &nnburst_hal::Request,
            _: nnburst_hal::ExecutionOptions,
        ) -> nnburst_hal::ExecutionResult {
            Err(nnburst_hal::HalError::failure("bursts alone").into())
        }

        fn execute(
            &self,
            _: nnburst_hal::Request,
            _: nnburst_hal::ExecutionOptions,
            _: std::sync::Arc<dyn nnburst_hal::ExecutionCallback>,
        ) -> nnburst_hal::Result<()> {
            Err(nnburst_hal::HalError::failure("bursts alone"))
        }

        fn execute_fenced(
            &self,
            _: nnburst_hal::Request,
            _: Vec<std::os::fd::OwnedFd>,
            _: nnburst_hal::ExecutionOptions,
            _: Option<std::time::Duration>,
        ) -> nnburst_hal::Result<nnburst_hal::FencedExecution> {
            Err(nnburst_hal::HalError::failure("bursts alone"))
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    };
}

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
    crate::bursts_alone!();

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
}
