//! A burst within one process: both ends, every way to wait, and what each refuses.

use std::time::Duration;

use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::{ErrorStatus, ExecutionOptions, MeasureTiming, PreparedModel, Timing};

use crate::support::{bytes, memory};

const WINDOWS: [Option<Duration>; 3] = [Some(Duration::ZERO), None, Some(Duration::MAX)];

fn options(window: Option<Duration>) -> ControllerOptions {
    let mut options = ControllerOptions { polling_window: window, ..ControllerOptions::default() };
    options.burst.polling_window = window;
    options
}

#[test]
fn a_burst_adds_one_however_both_ends_wait() {
    for plain in [false, true] {
        let model = AddOne::with(|model| model.plain = plain);
        for window in WINDOWS {
            let mut burst = BurstController::configure(&*model, &options(window), None).unwrap();
            let (input, output) = (memory(&[1, 2, 255]), memory(&[0; 3]));
            let request = AddOne::request(&input, &output, 3);
            let measure = MeasureTiming::Yes;
            let how = ExecutionOptions { measure, ..ExecutionOptions::default() };
            for _ in 0..50 {
                let outcome = burst.execute(&request, &how).unwrap().unwrap();
                assert_eq!(outcome.output_shapes[0].dimensions, [1, 3]);
                assert_ne!(outcome.timing, Timing::NONE);
            }
            assert_eq!(bytes(&output), [2, 3, 0], "{window:?}");
            assert_eq!(burst.stats().executions(), 50);
            assert_eq!(burst.stats().driver.len(), 50);
        }
    }
}

#[test]
fn what_a_burst_answers_is_what_the_ordinary_path_answers() {
    let model = AddOne::new();
    let mut burst = BurstController::configure(&*model, &options(None), None).unwrap();
    let (input, output) = (memory(&[7; 8]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 8);
    let how = ExecutionOptions::default();
    let in_burst = burst.execute(&request, &how).unwrap().unwrap_err();
    let ordinary = model.execute_synchronously(&request, how).unwrap_err();
    assert_eq!(in_burst.error.status, ErrorStatus::InvalidArgument);
    assert_eq!(in_burst.error.status, ordinary.error.status);
    let request = AddOne::request(&input, &output, 4);
    let in_burst = burst.execute(&request, &how).unwrap().unwrap();
    assert_eq!(in_burst, model.execute_synchronously(&request, how).unwrap());
}

#[test]
fn a_frame_runs_again_and_again_and_sees_what_its_memory_holds() {
    let model = AddOne::new();
    let mut burst = BurstController::configure(&*model, &options(None), None).unwrap();
    let (input, output) = (memory(&[0; 4]), memory(&[0; 4]));
    let request = AddOne::request(&input, &output, 4);
    let mut there = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    let request = AddOne::request(&output, &input, 4);
    let mut back = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    for _ in 0..20 {
        assert_eq!(burst.execute_frame(&mut there).unwrap().status, ErrorStatus::None);
        assert_eq!(burst.execute_frame(&mut back).unwrap().status, ErrorStatus::None);
    }
    assert_eq!(bytes(&input), [40; 4], "slots that swap their roles carry state");
}

#[test]
fn a_burst_does_not_keep_its_users_memory() {
    for plain in [false, true] {
        let model = AddOne::with(|model| model.plain = plain);
        let mut burst = BurstController::configure(&*model, &options(None), None).unwrap();
        let (input, output) = (memory(&[1; 4]), memory(&[0; 4]));
        let weak = [input.downgrade(), output.downgrade()];
        let request = AddOne::request(&input, &output, 4);
        burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
        drop((request, input, output));
        assert!(weak.iter().all(|memory| memory.upgrade().is_none()), "plain: {plain}");
    }
}
