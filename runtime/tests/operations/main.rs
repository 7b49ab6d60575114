//! Every operation by its method: it builds, its outputs have the types and shapes that a run then
//! gives.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on panics")]

mod control_flow;
mod detection;
mod elementwise;
mod images;
mod inputs;
mod reductions;
mod refusals;
mod sequences;
mod shapes;

use nnburst::hal::{Operand, OperationType};
use nnburst::{CompileOptions, Device, ModelBuilder, OperandId, compile_for, f16};

/// Adds an operation over inputs of its own; its outputs.
fn add(graph: &mut ModelBuilder, kind: OperationType) -> Vec<OperandId> {
    let groups = [
        control_flow::add,
        detection::add,
        elementwise::add,
        images::add,
        reductions::add,
        sequences::add,
        shapes::add,
    ];
    let added = groups.iter().find_map(|add| add(graph, kind));
    added.unwrap_or_else(|| panic!("{kind} has no case"))
}

/// Those of which only a run knows how many boxes there are.
const OPEN: [OperationType; 2] = [OperationType::BoxWithNmsLimit, OperationType::GenerateProposals];

#[test]
fn every_operation_is_built_and_runs_in_the_shape_that_was_foretold() {
    for &kind in OperationType::BASE {
        if kind == OperationType::OemOperation {
            continue;
        }
        let mut graph = ModelBuilder::new();
        let outputs = add(&mut graph, kind);
        let mut shapes = Vec::new();
        for &output in &outputs {
            shapes.push(graph.shape(output).to_vec());
            graph.output(output);
        }
        let model = graph.build().unwrap_or_else(|error| panic!("{kind}: {error}"));
        let devices = [Device::reference()];
        let compilation = compile_for(&model, &devices, &CompileOptions::default())
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        if OPEN.contains(&kind) {
            assert!(shapes.iter().any(Vec::is_empty), "{kind}: {shapes:?}");
            continue;
        }
        for (at, &index) in model.main.output_indexes.iter().enumerate() {
            let operand = &model.main.operands[index as usize];
            assert!(!operand.has_unspecified_dimensions(), "{kind}: output {at} is open");
        }
        let mut frame = compilation.frame().unwrap_or_else(|error| panic!("{kind}: {error}"));
        compilation
            .execution()
            .compute(&mut frame)
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

/// Scalars take the type that goes with the tensors, and so do values.
#[test]
fn halves_are_computed_with_halves() {
    let mut graph = ModelBuilder::new();
    let x = graph.input(Operand::float16([2]));
    let y = graph.elu(x).alpha(2.0).done();
    graph.output(y);
    let compilation =
        compile_for(&graph.build().unwrap(), &[Device::reference()], &CompileOptions::default())
            .unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1.5, -100.0].map(f16::from_f32)).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f16>(0).unwrap(), [1.5, -2.0].map(f16::from_f32));
}
