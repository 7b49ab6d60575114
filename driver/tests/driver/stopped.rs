//! A driver that is stopped: whoever waits for it without a deadline is told so all the same.

use std::os::fd::AsFd;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_fmq::PeerWatch;
use nnburst_hal::*;

use crate::processes::{command, spawned};
use crate::support::*;

/// The client's last word.
const TOLD: &str = "was told by burst and fence";

/// Stops a process, and returns when all of it has stopped.
fn stop(process: u32) {
    kill(Pid::from_raw(process.cast_signed()), Signal::SIGSTOP).unwrap();
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    eventually("the driver has stopped", || {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        tasks.flatten().all(is_stopped)
    });
}

/// A client that waits for stopped drivers, without deadlines.
#[expect(clippy::print_stdout, reason = "child processes report by their output")]
pub(crate) fn be_a_client_of_a_stopped_driver() {
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    let (request, options) = (request(&input, &output), ExecutionOptions::default());
    let spawn = || {
        let spawned = spawned();
        let model = prepare(spawned.device(), add_one(&[2])).unwrap();
        (spawned, model)
    };

    let (driver, model) = spawn();
    let watch = PeerWatch::connection(driver.device().peer_watch_fd().unwrap()).unwrap();
    let (extended, peer) = (ControllerOptions::default(), Some(watch));
    let mut burst = BurstController::configure(model.as_ref(), &extended, peer).unwrap();
    burst.execute(&request, &options).unwrap().unwrap();
    stop(driver.id());
    let waited = burst.execute(&request, &options);
    assert!(!matches!(waited, Ok(Ok(_))) && burst.closed().is_some(), "{waited:?}");
    let gone = model.execute_synchronously(&request, options).unwrap_err().error;
    assert_eq!(gone.status, ErrorStatus::DeviceUnavailable, "{gone}");

    let (driver, model) = spawn();
    let (never, _signal) = FenceSignal::new().unwrap();
    let fenced = model.execute_fenced(request, vec![never], options, None).unwrap();
    stop(driver.id());
    let fence = fenced.sync_fence.as_ref().unwrap();
    let gone = wait_for_driver(fence.as_fd(), None, fenced.callback.as_ref()).unwrap_err();
    assert_eq!(gone.status, ErrorStatus::DeviceUnavailable, "{gone}");
    println!("\n{TOLD}");
}

#[test]
fn waits_without_a_deadline_end_when_the_driver_is_stopped() {
    let mut client = command("client of a stopped driver");
    client.env("NNBURST_SERVICE_TIMEOUT", "300").stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = client.output().unwrap();
    let said = [&ended.stdout[..], &ended.stderr].map(String::from_utf8_lossy).concat();
    assert!(ended.status.success() && said.contains(TOLD), "{said}");
}
