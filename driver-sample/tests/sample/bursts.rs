//! Bursts over a socket.

use std::time::Duration;

use nnburst_burst::{BurstController, ControllerOptions};
use nnburst_hal::*;

use crate::support::*;

#[test]
fn memories_that_come_and_go_use_slots_anew() {
    let served = served("nnapi-sample_all");
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let options = ExecutionOptions::default();
    let output = floats(&[0.0; 2]);
    for round in 0..20u8 {
        let value = f32::from(round);
        let input = floats(&[value, -value]);
        burst.execute(&request(&input, &output), &options).unwrap().unwrap();
        assert_eq!(as_floats(&output), [value + 1.0, 1.0 - value], "a slot used anew");
    }
}

#[test]
fn buffers_deadlines_and_frames_travel_in_bursts() {
    let served = served("nnapi-sample_all");
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    let role = BufferRole { model_index: 0, io_index: 0, frequency: 1.0 };
    let models = [std::sync::Arc::clone(&model)];
    let buffer = served.device.allocate(&BufferDesc::default(), &models, &[], &[role]).unwrap();
    let mut burst =
        BurstController::configure(model.as_ref(), &ControllerOptions::default(), None).unwrap();
    let input = floats(&[1.0, 2.0]);
    let request = Request {
        inputs: vec![argument(0, 8)],
        outputs: vec![argument(1, 0)],
        pools: vec![RequestPool::Memory(input), RequestPool::Token(buffer.token())],
    };
    let mut frame = burst.frame(&request, &ExecutionOptions::default()).unwrap();
    for _ in 0..3 {
        let answer = burst.execute_frame(&mut frame).unwrap();
        assert_eq!(answer.status, ErrorStatus::None);
        assert_eq!(answer.output_shapes[0].dimensions, [2]);
    }
    let copy = floats(&[0.0; 2]);
    buffer.copy_to(&copy).unwrap();
    assert_eq!(as_floats(&copy), [2.0, 3.0]);
    let missed =
        ExecutionOptions { deadline: Some(TimePoint::now()), ..ExecutionOptions::default() };
    assert!(burst.execute(&request, &missed).unwrap().is_err());
    let loop_timeout = Some(Duration::from_secs(1));
    let options = ExecutionOptions { loop_timeout, ..ExecutionOptions::default() };
    burst.execute(&request, &options).unwrap().unwrap();
}

#[test]
fn several_bursts_and_threads_share_a_model() {
    let served = served("nnapi-sample_all");
    let model = prepare(&served.device, add_one(&[2])).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            let model = model.as_ref();
            scope.spawn(move || {
                let options = ControllerOptions::default();
                let mut burst = BurstController::configure(model, &options, None).unwrap();
                for round in 0..50u8 {
                    let value = f32::from(thread) * 100.0 + f32::from(round);
                    let (input, output) = (floats(&[value; 2]), floats(&[0.0; 2]));
                    let request = request(&input, &output);
                    burst.execute(&request, &ExecutionOptions::default()).unwrap().unwrap();
                    assert_eq!(as_floats(&output), [value + 1.0; 2]);
                }
            });
        }
    });
}
