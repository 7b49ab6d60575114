//! The devices of a process, and what compiling for them answers.

use std::time::Duration;

use nnburst::hal::{DeviceType, OperandType, Version};
use nnburst::{
    CompileOptions, Device, REFERENCE, ResultCode, builtin, compile, compile_for, devices,
    supported_operations,
};

/// No service runs in the directory that tests look into.
fn list() -> &'static [Device] {
    devices()
}

#[test]
fn the_reference_device_is_listed_last_and_never_alone() {
    let devices = list();
    assert!(devices.len() >= 2, "clients take a single device for none at all");
    let last = devices.last().unwrap();
    assert_eq!(last.name(), REFERENCE);
    assert!(last.is_reference() && *last == Device::reference());
    assert_eq!(last.feature_level(), 30);
    assert_eq!(last.version_of_hal(), Version::V1_3);
    assert_eq!(last.device_type().unwrap(), DeviceType::Cpu);
    assert!(last.extensions().unwrap().is_empty());
    let figures = last.capabilities().unwrap();
    for kind in OperandType::BASE.iter().filter(|&&kind| kind != OperandType::Subgraph) {
        assert!((figures.lookup(*kind).exec_time - 1.0).abs() < f32::EPSILON, "{kind}");
    }
    last.wait(Some(Duration::ZERO)).unwrap();
    assert!(std::ptr::eq(list(), devices), "listed once");
}

#[test]
fn the_default_computes_on_the_reference_device_and_measures_nothing() {
    let model = builtin::model("add1").unwrap();
    let compilation = compile(&model, &CompileOptions::default()).unwrap();
    assert_eq!(compilation.devices(), [Device::reference()]);
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1.0f32]).unwrap();
    frame.write(1, &[2.0f32]).unwrap();
    compilation.execution().measure(true).compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [3.0]);
    assert_eq!(frame.timing(), nnburst::hal::Timing::NONE);
    let event = compilation.execution().start_fenced(frame, Vec::new()).unwrap();
    assert!(event.fence().is_none(), "the reference device runs before it returns");
    event.wait().1.unwrap();
}

#[test]
fn lists_of_devices_are_checked() {
    let model = builtin::model("add1").unwrap();
    let one = Device::reference();
    let twice = [one.clone(), one.clone()];
    let refused = compile_for(&model, &twice, &CompileOptions::default()).unwrap_err();
    assert_eq!(refused.code(), ResultCode::BadData);
    assert!(refused.to_string().contains("nnapi-reference is named twice"), "{refused}");
    assert!(compile_for(&model, &[], &CompileOptions::default()).is_err());
    assert!(supported_operations(&model, &twice).is_err());
    assert_eq!(supported_operations(&model, &[one]).unwrap(), [true]);
    let timeout = Some(Duration::from_secs(5));
    let timed = CompileOptions { timeout, ..CompileOptions::default() };
    assert!(compile(&model, &timed).is_err(), "a timeout takes one named device");
    compile_for(&model, &[Device::reference()], &timed).unwrap();
}
