//! Operations of extensions go to who is registered for them; those of nobody, and OEM operations,
//! are refused with what they are.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use nnburst_executor::{
    CompileOptions, Control, ExtensionExecutor, ExtensionRegistry, Input, Isa, Label, Lowered,
    OpBuilder, OpError, Output, Plan, Shape, Words,
};
use nnburst_hal::{
    ExtensionCode, ExtensionNameAndPrefix, Model, Operand, OperandLifeTime, OperandType, Operation,
    OperationType, Subgraph, View, ViewMut,
};

/// Operation 1: as many Fibonacci numbers as its input says.
struct Fibonacci;

impl ExtensionExecutor for Fibonacci {
    fn lower(&self, number: u16, op: &mut OpBuilder<'_>) -> Lowered {
        if number != 1 {
            return Err(OpError::rule(format!("there is no operation {number}")).into());
        }
        let count = op.i32s(0)?.first().copied().unwrap_or(0);
        let count = usize::try_from(count).map_err(|_| OpError::input(0, "is negative"))?;
        op.set_output(0, Shape::new([count])?)?;
        let label = Label {
            kernel: "fibonacci",
            form: Isa::Scalar,
            shape: Words::new(move |f| write!(f, "{count}")),
            operations: 0,
        };
        op.emit(label, |io| {
            let numbers = std::iter::successors(Some((1, 1)), |&(a, b)| Some((b, a + b)));
            io.output::<i32>(0).fill(numbers.map(|(a, _)| a));
            Ok(())
        });
        Ok(())
    }
}

const PREFIX: u16 = 7;

fn model(kind: OperationType) -> Model {
    let operand = |dims, lifetime, consumers| Operand {
        number_of_consumers: consumers,
        ..Operand::tensor(OperandType::TensorInt32, dims).with_lifetime(lifetime)
    };
    Model {
        main: Subgraph {
            operands: vec![
                operand(vec![1], OperandLifeTime::SubgraphInput, 1),
                operand(vec![0], OperandLifeTime::SubgraphOutput, 0),
            ],
            operations: vec![Operation { kind, inputs: vec![0], outputs: vec![1] }],
            input_indexes: vec![0],
            output_indexes: vec![1],
        },
        extension_name_to_prefix: vec![ExtensionNameAndPrefix {
            name: "com.example.fibonacci".to_owned(),
            prefix: PREFIX,
        }],
        ..Model::default()
    }
}

fn extension(number: u16) -> OperationType {
    OperationType::Extension(ExtensionCode { prefix: PREFIX, number })
}

fn run(kind: OperationType, extensions: ExtensionRegistry, count: i32) -> Result<Vec<i32>, String> {
    let options = CompileOptions { extensions, ..CompileOptions::default() };
    let plan = Plan::compile(&model(kind), &options).map_err(|error| error.to_string())?;
    let mut session = plan.session();
    let mut output = [0; 64];
    session
        .run(
            &[Input::new(View::of(&count.to_le_bytes()))],
            &[Output::new(ViewMut::of(&mut output))],
            &Control::default(),
        )
        .map_err(|error| error.to_string())?;
    let len = session.output_shapes()[0].dimensions[0] as usize;
    let numbers = output.chunks_exact(4).map(|x| i32::from_le_bytes(x.try_into().unwrap()));
    Ok(numbers.take(len).collect())
}

fn registry() -> ExtensionRegistry {
    let mut registry = ExtensionRegistry::default();
    registry.register("com.example.fibonacci", Arc::new(Fibonacci));
    registry
}

#[test]
fn a_registered_extension_computes() {
    assert_eq!(run(extension(1), registry(), 6), Ok(vec![1, 1, 2, 3, 5, 8]));
    assert_eq!(run(extension(1), registry(), 2), Ok(vec![1, 1]));
}

#[test]
fn what_nobody_computes_is_refused_by_name() {
    for (what, kind, extensions, message) in [
        ("a number it doesn't have", extension(9), registry(), "there is no operation 9"),
        ("an input it can't take", extension(1), registry(), "input 0: is negative"),
        (
            "nobody registered",
            extension(1),
            ExtensionRegistry::default(),
            "nobody executes operations of the extension com.example.fibonacci",
        ),
        (
            "an OEM operation",
            OperationType::OemOperation,
            registry(),
            "operation 0: OEM_OPERATION is not implemented here",
        ),
    ] {
        let error = run(kind, extensions, -1).unwrap_err();
        assert!(error.contains(message), "{what}: {error}");
    }
}

