//! Branches and loops.

use nnburst::hal::{Operand, OperationType};
use nnburst::{ModelBuilder, OperandId};

use crate::inputs::plane;

/// Adds an operation over inputs of its own; its outputs.
pub(crate) fn add(graph: &mut ModelBuilder, kind: OperationType) -> Option<Vec<OperandId>> {
    use OperationType as Op;
    let outputs = match kind {
        Op::If => {
            let (condition, x) = (graph.input(Operand::bool8([1])), plane(graph));
            let then = graph.subgraph(|graph| {
                let x = plane(graph);
                let size = graph.abs(x).done();
                graph.output(size);
            });
            let otherwise = graph.subgraph(|graph| {
                let x = plane(graph);
                let other = graph.neg(x).done();
                graph.output(other);
            });
            graph.if_else(condition, then, otherwise, &[x])
        }
        Op::While => {
            let x = plane(graph);
            let condition = graph.subgraph(|graph| {
                let x = plane(graph);
                let least = graph.reduce_min(x, [0, 1]).done();
                let least = graph.reshape(least, [1]).done();
                let ten = graph.tensor_f32(vec![1], &[10.0]);
                let below = graph.less(least, ten).done();
                graph.output(below);
            });
            let body = graph.subgraph(|graph| {
                let x = plane(graph);
                let one = graph.tensor_f32(vec![1], &[1.0]);
                let more = graph.add(x, one).done();
                graph.output(more);
            });
            graph.while_loop(condition, body, &[x])
        }
        _ => return None,
    };
    Some(outputs)
}
