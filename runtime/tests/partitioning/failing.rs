//! Devices that fail, and who stands in for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nnburst::hal::{ErrorStatus, Model, OperationType, Version};
use nnburst::{
    BurstOptions, Compilation, CompileOptions, Device, ModelBuilder, Partitioning, ResultCode,
    compile_among,
};

use crate::devices::{Fault, Picky};
use crate::plans::{binary, tensor};

/// `(a + b) * b`
fn model() -> Model {
    let mut graph = ModelBuilder::new();
    let [a, b] = [(); 2].map(|()| graph.input(tensor(&[2])));
    let sum = binary(&mut graph, OperationType::Add, a, b);
    let product = binary(&mut graph, OperationType::Mul, sum, b);
    graph.output(product);
    graph.build().unwrap()
}

fn compile(devices: &[Device], partitioning: Partitioning) -> nnburst::Result<Compilation> {
    let options = CompileOptions { partitioning: Some(partitioning), ..CompileOptions::default() };
    compile_among(&model(), devices, &options)
}

/// By every way to execute.
fn results(compilation: &Compilation) -> Vec<(&'static str, nnburst::Result<Vec<f32>>)> {
    let ways = ["sync", "async", "fenced", "burst"];
    ways.iter()
        .map(|&way| {
            let mut frame = compilation.frame().unwrap();
            frame.write(0, &[1.0f32, 2.0]).unwrap();
            frame.write(1, &[3.0f32, -4.0]).unwrap();
            let execution = compilation.execution();
            let result = match way {
                "sync" => execution.compute(&mut frame).map(|()| frame),
                "async" => execution.start(frame).and_then(|event| {
                    let (frame, result) = event.wait();
                    result.map(|()| frame)
                }),
                "fenced" => execution.start_fenced(frame, Vec::new()).and_then(|event| {
                    let (frame, result) = event.wait();
                    result.map(|()| frame)
                }),
                _ => compilation
                    .burst(&BurstOptions::default())
                    .and_then(|mut burst| burst.compute(&mut frame))
                    .map(|()| frame),
            };
            (way, result.map(|frame| frame.read(0).unwrap()))
        })
        .collect()
}

const WANT: [f32; 2] = [12.0, 8.0];

#[test]
fn the_reference_device_stands_in_for_whatever_fails() {
    let adds = |fault| {
        let driver = Picky::new(0.5, |one, _| one.kind == OperationType::Add).fault(fault);
        (Arc::clone(&driver.executions), driver.device("adds", Version::V1_3))
    };
    let everything = |fault| {
        let driver = Picky::new(0.5, |_, _| true).fault(fault);
        (Arc::clone(&driver.executions), driver.device("everything", Version::V1_3))
    };
    let failed = ErrorStatus::GeneralFailure;
    for (what, (executions, device), runs) in [
        ("compound, at preparation", adds(Fault::Prepare(failed)), false),
        ("simple, at preparation", everything(Fault::Prepare(failed)), false),
        ("compound, at execution", adds(Fault::Execute(failed)), true),
        ("simple, at execution", everything(Fault::Execute(failed)), true),
        ("invalid argument", everything(Fault::Execute(ErrorStatus::InvalidArgument)), true),
        ("missed deadline", adds(Fault::Execute(ErrorStatus::MissedDeadlineTransient)), true),
    ] {
        let devices = [device, Device::reference()];
        let compilation = compile(&devices, Partitioning::WithFallback).unwrap();
        for (way, result) in results(&compilation) {
            assert_eq!(result.unwrap(), WANT, "{what}, {way}");
        }
        assert_eq!(executions.load(Ordering::Relaxed) > 0, runs, "{what}");
    }
}

#[test]
fn without_fallback_what_fails_fails() {
    let statuses = [
        (ErrorStatus::GeneralFailure, ResultCode::OpFailed),
        (ErrorStatus::DeviceUnavailable, ResultCode::UnavailableDevice),
        (ErrorStatus::InvalidArgument, ResultCode::BadData),
        (ErrorStatus::MissedDeadlinePersistent, ResultCode::MissedDeadlinePersistent),
        (ErrorStatus::ResourceExhaustedTransient, ResultCode::ResourceExhaustedTransient),
    ];
    for (status, code) in statuses {
        let device = |fault| {
            let driver = Picky::new(0.5, |one, _| one.kind == OperationType::Add).fault(fault);
            [driver.device("adds", Version::V1_3), Device::reference()]
        };
        let unprepared = compile(&device(Fault::Prepare(status)), Partitioning::WithoutFallback);
        assert_eq!(unprepared.unwrap_err().code(), code);
        let compilation =
            compile(&device(Fault::Execute(status)), Partitioning::WithoutFallback).unwrap();
        for (way, result) in results(&compilation) {
            assert_eq!(result.unwrap_err().code(), code, "{status:?}, {way}");
        }
    }
}

#[test]
fn an_output_too_small_is_never_tried_again() {
    let adds = Picky::new(0.5, |one, _| one.kind == OperationType::Add);
    let devices = [adds.device("adds", Version::V1_3), Device::reference()];
    let compilation = compile(&devices, Partitioning::WithFallback).unwrap();
    let argument = |length| nnburst::Argument { dimensions: Vec::new(), length };
    let mut frame = compilation.frame_with(&[argument(8), argument(8)], &[argument(4)]).unwrap();
    match compilation.execution().compute(&mut frame).unwrap_err() {
        nnburst::RuntimeError::OutputTooSmall { shapes, .. } => {
            assert_eq!(
                (shapes[0].dimensions.as_slice(), shapes[0].is_sufficient),
                (&[2][..], false)
            );
        }
        other => panic!("{other}"),
    }
}

/// A loop that the interpreter runs, and behind it a device that fails: the whole is computed anew,
/// once.
#[test]
fn a_failure_behind_an_interpreted_loop_is_recovered_from() {
    let mut graph = ModelBuilder::new();
    let start = graph.input(tensor(&[1]));
    let below = graph.subgraph(|graph| {
        let x = graph.input(tensor(&[1]));
        let ten = graph.tensor_f32(vec![1], &[10.0]);
        let less = graph.less(x, ten).done();
        graph.output(less);
    });
    let step = graph.subgraph(|graph| {
        let x = graph.input(tensor(&[1]));
        let one = graph.tensor_f32(vec![1], &[1.0]);
        let more = graph.add(x, one).done();
        graph.output(more);
    });
    let end = graph.while_loop(below, step, &[start])[0];
    let square = graph.mul(end, end).done();
    graph.output(square);
    let model = graph.build().unwrap();

    let adds = Picky::new(0.5, |one, _| one.kind == OperationType::Add);
    let muls = Picky::new(0.5, |one, _| one.kind == OperationType::Mul)
        .fault(Fault::Execute(ErrorStatus::GeneralFailure));
    let failures = Arc::clone(&muls.executions);
    let devices = [
        adds.device("adds", Version::V1_3),
        muls.device("muls", Version::V1_3),
        Device::reference(),
    ];
    let options = CompileOptions {
        partitioning: Some(Partitioning::WithFallback),
        ..CompileOptions::default()
    };
    assert!(!nnburst::explain(&model, &devices, &options).unwrap().is_simple());
    let compilation = compile_among(&model, &devices, &options).unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[7.0f32]).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [100.0]);
    assert_eq!(failures.load(Ordering::Relaxed), 1);
}
