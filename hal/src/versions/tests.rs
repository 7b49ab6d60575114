//! Drivers of every version behind clients of every version; conversions; parts of models.

use std::sync::{Arc, Mutex};

use super::*;
use crate::testing::{ReluDriver, relu_model, relu_request};
use crate::*;

/// The same driver, seen by a client of 1.3 through every older interface, and through a newer one
/// that was made older and newer again.
fn devices() -> Vec<(&'static str, Version, Arc<dyn Device>)> {
    let newest: Arc<dyn Device> = Arc::new(ReluDriver);
    vec![
        ("1.0", Version::V1_0, v1_0::upgrade(Arc::new(ReluDriver))),
        ("1.1", Version::V1_1, v1_1::upgrade(Arc::new(ReluDriver))),
        ("1.2", Version::V1_2, v1_2::upgrade(Arc::new(ReluDriver))),
        ("1.3", Version::V1_3, Arc::clone(&newest)),
        ("1.3 as 1.0", Version::V1_0, v1_0::upgrade(v1_0::downgrade(Arc::clone(&newest)))),
        ("1.3 as 1.1", Version::V1_1, v1_1::upgrade(v1_1::downgrade(Arc::clone(&newest)))),
        ("1.3 as 1.2", Version::V1_2, v1_2::upgrade(v1_2::downgrade(newest))),
    ]
}

fn prepare(device: &dyn Device, model: Model) -> Result<Arc<dyn PreparedModel>> {
    wait_for_prepared_model(|callback| {
        device.prepare_model(model, PrepareOptions::default(), CacheHandles::default(), callback)
    })
}

