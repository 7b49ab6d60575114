//! Death on either side, with real processes: the test binary starts itself again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test that stumbles fails"
)]

mod common;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use nnburst_hal::testing::stop_process;
use nnburst_hal::*;
use nnburst_hal_ipc::{RemoteDevice, ServiceLimits, Spawned, inherited};

const ROLE: &str = "NNBURST_TEST_ROLE";
const DIR: &str = "NNBURST_SERVICE_DIR";

/// What the test binary does when it is started by one of the tests below.
#[test]
fn child_main() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (service, _) = service(ServiceLimits::default());
    match role.as_str() {
        "inherited" => service.serve(inherited(0).unwrap()),
        "listening" => {
            let _serving = service.listen(&nnburst_hal_ipc::service_dir().unwrap()).unwrap();
            std::thread::sleep(HUNG * 10);
        }
        "client" => {
            let device = RemoteDevice::connect("add-one").unwrap();
            let models: Vec<_> = (0..5).map(|_| prepare(&device, model()).unwrap()).collect();
            let (input, output) = (memory(&[255]), memory(&[0]));
            std::fs::write(nnburst_hal_ipc::service_dir().unwrap().join("ready"), "").unwrap();
            let _ = models[0]
                .execute_synchronously(&request(&input, &output), ExecutionOptions::default());
        }
        other => panic!("no role {other}"),
    }
}

fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_main", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Killed and reaped when dropped.
struct Killed(Child);

impl Killed {
    fn now(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(role: &str, dir: &Path) -> Killed {
    Killed(command(role).env(DIR, dir).spawn().unwrap())
}

fn count(pid: u32, what: &str) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count)
}

fn connect(dir: &Path) -> RemoteDevice {
    let mut device = None;
    eventually("the service listens", || {
        device = RemoteDevice::connect_path(&dir.join("add-one.sock")).ok();
        device.is_some()
    });
    device.unwrap()
}

#[test]
fn a_spawned_driver_serves_and_is_gone_when_dropped() {
    let spawned = Spawned::start(&mut command("inherited")).unwrap();
    let model = prepare(spawned.device(), model()).unwrap();
    assert_eq!(run(model.as_ref(), &[1, 2]), [2, 3]);
    let pid = spawned.id();
    drop(spawned);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "killed and reaped");
    let failure = model.execute_synchronously(&Request::default(), ExecutionOptions::default());
    assert_eq!(failure.unwrap_err().error.status, ErrorStatus::DeviceUnavailable);
}

#[test]
fn a_program_that_serves_nothing_is_named_with_how_it_ended() {
    let error = Spawned::start(&mut Command::new("/bin/false")).unwrap_err().to_string();
    assert!(error.contains("/bin/false ended before it served (exit status: 1)"), "{error}");
}

#[test]
fn a_spawned_driver_ends_by_itself_when_its_client_hangs_up() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = command("inherited");
    let mut child = Killed(command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn().unwrap());
    drop(command);
    let device = RemoteDevice::from_socket(ours.into()).unwrap();
    device.status().unwrap();
    drop(device);
    eventually("the child ends", || child.0.try_wait().unwrap().is_some());
}

#[test]
fn a_killed_driver_fails_every_call_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = start("listening", dir.path());
    let device = connect(dir.path());
    let model = prepare(&device, model()).unwrap();
    let (callback, words) = tell();
    let (input, output) = (memory(&[255]), memory(&[0]));
    let endless = request(&input, &output);
    model.execute(endless.clone(), ExecutionOptions::default(), callback).unwrap();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    model.execute_synchronously(&endless, ExecutionOptions::default()).unwrap_err()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(50));
        driver.now();
        let killed = Instant::now();
        for call in waiting {
            let failure = call.join().unwrap();
            assert_eq!(failure.error.status, ErrorStatus::DeviceUnavailable, "{failure}");
        }
        assert!(killed.elapsed() < HUNG);
    });
    let word = words.recv_timeout(HUNG).unwrap().unwrap_err();
    assert_eq!(word.error.status, ErrorStatus::DeviceUnavailable);
    assert_eq!(device.status().unwrap_err().status, ErrorStatus::DeviceUnavailable);

    // A new driver takes the dead one's socket over, and the device finds it.
    let _driver = start("listening", dir.path());
    eventually("the device is back", || device.status().is_ok());
    assert_eq!(run(prepare(&device, common::model()).unwrap().as_ref(), &[7]), [8]);
}

#[test]
fn a_killed_client_leaves_nothing_in_the_driver() {
    let dir = tempfile::tempdir().unwrap();
    let driver = start("listening", dir.path());
    let device = connect(dir.path());
    let pid = driver.0.id();
    let model = prepare(&device, model()).unwrap();
    run(model.as_ref(), &[1]);
    // The call before may still be letting go of its descriptors.
    let mut fds = count(pid, "fd");
    eventually("the driver is at rest", || {
        std::thread::sleep(Duration::from_millis(20));
        let before = std::mem::replace(&mut fds, count(pid, "fd"));
        before == fds
    });
    let mut client = start("client", dir.path());
    eventually("the client is at work", || dir.path().join("ready").exists());
    eventually("the driver serves it", || count(pid, "fd") > fds);
    client.now();
    eventually("its descriptors are gone", || count(pid, "fd") <= fds);
    assert_eq!(run(model.as_ref(), &[1]), [2], "the driver serves others");
}

#[test]
fn a_stopped_driver_is_lost_to_every_call() {
    let dir = tempfile::tempdir().unwrap();
    let driver = start("listening", dir.path());
    let device = connect(dir.path());
    let model = prepare(&device, model()).unwrap();
    let (input, output) = (memory(&[255]), memory(&[0]));
    let (callback, words) = tell();
    model.execute(request(&input, &output), ExecutionOptions::default(), callback).unwrap();
    stop_process(driver.0.id()).unwrap();
    let failure = model
        .execute_synchronously(&request(&input, &output), ExecutionOptions::default())
        .unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::DeviceUnavailable, "{}", failure.error);
    // Also whoever waits for a callback, and whoever comes anew.
    let word: ExecutionResult = words.recv_timeout(HUNG * 6).unwrap();
    assert_eq!(word.unwrap_err().error.status, ErrorStatus::DeviceUnavailable);
    assert!(device.lost().is_some());
    device.status().unwrap_err();
    RemoteDevice::connect_path(&dir.path().join("add-one.sock")).unwrap_err();
}

#[test]
fn a_driver_that_computes_for_long_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let _driver = start("listening", dir.path());
    let device = connect(dir.path());
    let model = prepare(&device, model()).unwrap();
    let (input, output) = (memory(&[255]), memory(&[0]));
    let (callback, words) = tell();
    model.execute(request(&input, &output), ExecutionOptions::default(), callback).unwrap();
    // The driver itself ends that after a while; nobody else does before.
    let word: ExecutionResult = words.recv_timeout(HUNG * 6).unwrap();
    assert!(device.lost().is_none() || !word.unwrap_err().error.reason.contains("silent"));
}
