//! One row per rule: a valid value, one change, and the refusal in words.

mod desc;
mod fuzz;
mod models;
mod operations;
mod requests;

use crate::types::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
};
use OperandLifeTime as L;
use OperandType as T;

fn operand(kind: T, dimensions: &[u32], lifetime: L, number_of_consumers: u32) -> Operand {
    Operand {
        number_of_consumers,
        ..Operand::tensor(kind, dimensions.to_vec()).with_lifetime(lifetime)
    }
}

fn constant(kind: T, dimensions: &[u32], offset: u32) -> Operand {
    let mut operand = operand(kind, dimensions, L::ConstantCopy, 1);
    let length = u32::try_from(operand.data_size().unwrap()).unwrap();
    operand.location = DataLocation { pool_index: 0, offset, length };
    operand
}

fn operation(kind: OperationType, inputs: &[u32], outputs: &[u32]) -> Operation {
    Operation { kind, inputs: inputs.to_vec(), outputs: outputs.to_vec() }
}

/// ADD of an input `[2, 2]` and a constant `[2]`.
fn add_model() -> Model {
    Model {
        main: Subgraph {
            operands: vec![
                operand(T::TensorFloat32, &[2, 2], L::SubgraphInput, 1),
                constant(T::TensorFloat32, &[2], 0),
                constant(T::Int32, &[], 8),
                operand(T::TensorFloat32, &[2, 2], L::SubgraphOutput, 0),
            ],
            operations: vec![operation(OperationType::Add, &[0, 1, 2], &[3])],
            input_indexes: vec![0],
            output_indexes: vec![3],
        },
        operand_values: vec![0; 12],
        ..Model::default()
    }
}

fn subgraph(index: u32) -> Operand {
    let mut operand = operand(T::Subgraph, &[], L::Subgraph, 1);
    operand.location.offset = index;
    operand
}

/// A graph of one operation of one input and one output.
fn unary(kind: OperationType, input: Operand, output: Operand) -> Subgraph {
    let input = Operand { lifetime: L::SubgraphInput, number_of_consumers: 1, ..input };
    let output = Operand { lifetime: L::SubgraphOutput, number_of_consumers: 0, ..output };
    Subgraph {
        operands: vec![input, output],
        operations: vec![operation(kind, &[0], &[1])],
        input_indexes: vec![0],
        output_indexes: vec![1],
    }
}

/// IF over `[2]`: RELU or ABS.
fn if_model() -> Model {
    let tensor = || Operand::tensor(T::TensorFloat32, vec![2]);
    Model {
        main: Subgraph {
            operands: vec![
                operand(T::TensorBool8, &[1], L::SubgraphInput, 1),
                subgraph(0),
                subgraph(1),
                operand(T::TensorFloat32, &[2], L::SubgraphInput, 1),
                operand(T::TensorFloat32, &[2], L::SubgraphOutput, 0),
            ],
            operations: vec![operation(OperationType::If, &[0, 1, 2, 3], &[4])],
            input_indexes: vec![0, 3],
            output_indexes: vec![4],
        },
        referenced: vec![
            unary(OperationType::Relu, tensor(), tensor()),
            unary(OperationType::Abs, tensor(), tensor()),
        ],
        ..Model::default()
    }
}

/// WHILE with two loop variables of TENSOR_BOOL8 `[1]`: the first comes back, the second is state.
fn while_model() -> Model {
    let flag = |lifetime, consumers| operand(T::TensorBool8, &[1], lifetime, consumers);
    let not = |input, output| operation(OperationType::LogicalNot, &[input], &[output]);
    let condition = Subgraph {
        operands: vec![
            flag(L::SubgraphInput, 1),
            flag(L::SubgraphInput, 0),
            flag(L::SubgraphOutput, 0),
        ],
        operations: vec![not(0, 2)],
        input_indexes: vec![0, 1],
        output_indexes: vec![2],
    };
    let body = Subgraph {
        operands: vec![
            flag(L::SubgraphInput, 1),
            flag(L::SubgraphInput, 1),
            flag(L::SubgraphOutput, 0),
            flag(L::SubgraphOutput, 0),
        ],
        operations: vec![not(0, 2), not(1, 3)],
        input_indexes: vec![0, 1],
        output_indexes: vec![2, 3],
    };
    Model {
        main: Subgraph {
            operands: vec![
                subgraph(0),
                subgraph(1),
                flag(L::SubgraphInput, 1),
                flag(L::SubgraphInput, 1),
                flag(L::SubgraphOutput, 0),
            ],
            operations: vec![operation(OperationType::While, &[0, 1, 2, 3], &[4])],
            input_indexes: vec![2, 3],
            output_indexes: vec![4],
        },
        referenced: vec![condition, body],
        ..Model::default()
    }
}
