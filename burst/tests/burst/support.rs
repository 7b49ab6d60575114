//! What the tests share.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nnburst_fmq::Descriptor;
use nnburst_hal::{
    Access, BurstCallback, BurstContext, BurstOptions, BurstTerms, ExecutionCallback,
    ExecutionOptions, ExecutionResult, FencedExecution, HalError, Memory, PreparedModel, Request,
    Result,
};

/// Memory that holds `bytes`.
pub(crate) fn memory(bytes: &[u8]) -> Memory {
    let memory = Memory::ashmem(bytes.len() as u64).unwrap();
    memory.map(Access::ReadWrite).unwrap().view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
    memory
}

/// What a memory holds.
pub(crate) fn bytes(memory: &Memory) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(memory.size()).unwrap()];
    memory.read_at(0, &mut out).unwrap();
    out
}

/// A driver that keeps the queues it is given, for the test to do with them what it likes.
#[derive(Default)]
pub(crate) struct Hooked {
    queues: Mutex<Option<[Descriptor; 2]>>,
    pub(crate) terms: BurstTerms,
}

struct Quiet(BurstTerms);

impl BurstContext for Quiet {
    fn free_memory(&self, _slot: i32) {}

    fn terms(&self) -> BurstTerms {
        self.0.clone()
    }
}

impl Hooked {
    pub(crate) fn take_queues(&self) -> [Descriptor; 2] {
        self.queues.lock().unwrap().take().unwrap()
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
        *self.queues.lock().unwrap() = Some([request_channel, result_channel]);
        Ok(Arc::new(Quiet(self.terms.clone())))
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
