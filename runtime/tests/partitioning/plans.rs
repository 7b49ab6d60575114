//! Which device gets what, and the plans that come of it.

use nnburst::hal::{ExecutionPreference, Model, Operand, OperandType, OperationType, Version};
use nnburst::{
    CompileOptions, Device, Explanation, ModelBuilder, OperandId, Partitioning, ResultCode,
    StepKind, compile, compile_for, explain,
};

use crate::devices::{Picky, taking};

pub(crate) fn tensor(extents: &[u32]) -> Operand {
    Operand::tensor(OperandType::TensorFloat32, extents.to_vec())
}

pub(crate) fn binary(
    graph: &mut ModelBuilder,
    kind: OperationType,
    a: OperandId,
    b: OperandId,
) -> OperandId {
    let none = graph.scalar_i32(0);
    graph.operation(kind, &[a, b, none], tensor(&[2]))
}

/// `(a + b) * c`, then RELU, then ADD of both.
pub(crate) fn mixed() -> Model {
    let mut graph = ModelBuilder::new();
    let [a, b, c] = [(); 3].map(|()| graph.input(tensor(&[2])));
    let sum = binary(&mut graph, OperationType::Add, a, b);
    let product = binary(&mut graph, OperationType::Mul, sum, c);
    let positive = graph.operation(OperationType::Relu, &[product], tensor(&[2]));
    let all = binary(&mut graph, OperationType::Add, positive, sum);
    graph.output(all);
    graph.build().unwrap()
}

fn compute(compilation: &nnburst::Compilation) -> Vec<f32> {
    let mut frame = compilation.frame().unwrap();
    for (input, values) in [[1.0f32, 2.0], [3.0, -4.0], [0.5, 1.5]].iter().enumerate() {
        frame.write(input, values).unwrap();
    }
    compilation.execution().compute(&mut frame).unwrap();
    frame.read(0).unwrap()
}

/// (1 + 3) * 0.5 = 2, and 2 + 4 = 6; (2 - 4) * 1.5 = -3, and 0 - 2.
const WANT: [f32; 2] = [6.0, -2.0];

pub(crate) fn homes(explanation: &Explanation) -> Vec<Option<usize>> {
    explanation.operations.iter().map(|one| one.device).collect()
}

fn options() -> CompileOptions {
    CompileOptions::default()
}

#[test]
fn one_device_gives_a_simple_plan_and_two_give_steps() {
    let model = mixed();
    let adds = taking("adds", 0.5, &[OperationType::Add]);
    let rest = taking("rest", 0.9, &[OperationType::Mul, OperationType::Relu, OperationType::Add]);
    let all = explain(&model, std::slice::from_ref(&rest), &options()).unwrap();
    assert!(all.is_simple());
    assert_eq!(
        compute(&compile_for(&model, std::slice::from_ref(&rest), &options()).unwrap()),
        WANT
    );

    let both = [adds, rest];
    let plan = explain(&model, &both, &options()).unwrap();
    assert_eq!(homes(&plan), [Some(0), Some(1), Some(1), Some(0)]);
    let steps: Vec<_> =
        plan.steps.iter().map(|step| (step.kind, step.device, step.operations.clone())).collect();
    assert_eq!(
        steps,
        [
            (StepKind::Execution, Some(0), vec![0]),
            (StepKind::Execution, Some(1), vec![1, 2]),
            (StepKind::Execution, Some(0), vec![3]),
        ]
    );
    let said = plan.to_string();
    assert!(said.contains("operation 1, MUL: rest (rest asks 0.90; adds refuses)"), "{said}");
    assert!(said.contains("step 1: rest runs operations 1, 2"), "{said}");
    let compilation = compile_for(&model, &both, &options()).unwrap();
    assert_eq!(compilation.devices(), both);
    assert_eq!(compute(&compilation), WANT);
}

#[test]
fn every_way_to_execute_a_compound_plan_gives_the_same() {
    let model = mixed();
    let devices = [
        taking("adds", 0.5, &[OperationType::Add]),
        Device::embedded("nnapi-sample_all").unwrap(),
        Device::reference(),
    ];
    let compilation = compile_for(&model, &devices, &options()).unwrap();
    assert_eq!(compilation.devices().len(), 2, "adds, and the reference device for the rest");
    let mut frame = compilation.frame().unwrap();
    for (input, values) in [[1.0f32, 2.0], [3.0, -4.0], [0.5, 1.5]].iter().enumerate() {
        frame.write(input, values).unwrap();
    }
    let mut burst = compilation.burst(&nnburst::BurstOptions::default()).unwrap();
    assert_eq!(burst.warnings().len(), 2, "the picky driver has no bursts: {:?}", burst.warnings());
    for way in 0..8 {
        let zero = [0.0f32; 2];
        frame.write(2, &[0.5f32, 1.5]).unwrap();
        let execution = compilation.execution();
        let (back, result) = match way % 4 {
            0 => execution.start(frame).unwrap().wait(),
            1 => execution.start_fenced(frame, Vec::new()).unwrap().wait(),
            2 => {
                let result = burst.compute(&mut frame);
                (frame, result)
            }
            _ => {
                let result = execution.compute(&mut frame);
                (frame, result)
            }
        };
        frame = back;
        result.unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), WANT, "way {way}");
        frame.write(2, &zero).unwrap();
    }
}

