//! What decides between devices: versions, figures by type, settings, operations that only some
//! know.

use nnburst::hal::{Operand, OperandType, OperationType, Version};
use nnburst::{
    CompileOptions, Device, ModelBuilder, Partitioning, ResultCode, StepKind, compile_among,
    compile_for, explain, supported_operations,
};

use crate::devices::{Fault, Picky, taking};
use crate::plans::{homes, mixed, unknown_between};

fn options(partitioning: Partitioning) -> CompileOptions {
    CompileOptions { partitioning: Some(partitioning), ..CompileOptions::default() }
}

fn all(cost: f32, name: &str, version: Version) -> Device {
    Picky::new(cost, |_, _| true).device(name, version)
}

#[test]
fn what_only_the_newest_can_say_goes_to_the_newest() {
    let mut graph = ModelBuilder::new();
    let x = graph.input(Operand::float32([2]));
    let once = graph.elu(x).done(); // 1.3
    let twice = graph.hard_swish(once).done(); // 1.3
    graph.output(twice);
    let model = graph.build().unwrap();
    let devices = [
        all(0.1, "1.0", Version::V1_0),
        all(0.2, "1.1", Version::V1_1),
        all(0.3, "1.2", Version::V1_2),
        all(0.9, "1.3", Version::V1_3),
    ];
    let plan = explain(&model, &devices, &CompileOptions::default()).unwrap();
    assert_eq!(homes(&plan), [Some(3); 2]);
    assert!(plan.is_simple());
}

/// Either way round: what an old driver is asked about is a part, what it answers is about the
/// whole.
#[test]
fn old_drivers_take_their_part_of_a_model_in_its_order() {
    for add_first in [true, false] {
        let mut graph = ModelBuilder::new();
        let [a, b] = [(); 2].map(|()| graph.input(Operand::float32([2])));
        let out = if add_first {
            let sum = graph.add(a, b).done();
            graph.maximum(sum, b).done()
        } else {
            let largest = graph.maximum(a, b).done();
            graph.add(largest, b).done()
        };
        graph.output(out);
        let model = graph.build().unwrap();
        let old = [all(0.5, "old", Version::V1_1)];
        assert_eq!(supported_operations(&model, &old).unwrap(), [add_first, !add_first]);
        let refused = compile_for(&model, &old, &CompileOptions::default()).unwrap_err();
        assert_eq!(refused.code(), ResultCode::BadData, "{refused}");
        // With one that takes the rest, it runs.
        let maximum = taking("maximum", 0.7, &[OperationType::Maximum]);
        let [old] = old;
        let compilation = compile_for(&model, &[old, maximum], &CompileOptions::default()).unwrap();
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &[1.0f32, 4.0]).unwrap();
        frame.write(1, &[3.0f32, -4.0]).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        let want = if add_first { [4.0, 0.0] } else { [6.0, 0.0] };
        assert_eq!(frame.read::<f32>(0).unwrap(), want);
    }
}

#[test]
fn work_may_go_to_the_reference_device_and_back() {
    let adds = taking("adds", 0.5, &[OperationType::Add]);
    let plan = explain(&mixed(), &[adds, Device::reference()], &CompileOptions::default()).unwrap();
    let steps: Vec<_> = plan.steps.iter().map(|step| (step.kind, step.device)).collect();
    let step = |device| (StepKind::Execution, Some(device));
    assert_eq!(steps, [step(0), step(1), step(0)]);
}

#[test]
fn the_three_settings_differ_where_a_plan_fails() {
    let model = unknown_between();
    let devices = || {
        [
            taking("adds", 0.5, &[OperationType::Add]),
            taking("muls", 0.5, &[OperationType::Mul]),
            Device::reference(),
        ]
    };
    for partitioning in [Partitioning::No, Partitioning::WithFallback] {
        let compilation = compile_among(&model, &devices(), &options(partitioning)).unwrap();
        assert_eq!(compilation.devices(), [Device::reference()], "{partitioning:?}");
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &[1.0f32, 2.0]).unwrap();
        frame.write(1, &[3.0f32, -4.0]).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [12.0, 8.0], "{partitioning:?}");
    }
    let refused =
        compile_among(&model, &devices(), &options(Partitioning::WithoutFallback)).unwrap_err();
    assert_eq!(refused.code(), ResultCode::OpFailed, "{refused}");
}

