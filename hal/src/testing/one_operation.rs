//! Models of one operation, and requests whose arguments have a memory each.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that can't go on panics"
)]

use crate::memory::{Access, Memory};
use crate::types::{
    DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Request,
    RequestArgument, RequestPool, Subgraph,
};

/// A tensor operand.
pub fn tensor(kind: OperandType, dimensions: &[u32], lifetime: OperandLifeTime) -> Operand {
    Operand::tensor(kind, dimensions.to_vec()).with_lifetime(lifetime)
}

/// A model of one operation, whose outputs are its last operands; consumers are counted.
pub fn one_operation(operands: Vec<Operand>, kind: OperationType, values: Vec<u8>) -> Model {
    let with = |lifetime: OperandLifeTime| -> Vec<u32> {
        (0..).zip(&operands).filter(|(_, o)| o.lifetime == lifetime).map(|(at, _)| at).collect()
    };
    let input_indexes = with(OperandLifeTime::SubgraphInput);
    let output_indexes = with(OperandLifeTime::SubgraphOutput);
    let mut operands = operands;
    let mut inputs = Vec::new();
    for (at, operand) in (0u32..).zip(&mut operands) {
        if !output_indexes.contains(&at) {
            operand.number_of_consumers = 1;
            inputs.push(at);
        }
    }
    let operations = vec![Operation { kind, inputs, outputs: output_indexes.clone() }];
    let main = Subgraph { operands, operations, input_indexes, output_indexes };
    Model { main, operand_values: values, ..Model::default() }
}

/// `out = in + 1`, of floats in this shape.
pub fn add_one(dimensions: &[u32]) -> Model {
    add_one_to(dimensions, dimensions)
}

/// [`add_one`], with the output's shape declared apart.
pub fn add_one_to(dimensions: &[u32], output: &[u32]) -> Model {
    let float = OperandType::TensorFloat32;
    let constant = |kind, dimensions: &[u32], offset| {
        let mut operand = tensor(kind, dimensions, OperandLifeTime::ConstantCopy);
        operand.location = DataLocation { pool_index: 0, offset, length: 4 };
        operand
    };
    let operands = vec![
        tensor(float, dimensions, OperandLifeTime::SubgraphInput),
        constant(float, &[1], 0),
        constant(OperandType::Int32, &[], 4),
        tensor(float, output, OperandLifeTime::SubgraphOutput),
    ];
    let values = [1.0f32.to_le_bytes(), 0i32.to_le_bytes()].concat();
    one_operation(operands, OperationType::Add, values)
}

/// `out = relu(in)`, of one type and shape.
pub fn relu(kind: OperandType, dimensions: &[u32]) -> Model {
    let quantised = !matches!(kind, OperandType::TensorFloat32 | OperandType::TensorFloat16);
    let operand = |lifetime| {
        let operand = tensor(kind, dimensions, lifetime);
        if quantised { operand.with_quantization(0.5, 0) } else { operand }
    };
    let operands =
        vec![operand(OperandLifeTime::SubgraphInput), operand(OperandLifeTime::SubgraphOutput)];
    one_operation(operands, OperationType::Relu, Vec::new())
}

/// A memory of these bytes.
pub fn memory(bytes: &[u8]) -> Memory {
    let memory = Memory::ashmem(u64::try_from(bytes.len()).unwrap()).unwrap();
    let mapping = memory.map(Access::ReadWrite).unwrap();
    mapping.view_mut(0..bytes.len()).unwrap().copy_from_slice(bytes);
    memory
}

/// A memory of these floats.
pub fn floats(values: &[f32]) -> Memory {
    memory(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

/// The floats of a memory.
pub fn as_floats(memory: &Memory) -> Vec<f32> {
    let mut bytes = vec![0; usize::try_from(memory.size()).unwrap()];
    memory.read_at(0, &mut bytes).unwrap();
    bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect()
}

/// An argument at the start of a pool.
pub fn argument(pool_index: u32, length: u64) -> RequestArgument {
    let length = u32::try_from(length).unwrap();
    let location = DataLocation { pool_index, offset: 0, length };
    RequestArgument { location, ..RequestArgument::default() }
}

/// A request that reads one memory and writes another.
pub fn request(input: &Memory, output: &Memory) -> Request {
    Request {
        inputs: vec![argument(0, input.size())],
        outputs: vec![argument(1, output.size())],
        pools: vec![RequestPool::Memory(input.clone()), RequestPool::Memory(output.clone())],
    }
}
