//! IF and WHILE nested as deep as may be, on a thread with the least stack that callers need.

use nnburst_hal::*;

use crate::support::*;

/// The need of a call (docs/threat-model.md), and of a thread of the test for itself.
const STACK: usize = (256 << 10) + (16 << 10);

const INPUT: OperandLifeTime = OperandLifeTime::SubgraphInput;
const OUTPUT: OperandLifeTime = OperandLifeTime::SubgraphOutput;

fn float(lifetime: OperandLifeTime, number_of_consumers: u32) -> Operand {
    let operand = tensor(OperandType::TensorFloat32, &[1], lifetime);
    Operand { number_of_consumers, ..operand }
}

fn truth(lifetime: OperandLifeTime, number_of_consumers: u32) -> Operand {
    let operand = tensor(OperandType::TensorBool8, &[1], lifetime);
    Operand { number_of_consumers, ..operand }
}

fn constant(kind: OperandType, dimensions: &[u32], offset: u32) -> Operand {
    let operand = tensor(kind, dimensions, OperandLifeTime::ConstantCopy);
    let location = DataLocation { pool_index: 0, offset, length: 4 };
    Operand { location, number_of_consumers: 1, ..operand }
}

fn referenced(index: usize) -> Operand {
    let operand = tensor(OperandType::Subgraph, &[], OperandLifeTime::Subgraph);
    let location = DataLocation { pool_index: 0, offset: index as u32, length: 0 };
    Operand { location, number_of_consumers: 1, ..operand }
}

fn graph(
    operands: Vec<Operand>,
    kind: OperationType,
    inputs: &[u32],
    of_graph: &[u32],
) -> Subgraph {
    let output_indexes = vec![operands.len() as u32 - 1];
    let operation = Operation { kind, inputs: inputs.to_vec(), outputs: output_indexes.clone() };
    let (operations, input_indexes) = (vec![operation], of_graph.to_vec());
    Subgraph { operands, operations, input_indexes, output_indexes }
}

/// `depth` graphs, one within the other: `y = x` where the condition is true all the way.
fn nested_ifs(depth: usize) -> Model {
    let branch = |next| {
        let operands = vec![
            truth(INPUT, 2),
            float(INPUT, 1),
            referenced(next),
            referenced(depth - 1),
            float(OUTPUT, 0),
        ];
        graph(operands, OperationType::If, &[0, 2, 3, 0, 1], &[0, 1])
    };
    let leaf = graph(
        vec![truth(INPUT, 0), float(INPUT, 1), float(OUTPUT, 0)],
        OperationType::Relu,
        &[1],
        &[0, 1],
    );
    let mut graphs: Vec<_> = (1..depth).map(branch).collect();
    graphs.push(leaf);
    Model { main: branch(0), referenced: graphs, ..Model::default() }
}

/// `depth` loops, one within the other, that end when the innermost has added one.
fn nested_whiles(depth: usize) -> Model {
    let condition = graph(
        vec![float(INPUT, 1), constant(OperandType::TensorFloat32, &[1], 0), truth(OUTPUT, 0)],
        OperationType::Less,
        &[0, 1],
        &[0],
    );
    let body = |next| {
        let operands = vec![referenced(0), referenced(next), float(INPUT, 1), float(OUTPUT, 0)];
        graph(operands, OperationType::While, &[0, 1, 2], &[2])
    };
    let leaf = graph(
        vec![
            float(INPUT, 1),
            constant(OperandType::TensorFloat32, &[1], 0),
            constant(OperandType::Int32, &[], 4),
            float(OUTPUT, 0),
        ],
        OperationType::Add,
        &[0, 1, 2],
        &[0],
    );
    let mut graphs = vec![condition];
    graphs.extend((2..=depth).map(body));
    graphs.push(leaf);
    let operand_values = [1.0f32.to_le_bytes(), 0i32.to_le_bytes()].concat();
    Model { main: body(1), referenced: graphs, operand_values, ..Model::default() }
}

/// Prepares and executes on a thread with little stack.
fn run(model: Model, inputs: &'static [&'static [u8]]) -> Result<f32> {
    let work = move || {
        let device = driver(CPU).device();
        let prepared = prepare(device.as_ref(), model)?;
        let mut pools: Vec<_> = inputs.iter().map(|bytes| memory(bytes)).collect();
        let output = floats(&[0.0]);
        pools.push(output.clone());
        let at = |(index, bytes): (u32, &&[u8])| argument(index, bytes.len() as u64);
        let request = Request {
            inputs: (0..).zip(inputs).map(at).collect(),
            outputs: vec![argument(inputs.len() as u32, 4)],
            pools: pools.into_iter().map(RequestPool::Memory).collect(),
        };
        let ran = prepared.execute_synchronously(&request, ExecutionOptions::default());
        ran.map_err(|failure| failure.error)?;
        Ok(as_floats(&output)[0])
    };
    std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap().join().unwrap()
}

#[test]
fn the_deepest_models_run_on_the_least_stack() {
    const IF: &[&[u8]] = &[&[1], &5.0f32.to_le_bytes()];
    const WHILE: &[&[u8]] = &[&0.0f32.to_le_bytes()];
    for depth in [1, 2, MAX_SUBGRAPH_DEPTH] {
        assert_eq!(run(nested_ifs(depth), IF).unwrap(), 5.0, "{depth}");
        assert_eq!(run(nested_whiles(depth), WHILE).unwrap(), 1.0, "{depth}");
    }
    for depth in [MAX_SUBGRAPH_DEPTH + 1, 5000] {
        for (model, inputs) in [(nested_ifs(depth), IF), (nested_whiles(depth), WHILE)] {
            let refused = run(model, inputs).unwrap_err();
            assert_eq!(refused.status, ErrorStatus::InvalidArgument, "{depth}: {refused}");
        }
    }
}
