//! Compilations, frames and the forms of execution, over a driver that adds.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on panics")]

use std::sync::Arc;
use std::time::Duration;

use nnburst::hal::{
    self, Access, CacheHandles, Capabilities, DeviceType, ExecutionOptions, ExecutionOutcome,
    ExecutionResult, FencedExecution, FencedExecutionCallback, FencedTiming, HalError, Model,
    OutputShape, PrepareOptions, PreparedModelCallback, Request, RequestPool, TimePoint, Timing,
    View, ViewMut,
};
use nnburst::{Argument, Compilation, Device, builtin};
use nnburst_hal::testing::MockModel;

/// Adds two floats, whatever the model says.
struct Adder;

impl hal::Device for Adder {
    fn capabilities(&self) -> hal::Result<Capabilities> {
        Err(HalError::unavailable("no figures"))
    }
    fn version_string(&self) -> hal::Result<String> {
        Ok("adder-1".into())
    }
    fn device_type(&self) -> hal::Result<DeviceType> {
        Ok(DeviceType::Cpu)
    }
    fn supported_operations(&self, model: &Model) -> hal::Result<Vec<bool>> {
        Ok(vec![true; model.main.operations.len()])
    }
    fn prepare_model(
        &self,
        model: Model,
        _options: PrepareOptions,
        _cache: CacheHandles,
        callback: Arc<dyn PreparedModelCallback>,
    ) -> hal::Result<()> {
        if model.main.operations.len() != 1 {
            let error = HalError::invalid("one addition is all I can");
            callback.notify(Err(error.clone()));
            return Err(error);
        }
        callback.notify(Ok(Arc::new(adder())));
        Ok(())
    }
}

fn add(request: &Request, options: ExecutionOptions) -> ExecutionResult {
    if options.deadline.is_some_and(TimePoint::has_passed) {
        return Err(HalError::new(hal::ErrorStatus::MissedDeadlineTransient, "too late").into());
    }
    let RequestPool::Memory(memory) = &request.pools[0] else { panic!("a memory") };
    let mapping = memory.map(Access::ReadWrite).unwrap();
    let range = |argument: &hal::RequestArgument| {
        let start = argument.location.offset as usize;
        start..start + argument.location.length as usize
    };
    let read = |argument| {
        let mut bytes = [0; 4];
        mapping.view(range(argument)).unwrap().copy_to_slice(&mut bytes);
        f32::from_le_bytes(bytes)
    };
    let output = &request.outputs[0];
    let is_sufficient = output.location.length >= 4;
    let shapes = vec![OutputShape { dimensions: vec![1], is_sufficient }];
    if !is_sufficient {
        let error = HalError::new(hal::ErrorStatus::OutputInsufficientSize, "output 0");
        return Err(hal::ExecutionFailure { error, output_shapes: shapes });
    }
    let sum = read(&request.inputs[0]) + read(&request.inputs[1]);
    mapping.view_mut(range(output)).unwrap().copy_from_slice(&sum.to_le_bytes());
    let timing = Timing { time_on_device: 3, time_in_driver: 5 };
    Ok(ExecutionOutcome { output_shapes: shapes, timing })
}

/// A model that adds, in each form of execution.
fn adder() -> MockModel {
    MockModel::new().executing(add).with_threads().executing_fenced(|request, _, options, _| {
        let (reader, writer) = std::io::pipe().unwrap();
        add(&request, options).map_err(|failure| failure.error)?;
        std::io::Write::write_all(&mut { writer }, &[1]).unwrap();
        Ok(FencedExecution { sync_fence: Some(reader.into()), callback: Arc::new(Adder) })
    })
}

impl FencedExecutionCallback for Adder {
    fn execution_info(&self) -> hal::Result<FencedTiming> {
        Ok(FencedTiming::default())
    }
}

fn add1() -> Compilation {
    let device = Device::from_hal("adder", Arc::new(Adder));
    device.compile(&builtin::model("add1").unwrap(), PrepareOptions::default()).unwrap()
}

#[test]
fn every_form_of_execution_computes_the_same_frame() {
    let compilation = add1();
    let mut frame = compilation.frame().unwrap();
    for (what, a, b) in [("sync", 1.0f32, 2.0f32), ("async", 3.0, 4.0), ("fenced", 5.0, 6.0)] {
        frame.write(0, &[a]).unwrap();
        frame.write(1, &[b]).unwrap();
        let execution = compilation.execution().measure(true);
        frame = match what {
            "sync" => {
                execution.compute(&mut frame).unwrap();
                assert_eq!(frame.timing().time_in_driver, 5);
                assert!(frame.latency() > Duration::ZERO);
                frame
            }
            "async" => settled(execution.start(frame).unwrap()),
            _ => settled(execution.start_fenced(frame, Vec::new()).unwrap()),
        };
        assert_eq!(frame.read::<f32>(0).unwrap(), [a + b], "{what}");
    }
}

