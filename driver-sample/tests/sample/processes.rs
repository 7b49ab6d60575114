//! Drivers and clients in processes of their own, and the death of either.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_driver_sample::service;
use nnburst_fmq::PeerWatch;
use nnburst_hal::*;
use nnburst_hal_ipc::{RemoteDevice, Spawned, service_dir};

use crate::support::*;

const ROLE: &str = "NNBURST_TEST_ROLE";
const DIR: &str = "NNBURST_SERVICE_DIR";
const ALL: &str = "nnapi-sample_all";

/// What this binary does when one of the tests below starts it.
#[test]
fn child_main() {
    match std::env::var(ROLE).as_deref() {
        Ok("spawned") => service::serve_inherited(&driver(ALL), 0).unwrap(),
        Ok("driver") => {
            let _serving = service::serve_in(&driver(ALL), &service_dir()).unwrap();
            std::thread::sleep(HUNG * 10);
        }
        Ok("client") => be_a_client(),
        _ => {}
    }
}

fn be_a_client() {
    let device = RemoteDevice::connect(ALL).unwrap();
    let model = prepare(&device, add_one(&[1 << 20])).unwrap();
    let size = 4 << 20;
    let (input, output) = (memory(&vec![0; size]), memory(&vec![0; size]));
    let mut bursts: Vec<_> = (0..3)
        .map(|_| {
            BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap()
        })
        .collect();
    let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
    let models = [model.clone()];
    let _buffer = device.allocate(&BufferDesc::default(), &models, &[role], &[]).unwrap();
    let request = request(&input, &output);
    for round in 0.. {
        for burst in &mut bursts {
            burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        }
        if round == 3 {
            std::fs::write(service_dir().join("ready"), "").unwrap();
        }
    }
}

fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::child_main", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) struct Killed(pub(crate) Child);

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

pub(crate) fn start(role: &str, dir: &Path) -> Killed {
    Killed(command(role).env(DIR, dir).spawn().unwrap())
}

pub(crate) fn connect(dir: &Path) -> RemoteDevice {
    let mut device = None;
    eventually("the driver listens", || {
        device = RemoteDevice::connect_path(&dir.join(format!("{ALL}.sock"))).ok();
        device.is_some()
    });
    device.unwrap()
}

/// What a process has.
#[derive(Debug, PartialEq)]
pub(crate) struct Footprint {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    pub(crate) shared_maps: usize,
}

impl Footprint {
    pub(crate) fn of(pid: u32) -> Self {
        let count =
            |what| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count);
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let shared_maps = maps.lines().filter(|line| line.contains("memfd:")).count();
        Self { threads: count("task"), descriptors: count("fd"), shared_maps }
    }
}

#[test]
fn a_killed_client_leaves_nothing_in_the_driver() {
    let dir = tempfile::tempdir().unwrap();
    let driver = start("driver", dir.path());
    let pid = driver.0.id();
    // Whoever was served before has made what stays: the first session's leftovers are the baseline.
    drop(prepare(&connect(dir.path()), add_one(&[1])).unwrap());
    let mut before = Footprint::of(pid);
    eventually("the driver is at rest", || {
        let now = Footprint::of(pid);
        let rests = now == before && now.threads <= 3;
        std::thread::sleep(Duration::from_millis(20));
        before = now;
        rests
    });
    let mut client = start("client", dir.path());
    eventually("the client is at work", || dir.path().join("ready").exists());
    let during = Footprint::of(pid);
    assert!(during.threads >= before.threads + 4, "bursts have threads: {during:?}");
    assert!(during.shared_maps >= before.shared_maps + 6, "and mappings: {during:?}");
    client.now();
    let took = eventually("the driver is as before", || Footprint::of(pid) == before);
    assert!(took < Duration::from_secs(1), "{took:?}, {:?}", Footprint::of(pid));
    let device = connect(dir.path());
    prepare(&device, add_one(&[1])).unwrap();
}

#[test]
fn a_killed_driver_ends_a_burst_at_once_however_it_waits() {
    for window in [Duration::ZERO, Duration::from_micros(50), Duration::MAX] {
        // Promised are 10 ms on a machine that has the time; the fastest of a few tells.
        let fastest = (0..5).map(|_| time_to_notice(window)).min().unwrap();
        println!("noticed after {fastest:?} with a window of {window:?}");
        assert!(fastest < HUNG, "window {window:?}: {fastest:?}");
    }
}

