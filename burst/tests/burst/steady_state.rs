//! In the steady state, polling: no allocation and no system call, on either side.

use std::time::Duration;

use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::testing::{CountingAllocator, calls_between_marks, is_there, mark, traced_test};
use nnburst_hal::{BurstOptions, ErrorStatus, ExecutionOptions, RealTimeProfile};

use crate::remote::{Driver, Model};
use crate::support::memory;

/// Frames until everything has been met, and frames that count.
const WARM_UP: u64 = 20;
const FRAMES: u64 = 500;

/// Executes frames through a polling burst, most of them watched. Returns the allocations of either
/// side.
fn watched_run(depth: u32) -> [u64; 2] {
    let driver = Driver::spawn(&Model { watch: Some((WARM_UP, FRAMES)), ..Model::default() });
    let polling_window = Some(Duration::MAX);
    // A processor each: on one they would sleep for each other.
    let [real_time, here] =
        [1, 0].map(|cpu| RealTimeProfile { cpus: vec![cpu], ..RealTimeProfile::default() });
    assert_eq!(nnburst_burst::realtime::apply(&here), Vec::<String>::new());
    let options = ControllerOptions {
        polling_window,
        burst: BurstOptions {
            extended: true,
            depth,
            polling_window,
            real_time,
            ..BurstOptions::default()
        },
        ..ControllerOptions::default()
    };
    let mut burst =
        BurstController::configure(driver.model(), &options, Some(driver.watch())).unwrap();
    let (input, output) = (memory(&[1; 64]), memory(&[0; 64]));
    let request = AddOne::request(&input, &output, 64);
    let mut frames: Vec<_> =
        (0..depth).map(|_| burst.frame(&request, &ExecutionOptions::default()).unwrap()).collect();
    let mut execute = |burst: &mut BurstController| {
        if let [frame] = frames.as_mut_slice() {
            assert_eq!(burst.execute_frame(frame).unwrap().status, ErrorStatus::None);
            return;
        }
        while let Some(frame) = frames.pop() {
            burst.try_submit(frame).map_err(|rejected| rejected.why).unwrap();
        }
        let frame = loop {
            if let Some(frame) = burst.poll() {
                break frame;
            }
            std::hint::spin_loop();
        };
        assert_eq!(frame.answer().unwrap().status, ErrorStatus::None);
        frames.push(frame);
    };
    for _ in 0..WARM_UP {
        execute(&mut burst);
    }
    mark();
    let before = CountingAllocator::calls_of_thread();
    for _ in 0..FRAMES {
        execute(&mut burst);
    }
    let here = CountingAllocator::calls_of_thread() - before;
    mark();
    for _ in 0..WARM_UP {
        execute(&mut burst); // the driver counts from a frame of its own on
    }
    [here.allocations + here.releases, driver.allocations()]
}

#[test]
fn nothing_is_allocated_on_either_side() {
    if !two_processors() {
        return;
    }
    assert_eq!(watched_run(1), [0, 0], "client, driver: one at a time");
    assert_eq!(watched_run(4), [0, 0], "client, driver: four in flight");
}

/// Returns whether the two sides can have a processor each.
fn two_processors() -> bool {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    is_there("processors", set.is_set(0).unwrap() && set.is_set(1).unwrap())
}

const TRACED: &str = "NNBURST_TEST_TRACED";

/// The part of [`nothing_calls_the_system_on_either_side`] that is traced.
#[test]
fn traced_process() {
    if std::env::var_os(TRACED).is_some() {
        watched_run(1);
        watched_run(4);
    }
}

#[test]
fn nothing_calls_the_system_on_either_side() {
    if !two_processors() {
        return;
    }
    let Some(log) = traced_test("steady_state::traced_process", TRACED, "1") else { return };
    let runs = calls_between_marks(&log);
    assert_eq!(runs.len(), 4, "a client and a driver, twice: {runs:?}");
    for calls in runs {
        assert!(calls.is_empty(), "{calls:#?}");
    }
}