fn settled(event: nnburst::Event) -> nnburst::Frame {
    let (frame, result) = event.wait();
    result.unwrap();
    frame
}

#[test]
fn failures_say_what_they_are() {
    let compilation = add1();
    let inputs = vec![Argument { dimensions: Vec::new(), length: 4 }; 2];
    let short = [Argument { dimensions: Vec::new(), length: 3 }];
    let mut frame = compilation.frame_with(&inputs, &short).unwrap();
    match compilation.execution().compute(&mut frame).unwrap_err() {
        nnburst::RuntimeError::OutputTooSmall { shapes, .. } => {
            assert_eq!(shapes[0].dimensions, [1]);
        }
        other => panic!("{other}"),
    }
    let mut frame = compilation.frame().unwrap();
    let late = compilation.execution().timeout(Duration::ZERO).compute(&mut frame).unwrap_err();
    assert!(late.is_deadline_missed() && !late.is_device_lost(), "{late}");

    let device = Device::from_hal("adder", Arc::new(Adder));
    let error =
        device.compile(&builtin::model("sine").unwrap(), PrepareOptions::default()).unwrap_err();
    assert!(error.to_string().contains("one addition is all I can"), "{error}");
    assert!(compilation.frame_with(&inputs, &[]).is_err(), "an output is missing");
}

#[test]
fn a_frame_serves_several_models_of_this_process_and_follows_exchanges() {
    let add = builtin::model("add1").unwrap();
    let on = |device: Device| device.compile(&add, PrepareOptions::default()).unwrap();
    let (one, other) = (on(Device::embedded("nnapi-sample_all").unwrap()), on(Device::reference()));
    let mut frame = one.frame().unwrap();
    frame.write(0, &[1.0f32]).unwrap();
    frame.write(1, &[2.0f32]).unwrap();
    for want in [3.0f32, 5.0, 7.0, 9.0] {
        one.execution().measure(true).compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [want]);
        assert_ne!(frame.timing(), Timing::NONE, "measured");
        other.execution().measure(true).compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [want]);
        assert_eq!(frame.timing(), Timing::NONE, "the reference device measures nothing");
        assert_eq!(frame.output_shapes()[0].dimensions, [1]);
        frame.exchange(0, 0).unwrap();
    }
    let late = one.execution().timeout(Duration::ZERO);
    let error = late.compute(&mut frame).unwrap_err();
    assert_eq!(error.status(), Some(hal::ErrorStatus::MissedDeadlinePersistent), "{error}");
}

#[test]
fn a_device_of_this_process_computes_on_the_callers_memory() {
    let model = builtin::model("mobilenet_v1_0.25_128").unwrap();
    for device in [Device::embedded("nnburst-cpu").unwrap(), Device::reference()] {
        let compilation = device.compile(&model, PrepareOptions::default()).unwrap();
        let mut in_place = compilation.in_place().unwrap();
        let picture: Vec<f32> = (0..128 * 128 * 3).map(|at| (at % 255) as f32 / 128.0).collect();
        // At an odd address, as bytes of a file may be.
        let mut bytes = vec![0u8];
        bytes.extend(picture.iter().flat_map(|value| value.to_le_bytes()));
        let mut scores = vec![7u8; 1 + 1001 * 4];
        for _ in 0..2 {
            let outputs = [ViewMut::of(&mut scores[1..])];
            in_place.compute(&[View::of(&bytes[1..])], &outputs).unwrap();
        }
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &picture).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        assert_eq!(scores[1..], frame.read_bytes(0).unwrap(), "{}", device.name());

        let short = [View::of(&bytes[2..])];
        for (inputs, why) in [
            (&short[..], "input 0 takes 196608 bytes, 196607 given"),
            (&[], "0 inputs given, the model has 1"),
        ] {
            let error = in_place.compute(inputs, &[ViewMut::of(&mut scores[1..])]).unwrap_err();
            assert_eq!(error.to_string(), why);
        }
        let error = in_place.compute(&[View::of(&bytes[1..])], &[ViewMut::of(&mut scores)]);
        assert_eq!(error.unwrap_err().to_string(), "output 0 takes 4004 bytes, 4005 given");
    }
    assert!(add1().in_place().is_none(), "a driver that knows no such way");
}