/// Its input in reverse, from as many bytes on as its scalar says.
struct Reverse;

impl ExtensionExecutor for Reverse {
    fn lower(&self, number: u16, op: &mut OpBuilder<'_>) -> Lowered {
        assert_eq!(number, 0);
        let skip = op.constant(1).map_or(0, |bytes| usize::from(bytes.as_slice()[0]));
        let shape = op.input(0)?.shape;
        let count = shape.elements();
        op.set_output(0, shape)?;
        let label = Label {
            kernel: "reverse",
            form: Isa::Scalar,
            shape: Words::new(move |f| write!(f, "{count}")),
            operations: 0,
        };
        op.emit(label, move |io| {
            let bytes: Vec<u8> = io.input::<u8>(0).to_vec();
            io.output::<u8>(0).fill(bytes.into_iter().rev().skip(skip).chain(std::iter::repeat(0)));
            Ok(())
        });
        Ok(())
    }
}

/// OEM_OPERATION of a TENSOR_OEM_BYTE of four and an OEM_SCALAR of one byte.
#[test]
fn oem_operations_go_to_who_is_registered_for_them() {
    let bytes =
        |lifetime| Operand::tensor(OperandType::TensorOemByte, vec![4]).with_lifetime(lifetime);
    let input = Operand { number_of_consumers: 1, ..bytes(OperandLifeTime::SubgraphInput) };
    let scalar = Operand {
        number_of_consumers: 1,
        location: nnburst_hal::DataLocation { pool_index: 0, offset: 0, length: 3 },
        ..Operand::scalar(OperandType::Oem).with_lifetime(OperandLifeTime::ConstantCopy)
    };
    let kind = OperationType::OemOperation;
    let model = Model {
        main: Subgraph {
            operands: vec![input, scalar, bytes(OperandLifeTime::SubgraphOutput)],
            operations: vec![Operation { kind, inputs: vec![0, 1], outputs: vec![2] }],
            input_indexes: vec![0],
            output_indexes: vec![2],
        },
        operand_values: vec![1, 0, 0],
        ..Model::default()
    };
    let mut options = CompileOptions::default();
    let refused = Plan::compile(&model, &options).unwrap_err().to_string();
    assert!(refused.contains("OEM_OPERATION is not implemented here"), "{refused}");
    options.extensions.register_oem(Arc::new(Reverse));
    let mut session = Plan::compile(&model, &options).unwrap().session();
    let mut output = [9; 4];
    let inputs = [Input::new(View::of(&[1, 2, 3, 4]))];
    session.run(&inputs, &[Output::new(ViewMut::of(&mut output))], &Control::default()).unwrap();
    assert_eq!(output, [3, 2, 1, 0]);
}

