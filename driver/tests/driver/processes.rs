//! Drivers and clients in processes of their own, and the death of either.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_driver::{Sandbox, service};
use nnburst_fmq::PeerWatch;
use nnburst_hal::*;
use nnburst_hal_ipc::{RemoteDevice, Spawned, service_dir};

use crate::support::*;

const ROLE: &str = "NNBURST_TEST_ROLE";
pub(crate) const DIR: &str = "NNBURST_SERVICE_DIR";
pub(crate) const ALL: &str = CPU;
const TOKEN: &str = "NNBURST_TEST_TOKEN";
/// Printed by another user's process at the end.
const REFUSED: &str = "refused and served";

/// What this binary does when one of the tests below starts it.
#[test]
fn child_main() {
    match std::env::var(ROLE).as_deref() {
        Ok("spawned") => service::serve_inherited(&driver(ALL), 0, Some(&Sandbox::new())).unwrap(),
        Ok("driver") => {
            let dir = service_dir().unwrap();
            let _serving =
                service::serve_in(&driver(ALL).service(), &dir, Some(&Sandbox::new())).unwrap();
            std::thread::sleep(HUNG * 10);
        }
        Ok("driver-1.2") => {
            let _serving = crate::deaths::serve_as_v1_2();
            std::thread::sleep(HUNG * 10);
        }
        Ok("idle driver") => {
            let _serving = crate::idle::serve();
            std::thread::sleep(HUNG * 10);
        }
        Ok("hijacked driver") => crate::sandbox::be_a_hijacked_driver(Some(&Sandbox::new())),
        Ok("hijacked driver without Landlock") => {
            crate::sandbox::be_a_hijacked_driver(Some(&Sandbox::new().without_landlock()));
        }
        Ok("hijacked driver without a sandbox") => crate::sandbox::be_a_hijacked_driver(None),
        Ok("client") => be_a_client(),
        Ok("target") => crate::attack::be_the_target(),
        Ok("good client") => crate::attack::be_the_good_client(),
        Ok("attacker") => crate::attack::be_an_attacker(),
        Ok("waiting") => crate::deaths::be_a_client_that_waits(),
        Ok("client of a busy driver") => crate::time::be_a_client_of_a_busy_driver(),
        Ok("client of a compiling driver") => crate::time::be_a_client_of_a_compiling_driver(),
        Ok("client of a stopped driver") => crate::stopped::be_a_client_of_a_stopped_driver(),
        Ok("client of many") => crate::deaths::be_a_client_of_many(),
        Ok("another user") => {
            be_another_user();
            println!("{REFUSED}");
        }
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
            std::fs::write(service_dir().unwrap().join("ready"), "").unwrap();
        }
    }
}

/// Another user's client, told of a buffer that is not its own.
fn be_another_user() {
    let device = RemoteDevice::connect(ALL).unwrap();
    let model = prepare(&device, add_one(&[2])).unwrap();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let good = request(&input, &output);
    let options = ExecutionOptions::default();
    model.execute_synchronously(&good, options).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();

    let token = std::env::var(TOKEN).unwrap().parse().unwrap();
    let mut stolen = good;
    stolen.pools[0] = RequestPool::Token(token);
    stolen.inputs[0] = argument(0, 0);
    let refused = |kind: &str, result: ExecutionResult| {
        let status = result.unwrap_err().error.status;
        assert_eq!(status, ErrorStatus::InvalidArgument, "{kind}");
    };
    refused("synchronous", model.execute_synchronously(&stolen, options));
    refused("asynchronous", execute_async(model.as_ref(), &stolen, options));
    let fenced = execute_fenced(model.as_ref(), &stolen, options).unwrap_err().status;
    assert_eq!(fenced, ErrorStatus::InvalidArgument, "fenced");
    refused("burst", burst.execute(&stolen, &options).unwrap());
    // What is another's is answered as what does not exist, also where more is wrong with the
    // request.
    for (length, dimensions) in [(0, vec![]), (8, vec![]), (0, vec![3])] {
        let mut answers = [token, u32::MAX].map(|token: u32| {
            let mut request = stolen.clone();
            request.pools[0] = RequestPool::Token(token);
            request.inputs[0] = argument(0, length);
            request.inputs[0].dimensions = dimensions.clone();
            let synchronous = model.execute_synchronously(&request, options);
            let in_burst = burst.execute(&request, &options).unwrap();
            [synchronous, in_burst].map(|result| {
                let HalError { status, reason } = result.unwrap_err().error;
                (status, reason.replace(&token.to_string(), "N"))
            })
        });
        let [theirs, nobodys] = &mut answers;
        assert_eq!(theirs, nobodys, "{length} bytes, {dimensions:?}");
    }

    let mut real_time = ControllerOptions::default();
    real_time.burst.real_time =
        RealTimeProfile { timer_slack: Some(Duration::from_micros(50)), ..Default::default() };
    let profile = BurstController::configure(model.as_ref(), &real_time, None);
    assert!(profile.is_err(), "the machine's scheduling is not for another user to set");
}

