//! Models, requests and ways to a driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first bytes of a client, without a library.
pub(crate) const GREETING: [u8; 16] = {
    let [a, b, c, d] = PROTOCOL_VERSION.to_le_bytes();
    [b'N', b'N', b'B', b'U', b'R', b'S', b'T', 0, a, b, c, d, 0, 0, 0, 0]
};

pub(crate) use nnburst_driver::CPU;
use nnburst_driver::{CpuDriver, CpuDriverOptions, Personality, uniform_capabilities};
pub(crate) use nnburst_hal::testing::{
    add_one, add_one_to, argument, as_floats, floats, memory, one_operation as model, relu,
    request, tell, tensor,
};
use nnburst_hal::*;
use nnburst_hal_ipc::{PROTOCOL_VERSION, RemoteDevice, Serving};

/// How long anything may take before a test counts it as hung.
pub(crate) const HUNG: Duration = Duration::from_secs(60);

/// A driver served in this process, and its device on the other side of the socket.
pub(crate) struct Served {
    pub(crate) device: RemoteDevice,
    serving: Serving,
    _dir: tempfile::TempDir,
}

impl Served {
    /// The driver's socket.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.serving.path()
    }
}

pub(crate) fn served(name: &'static str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let serving = driver(name).service().listen(dir.path()).unwrap();
    let device = RemoteDevice::connect_path(&serving.path()).unwrap();
    Served { device, serving, _dir: dir }
}

/// The driver, or one that differs from it in its name alone.
pub(crate) fn driver(name: &'static str) -> CpuDriver {
    #[derive(Debug)]
    struct Named(&'static str);
    impl Personality for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn capabilities(&self) -> Capabilities {
            uniform_capabilities(PerformanceInfo { exec_time: 1.0, power_usage: 1.0 })
        }

        fn takes(&self, _: &Operation, _: &Subgraph, _: &Model) -> bool {
            true
        }
    }
    match name {
        CPU => CpuDriver::new(CpuDriverOptions::default()),
        name => CpuDriver::with_personality(Arc::new(Named(name)), CpuDriverOptions::default()),
    }
}

pub(crate) fn prepare(device: &dyn Device, model: Model) -> Result<Arc<dyn PreparedModel>> {
    prepare_with(device, model, PrepareOptions::default())
}

pub(crate) fn prepare_with(
    device: &dyn Device,
    model: Model,
    options: PrepareOptions,
) -> Result<Arc<dyn PreparedModel>> {
    wait_for_prepared_model(|callback| {
        device.prepare_model(model, options, CacheHandles::default(), callback)
    })
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HUNG, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Executes by the callback.
pub(crate) fn execute_async(
    model: &dyn PreparedModel,
    request: &Request,
    options: ExecutionOptions,
) -> ExecutionResult {
    let (callback, words) = tell();
    let launched = model.execute(request.clone(), options, callback);
    let word: ExecutionResult = words.recv_timeout(HUNG).unwrap();
    if let Err(error) = launched {
        assert_eq!(word.as_ref().unwrap_err().error, error, "launch and callback say the same");
    }
    assert!(words.recv_timeout(HUNG).is_err(), "the callback is dropped after one word");
    word
}

/// Waits for a fence; true if it signalled, false if it is in error.
pub(crate) fn wait(fence: &std::os::fd::OwnedFd) -> bool {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(fence.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::NONE).unwrap();
    fds[0].revents().unwrap().contains(PollFlags::POLLIN)
}

/// Executes behind no fence.
pub(crate) fn execute_fenced(
    model: &dyn PreparedModel,
    request: &Request,
    options: ExecutionOptions,
) -> Result<FencedTiming> {
    let fenced = model.execute_fenced(request.clone(), Vec::new(), options, None)?;
    let signalled = fenced.sync_fence.is_none_or(|fence| wait(&fence));
    let info = fenced.callback.execution_info();
    assert_eq!(info.is_ok(), signalled, "fence and callback say the same");
    info
}
