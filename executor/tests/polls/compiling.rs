//! The passes that compile a model.

use std::sync::atomic::Ordering;

use nnburst_executor::{CompileError, CompileOptions, Plan};
use nnburst_hal::{
    Model, OperandLifeTime, OperandType as T, Operation, OperationType as Op, Subgraph,
};

use crate::StopAt;
use crate::single::{A, Single, constant, f, tensor};

/// RELUs and sums of two before, each a temporary but the last: of as many operations.
fn long_chain(count: u32) -> Model {
    let operand = |at: u32| {
        let lifetime = match at {
            0 => OperandLifeTime::SubgraphInput,
            at if at == count => OperandLifeTime::SubgraphOutput,
            _ => OperandLifeTime::TemporaryVariable,
        };
        tensor(T::TensorFloat32, &[1 + at % 7, 64]).with_lifetime(lifetime)
    };
    let mut operands: Vec<_> = (0..=count).map(operand).collect();
    for (at, operand) in operands.iter_mut().enumerate() {
        operand.dimensions = vec![64];
        operand.number_of_consumers = u32::from(at < count as usize);
    }
    let relu = |at| Operation { kind: Op::Abs, inputs: vec![at], outputs: vec![at + 1] };
    let main = Subgraph {
        operands,
        operations: (0..count).map(relu).collect(),
        input_indexes: vec![0],
        output_indexes: vec![count],
    };
    Model { main, ..Model::default() }
}

#[test]
fn passes_over_many_operations_are_polled_and_take_no_square_of_them() {
    const COUNT: u32 = 80_000;
    let model = long_chain(COUNT);
    let options = CompileOptions { apart: true, ..CompileOptions::default() };
    let counting = StopAt::new(usize::MAX);
    let plan = Plan::compile_under(&model, &options, &counting.control());
    assert!(plan.is_ok());
    let polls = counting.polls.load(Ordering::Relaxed);
    // Beyond the operands and operations, of which each is polled for: the arena alone is 160,000
    // reports.
    let each = 2 * COUNT as usize + 1;
    assert!((each + 20..each + 20_000).contains(&polls), "{polls} polls of {each}");
    for stop in [each / 4, each - 1, each + 10] {
        let stopping = StopAt::new(stop);
        let compiled = Plan::compile_under(&model, &options, &stopping.control());
        assert_eq!(compiled.map(drop), Err(CompileError::Stopped), "at poll {stop} of {polls}");
    }
}

#[test]
fn constants_and_weights_are_read_and_packed_in_polled_parts() {
    let real = T::TensorFloat32;
    let operands = [f(&[8, 4096]), constant(real, &[4096, 4096]), constant(real, &[4096]), A::I(0)];
    let single = Single::new(Op::FullyConnected, &operands, &[tensor(real, &[8, 4096])]);
    let counting = StopAt::new(usize::MAX);
    assert!(
        Plan::compile_under(&single.model, &CompileOptions::default(), &counting.control()).is_ok()
    );
    let polls = counting.polls.load(Ordering::Relaxed);
    assert!(polls > 20, "{polls}");
    let late = CompileOptions { late_errors: true, ..CompileOptions::default() };
    let stopping = StopAt::new(polls - 2);
    let compiled = Plan::compile_under(&single.model, &late, &stopping.control());
    assert_eq!(compiled.map(drop), Err(CompileError::Stopped));

    // What is computed of constants alone is computed when the plan is made.
    let operands =
        [constant(real, &[1, 1, 1, 1 << 16]), A::I(1 << 16), A::F(1.0), A::F(1.0), A::F(0.5)];
    let output = tensor(real, &[1, 1, 1, 1 << 16]);
    let mut folded = Single::new(Op::LocalResponseNormalization, &operands, &[output]);
    let graph = &mut folded.model.main;
    let result = graph.output_indexes[0];
    graph.operands[result as usize].lifetime = OperandLifeTime::TemporaryVariable;
    graph.operands[result as usize].number_of_consumers = 1;
    graph
        .operands
        .push(tensor(real, &[1, 1, 1, 1 << 16]).with_lifetime(OperandLifeTime::SubgraphOutput));
    graph.operations.push(Operation {
        kind: Op::Abs,
        inputs: vec![result],
        outputs: vec![result + 1],
    });
    graph.output_indexes = vec![result + 1];
    for options in [late, CompileOptions::default()] {
        let stopping = StopAt::new(50);
        let compiled = Plan::compile_under(&folded.model, &options, &stopping.control());
        assert_eq!(compiled.map(drop), Err(CompileError::Stopped));
    }
}