fn output(memory: &Memory, offset: u64, values: usize) -> Vec<f32> {
    let mut bytes = vec![0; values * 4];
    memory.read_at(offset, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect()
}

#[derive(Default)]
struct Heard(Mutex<Vec<ExecutionResult>>);

impl ExecutionCallback for Heard {
    fn notify(&self, result: ExecutionResult) {
        self.0.lock().unwrap().push(result);
    }
}

#[test]
fn a_driver_of_any_version_computes_for_the_newest_client() {
    for (what, _, device) in devices() {
        let capabilities = device.capabilities().unwrap();
        assert_eq!(capabilities.lookup(OperandType::TensorFloat32).exec_time, 0.5, "{what}");
        assert_eq!(capabilities.lookup(OperandType::TensorQuant8Asymm).exec_time, 0.5, "{what}");
        assert_eq!(device.status(), Ok(DeviceStatus::Available), "{what}");
        assert!(!device.version_string().unwrap().is_empty(), "{what}");
        let prepared = prepare(&*device, relu_model(&[2])).unwrap();
        let (request, memory) = relu_request(&[-1.5, 2.5]).unwrap();
        let outcome =
            prepared.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        let shape = OutputShape { dimensions: vec![2], is_sufficient: true };
        assert_eq!(outcome.output_shapes, [shape], "{what}");
        assert_eq!(output(&memory, 8, 2), [0.0, 2.5], "{what}");

        let heard = Arc::new(Heard::default());
        prepared.execute(request.clone(), ExecutionOptions::default(), heard.clone()).unwrap();
        assert_eq!(*heard.0.lock().unwrap(), [Ok(outcome)], "{what}");

        let mut short = request;
        short.inputs.clear();
        let error = prepared.execute_synchronously(&short, ExecutionOptions::default());
        assert_eq!(error.unwrap_err().error.status, ErrorStatus::InvalidArgument, "{what}");
        let heard = Arc::new(Heard::default());
        assert!(prepared.execute(short, ExecutionOptions::default(), heard.clone()).is_err());
        assert_eq!(heard.0.lock().unwrap().len(), 1, "{what}: told once");
    }
}

#[test]
fn fences_are_waited_for_on_behalf_of_older_drivers() {
    for (what, version, device) in devices() {
        if version == Version::V1_3 {
            continue;
        }
        let prepared = prepare(&*device, relu_model(&[2])).unwrap();
        let (request, memory) = relu_request(&[-1.0, 3.0]).unwrap();
        let (read, write) = nix::unistd::pipe().unwrap();
        nix::unistd::write(&write, b"x").unwrap();
        let options = ExecutionOptions::default();
        let fenced = prepared.execute_fenced(request.clone(), vec![read], options, None).unwrap();
        assert!(fenced.sync_fence.is_none(), "{what}");
        assert_eq!(fenced.callback.execution_info(), Ok(FencedTiming::default()), "{what}");
        assert_eq!(output(&memory, 8, 2), [0.0, 3.0], "{what}");

        let (closed, write) = nix::unistd::pipe().unwrap();
        drop(write);
        let error = prepared.execute_fenced(request.clone(), vec![closed], options, None);
        assert_eq!(error.err().map(|e| e.status), Some(ErrorStatus::InvalidArgument), "{what}");

        let (never, _write) = nix::unistd::pipe().unwrap();
        let deadline = Some(TimePoint::after(std::time::Duration::from_millis(1)));
        let options = ExecutionOptions { deadline, ..options };
        let error = prepared.execute_fenced(request, vec![never], options, None);
        let missed = Some(ErrorStatus::MissedDeadlineTransient);
        assert_eq!(error.err().map(|error| error.status), missed, "{what}");
    }
}

#[test]
fn pools_that_an_older_driver_knows_nothing_of_fail_and_are_not_the_request_s_fault() {
    let handle = |name| {
        let memory = Memory::ashmem(16).unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        RequestPool::Memory(Memory::from_handle(name, vec![fd], vec![], 16).unwrap())
    };
    for (what, version, device) in devices() {
        if version == Version::V1_3 {
            continue;
        }
        let prepared = prepare(&*device, relu_model(&[2])).unwrap();
        let (mut request, _memory) = relu_request(&[-1.0, 3.0]).unwrap();
        let mut pools = vec![RequestPool::Token(1)];
        if version < Version::V1_2 {
            pools.push(handle("hardware_buffer_blob"));
        }
        let options = ExecutionOptions::default();
        let failure = Some(ErrorStatus::GeneralFailure);
        for pool in pools {
            request.pools = vec![pool];
            let error = prepared.execute_synchronously(&request, options).err();
            assert_eq!(error.map(|failure| failure.error.status), failure, "{what}");
            let heard = Arc::new(Heard::default());
            let launched = prepared.execute(request.clone(), options, heard.clone());
            assert_eq!(launched.err().map(|error| error.status), failure, "{what}, launched");
            assert_eq!(heard.0.lock().unwrap().len(), 1, "{what}: told once");
            let fenced = prepared.execute_fenced(request.clone(), Vec::new(), options, None);
            assert_eq!(fenced.err().map(|error| error.status), failure, "{what}, fenced");
        }
    }
}

/// RELU, ABS (1.2), RELU in a row.
fn mixed_model() -> Model {
    let mut model = relu_model(&[2]);
    let graph = &mut model.main;
    let input = graph.operands[0].clone();
    let temporary = Operand { lifetime: OperandLifeTime::TemporaryVariable, ..input };
    graph.operands.extend([temporary.clone(), temporary]);
    graph.operations =
        [(OperationType::Relu, 0, 2), (OperationType::Abs, 2, 3), (OperationType::Relu, 3, 1)]
            .map(|(kind, input, output)| Operation {
                kind,
                inputs: vec![input],
                outputs: vec![output],
            })
            .to_vec();
    model
}

#[test]
fn an_older_driver_is_asked_about_the_part_it_understands() {
    let model = mixed_model();
    validate_model(&model, Version::V1_3).unwrap();
    assert_eq!(noncompliant_operations(&model, Version::V1_1), [1]);
    let part = slice_for(&model, Version::V1_0).unwrap();
    assert_eq!(part.operation_indexes, [0, 2]);
    validate_model(&part.model, Version::V1_0).unwrap();
    let main = &part.model.main;
    assert_eq!((main.input_indexes.len(), main.output_indexes.len()), (2, 2));
    for (what, version, device) in devices() {
        let supported = device.supported_operations(&model).unwrap();
        assert_eq!(supported, [true, false, true], "{what}");
        let error = prepare(&*device, model.clone()).err().unwrap();
        let expected = if version < Version::V1_2 {
            ErrorStatus::InvalidArgument // not expressible
        } else {
            ErrorStatus::GeneralFailure // not supported
        };
        assert_eq!(error.status, expected, "{what}");
    }
}

/// Input, temporary and output in turn, and a constant in a hardware buffer.
#[test]
fn open_ranks_and_hardware_buffers_need_1_2() {
    for at in [0, 1, 2] {
        let mut model = mixed_model();
        for index in [1, 3] {
            model.main.operations[1].kind = OperationType::Relu;
            model.main.operands[index].number_of_consumers = u32::from(index == 3);
        }
        assert!(compliant_with(&model, Version::V1_0), "{at}");
        model.main.operands[at].dimensions.clear();
        let complies = Version::ALL.map(|version| compliant_with(&model, version));
        assert_eq!(complies, [false, false, true, true], "operand {at}");
    }

    let plain = Memory::ashmem(8).unwrap();
    let fd = plain.fd().try_clone_to_owned().unwrap();
    let blob = MemoryKind::HardwareBufferBlob.name();
    let blob = Memory::from_handle(blob, vec![fd], Vec::new(), 8).unwrap();
    for (memory, needs) in [(plain, Version::V1_0), (blob, Version::V1_2)] {
        let mut model = relu_model(&[2]);
        model.main.operands[0].lifetime = OperandLifeTime::ConstantReference;
        model.main.operands[0].location.length = 8;
        model.main.input_indexes.clear();
        model.pools.push(memory.clone());
        let request = Request { pools: vec![RequestPool::Memory(memory)], ..Request::default() };
        for version in Version::ALL {
            assert_eq!(compliant_with(&model, version), version >= needs, "{version:?}");
            assert_eq!(request_compliant_with(&request, version), version >= needs, "{version:?}");
        }
    }
}

#[test]
fn a_part_with_nothing_in_it_is_none() {
    let mut model = relu_model(&[2]);
    model.main.operations[0].kind = OperationType::Abs;
    assert!(slice_for(&model, Version::V1_0).is_none());
    assert_eq!(v1_0::upgrade(Arc::new(ReluDriver)).supported_operations(&model), Ok(vec![false]));
}

#[test]
fn conversions_say_what_they_lose() {
    let mut model = mixed_model();
    model.relax_computation_float32_to_float16 = true;
    model.referenced.push(Subgraph::default());
    model.extension_name_to_prefix =
        vec![ExtensionNameAndPrefix { name: "a.b".to_owned(), prefix: 1 }];
    let losses = |version| convert_to(model.clone(), version).losses;
    let (operation, graphs) = (Loss::Operation { index: 1 }, Loss::ReferencedGraphs { count: 1 });
    let extensions = Loss::Extensions { count: 1 };
    assert_eq!(losses(Version::V1_3), []);
    assert_eq!(losses(Version::V1_2), std::slice::from_ref(&graphs));
    assert_eq!(losses(Version::V1_1), [operation.clone(), graphs.clone(), extensions.clone()]);
    assert_eq!(losses(Version::V1_0), [operation, graphs, extensions, Loss::Relaxation]);
    let request = Request { pools: vec![RequestPool::Token(7)], ..Request::default() };
    assert!(!request_compliant_with(&request, Version::V1_2));
    let converted = convert_request_to(request.clone(), Version::V1_2).unwrap();
    assert_eq!(converted.losses, [Loss::Token { pool: 0 }]);
    assert!(convert_request_to(request, Version::V1_3).unwrap().losses.is_empty());
}

#[test]
fn figures_fold_and_unfold() {
    let figure = |exec_time| PerformanceInfo { exec_time, power_usage: 1.0 };
    let old = v1_0::Capabilities { float32: figure(0.25), quantized8: figure(0.5) };
    let new = Capabilities::from(old);
    assert_eq!(new.to_v1_0(), (old, vec![]));
    assert_eq!(new.operand_performance.len(), 8);
    assert_eq!(new.lookup(OperandType::TensorQuant8Asymm), figure(0.5));
    assert_eq!(new.lookup(OperandType::Float16), PerformanceInfo::WORST);
    assert_eq!(Capabilities::from(new.to_v1_2()), new);

    let mut uneven = new;
    uneven.update(OperandType::Float32, figure(2.0));
    uneven.relaxed_float32_to_float16_tensor = figure(0.1);
    let what: Vec<_> = uneven.to_v1_0().1.into_iter().map(|loss| loss.what).collect();
    assert_eq!(what, ["relaxed scalars", "FLOAT32 scalars", "relaxed computations"]);
    uneven.update(OperandType::TensorQuant8AsymmSigned, figure(1.0));
    assert_eq!(uneven.to_v1_2().operand_performance.len(), 8, "a type of 1.3");
}

/// The warnings that `work` logs, one a line.
fn warnings_of(work: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let written = Written::default();
    let writer = written.clone();
    let lines = tracing_subscriber::fmt().with_ansi(false).without_time();
    let lines = lines.with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(lines, work);
    let written = written.0.lock().unwrap();
    std::str::from_utf8(&written).unwrap().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn figures_that_an_older_version_lacks_are_warned_of() {
    let figure = |exec_time| PerformanceInfo { exec_time, power_usage: 1.0 };
    let even =
        Capabilities::from(v1_0::Capabilities { float32: figure(0.25), quantized8: figure(0.5) });
    let mut uneven = even.clone();
    uneven.update(OperandType::Float32, figure(2.0));
    uneven.update(OperandType::Int32, figure(3.0));
    uneven.update(OperandType::TensorQuant8AsymmSigned, figure(1.0));
    uneven.relaxed_float32_to_float16_tensor = figure(0.1);
    uneven.while_performance = figure(1.0);
    type Convert = fn(&Capabilities);
    let of_1_1 = ["relaxed scalars", "FLOAT32 scalars", "integers"];
    let of_1_0 = [&of_1_1[..], &["relaxed computations"]].concat();
    let cases: [(&str, Convert, &[&str]); 3] = [
        ("V1_0", |it| drop(it.to_v1_0()), &of_1_0),
        ("V1_1", |it| drop(it.to_v1_1()), &of_1_1),
        ("V1_2", |it| drop(it.to_v1_2()), &["types of 1.3", "IF and WHILE"]),
    ];
    for (version, convert, lost) in cases {
        assert_eq!(warnings_of(|| convert(&even)), [""; 0], "{version}: nothing is lost");
        let warned = warnings_of(|| convert(&uneven));
        let line = |what: &&str| {
            format!(
                "WARN nnburst::driver: conversion of capabilities: {what} have performance \
                 figures of their own version={version}"
            )
        };
        assert_eq!(warned, lost.iter().map(line).collect::<Vec<_>>());
    }
}

#[test]
fn each_module_knows_its_own() {
    let counts = [
        (v1_0::operand_types().count(), v1_0::operation_types().count()),
        (v1_1::operand_types().count(), v1_1::operation_types().count()),
        (v1_2::operand_types().count(), v1_2::operation_types().count()),
        (v1_3::operand_types().count(), v1_3::operation_types().count()),
    ];
    assert_eq!(counts, [(8, 30), (8, 39), (16, 96), (18, 103)]);
    assert!(v1_1::validate_model(&mixed_model()).is_err());
    assert!(v1_2::validate_model(&mixed_model()).is_ok());
    assert!(!v1_1::compliant_with(&mixed_model()) && v1_2::compliant_with(&mixed_model()));
}