/// A driver in a process of its own, which ends with this.
pub(crate) fn spawned() -> Spawned {
    Spawned::start(&mut command("spawned")).unwrap()
}

pub(crate) fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::child_main", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    pub(crate) fn now(&mut self) {
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
    let before = at_rest(pid, dir.path());
    let mut client = start("client", dir.path());
    eventually("the client is at work", || dir.path().join("ready").exists());
    let during = Footprint::of(pid);
    assert!(during.threads >= before.threads + 4, "bursts have threads: {during:?}");
    assert!(during.shared_maps >= before.shared_maps + 6, "and mappings: {during:?}");
    client.now();
    eventually("the driver is as before", || Footprint::of(pid) == before);
    let device = connect(dir.path());
    prepare(&device, add_one(&[1])).unwrap();
}

/// What a driver has that serves nobody. Whoever was served before has made what stays: the first
/// session's leftovers are the baseline.
pub(crate) fn at_rest(pid: u32, dir: &Path) -> Footprint {
    drop(prepare(&connect(dir), add_one(&[1])).unwrap());
    let mut before = Footprint::of(pid);
    eventually("the driver is at rest", || {
        let now = Footprint::of(pid);
        let rests = now == before && now.threads <= 3;
        std::thread::sleep(Duration::from_millis(20));
        before = now;
        rests
    });
    before
}

#[test]
fn a_client_that_lets_go_of_everything_while_it_executes_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let driver = start("driver", dir.path());
    let pid = driver.0.id();
    let before = at_rest(pid, dir.path());
    let device = connect(dir.path());
    // Seconds of work, a fence that nobody signals, a burst, a buffer. (A callback that is owed a
    // word keeps its connection until it has it; fenced executions owe none.)
    let model = prepare(&device, crate::priorities::chain(4000, 1 << 20)).unwrap();
    let (request, _memories) = crate::priorities::ones(1 << 20);
    let launch = |wait_for| {
        model.execute_fenced(request.clone(), wait_for, ExecutionOptions::default(), None).unwrap()
    };
    let never: std::os::fd::OwnedFd =
        EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap().into();
    let mut launched: Vec<_> = (0..6).map(|_| launch(Vec::new())).collect();
    launched.push(launch(vec![never]));
    let burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
    let models = [model];
    let buffer = device.allocate(&BufferDesc::default(), &models, &[role], &[]).unwrap();
    assert!(Footprint::of(pid).threads > before.threads + 3, "it is at work");
    let fences: Vec<_> = launched.iter_mut().map(|one| one.sync_fence.take().unwrap()).collect();
    drop((launched, burst, buffer, models, device));
    eventually("the driver is as before", || Footprint::of(pid) == before);
    assert!(fences.iter().all(|fence| !wait(fence)), "what was given up is in error");
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
    let spawned = spawned();
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
    let pid = Pid::from_raw(spawned.id().cast_signed());
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let killed = Instant::now();
        kill(pid, Signal::SIGKILL).unwrap();
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
    let spawned = spawned();
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

#[test]
fn a_service_managers_socket_serves_the_next_process_too() {
    use std::os::fd::OwnedFd;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{ALL}.sock"));
    let kept = OwnedFd::from(std::os::unix::net::UnixListener::bind(&path).unwrap());
    for _ in 0..2 {
        let socket = kept.try_clone().unwrap();
        let serving = driver(ALL).service().listen_on(socket).unwrap();
        assert_eq!(connect(dir.path()).name(), ALL);
        drop(serving);
    }
}

#[test]
#[ignore = "only root can start processes of other users"]
fn a_client_of_another_user_is_served_but_reaches_nothing_of_others() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    // The usual directory and socket are for one user; this one is opened to all by hand.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{ALL}.sock"));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    for (path, mode) in [(dir.path(), 0o755), (&path, 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let _serving = driver(ALL).service().listen_on(listener.into()).unwrap();
    let device = RemoteDevice::connect_path(&path).unwrap();
    let models = [prepare(&device, add_one(&[2])).unwrap()];
    let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
    let buffer = device.allocate(&BufferDesc::default(), &models, &[role], &[]).unwrap();
    buffer.copy_from(&floats(&[5.0, 6.0]), &[2]).unwrap();

    let mut other = command("another user");
    other.env(DIR, dir.path()).env(TOKEN, buffer.token().to_string()).current_dir("/");
    other.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped()).stderr(Stdio::piped());
    let other = other.spawn().expect("another user's process");
    let ended = other.wait_with_output().unwrap();
    let said = [&ended.stdout[..], &ended.stderr].map(String::from_utf8_lossy).concat();
    assert!(ended.status.success() && said.contains(REFUSED), "{said}");
    let copy = floats(&[0.0; 2]);
    buffer.copy_to(&copy).unwrap();
    assert_eq!(as_floats(&copy), [5.0, 6.0], "untouched");
}
