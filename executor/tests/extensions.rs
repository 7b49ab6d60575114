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
