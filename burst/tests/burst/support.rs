//! Helpers of the tests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nnburst_burst::testing::AddOne;
use nnburst_hal::testing::MockModel;
use nnburst_hal::{Access, BurstContext, Memory, PreparedModel};

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

/// The driver's end of a burst, once one was opened.
pub(crate) type OpenedBurst = Arc<Mutex<Option<Arc<dyn BurstContext>>>>;

/// A model before `model`, and the driver's end of its last burst.
pub(crate) fn spied(model: Arc<AddOne>) -> (MockModel, OpenedBurst) {
    let opened = OpenedBurst::default();
    let context = Arc::clone(&opened);
    let spied = MockModel::new().opening_bursts(move |callback, [requests, results], options| {
        let burst = model.configure_execution_burst(callback, requests, results, options)?;
        *context.lock().unwrap() = Some(Arc::clone(&burst));
        Ok(burst)
    });
    (spied, opened)
}