/// One operation of `dev.nnburst.tflite` over inputs, constants and a FLOAT32 result.
fn run_tflite(
    number: u16,
    inputs: &[(&[u32], &[f32])],
    weights: (&[u32], &[u8]),
    options: &[Operand],
) -> Result<(), String> {
    let operand = |operand: Operand| Operand { number_of_consumers: 1, ..operand };
    let mut model = Model {
        extension_name_to_prefix: vec![ExtensionNameAndPrefix {
            name: nnburst_hal::tflite_extension::NAME.to_owned(),
            prefix: PREFIX,
        }],
        ..Model::default()
    };
    let graph = &mut model.main;
    for (dims, _) in inputs {
        let input = Operand::float32(*dims).with_lifetime(OperandLifeTime::SubgraphInput);
        graph.operands.push(operand(input));
    }
    let constant = |mut operand: Operand, bytes: &[u8], values: &mut Vec<u8>| {
        operand.lifetime = OperandLifeTime::ConstantCopy;
        operand.number_of_consumers = 1;
        operand.location.offset = u32::try_from(values.len()).unwrap();
        operand.location.length = u32::try_from(bytes.len()).unwrap();
        values.extend_from_slice(bytes);
        operand
    };
    let filter = Operand::quant8_signed(weights.0, 0.5, 0);
    graph.operands.insert(1, constant(filter, weights.1, &mut model.operand_values));
    for option in options {
        let value =
            if option.kind == OperandType::Bool { vec![0] } else { 1i32.to_le_bytes().into() };
        graph.operands.push(constant(option.clone(), &value, &mut model.operand_values));
    }
    let scalars = Operand::scalar(OperandType::Int32);
    graph.operands.push(constant(scalars, &[0; 4], &mut model.operand_values));
    let count = u32::try_from(graph.operands.len()).unwrap();
    graph.operands.push(Operand::float32([]).with_lifetime(OperandLifeTime::SubgraphOutput));
    graph.input_indexes = (0..count).filter(|&at| at == 0 || at == 2).collect();
    graph.output_indexes = vec![count];
    let inputs_of = (0..count).collect();
    let operation = Operation { kind: extension(number), inputs: inputs_of, outputs: vec![count] };
    graph.operations = vec![operation];
    let mut extensions = ExtensionRegistry::default();
    extensions
        .register(nnburst_hal::tflite_extension::NAME, Arc::new(nnburst_executor::TfliteExecutor));
    let options = CompileOptions { extensions, ..CompileOptions::default() };
    let plan = Plan::compile(&model, &options).map_err(|error| error.to_string())?;
    let bytes: Vec<Vec<u8>> = inputs
        .iter()
        .map(|(_, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let given: Vec<Input<'_>> = bytes
        .iter()
        .zip(inputs)
        .map(|(bytes, (dims, _))| Input::Value { bytes: View::of(bytes), dimensions: dims })
        .collect();
    let mut output = [0; 64];
    let ran =
        plan.session().run(&given, &[Output::new(ViewMut::of(&mut output))], &Control::default());
    ran.map_err(|error| error.to_string())
}

/// What once divided by zero, and what once took the missing part of a bias for zeros.
#[test]
fn tensors_without_channels_and_short_biases_are_refused() {
    let int = Operand::scalar(OperandType::Int32);
    let flag = Operand::scalar(OperandType::Bool);
    let windows = vec![int.clone(); 6];
    let bias = (&[2u32][..], &[0.0f32; 2][..]);
    let empty = (&[1u32, 2, 2, 0][..], &[][..]);
    let error = run_tflite(4, &[empty, bias], (&[1, 1, 1, 2], &[1; 2]), &windows).unwrap_err();
    assert!(error.contains("empty beyond its batches"), "{error}");
    let dense = [int, flag.clone(), flag];
    let row = (&[1u32, 4][..], &[1.0f32; 4][..]);
    let weights = (&[3u32, 4][..], &[1u8; 12][..]);
    let error = run_tflite(9, &[row, bias], weights, &dense).unwrap_err();
    assert!(error.contains("is no bias of floats"), "{error}");
    let bias = (&[3u32][..], &[0.0f32; 3][..]);
    assert_eq!(run_tflite(9, &[row, bias], weights, &dense), Ok(()));
}

/// The C header and the documentation have every operation of the table, under its number.
#[test]
fn header_and_documentation_have_every_operation() {
    let read = |path: &str| {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        std::fs::read_to_string(root.join(path)).unwrap()
    };
    let header = read("ndk/include/extensions/TfliteExtension.h");
    let documentation = read("docs/extension.md");
    let operations = nnburst_hal::tflite_extension::OPERATIONS;
    for about in operations {
        let (name, number) = (about.name, about.number);
        assert!(header.contains(&format!("NNBURST_TFLITE_{name} = {number},\n")), "{name}");
        let options: Vec<String> = about
            .options
            .iter()
            .map(|option| {
                format!("{}: {}", option.name, format!("{:?}", option.kind).to_uppercase())
            })
            .map(|option| option.replace(": INT", ": INT32").replace(": FLOAT", ": FLOAT32"))
            .collect();
        let row =
            documentation.lines().find(|row| row.starts_with(&format!("| {number} | {name} |")));
        assert!(
            row.is_some_and(|row| row.ends_with(&format!("| {} |", options.join(", ")))),
            "{name}"
        );
    }
    assert_eq!(header.matches(" = ").count(), operations.len() + 6, "of the header");
}