#[test]
fn relaxed_floats_go_by_their_own_figures() {
    let devices = || {
        [
            Picky::new(0.5, |_, _| true).relaxed(0.9).device("exact", Version::V1_3),
            Picky::new(0.9, |_, _| true).relaxed(0.5).device("relaxed", Version::V1_3),
        ]
    };
    for (relaxed, home) in [(false, 0), (true, 1)] {
        let mut graph = ModelBuilder::new();
        let [a, b] = [(); 2].map(|()| graph.input(Operand::float32([2])));
        let sum = graph.add(a, b).done();
        graph.output(sum);
        if relaxed {
            graph.relax_float32();
        }
        let plan =
            explain(&graph.build().unwrap(), &devices(), &CompileOptions::default()).unwrap();
        assert_eq!(homes(&plan), [Some(home)], "relaxed: {relaxed}");
    }
}

#[test]
fn the_figure_of_the_first_inputs_type_decides() {
    use OperandType as T;
    let kinds = [
        T::TensorFloat32,
        T::TensorFloat16,
        T::TensorInt32,
        T::TensorQuant8Asymm,
        T::TensorQuant8AsymmSigned,
        T::TensorQuant8Symm,
        T::TensorQuant16Asymm,
        T::TensorQuant16Symm,
        T::TensorBool8,
    ];
    for kind in kinds {
        let is_quantized =
            !matches!(kind, T::TensorFloat32 | T::TensorFloat16 | T::TensorInt32 | T::TensorBool8);
        let scale = if is_quantized { 0.5 } else { 0.0 };
        let mut graph = ModelBuilder::new();
        let input = graph.input(Operand::tensor(kind, vec![2]).with_quantization(scale, 0));
        let same = graph.cast(input).to(kind).done();
        graph.output(same);
        let model = graph.build().unwrap();
        for good in kinds {
            let devices = [
                Picky::new(0.7, |_, _| true).device("even", Version::V1_3),
                Picky::new(0.9, |_, _| true).favourite(good, 0.5).device("good", Version::V1_3),
            ];
            let plan = explain(&model, &devices, &CompileOptions::default()).unwrap();
            assert_eq!(homes(&plan), [Some(usize::from(good == kind))], "{kind}, {good}");
        }
    }
}

/// Nobody stands in for what nobody else knows.
#[test]
fn operations_of_makers_go_to_the_best_device_that_knows_them() {
    let mut graph = ModelBuilder::new();
    let input = graph.input(Operand::float32([2]));
    let output = graph.operation(OperationType::OemOperation, &[input], Operand::float32([2]));
    graph.output(output);
    let model = graph.build().unwrap();
    let knows = |cost: f32, name: &str| {
        Picky::new(cost, |_, _| true)
            .boasting()
            .fault(Fault::Prepare(nnburst::hal::ErrorStatus::GeneralFailure))
            .device(name, Version::V1_3)
    };
    let devices = [
        knows(0.8, "slow"),
        knows(0.5, "quick"),
        all(0.1, "quicker still", Version::V1_3),
        Device::reference(),
    ];
    let plan = explain(&model, &devices, &CompileOptions::default()).unwrap();
    assert_eq!(homes(&plan), [Some(1)], "{plan}");
    let cannot = compile_among(&model, &devices, &options(Partitioning::WithFallback)).unwrap_err();
    assert_eq!(cannot.code(), ResultCode::OpFailed, "no fallback: {cannot}");
    for ignorant in [&devices[2..], &devices[3..]] {
        let refused =
            compile_among(&model, ignorant, &options(Partitioning::WithFallback)).unwrap_err();
        assert_eq!(refused.code(), ResultCode::BadData, "{refused}");
    }
}
