//! Memories by their roles, where a device has none to give or several devices share them.

use nnburst::hal::{Direction, ErrorStatus, Model, Operand, OperationType, Version};
use nnburst::{
    Compilation, CompileOptions, Device, MemoryDescriptor, ModelBuilder, Partitioning, ResultCode,
    compile_among, compile_for,
};

use crate::devices::{Fault, Picky, taking};

fn model(shape: &[u32]) -> Model {
    let mut graph = ModelBuilder::new();
    let [a, b] = [(); 2].map(|()| graph.input(Operand::float32(shape)));
    let sum = graph.add(a, b).done();
    let product = graph.mul(sum, b).done();
    graph.output(product);
    graph.build().unwrap()
}

fn describe(compilation: &Compilation) -> MemoryDescriptor {
    let mut descriptor = MemoryDescriptor::new();
    descriptor.add_role(compilation, Direction::Output, 0, 1.0).unwrap();
    descriptor.add_role(compilation, Direction::Input, 1, 1.0).unwrap();
    descriptor.finish().unwrap();
    descriptor
}

fn device(fault: Fault, version: Version) -> Device {
    Picky::new(0.5, |_, _| true).fault(fault).device("without buffers", version)
}

fn among(model: &Model, devices: &[Device]) -> Compilation {
    let partitioning = Some(Partitioning::WithFallback);
    compile_among(model, devices, &CompileOptions { partitioning, ..CompileOptions::default() })
        .unwrap()
}

#[test]
fn shared_memory_stands_in_unless_a_device_was_named() {
    for fault in [Fault::None, Fault::NamelessBuffers] {
        for version in [Version::V1_2, Version::V1_3] {
            let chosen = among(&model(&[2]), &[device(fault, version), Device::reference()]);
            let memory = describe(&chosen).create_memory().unwrap();
            let kind = if version == Version::V1_3 { "hardware_buffer_blob" } else { "ashmem" };
            assert_eq!(memory.shared().unwrap().kind().name(), kind, "{fault:?}, {version:?}");

            let named =
                compile_for(&model(&[2]), &[device(fault, version)], &CompileOptions::default());
            let refused = describe(&named.unwrap()).create_memory().unwrap_err();
            assert_eq!(refused.code(), ResultCode::OpFailed, "{fault:?}, {version:?}");
        }
    }
}

#[test]
fn nothing_stands_in_for_memory_of_open_size() {
    let devices = [device(Fault::None, Version::V1_3), Device::reference()];
    let open = among(&model(&[0]), &devices);
    let refused = describe(&open).create_memory().unwrap_err();
    assert_eq!(refused.status(), Some(ErrorStatus::GeneralFailure), "{refused}");
    // With the size told it does.
    let mut descriptor = MemoryDescriptor::new();
    descriptor.add_role(&open, Direction::Output, 0, 1.0).unwrap();
    descriptor.set_dimensions(&[2]).unwrap();
    descriptor.finish().unwrap();
    assert!(descriptor.create_memory().unwrap().shared().is_some());
}

#[test]
fn roles_on_several_devices_share_memory() {
    let devices =
        || [taking("adds", 0.5, &[OperationType::Add]), taking("muls", 0.5, &[OperationType::Mul])];
    // The second input is read by both.
    let chosen = among(&model(&[2]), &devices());
    assert_eq!(chosen.devices().len(), 2);
    assert!(describe(&chosen).create_memory().unwrap().shared().is_some());
    let named = compile_for(&model(&[2]), &devices(), &CompileOptions::default()).unwrap();
    assert_eq!(describe(&named).create_memory().unwrap_err().code(), ResultCode::OpFailed);
}
