//! Executions that devices fail, with arguments in memory of the devices' own: the reference device
//! stands in.

use nnburst::hal::{
    Access, DataLocation, Direction, ErrorStatus, Model, Operand, OperationType, Request,
    RequestArgument, RequestPool, Version,
};
use nnburst::{
    BurstOptions, Compilation, CompileOptions, Device, Memory, MemoryDescriptor, ModelBuilder,
    Partitioning, compile_among,
};

use crate::devices::{Fault, Picky};

/// `(a + b) * c`, with shapes as given, or open.
fn model(shape: &[u32]) -> Model {
    let mut graph = ModelBuilder::new();
    let [a, b, c] = [(); 3].map(|()| graph.input(Operand::float32(shape)));
    let none = graph.scalar_i32(0);
    let sum = graph.operation(OperationType::Add, &[a, b, none], Operand::float32([2]));
    let product = graph.operation(OperationType::Mul, &[sum, c, none], Operand::float32(shape));
    graph.output(product);
    graph.build().unwrap()
}

fn failing(name: &str, kinds: &'static [OperationType]) -> Device {
    Picky::new(0.1, |one, _| kinds.contains(&one.kind))
        .fault(Fault::Execute(ErrorStatus::GeneralFailure))
        .with_buffers()
        .device(name, Version::V1_3)
}

/// One device for everything, or two, each of which numbers its memories for itself.
fn plans() -> [Vec<Device>; 2] {
    use OperationType::{Add, Mul};
    [
        vec![failing("everything", &[Add, Mul]), Device::reference()],
        vec![failing("adds", &[Add]), failing("muls", &[Mul]), Device::reference()],
    ]
}

fn own(compilation: &Compilation, roles: &[(Direction, usize)], dimensions: &[u32]) -> Memory {
    let mut descriptor = MemoryDescriptor::new();
    for &(direction, index) in roles {
        descriptor.add_role(compilation, direction, index, 1.0).unwrap();
    }
    descriptor.set_dimensions(dimensions).unwrap();
    descriptor.finish().unwrap();
    let memory = descriptor.create_memory().unwrap();
    assert!(memory.shared().is_none(), "the device's own");
    memory
}

fn shared(values: [f32; 2]) -> Memory {
    let memory = Memory::new(8).unwrap();
    let mapping = memory.shared().unwrap().map(Access::ReadWrite).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    mapping.view_mut(0..8).unwrap().copy_from_slice(&bytes);
    memory
}

fn values(memory: &Memory) -> [f32; 2] {
    let mut bytes = [0; 8];
    memory.shared().unwrap().read_at(0, &mut bytes).unwrap();
    let (numbers, _) = bytes.as_chunks::<4>();
    [f32::from_le_bytes(numbers[0]), f32::from_le_bytes(numbers[1])]
}

const WAYS: [&str; 4] = ["sync", "async", "fenced", "burst"];

fn run(compilation: &Compilation, way: &str, inputs: [&Memory; 3], output: &Memory) {
    let all = [inputs[0], inputs[1], inputs[2], output];
    // As the C library does: a memory that counts as the same pool is named once.
    let mut pools: Vec<RequestPool> = Vec::new();
    let arguments = all.map(|memory| {
        let at = pools.iter().position(|pool| memory.is_pool(pool)).unwrap_or_else(|| {
            pools.push(memory.pool());
            pools.len() - 1
        });
        let length = if memory.shared().is_some() { 8 } else { 0 };
        let location = DataLocation { pool_index: u32::try_from(at).unwrap(), offset: 0, length };
        RequestArgument { location, dimensions: vec![2], has_no_value: false }
    });
    let [a, b, c, out] = arguments;
    let request = Request { inputs: vec![a, b, c], outputs: vec![out], pools };
    let execution = compilation.execution();
    let outcome = match way {
        "sync" => execution.compute_request(&request),
        "async" => execution.start_request(request).and_then(nnburst::Pending::wait),
        "fenced" => {
            let launched = execution.start_fenced_request(request, Vec::new(), None);
            launched.and_then(nnburst::Pending::wait)
        }
        _ => compilation
            .burst(&BurstOptions::default())
            .and_then(|mut burst| burst.compute_request(&request, &execution.options())),
    };
    outcome.map_err(|error| format!("{way}: {error}")).unwrap();
    output.written(Some(&[2]));
}

#[test]
fn the_reference_device_stands_in_and_fills_the_devices_memory() {
    let partitioning = Some(Partitioning::WithFallback);
    let options = CompileOptions { partitioning, ..CompileOptions::default() };
    for shape in [2, 0] {
        for devices in plans() {
            let compilation = compile_among(&model(&[shape]), &devices, &options).unwrap();
            assert_eq!(compilation.devices().len(), devices.len() - 1, "without the reference");
            for way in WAYS {
                if way == "fenced" && shape == 0 {
                    continue; // takes outputs of known shape alone
                }
                let a = own(&compilation, &[(Direction::Input, 0)], &[2]);
                let roles = [(Direction::Input, 2), (Direction::Output, 0)];
                let [c, product] = [(); 2].map(|()| own(&compilation, &roles, &[2]));
                Memory::copy(&shared([1.0, 2.0]), &a).unwrap();
                Memory::copy(&shared([10.0, 10.0]), &c).unwrap();
                let b = shared([4.0, 4.0]);
                run(&compilation, way, [&a, &b, &c], &product);
                let read = shared([0.0; 2]);
                Memory::copy(&product, &read).unwrap();
                assert_eq!(values(&read), [50.0, 60.0], "{shape}, {way}");
                // What was filled by the one is read by the next.
                run(&compilation, way, [&a, &b, &product], &c);
                run(&compilation, way, [&a, &a, &c], &read);
                assert_eq!(values(&read), [500.0, 1440.0], "{shape}, {way}");
            }
        }
    }
}

/// A memory of open shape, whose size only the execution finds.
#[test]
fn memory_of_open_shape_gets_what_comes_out() {
    let partitioning = Some(Partitioning::WithFallback);
    let options = CompileOptions { partitioning, ..CompileOptions::default() };
    for devices in plans() {
        let compilation = compile_among(&model(&[0]), &devices, &options).unwrap();
        let roles = [(Direction::Input, 2), (Direction::Output, 0)];
        let product = own(&compilation, &roles, &[]);
        let (a, b, c) = (shared([1.0, 2.0]), shared([4.0, 4.0]), shared([10.0, 10.0]));
        run(&compilation, "sync", [&a, &b, &c], &product);
        run(&compilation, "async", [&a, &b, &product], &c);
        assert_eq!(values(&c), [250.0, 360.0]);
    }
}
