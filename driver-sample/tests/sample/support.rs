//! Models, requests and ways to a sample driver.

use std::sync::Arc;
use std::time::Duration;

use nnburst_driver::{CpuDriver, CpuDriverOptions};
use nnburst_driver_sample::sample_driver;
pub(crate) use nnburst_hal::testing::{
    add_one, as_floats, memory, one_operation as model, relu, request, tell,
};
use nnburst_hal::*;
use nnburst_hal_ipc::{RemoteDevice, Serving};

/// How long anything may take before a test counts it as hung.
pub(crate) const HUNG: Duration = Duration::from_secs(60);

/// A driver served in this process, and its device on the other side of the socket.
pub(crate) struct Served {
    pub(crate) device: RemoteDevice,
    _serving: Serving,
    _dir: tempfile::TempDir,
}

pub(crate) fn served(name: &str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let serving = driver(name).service().listen(dir.path()).unwrap();
    let device = RemoteDevice::connect_path(&serving.path()).unwrap();
    Served { device, _serving: serving, _dir: dir }
}

pub(crate) fn driver(name: &str) -> CpuDriver {
    sample_driver(name, CpuDriverOptions::default()).unwrap()
}

pub(crate) fn prepare(device: &dyn Device, model: Model) -> Result<Arc<dyn PreparedModel>> {
    wait_for_prepared_model(|callback| {
        device.prepare_model(model, PrepareOptions::default(), CacheHandles::default(), callback)
    })
}
