//! Models whose sizes and times only a run knows: shapes out of values, loops without an end, loops
//! that grow a tensor. A run costs its client what it takes, and others nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::*;
use nnburst_hal_ipc::RemoteDevice;

use crate::attack::{Held, Target, report};
use crate::deaths::endless;
use crate::support::*;

/// The time that an attack goes on beside the good client.
const ATTACKED: Duration = Duration::from_secs(1);

const FLOAT: OperandType = OperandType::TensorFloat32;
const INPUT: OperandLifeTime = OperandLifeTime::SubgraphInput;
const OUTPUT: OperandLifeTime = OperandLifeTime::SubgraphOutput;

fn read(operand: Operand, number_of_consumers: u32) -> Operand {
    Operand { number_of_consumers, ..operand }
}

fn constant(kind: OperandType, dimensions: &[u32], [offset, length]: [u32; 2]) -> Operand {
    let location = DataLocation { pool_index: 0, offset, length };
    Operand { location, ..read(tensor(kind, dimensions, OperandLifeTime::ConstantCopy), 1) }
}

/// The sum of ones in a shape that the input says.
fn sum_of_ones() -> Model {
    let operands = vec![
        read(tensor(OperandType::TensorInt32, &[2], INPUT), 1),
        constant(OperandType::Float32, &[], [0, 4]),
        read(tensor(FLOAT, &[0, 0], OperandLifeTime::TemporaryVariable), 1),
        constant(OperandType::TensorInt32, &[2], [4, 8]),
        constant(OperandType::Bool, &[], [12, 1]),
        tensor(FLOAT, &[1], OUTPUT),
    ];
    let operation = |kind, inputs, outputs| Operation { kind, inputs, outputs };
    let main = Subgraph {
        operands,
        operations: vec![
            operation(OperationType::Fill, vec![0, 1], vec![2]),
            operation(OperationType::ReduceSum, vec![2, 3, 4], vec![5]),
        ],
        input_indexes: vec![0],
        output_indexes: vec![5],
    };
    let mut values = 1.0f32.to_le_bytes().to_vec();
    values.extend([0i32, 1].iter().flat_map(|axis| axis.to_le_bytes()));
    values.push(0);
    Model { main, operand_values: values, ..Model::default() }
}

/// A WHILE that joins a tensor with itself at each turn, for ever.
fn doubling() -> Model {
    let state = |lifetime| tensor(FLOAT, &[1], lifetime);
    let grown = |lifetime| tensor(FLOAT, &[0], lifetime);
    let graph = |operands: Vec<Operand>, operations, inputs: &[u32], outputs: &[u32]| Subgraph {
        operands,
        operations,
        input_indexes: inputs.to_vec(),
        output_indexes: outputs.to_vec(),
    };
    let operation = |kind, inputs, outputs| Operation { kind, inputs, outputs };
    let condition = graph(
        vec![grown(INPUT), read(state(INPUT), 2), tensor(OperandType::TensorBool8, &[1], OUTPUT)],
        vec![operation(OperationType::GreaterEqual, vec![1, 1], vec![2])],
        &[0, 1],
        &[2],
    );
    let body = graph(
        vec![
            read(grown(INPUT), 2),
            read(state(INPUT), 1),
            constant(OperandType::Int32, &[], [0, 4]),
            grown(OUTPUT),
            state(OUTPUT),
        ],
        vec![
            operation(OperationType::Concatenation, vec![0, 0, 2], vec![3]),
            operation(OperationType::Relu, vec![1], vec![4]),
        ],
        &[0, 1],
        &[3, 4],
    );
    let referenced = |offset| {
        let operand = tensor(OperandType::Subgraph, &[], OperandLifeTime::Subgraph);
        let location = DataLocation { pool_index: 0, offset, length: 0 };
        Operand { location, ..read(operand, 1) }
    };
    let main = graph(
        vec![
            referenced(0),
            referenced(1),
            read(grown(INPUT), 1),
            read(state(INPUT), 1),
            grown(OUTPUT),
            state(OUTPUT),
        ],
        vec![operation(OperationType::While, vec![0, 1, 2, 3], vec![4, 5])],
        &[2, 3],
        &[4, 5],
    );
    let values = 0i32.to_le_bytes().to_vec();
    Model { main, referenced: vec![condition, body], operand_values: values, ..Model::default() }
}

/// A request for [`doubling`].
fn one_element() -> Request {
    let (one, room) = (floats(&[1.0]), memory(&[0; 4096]));
    let mut inputs = vec![argument(0, 4), argument(0, 4)];
    inputs[0].dimensions = vec![1];
    let mut outputs = vec![argument(1, 2048), argument(1, 4)];
    outputs[1].location.offset = 2048;
    Request { inputs, outputs, pools: [one, room].map(RequestPool::Memory).into() }
}

