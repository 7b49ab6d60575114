//! Helpers of the tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nnburst_burst::bursts_alone;
use nnburst_burst::testing::AddOne;
use nnburst_fmq::Descriptor;
use nnburst_hal::{
    Access, BurstCallback, BurstContext, BurstOptions, Memory, PreparedModel, Result,
};

/// A guard against a hang, never a measure of speed.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// Memory that holds `bytes`.
pub(crate) fn memory(bytes: &[u8]) -> Memory {
    let memory = Memory::ashmem(bytes.len() as u64).unwrap();
    memory.map(Access::ReadWrite).unwrap().view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
    memory
}

/// The content of a memory.
pub(crate) fn bytes(memory: &Memory) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(memory.size()).unwrap()];
    memory.read_at(0, &mut out).unwrap();
    out
}

/// A model that shows the driver's end of its last burst.
pub(crate) struct Spy {
    model: Arc<AddOne>,
    context: Mutex<Option<Arc<dyn BurstContext>>>,
}

impl Spy {
    pub(crate) fn on(model: Arc<AddOne>) -> Self {
        Self { model, context: Mutex::default() }
    }

    pub(crate) fn context(&self) -> Arc<dyn BurstContext> {
        self.context.lock().unwrap().clone().unwrap()
    }
}

impl PreparedModel for Spy {
    bursts_alone!();

    fn configure_execution_burst(
        &self,
        callback: Arc<dyn BurstCallback>,
        request_channel: Descriptor,
        result_channel: Descriptor,
        options: BurstOptions,
    ) -> Result<Arc<dyn BurstContext>> {
        let opened = self.model.configure_execution_burst(
            callback,
            request_channel,
            result_channel,
            options,
        )?;
        *self.context.lock().unwrap() = Some(Arc::clone(&opened));
        Ok(opened)
    }
}
