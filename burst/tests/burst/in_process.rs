//! A burst within one process: both ends, every way to wait, and what each refuses.

use std::time::Duration;

use nnburst_burst::testing::AddOne;
use nnburst_burst::{BurstController, ControllerOptions, LastRequest};
use nnburst_hal::{
    ErrorStatus, ExecutionOptions, MeasureTiming, Memory, PreparedModel, Request, TimePoint, Timing,
};

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

#[test]
fn a_request_that_comes_again_means_the_memories_that_it_names() {
    for plain in [false, true] {
        let model = AddOne::with(|model| model.plain = plain);
        let mut burst = BurstController::configure(&*model, &options(None), None).unwrap();
        let how = ExecutionOptions::default();
        let adds = |burst: &mut BurstController, input: &Memory, output: &Memory| {
            let request = AddOne::request(input, output, 4);
            burst.execute(&request, &how).unwrap().unwrap();
            let wanted: Vec<u8> = bytes(input).iter().map(|byte| byte + 1).collect();
            assert_eq!(bytes(output), wanted, "plain: {plain}");
        };
        let [a, b, c] = [1, 20, 40].map(|byte| memory(&[byte; 4]));
        for _ in 0..3 {
            adds(&mut burst, &a, &b);
            adds(&mut burst, &a, &b);
            adds(&mut burst, &c, &b);
            adds(&mut burst, &b, &a);
            adds(&mut burst, &b, &c);
        }
        for byte in 0..10 {
            // Gets the slot of the one before.
            let next = memory(&[byte; 4]);
            adds(&mut burst, &next, &b);
            burst.free_memory(&b);
            adds(&mut burst, &a, &c); // maybe with the slot that b had
            adds(&mut burst, &next, &b);
        }
        burst.free_memory(&a);
        adds(&mut burst, &c, &b);
        adds(&mut burst, &a, &b);
    }
}

#[test]
fn a_request_that_comes_again_may_have_other_options() {
    let model = AddOne::new();
    let mut burst = BurstController::configure(&*model, &options(None), None).unwrap();
    let (input, output) = (memory(&[7; 8]), memory(&[0; 8]));
    let (whole, how) = (AddOne::request(&input, &output, 8), ExecutionOptions::default());
    let late = ExecutionOptions { deadline: Some(TimePoint { nanoseconds: 1 }), ..how };
    let measured = ExecutionOptions { measure: MeasureTiming::Yes, ..how };
    let mut short = AddOne::request(&input, &output, 4);
    short.inputs[0].location.offset = 4;
    let bad = AddOne::request(&input, &output, 9);
    for _ in 0..3 {
        let outcome = burst.execute(&whole, &how).unwrap().unwrap();
        assert_eq!((outcome.timing, outcome.output_shapes[0].dimensions[1]), (Timing::NONE, 8));
        let missed = burst.execute(&whole, &late).unwrap().unwrap_err().error.status;
        assert_eq!(missed, ErrorStatus::MissedDeadlineTransient);
        burst.execute(&whole, &how).unwrap().unwrap();
        assert_ne!(burst.execute(&whole, &measured).unwrap().unwrap().timing, Timing::NONE);
        let outcome = burst.execute(&short, &how).unwrap().unwrap();
        assert_eq!(outcome.output_shapes[0].dimensions, [1, 4]);
        let refused = burst.execute(&bad, &how).unwrap().unwrap_err().error.status;
        assert_eq!(refused, ErrorStatus::InvalidArgument);
    }
}

#[test]
fn the_last_request_is_sent_again_only_while_it_is_the_last() {
    let model = AddOne::new();
    let mut burst = BurstController::configure(&*model, &options(None), None).unwrap();
    let mut other = BurstController::configure(&*model, &options(None), None).unwrap();
    let [a, b, c] = [1, 20, 40].map(|byte| memory(&[byte; 4]));
    let how = ExecutionOptions::default();
    let runs = |burst: &mut BurstController, from: &Memory, to: &Memory, how| {
        burst.execute(&AddOne::request(from, to, 4), how).unwrap().unwrap();
        burst.last_request().unwrap()
    };
    assert_eq!(burst.last_request(), None);
    let first = runs(&mut burst, &a, &b, &how);
    memory_set(&a, 7);
    let answer = burst.execute_last(first, None).unwrap().unwrap();
    assert_eq!((answer.status, bytes(&b)), (ErrorStatus::None, vec![8; 4]));
    assert_eq!(runs(&mut burst, &a, &b, &how), first, "the same request");
    assert!(other.execute_last(first, None).is_none(), "of another burst");

    let second = runs(&mut burst, &a, &c, &how);
    assert!(burst.execute_last(first, None).is_none(), "with another memory");
    assert_eq!(burst.execute_last(second, None).unwrap().unwrap().status, ErrorStatus::None);
    burst.free_memory(&b);
    assert!(burst.execute_last(second, None).is_none(), "a slot was given up");

    // A deadline was that execution's alone.
    let (soon, third) = within_a_deadline(&mut burst, &AddOne::request(&a, &c, 4));
    std::thread::sleep(soon.remaining());
    assert_eq!(burst.execute_last(third, None).unwrap().unwrap().status, ErrorStatus::None);
}

/// Executes a request within a deadline that is not far: one that a loaded machine keeps.
fn within_a_deadline(burst: &mut BurstController, request: &Request) -> (TimePoint, LastRequest) {
    for seconds in [0.1, 1.0, 10.0] {
        let soon = TimePoint::after(Duration::from_secs_f64(seconds));
        let how = ExecutionOptions { deadline: Some(soon), ..ExecutionOptions::default() };
        if burst.execute(request, &how).unwrap().is_ok() {
            return (soon, burst.last_request().unwrap());
        }
    }
    panic!("one byte more takes longer than ten seconds");
}

fn memory_set(memory: &Memory, byte: u8) {
    let mapping = memory.map(nnburst_hal::Access::ReadWrite).unwrap();
    mapping.view_mut(0..4).unwrap().copy_from_slice(&[byte; 4]);
}
