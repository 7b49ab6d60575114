//! IF and WHILE over several devices.

use std::time::Duration;

use nnburst::hal::{
    DataLocation, ExtensionCode, ExtensionNameAndPrefix, Model, Operand, OperandLifeTime,
    OperandType, Operation, OperationType, Subgraph, tflite_extension,
};
use nnburst::{
    CompileOptions, Device, Partitioning, ResultCode, StepKind, compile_among, compile_for, explain,
};

use crate::devices::taking;

fn operand(kind: OperandType, dimensions: &[u32], lifetime: OperandLifeTime) -> Operand {
    Operand::tensor(kind, dimensions.to_vec()).with_lifetime(lifetime)
}

fn float(dimensions: &[u32], lifetime: OperandLifeTime) -> Operand {
    operand(OperandType::TensorFloat32, dimensions, lifetime)
}

fn subgraph(index: u32) -> Operand {
    let mut operand = operand(OperandType::Subgraph, &[], OperandLifeTime::Subgraph);
    operand.location = DataLocation { offset: index, ..DataLocation::default() };
    operand
}

fn constant(kind: OperandType, dimensions: &[u32], offset: u32, length: u32) -> Operand {
    let mut operand = operand(kind, dimensions, OperandLifeTime::ConstantCopy);
    operand.location = DataLocation { pool_index: 0, offset, length };
    operand
}

/// Counts the consumers, as a model has to say them.
fn graph(
    operands: Vec<Operand>,
    operations: Vec<(OperationType, Vec<u32>, Vec<u32>)>,
    inputs: &[u32],
    outputs: &[u32],
) -> Subgraph {
    let mut graph = Subgraph {
        operands,
        operations: operations
            .into_iter()
            .map(|(kind, inputs, outputs)| Operation { kind, inputs, outputs })
            .collect(),
        input_indexes: inputs.to_vec(),
        output_indexes: outputs.to_vec(),
    };
    for operation in &graph.operations {
        for &input in &operation.inputs {
            graph.operands[usize::try_from(input).unwrap()].number_of_consumers += 1;
        }
    }
    graph
}

/// `x op 1`, with the constants 1.0 at byte 0 and the activation at byte 4.
fn with_one(kind: OperationType, dimensions: &[u32]) -> Subgraph {
    use OperandLifeTime::{SubgraphInput, SubgraphOutput};
    let operands = vec![
        float(dimensions, SubgraphInput),
        constant(OperandType::TensorFloat32, &[1], 0, 4),
        constant(OperandType::Int32, &[], 4, 4),
        float(dimensions, SubgraphOutput),
    ];
    graph(operands, vec![(kind, vec![0, 1, 2], vec![3])], &[0], &[3])
}

fn values() -> Vec<u8> {
    [1.0f32.to_le_bytes().as_slice(), &0i32.to_le_bytes(), &10.0f32.to_le_bytes()].concat()
}

/// `if c { x + 1 } else { x - 1 }`
fn branching(dimensions: &[u32]) -> Model {
    use OperandLifeTime::{SubgraphInput, SubgraphOutput};
    let operands = vec![
        operand(OperandType::TensorBool8, &[1], SubgraphInput),
        subgraph(0),
        subgraph(1),
        float(dimensions, SubgraphInput),
        float(dimensions, SubgraphOutput),
    ];
    let operation = (OperationType::If, vec![0, 1, 2, 3], vec![4]);
    Model {
        main: graph(operands, vec![operation], &[0, 3], &[4]),
        referenced: vec![
            with_one(OperationType::Add, dimensions),
            with_one(OperationType::Sub, dimensions),
        ],
        operand_values: values(),
        ..Model::default()
    }
}

/// `while x < 10 { x = x + 1 }`
fn looping(dimensions: &[u32]) -> Model {
    use OperandLifeTime::{SubgraphInput, SubgraphOutput};
    let condition = graph(
        vec![
            float(dimensions, SubgraphInput),
            constant(OperandType::TensorFloat32, &[1], 8, 4),
            operand(OperandType::TensorBool8, &[1], SubgraphOutput),
        ],
        vec![(OperationType::Less, vec![0, 1], vec![2])],
        &[0],
        &[2],
    );
    let operands = vec![
        subgraph(0),
        subgraph(1),
        float(dimensions, SubgraphInput),
        float(dimensions, SubgraphOutput),
    ];
    let operation = (OperationType::While, vec![0, 1, 2], vec![3]);
    Model {
        main: graph(operands, vec![operation], &[2], &[3]),
        referenced: vec![condition, with_one(OperationType::Add, dimensions)],
        operand_values: values(),
        ..Model::default()
    }
}

fn adds() -> Device {
    taking("adds", 0.5, &[OperationType::Add])
}

fn options() -> CompileOptions {
    CompileOptions::default()
}

fn kinds(model: &Model, devices: &[Device]) -> Vec<StepKind> {
    explain(model, devices, &options()).unwrap().steps.iter().map(|step| step.kind).collect()
}

