//! The end of either side, expected or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, BurstError, Closed, ControllerOptions, Fallback};
use nnburst_hal::{BurstOptions, ExecutionOptions};

use crate::remote::{self, Driver, Model};
use crate::support::{HANG, memory};

const WINDOWS: [Duration; 3] = [Duration::ZERO, Duration::from_micros(50), Duration::MAX];

fn options(window: Duration) -> ControllerOptions {
    let polling_window = Some(window);
    let burst = BurstOptions { extended: true, polling_window, ..BurstOptions::default() };
    ControllerOptions { polling_window, burst, ..ControllerOptions::default() }
}

/// Kills the driver in the middle of an execution; returns how long the client took to notice.
fn time_to_notice(window: Duration) -> Duration {
    let model = Model { pause: 2 * HANG, ..Model::default() };
    let mut driver = Driver::spawn(&model);
    let watch = driver.watch();
    let mut burst =
        BurstController::configure(driver.model(), &options(window), Some(watch)).unwrap();
    let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    let mut frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    let killed = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            let before = Instant::now();
            driver.kill();
            before
        });
        let error = burst.execute_frame(&mut frame).map(|_| ()).unwrap_err();
        let noticed = Instant::now();
        assert_eq!(error, BurstError::Closed(Closed::DriverDied), "{window:?}");
        noticed - killer.join().unwrap()
    });
    let refused = burst.execute(&request, &ExecutionOptions::default()).unwrap_err();
    assert_eq!(refused, Fallback::Closed(Closed::DriverDied), "later ones take another path");
    killed
}

#[test]
fn the_death_of_the_driver_ends_every_wait_however_one_waits() {
    for window in WINDOWS {
        let taken = time_to_notice(window);
        // No deadline was set: nothing but the death ends the wait.
        assert!(taken < HANG, "{window:?}: {taken:?}");
    }
}

#[test]
#[ignore = "measures time: run it on an idle machine"]
fn the_death_of_the_driver_is_noticed_within_10_ms() {
    for window in WINDOWS {
        let best = (0..5).map(|_| time_to_notice(window)).min().unwrap();
        assert!(best <= Duration::from_millis(10), "{window:?}: {best:?}");
    }
}

#[test]
fn both_ends_are_woken_and_joined_however_they_wait() {
    let driver = Driver::spawn(&Model::default());
    let open = |window| {
        BurstController::configure(driver.model(), &options(window), Some(driver.watch())).unwrap()
    };
    // The first burst also opens what stays open, such as the driver's copies of standard streams.
    drop(open(Duration::ZERO));
    let before = driver.descriptors();
    for window in WINDOWS {
        for executed in [false, true] {
            let mut burst = open(window);
            if executed {
                let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
                let request = AddOne::request(&input, &output, 4);
                burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
            }
        }
    }
    // Opening a burst ends the one before, so one is open as before.
    drop(open(Duration::ZERO));
    assert_eq!(driver.descriptors(), before, "nothing is left behind");
}

#[test]
fn a_server_ends_when_it_is_dropped_however_it_waits() {
    for window in WINDOWS {
        let model = AddOne::new();
        let mut burst = BurstController::configure(&*model, &options(window), None).unwrap();
        let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
        let request = AddOne::request(&input, &output, 4);
        burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        drop(burst);
        assert_eq!(Arc::strong_count(&model), 1, "the burst's thread is gone: {window:?}");
    }
}

/// The client's process of [`a_dead_client_leaves_nothing_behind`]: executes until it is killed.
#[test]
fn client_process() {
    if let Some((driver, window)) = remote::client_if_asked() {
        let mut burst = BurstController::configure(driver.model(), &options(window), None).unwrap();
        let (input, output) = (memory(&[1; 4096]), memory(&[0; 4096]));
        let request = AddOne::request(&input, &output, 4096);
        loop {
            burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        }
    }
}

/// Counts what a process holds of a burst: its threads, mapped queues and memories, and files.
pub(crate) fn holdings(pid: u32) -> [usize; 3] {
    let list = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().flatten();
    let burst_thread = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm"))
            .is_ok_and(|name| name == "nnburst-burst\n")
    };
    let memfd = |file: &std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().contains("memfd:"))
    };
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    [
        list("task").filter(burst_thread).count(),
        maps.lines().filter(|line| line.contains("/memfd:")).count(),
        list("fd").filter(memfd).count(),
    ]
}

/// Waits until `done`; fails as `what` if that never comes.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < HANG, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_dead_client_leaves_nothing_behind() {
    for window in WINDOWS {
        let (driver, mut client) = remote::driver_and_client("death::client_process", window);
        let running = || {
            let [threads, mappings, _files] = holdings(driver.id());
            threads == 1 && mappings == 4 // two queues, two memories
        };
        until("the client never got going", running);
        std::thread::sleep(Duration::from_millis(20));
        client.kill();
        let gone = || holdings(driver.id()) == [0; 3];
        until("something of the client is left", gone);
    }
}