/// Has a driver execute something again and again, over several connections, until this process
/// ends; returns what the first execution of all came to.
fn again_and_again(socket: &Path, model: &Model, request: &Request) -> (ExecutionResult, Held) {
    let options =
        ExecutionOptions { loop_timeout: Some(MAX_LOOP_TIMEOUT), ..ExecutionOptions::default() };
    let begin = |_| {
        let device = RemoteDevice::connect_path(socket).unwrap();
        let model = prepare(&device, model.clone()).unwrap();
        (device, model)
    };
    let all: Vec<_> = (0..4).map(begin).collect();
    let first = all[0].1.execute_synchronously(request, options);
    for (_, model) in &all {
        for _ in 0..3 {
            let (model, request) = (Arc::clone(model), request.clone());
            std::thread::spawn(move || {
                loop {
                    let _ = model.execute_synchronously(&request, options);
                }
            });
        }
    }
    (first, Box::new(all))
}

/// The end of an execution, in a word.
fn word(result: &ExecutionResult) -> &'static str {
    result.as_ref().map_or_else(|failure| failure.error.status.name(), |_| "done")
}

/// An attack: outputs of gibibytes, out of eight bytes of input.
pub(crate) fn shapes_known_while_running(socket: &Path) -> Held {
    let model = sum_of_ones();
    let shape = |side: i32| {
        let shape = memory(&[side.to_le_bytes(), side.to_le_bytes()].concat());
        request(&shape, &floats(&[0.0]))
    };
    let mut held = Vec::new();
    // More than a client may have, and as much of it as there is.
    for (what, side) in [("most", 30_000), ("much", 1 << 13)] {
        let (first, kept) = again_and_again(socket, &model, &shape(side));
        report(format_args!("{what}: {}", word(&first)));
        held.push(kept);
    }
    Box::new(held)
}

/// An attack: loops whose condition is always true.
pub(crate) fn without_an_end(socket: &Path) -> Held {
    // As many as this user may have.
    let begin = |_| {
        let device = RemoteDevice::connect_path(socket).ok()?;
        let model = prepare(&device, endless()).ok()?;
        let options = ExecutionOptions {
            loop_timeout: Some(MAX_LOOP_TIMEOUT),
            ..ExecutionOptions::default()
        };
        for _ in 0..8 {
            let (callback, words) = tell::<ExecutionResult>();
            std::mem::forget(words);
            let request = request(&floats(&[1.0]), &floats(&[0.0]));
            let _ = model.execute(request, options, callback);
        }
        Some((device, model))
    };
    let all: Vec<_> = (0..8).filter_map(begin).collect();
    assert!(!all.is_empty());
    report("loops");
    Box::new(all)
}

/// An attack: loops whose state doubles at each turn.
pub(crate) fn that_grows_a_tensor(socket: &Path) -> Held {
    let (first, held) = again_and_again(socket, &doubling(), &one_element());
    report(format_args!("grows: {}", word(&first)));
    held
}

#[test]
#[ignore = "only root can start processes of other users"]
fn sizes_and_times_of_a_run_cost_its_client_alone() {
    let exhausted = [
        ErrorStatus::ResourceExhaustedTransient.name(),
        ErrorStatus::ResourceExhaustedPersistent.name(),
    ];
    let attacks: [(&str, &[&str]); 3] = [
        ("shapes known while running", &["most: "]),
        ("a loop without an end", &[]),
        ("a loop that grows a tensor", &["grows: "]),
    ];
    for (attack, refused) in attacks {
        let target = Target::start("as=3221225472");
        let attacker = target.attack(attack);
        for what in refused {
            let word = attacker.words().iter().find_map(|word| word.strip_prefix(what));
            assert!(word.is_some_and(|word| exhausted.contains(&word)), "{:?}", attacker.words());
        }
        // The good client, whose answers come all the while, sees this beside it.
        std::thread::sleep(ATTACKED);
        let during = target.now().resident_kib;
        assert!(during < 1500 << 10, "{attack}: {during} KiB");
        drop(attacker);
        target.survives();
    }
}

#[test]
fn runs_that_grow_end_with_an_error_and_others_go_on() {
    let served = served(CPU);
    let good = prepare(&served.device, add_one(&[2])).unwrap();
    let model = prepare(&served.device, sum_of_ones()).unwrap();
    for (side, sum) in [(3i32, Some(9.0)), (1 << 19, None), (-1, None), (2, Some(4.0))] {
        let (shape, output) = (memory(&[side.to_le_bytes(); 2].concat()), floats(&[0.0]));
        let result =
            model.execute_synchronously(&request(&shape, &output), ExecutionOptions::default());
        assert_eq!(result.is_ok().then(|| as_floats(&output)[0]), sum, "{side}: {result:?}");
    }
    let grows = prepare(&served.device, doubling()).unwrap();
    grows.execute_synchronously(&one_element(), ExecutionOptions::default()).unwrap_err();
    let (input, output) = (floats(&[1.0, 2.0]), floats(&[0.0; 2]));
    good.execute_synchronously(&request(&input, &output), ExecutionOptions::default()).unwrap();
    assert_eq!(as_floats(&output), [2.0, 3.0]);
}