#[test]
fn an_if_is_interpreted_so_that_its_graphs_can_be_spread() {
    use StepKind::{Execution, Goto, If};
    let model = branching(&[1]);
    let devices = [adds(), Device::reference()];
    assert_eq!(kinds(&model, &devices), [If, Execution, Goto(4), Execution]);
    let compilation = compile_for(&model, &devices, &options()).unwrap();
    for (yes, want) in [(1u8, 6.0f32), (0, 4.0)] {
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &[yes]).unwrap();
        frame.write(1, &[5.0f32]).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [want]);
        let (frame, result) = compilation.execution().start_fenced(frame, vec![]).unwrap().wait();
        result.unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [want], "fenced");
    }
}

#[test]
fn a_while_is_interpreted_condition_here_and_body_there() {
    use StepKind::{Execution, Goto, While};
    let model = looping(&[1]);
    let devices = [adds(), Device::reference()];
    assert_eq!(kinds(&model, &devices), [While, Execution, Goto(0), Execution, Goto(0)]);
    let compilation = compile_for(&model, &devices, &options()).unwrap();
    for (start, want) in [(0.5f32, 10.5f32), (9.0, 10.0), (10.0, 10.0), (77.0, 77.0)] {
        let mut frame = compilation.frame().unwrap();
        frame.write(0, &[start]).unwrap();
        compilation.execution().compute(&mut frame).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [want]);
        let (frame, result) = compilation.execution().start_fenced(frame, vec![]).unwrap().wait();
        result.unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [want], "fenced");
    }
}

#[test]
fn a_device_that_takes_control_flow_gets_all_of_it() {
    let everything = Device::embedded("nnapi-sample_all").unwrap();
    for model in [branching(&[1]), looping(&[1])] {
        assert_eq!(kinds(&model, std::slice::from_ref(&everything)), [StepKind::Execution]);
    }
}

#[test]
fn unknown_sizes_keep_control_flow_on_the_reference_device() {
    for model in [branching(&[0]), looping(&[0])] {
        let devices = [adds(), Device::reference()];
        let plan = explain(&model, &devices, &options()).unwrap();
        assert!(plan.is_simple());
        assert_eq!(plan.operations[0].device, Some(1), "{plan}");
    }
}

/// `while x < 10 { x = -x }`, with the negation of `dev.nnburst.tflite`.
fn negating(dimensions: &[u32]) -> Model {
    use OperandLifeTime::{SubgraphInput, SubgraphOutput};
    const PREFIX: u16 = 1;
    let negate = tflite_extension::OPERATIONS.iter().find(|about| about.name == "NEG").unwrap();
    let negate = ExtensionCode { prefix: PREFIX, number: negate.number };
    let mut model = looping(dimensions);
    let no_scalars = constant(OperandType::Int32, &[], 4, 4);
    let operands =
        vec![float(dimensions, SubgraphInput), no_scalars, float(dimensions, SubgraphOutput)];
    let operation = (OperationType::Extension(negate), vec![0, 1], vec![2]);
    model.referenced[1] = graph(operands, vec![operation], &[0], &[2]);
    let name = tflite_extension::NAME.to_owned();
    model.extension_name_to_prefix = vec![ExtensionNameAndPrefix { name, prefix: PREFIX }];
    model
}

/// The reference device has no extensions.
#[test]
fn a_loop_with_operations_of_an_extension_goes_where_that_is() {
    let reference = Device::reference();
    let devices = [Device::embedded("nnburst-cpu").unwrap(), reference.clone()];
    for dimensions in [[0], [1]] {
        let model = negating(&dimensions);
        assert_eq!(reference.supported_operations(&model).unwrap(), [false]);
        assert!(compile_for(&model, &devices[1..], &options()).is_err());
        let plan = explain(&model, &devices, &options()).unwrap();
        assert!(plan.is_simple());
        assert_eq!(plan.operations[0].device, Some(0), "{plan}");
    }
    let compilation = compile_for(&negating(&[1]), &devices, &options()).unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[11.0f32]).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f32>(0).unwrap(), [11.0]);
}

#[test]
fn a_loop_without_end_is_stopped_and_not_tried_again() {
    // Nothing is ever added, so the condition holds for good.
    let mut model = looping(&[1]);
    model.operand_values[..4].copy_from_slice(&0.0f32.to_le_bytes());
    let devices = [adds(), Device::reference()];
    let options = CompileOptions { partitioning: Some(Partitioning::WithFallback), ..options() };
    let compilation = compile_among(&model, &devices, &options).unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1.0f32]).unwrap();
    let limit = Duration::from_millis(1);
    let stopped = compilation.execution().loop_timeout(limit).compute(&mut frame).unwrap_err();
    assert_eq!(stopped.code(), ResultCode::MissedDeadlineTransient, "{stopped}");
}
