//! Fenced executions that are started before anybody signals their fences, by the thread that will.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nnburst::hal::{self, ErrorStatus, FenceSignal, Model, Operand};
use nnburst::{Compilation, CompileOptions, Device, ModelBuilder, PrepareOptions, compile_for};
use nnburst_driver::CpuDriverOptions;
use nnburst_driver_sample::sample_driver;
use nnburst_hal::testing::MockModel;

/// `x + 1` until it is 10.
fn counting() -> Model {
    let mut graph = ModelBuilder::new();
    let start = graph.input(Operand::float32([1]));
    let below = graph.subgraph(|graph| {
        let x = graph.input(Operand::float32([1]));
        let ten = graph.tensor_f32(vec![1], &[10.0]);
        let less = graph.less(x, ten).done();
        graph.output(less);
    });
    let step = graph.subgraph(|graph| {
        let x = graph.input(Operand::float32([1]));
        let one = graph.tensor_f32(vec![1], &[1.0]);
        let more = graph.add(x, one).done();
        graph.output(more);
    });
    let end = graph.while_loop(below, step, &[start])[0];
    graph.output(end);
    graph.build().unwrap()
}

fn old_device() -> Device {
    let driver = sample_driver("nnapi-sample_all", CpuDriverOptions::default()).unwrap();
    let old = hal::v1_2::upgrade(hal::v1_2::downgrade(driver.device()));
    Device::from_hal("old", old)
}

fn doubling() -> Model {
    let mut graph = ModelBuilder::new();
    let x = graph.input(Operand::float32([1]));
    let sum = graph.add(x, x).done();
    graph.output(sum);
    graph.build().unwrap()
}

/// By what may have to wait: a device's own model, an older driver's, a plan with control flow, two
/// devices.
fn compilations() -> Vec<(&'static str, Compilation, f32)> {
    let options = CompileOptions::default();
    let whole = |device: &Device| device.compile(&doubling(), PrepareOptions::default()).unwrap();
    let reference = Device::reference();
    let embedded = Device::embedded("nnapi-sample_all").unwrap();
    let interpreted =
        compile_for(&counting(), &[reference.clone(), old_device()], &options).unwrap();
    vec![
        ("reference", whole(&reference), 14.0),
        ("embedded", whole(&embedded), 14.0),
        ("old", whole(&old_device()), 14.0),
        ("interpreted", interpreted, 10.0),
    ]
}

fn is_signalled(fence: &OwnedFd) -> bool {
    hal::wait_for_fence(fence.as_fd(), Some(Duration::ZERO)).unwrap()
}

#[test]
fn the_call_returns_before_its_fences_signal() {
    for (what, compilation, want) in compilations() {
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &[7.0f32]).unwrap();
        let (fence, signal) = FenceSignal::new().unwrap();
        let event = compilation.execution().start_fenced(frame, vec![fence]).unwrap();
        let done = event.fence().unwrap().try_clone_to_owned().unwrap();
        assert!(!is_signalled(&done), "{what}");
        // A second one behind the first.
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &[7.0f32]).unwrap();
        let behind = vec![done.try_clone().unwrap()];
        let second = compilation.execution().start_fenced(frame, behind).unwrap();
        signal.signal();
        for event in [second, event] {
            let (frame, result) = event.wait();
            result.unwrap();
            assert_eq!(frame.read::<f32>(0).unwrap(), [want], "{what}");
        }
        assert!(is_signalled(&done), "{what}");
    }
}

#[test]
fn deadlines_and_fences_in_error_end_the_wait() {
    for (what, compilation, _) in compilations() {
        let frame = || {
            let mut frame = compilation.frame().unwrap();
            frame.write(0, &[7.0f32]).unwrap();
            frame
        };
        let (fence, _signal) = FenceSignal::new().unwrap();
        let bounded = compilation.execution().timeout(Duration::from_millis(30));
        // On a busy machine the time may be over before the launch is.
        let ended = bounded.start_fenced(frame(), vec![fence]).and_then(|event| event.wait().1);
        let status = ended.unwrap_err().status();
        assert_eq!(status, Some(ErrorStatus::MissedDeadlineTransient), "{what}");

        let (fence, signal) = FenceSignal::new().unwrap();
        let event = compilation.execution().start_fenced(frame(), vec![fence]).unwrap();
        drop(signal);
        let (_, result) = event.wait();
        assert!(result.is_err(), "{what}");
    }
}

/// A driver whose fenced executions can't be launched: the reference device stands in once the
/// fences have signalled.
#[test]
fn who_stands_in_waits_in_the_background_as_well() {
    struct Refusing(Arc<dyn hal::Device>);
    struct Wrapping(Arc<dyn hal::PreparedModelCallback>);
    impl hal::Device for Refusing {
        fn capabilities(&self) -> hal::Result<hal::Capabilities> {
            let mut capabilities = self.0.capabilities()?;
            for entry in &mut capabilities.operand_performance {
                entry.info.exec_time = 0.1;
            }
            Ok(capabilities)
        }
        fn version_string(&self) -> hal::Result<String> {
            self.0.version_string()
        }
        fn device_type(&self) -> hal::Result<hal::DeviceType> {
            self.0.device_type()
        }
        fn supported_operations(&self, model: &Model) -> hal::Result<Vec<bool>> {
            self.0.supported_operations(model)
        }
        fn prepare_model(
            &self,
            model: Model,
            options: PrepareOptions,
            cache: hal::CacheHandles,
            callback: Arc<dyn hal::PreparedModelCallback>,
        ) -> hal::Result<()> {
            self.0.prepare_model(model, options, cache, Arc::new(Wrapping(callback)))
        }
    }
    impl hal::PreparedModelCallback for Wrapping {
        fn notify(&self, result: hal::Result<Arc<dyn hal::PreparedModel>>) {
            let refuses = |model| {
                MockModel::over(model)
                    .executing_fenced(|_, _, _, _| Err(hal::HalError::failure("no fences here")))
                    .waiting_in_background()
            };
            self.0.notify(result.map(|model| Arc::new(refuses(model)) as _));
        }
    }
    let driver = sample_driver("nnapi-sample_all", CpuDriverOptions::default()).unwrap();
    let refusing = Device::from_hal("refusing", Arc::new(Refusing(driver.device())));
    let partitioning = Some(nnburst::Partitioning::WithFallback);
    let options = CompileOptions { partitioning, ..CompileOptions::default() };
    let devices = [refusing.clone(), Device::reference()];
    let compilation = nnburst::compile_among(&doubling(), &devices, &options).unwrap();
    assert_eq!(compilation.devices(), [refusing]);
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[7.0f32]).unwrap();
    let (fence, signal) = FenceSignal::new().unwrap();
    let event = compilation.execution().start_fenced(frame, vec![fence]).unwrap();
    assert!(!is_signalled(&event.fence().unwrap().try_clone_to_owned().unwrap()));
    signal.signal();
    let (frame, result) = event.wait();
    result.unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [14.0]);
}