#[test]
fn figures_and_preference_choose_and_the_reference_device_wins_ties() {
    let model = mixed();
    let fast = || Picky::new(0.5, |_, _| true).power(2.0);
    let frugal = || Picky::new(1.5, |_, _| true).power(0.5);
    let devices = [
        fast().device("fast", Version::V1_3),
        frugal().device("frugal", Version::V1_3),
        Device::reference(),
    ];
    let choice = |preference| {
        let options = CompileOptions { preference, ..options() };
        homes(&explain(&model, &devices, &options).unwrap())[0]
    };
    assert_eq!(choice(ExecutionPreference::FastSingleAnswer), Some(0));
    assert_eq!(choice(ExecutionPreference::SustainedSpeed), Some(0));
    assert_eq!(choice(ExecutionPreference::LowPower), Some(1));

    let even = || Picky::new(1.0, |_, _| true);
    let tied = [
        even().device("one", Version::V1_3),
        even().device("two", Version::V1_3),
        Device::reference(),
    ];
    let plan = explain(&model, &tied, &options()).unwrap();
    assert_eq!(homes(&plan), [Some(2); 4], "the reference device");
    let plan = explain(&model, &tied[..2], &options()).unwrap();
    assert_eq!(homes(&plan), [Some(0); 4], "the first");
}

#[test]
fn an_older_driver_gets_what_its_version_can_say() {
    let mut graph = ModelBuilder::new();
    let [a, b] = [(); 2].map(|()| graph.input(tensor(&[2])));
    let sum = binary(&mut graph, OperationType::Add, a, b); // 1.0
    let difference = binary(&mut graph, OperationType::Sub, sum, b); // 1.1
    let largest = graph.operation(OperationType::Maximum, &[difference, sum], tensor(&[2])); // 1.2
    graph.output(largest);
    let model = graph.build().unwrap();
    for (version, cost, taken) in [
        (Version::V1_0, 0.5, vec![Some(0), Some(1), Some(1)]),
        (Version::V1_1, 0.5, vec![Some(0), Some(0), Some(1)]),
        (Version::V1_2, 0.5, vec![Some(0); 3]),
        (Version::V1_3, 0.5, vec![Some(0); 3]),
    ] {
        let old = Picky::new(cost, |_, _| true).device("old", version);
        assert_eq!(old.version_of_hal(), version);
        let devices = [old, Device::reference()];
        let plan = explain(&model, &devices, &options()).unwrap();
        assert_eq!(homes(&plan), taken, "{version:?}");
        let compilation = compile_for(&model, &devices, &options()).unwrap();
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &[1.0f32, 2.0]).unwrap();
        frame.write(1, &[3.0f32, -4.0]).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [4.0, 2.0], "{version:?}");
    }
}

#[test]
fn a_models_output_may_be_an_input_of_a_later_step() {
    let mut graph = ModelBuilder::new();
    let [a, b] = [(); 2].map(|()| graph.input(tensor(&[2])));
    let sum = binary(&mut graph, OperationType::Add, a, b);
    let product = binary(&mut graph, OperationType::Mul, sum, b);
    graph.output(sum);
    graph.output(product);
    let model = graph.build().unwrap();
    let devices =
        [taking("adds", 0.5, &[OperationType::Add]), taking("muls", 0.5, &[OperationType::Mul])];
    assert_eq!(explain(&model, &devices, &options()).unwrap().steps.len(), 2);
    let compilation = compile_for(&model, &devices, &options()).unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1.0f32, 2.0]).unwrap();
    frame.write(1, &[3.0f32, -4.0]).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [4.0, -2.0]);
    assert_eq!(frame.read::<f32>(1).unwrap(), [12.0, 8.0]);
}

/// ADD of unknown shape, then MUL: the value between is of unknown size.
pub(crate) fn unknown_between() -> Model {
    let mut graph = ModelBuilder::new();
    let [a, b] = [(); 2].map(|()| graph.input(tensor(&[2])));
    let none = graph.scalar_i32(0);
    let sum = graph.operation(OperationType::Add, &[a, b, none], tensor(&[0]));
    let product = binary(&mut graph, OperationType::Mul, sum, b);
    graph.output(product);
    graph.build().unwrap()
}

#[test]
fn a_value_of_unknown_size_between_steps_fails_without_fallback() {
    let model = unknown_between();
    let devices =
        [taking("adds", 0.5, &[OperationType::Add]), taking("muls", 0.5, &[OperationType::Mul])];
    let refused = compile_for(&model, &devices, &options()).unwrap_err();
    assert_eq!(refused.code(), ResultCode::OpFailed, "{refused}");
    assert!(refused.to_string().contains("its size is not known"), "{refused}");
}

#[test]
fn what_nobody_takes_is_the_callers_mistake() {
    let devices = [taking("adds", 0.5, &[OperationType::Add])];
    let refused = explain(&mixed(), &devices, &options()).unwrap_err();
    assert_eq!(refused.code(), ResultCode::BadData);
    assert!(refused.to_string().contains("no device takes operation 1, MUL"), "{refused}");
    let broken = Model::default();
    assert_eq!(compile(&broken, &options()).unwrap_err().code(), ResultCode::BadData);
}

#[test]
fn without_partitioning_everything_is_on_the_reference_device() {
    let options = CompileOptions { partitioning: Some(Partitioning::No), ..options() };
    let compilation = compile(&mixed(), &options).unwrap();
    assert_eq!(compilation.devices(), [Device::reference()]);
    assert_eq!(compute(&compilation), WANT);
}
