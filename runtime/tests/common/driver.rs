//! The driver `nnapi-sample_all` in a process of its own, which is the test's binary once more.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use nnburst::hal::PrepareOptions;
use nnburst::{Compilation, Device, DriverOptions, builtin};
use nnburst_hal::testing::{continue_process, stop_process};
use nnburst_hal_ipc::{ProcessLimits, RemoteDevice};

const SERVES: &str = "NNBURST_TEST_SERVES";
/// Bytes that a file of the driver's may have.
pub const FILE_SIZE: &str = "NNBURST_TEST_FILE_SIZE";
/// Threads of all clients of the driver together.
pub const THREADS: &str = "NNBURST_TEST_THREADS";

/// Serves, if this process was started to: for a test called `child_main`.
pub fn serve_if_asked() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    if let Some(threads) = std::env::var(THREADS).ok().and_then(|value| value.parse().ok()) {
        let mut limits = ProcessLimits::of_machine();
        limits.threads = threads;
        assert!(limits.apply());
    }
    if let Some(current) = std::env::var(FILE_SIZE).ok().and_then(|value| value.parse().ok()) {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
        setrlimit(Resource::RLIMIT_FSIZE, current, most).unwrap();
    }
    nnburst::serve_inherited("nnapi-sample_all", 0, &DriverOptions::default()).unwrap();
}

/// A driver in a process of its own, ended when dropped.
pub struct Driver {
    child: Child,
    pub device: Device,
}

impl Driver {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With variables of its own.
    pub fn start_with(variables: &[(&str, &str)]) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["child_main", "--exact", "--nocapture"])
            .env(SERVES, "1")
            .envs(variables.iter().copied())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let remote = RemoteDevice::from_socket(ours.into()).unwrap();
        Self { child, device: Device::from_hal("served", Arc::new(remote)) }
    }

    pub fn stop(&self) {
        stop_process(self.child.id()).unwrap();
    }

    pub fn go_on(&self) {
        continue_process(self.child.id()).unwrap();
    }

    pub fn compile(&self) -> Compilation {
        let model = builtin::model("add1").unwrap();
        self.device.compile(&model, PrepareOptions::default()).unwrap()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}
