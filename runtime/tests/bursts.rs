//! Bursts over the embedded driver: the same results as any other way of calling.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use nnburst::hal::{ExecutionOptions, Operand};
use nnburst::{
    Burst, BurstOptions, Compilation, Device, ModelBuilder, PrepareOptions, Wait, builtin,
};

fn embedded(model: &nnburst::hal::Model) -> Compilation {
    let device = Device::embedded("nnapi-sample_all").unwrap();
    device.compile(model, PrepareOptions::default()).unwrap()
}

fn open(compilation: &Compilation, wait: Wait) -> Burst {
    compilation.burst(&BurstOptions { wait, ..BurstOptions::default() }).unwrap()
}

#[test]
fn however_one_waits_the_answer_is_that_of_a_call() {
    let compilation = embedded(&builtin::model("sine").unwrap());
    let mut frame = compilation.frame().unwrap();
    for wait in [Wait::Spin, Wait::Adaptive, Wait::Block] {
        let mut burst = open(&compilation, wait).measure(true);
        for x in [0.0f32, 0.5, -3.0] {
            frame.write(0, &[x]).unwrap();
            compilation.execution().compute(&mut frame).unwrap();
            let want = frame.read::<f32>(0).unwrap();
            burst.compute(&mut frame).unwrap();
            assert_eq!(frame.read::<f32>(0).unwrap(), want, "{wait:?} at {x}");
            assert_eq!(frame.output_shapes()[0].dimensions, [1, 1]);
            let driver = frame.time_in_driver().unwrap();
            assert!(driver <= frame.latency(), "{driver:?} of {:?}", frame.latency());
        }
        assert_eq!(burst.stats().unwrap().executions(), 3);
    }
}

/// A running sum: what comes out of a step goes into the next by changing places.
#[test]
fn state_goes_from_step_to_step() {
    let mut graph = ModelBuilder::new();
    let [state, step] = [(); 2].map(|()| graph.input(Operand::float32([1])));
    let sum = graph.add(state, step).done();
    graph.output(sum);
    let compilation = embedded(&graph.build().unwrap());
    let mut burst = open(&compilation, Wait::Adaptive);
    let mut frame = burst.frame().unwrap();
    frame.write(0, &[0f32]).unwrap();
    let mut total = 0.0;
    for step in 1..=10u8 {
        frame.write(1, &[f32::from(step)]).unwrap();
        burst.compute(&mut frame).unwrap();
        total += f32::from(step);
        assert_eq!(frame.read::<f32>(0).unwrap(), [total], "step {step}");
        frame.exchange(0, 0).unwrap();
    }
}

#[test]
fn requests_of_ones_own_and_frames_of_other_bursts_work() {
    let compilation = embedded(&builtin::model("add1").unwrap());
    let (mut first, mut second) = (open(&compilation, Wait::Spin), open(&compilation, Wait::Block));
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1f32]).unwrap();
    frame.write(1, &[2f32]).unwrap();
    for _ in 0..3 {
        first.compute(&mut frame).unwrap();
        second.compute(&mut frame).unwrap();
    }
    let outcome = second.compute_request(frame.request(), &ExecutionOptions::default()).unwrap();
    assert_eq!(outcome.output_shapes[0].dimensions, [1]);
    assert_eq!(frame.read::<f32>(0).unwrap(), [3.0]);
}

#[test]
fn unknown_devices_are_answered_with_the_known_ones() {
    for error in [Device::embedded("gpu"), Device::spawn("gpu"), Device::connect("gpu")] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("gpu") && error.contains("known are"), "{error}");
    }
}
