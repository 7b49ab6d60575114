//! Priorities, end to end: who overtakes whom, and that nobody starves.

use std::sync::atomic::{AtomicBool, Ordering};

use nnburst_hal::*;

use crate::support::*;

/// `count` RELUs one behind the other; the first one's result is an output too, so that a beginning
/// shows.
pub(crate) fn chain(count: u32, elements: u32) -> Model {
    let operand = |lifetime, consumers| Operand {
        number_of_consumers: consumers,
        ..tensor(OperandType::TensorFloat32, &[elements], lifetime)
    };
    let between = OperandLifeTime::TemporaryVariable;
    let mut operands = vec![
        operand(OperandLifeTime::SubgraphInput, 1),
        operand(OperandLifeTime::SubgraphOutput, 1),
    ];
    operands.extend((2..count).map(|_| operand(between, 1)));
    operands.push(operand(OperandLifeTime::SubgraphOutput, 0));
    let relu =
        |at| Operation { kind: OperationType::Relu, inputs: vec![at], outputs: vec![at + 1] };
    let operations = (0..count).map(relu).collect();
    let main =
        Subgraph { operands, operations, input_indexes: vec![0], output_indexes: vec![1, count] };
    Model { main, ..Model::default() }
}

/// A request of ones for a chain, and where its first and last results come.
pub(crate) fn ones(elements: u32) -> (Request, [Memory; 2]) {
    let input = floats(&vec![1.0; elements as usize]);
    let [first, last] = [(); 2].map(|()| floats(&vec![0.0; elements as usize]));
    let size = input.size();
    let pools = [&input, &first, &last].map(|memory| RequestPool::Memory(memory.clone()));
    let request = Request {
        inputs: vec![argument(0, size)],
        outputs: vec![argument(1, size), argument(2, size)],
        pools: pools.into(),
    };
    (request, [first, last])
}

fn is_written(memory: &Memory) -> bool {
    let mut value = [0; 4];
    memory.read_at(0, &mut value).unwrap();
    f32::from_le_bytes(value) == 1.0
}

fn prepared(
    device: &dyn Device,
    model: Model,
    priority: Priority,
) -> std::sync::Arc<dyn PreparedModel> {
    prepare_with(device, model, PrepareOptions { priority, ..PrepareOptions::default() }).unwrap()
}

/// Launches an execution and waits until it computes: until the first of its results, which a first
/// short step computes of ones, is there.
pub(crate) fn begin(
    model: &dyn PreparedModel,
    request: &Request,
) -> std::sync::mpsc::Receiver<ExecutionResult> {
    let place = request.outputs[0].location.pool_index as usize;
    let RequestPool::Memory(first) = &request.pools[place] else { panic!("of no memory") };
    let (callback, words) = tell();
    model.execute(request.clone(), ExecutionOptions::default(), callback).unwrap();
    eventually("the execution computes", || is_written(first));
    words
}

const LARGE: u32 = 1 << 20;

/// Steps over fewer elements may have no poll between them.
const SMALL: u32 = 1 << 15;

#[test]
fn a_higher_priority_pauses_a_lower_one_between_its_steps() {
    let served = served(CPU);
    let high = prepared(&served.device, chain(300, LARGE), Priority::High);
    let low = prepared(&served.device, chain(1000, SMALL), Priority::Low);
    let long = ones(LARGE);
    let short = ones(SMALL);
    let words = begin(high.as_ref(), &long.0);
    // 1000 small steps take a tenth of the time of 300 large ones by themselves. Held up at each,
    // they take longer, unless those take 1000 times the patience of the lower one.
    low.execute_synchronously(&short.0, ExecutionOptions::default()).unwrap();
    assert!(is_written(&long.1[1]), "the higher one was over first");
    words.recv_timeout(HUNG).unwrap().unwrap();
}

#[test]
fn a_higher_priority_overtakes_one_that_is_at_work() {
    let served = served(CPU);
    let low = prepared(&served.device, chain(1500, LARGE), Priority::Low);
    let high = prepared(&served.device, chain(5, 4), Priority::High);
    let (long, short) = (ones(LARGE), ones(4));
    let words = begin(low.as_ref(), &long.0);
    for _ in 0..3 {
        high.execute_synchronously(&short.0, ExecutionOptions::default()).unwrap();
    }
    assert!(words.try_recv().is_err(), "the lower one is still at work");
    words.recv_timeout(HUNG).unwrap().unwrap();
}

#[test]
fn nobody_starves_while_higher_priorities_never_rest() {
    let served = served(CPU);
    let high = prepared(&served.device, chain(5, 1 << 14), Priority::High);
    let low = prepared(&served.device, chain(5, 4), Priority::Low);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let request = ones(1 << 14).0;
                while !done.load(Ordering::Relaxed) {
                    high.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
                }
            });
        }
        let request = ones(4).0;
        low.execute_synchronously(&request, ExecutionOptions::default()).unwrap();
        done.store(true, Ordering::Relaxed);
    });
}
