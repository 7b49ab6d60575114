//! What a frame of a burst asks of the system while both sides poll: nothing.

use std::time::Duration;

use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::testing::traced_test;
use nnburst_hal::*;

use crate::support::*;

const FRAMES: &str = "NNBURST_TEST_FRAMES";

/// The part of the test below that is traced.
#[test]
fn traced_process() {
    let Ok(frames) = std::env::var(FRAMES) else { return };
    let device = driver(CPU).device();
    let model = prepare(device.as_ref(), add_one(&[2])).unwrap();
    let polling_window = Some(Duration::MAX);
    // A processor each: on one they would sleep for each other.
    let [real_time, here] =
        [1, 0].map(|cpu| RealTimeProfile { cpus: vec![cpu], ..RealTimeProfile::default() });
    assert_eq!(nnburst_burst::realtime::apply(&here), Vec::<String>::new());
    let options = ControllerOptions {
        polling_window,
        burst: BurstOptions {
            extended: true,
            polling_window,
            real_time,
            ..BurstOptions::default()
        },
        ..ControllerOptions::default()
    };
    let mut burst = BurstController::configure(model.as_ref(), &options, None).unwrap();
    let (input, output) = (floats(&[1.0; 2]), floats(&[0.0; 2]));
    let mut frame = burst.frame(&request(&input, &output), &ExecutionOptions::default()).unwrap();
    for _ in 0..frames.parse().unwrap() {
        assert_eq!(burst.execute_frame(&mut frame).unwrap().status, ErrorStatus::None);
    }
}

#[test]
#[ignore = "takes strace and processors 0 and 1"]
fn more_frames_make_no_more_system_calls() {
    let processors = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let has = |cpu| processors.is_set(cpu).unwrap();
    assert!(has(0) && has(1), "it takes processors 0 and 1");
    let calls = |frames: &str| {
        traced_test("steady::traced_process", FRAMES, frames).map(|log| log.lines().count())
    };
    let few = calls("10").expect("strace runs");
    let many = calls("2010").expect("strace runs");
    // Starting and ending differ by a few calls from run to run; 2000 frames would show.
    assert!(many < few + 200, "{few} system calls for 10 frames, {many} for 2010");
}