/// From the kill to the error of a burst that is waiting for an answer.
fn time_to_notice(window: Duration) -> Duration {
    let spawned = Spawned::start(&mut command("spawned")).unwrap();
    let device = spawned.device();
    let model = prepare(device, add_one(&[4 << 20])).unwrap();
    let size = 16 << 20;
    let (input, output) = (memory(&vec![0; size]), memory(&vec![0; size]));
    let request = request(&input, &output);
    let watch = PeerWatch::connection(device.peer_watch_fd().unwrap()).unwrap();
    let options =
        ControllerOptions { polling_window: Some(window), ..ControllerOptions::default() };
    let mut burst = BurstController::configure(model.as_ref(), &options, Some(watch)).unwrap();
    burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    let pid = rustix::process::Pid::from_raw(spawned.id().cast_signed()).unwrap();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let killed = Instant::now();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        killed
    });
    let failed = loop {
        match burst.execute(&request, &ExecutionOptions::default()) {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => break Instant::now(),
        }
    };
    let killed = killer.join().unwrap();
    assert!(burst.closed().is_some());
    let status = model
        .execute_synchronously(&request, ExecutionOptions::default())
        .unwrap_err()
        .error
        .status;
    assert_eq!(status, ErrorStatus::DeviceUnavailable);
    failed.saturating_duration_since(killed)
}

#[test]
fn executions_in_another_process_give_the_same_bytes() {
    let spawned = Spawned::start(&mut command("spawned")).unwrap();
    let values: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let run = |device: &dyn Device| {
        let model = prepare(device, add_one(&[1000])).unwrap();
        let (input, output) = (floats(&values), floats(&vec![0.0; 1000]));
        let request = request(&input, &output);
        model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        let synchronous = as_floats(&output);
        let mut burst =
            BurstController::configure(model.as_ref(), &ControllerOptions::default(), None)
                .unwrap();
        burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        assert_eq!(as_floats(&output), synchronous);
        synchronous
    };
    assert_eq!(run(spawned.device()), run(driver(ALL).device().as_ref()));
}

#[test]
fn clients_killed_under_load_do_not_disturb_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let driver = start("driver", dir.path());
    let device = connect(dir.path());
    let model = prepare(&device, add_one(&[64])).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let (input, output) = (floats(&[1.0; 64]), floats(&[0.0; 64]));
    let request = request(&input, &output);
    burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
    let rest = Footprint::of(driver.0.id());
    for _ in 0..4 {
        let ready = dir.path().join("ready");
        let _ = std::fs::remove_file(&ready);
        let mut clients: Vec<_> = (0..3).map(|_| start("client", dir.path())).collect();
        eventually("a client is at work", || ready.exists());
        for client in &mut clients {
            burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
            client.now();
            model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
            assert_eq!(as_floats(&output), [2.0; 64]);
        }
    }
    eventually("nothing of them is left", || {
        let now = Footprint::of(driver.0.id());
        now.descriptors <= rest.descriptors
            && now.shared_maps <= rest.shared_maps
            && now.threads <= rest.threads
    });
}

#[test]
fn a_driver_serves_the_socket_that_a_service_manager_starts_it_with() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{ALL}.sock"));
    let listener = UnixListener::bind(&path).unwrap();
    // As systemd does it: the socket is descriptor 3, and the process knows that it is meant.
    let program = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    let script = "exec 3<&0; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" --exact processes::child_main";
    shell.args(["-c", script]).arg(program).env(ROLE, "driver");
    shell.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
    // Nothing may be bound here: there is no such directory.
    let mut driver = Killed(shell.env(DIR, "/nonexistent/nnburst").spawn().unwrap());
    let device = connect(dir.path());
    assert_eq!(device.name(), ALL);
    let model = prepare(&device, add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let request = request(&input, &output);
    model.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
    assert_eq!(as_floats(&output), [2.0, 3.0]);
    driver.now();
    assert!(path.exists(), "the socket's file is the manager's");
}
