//! The driver of `examples/driver.rs`, which `docs/hal.md` shows, does what a driver must.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nnburst_hal::testing::{relu_model, relu_request};
use nnburst_hal::{
    CacheHandles, Device, ErrorStatus, ExecutionOptions, Model, PrepareOptions, PreparedModel,
    Result, TimePoint, wait_for_prepared_model,
};
use nnburst_hal_ipc::RemoteDevice;

#[allow(dead_code, reason = "its `main` has nobody to call it here")]
#[path = "../examples/driver.rs"]
mod driver;

fn prepare(
    device: &dyn Device,
    model: Model,
    options: PrepareOptions,
) -> Result<Arc<dyn PreparedModel>> {
    wait_for_prepared_model(|callback| {
        device.prepare_model(model, options, CacheHandles::default(), callback)
    })
}

#[test]
fn the_example_computes_and_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let serving = driver::service().listen(dir.path()).unwrap();
    let device = RemoteDevice::connect_path(&serving.path()).unwrap();
    assert_eq!(device.name(), "example-relu");
    assert_eq!(device.supported_operations(&relu_model(&[2])).unwrap(), [true]);
    let model = prepare(&device, relu_model(&[2]), PrepareOptions::default()).unwrap();
    let read = |memory: &nnburst_hal::Memory| {
        let mut bytes = [0; 16];
        memory.read_at(0, &mut bytes).unwrap();
        bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect::<Vec<_>>()
    };
    let options = ExecutionOptions::default();

    let (request, memory) = relu_request(&[-1.0, 2.5]).unwrap();
    let outcome = model.execute_synchronously(&request, options).unwrap();
    assert_eq!(outcome.output_shapes[0].dimensions, [2]);
    assert_eq!(read(&memory), [-1.0, 2.5, 0.0, 2.5]);

    let (request, memory) = relu_request(&[3.0, -2.5]).unwrap();
    let (ready, signal) = std::io::pipe().unwrap();
    drop(signal);
    let refused = model.execute_fenced(request.clone(), vec![OwnedFd::from(ready)], options, None);
    assert_eq!(refused.unwrap_err().status, ErrorStatus::InvalidArgument, "a fence in error");
    let fenced = model.execute_fenced(request.clone(), Vec::new(), options, None).unwrap();
    assert!(fenced.sync_fence.is_none() && fenced.callback.execution_info().is_ok());
    assert_eq!(read(&memory), [3.0, -2.5, 3.0, 0.0]);

    let mut short = request.clone();
    short.outputs[0].location.length = 7;
    let failure = model.execute_synchronously(&short, options).unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::OutputInsufficientSize);
    assert!(!failure.output_shapes[0].is_sufficient);
    let late = ExecutionOptions { deadline: Some(TimePoint::now()), ..options };
    let failure = model.execute_synchronously(&request, late).unwrap_err();
    assert_eq!(failure.error.status, ErrorStatus::MissedDeadlinePersistent);

    let mut broken = relu_model(&[2]);
    broken.main.operations[0].inputs[0] = 9;
    let refused = prepare(&device, broken, PrepareOptions::default()).map(drop).unwrap_err();
    assert_eq!(refused.status, ErrorStatus::InvalidArgument);
    let deadline = Some(TimePoint::now());
    let late = PrepareOptions { deadline, ..PrepareOptions::default() };
    let refused = prepare(&device, relu_model(&[2]), late).map(drop).unwrap_err();
    assert_eq!(refused.status, ErrorStatus::MissedDeadlinePersistent);
    let uncached = wait_for_prepared_model(|callback| {
        device.prepare_model_from_cache(None, CacheHandles::default(), callback)
    });
    assert_eq!(uncached.map(drop).unwrap_err().status, ErrorStatus::GeneralFailure);
}
