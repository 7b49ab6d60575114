//! Sums, extremes and their places.

use nnburst::hal::{Operand, OperationType};
use nnburst::{ModelBuilder, OperandId};

use crate::inputs::{bools, plane};

/// Adds an operation over inputs of its own; its outputs.
pub(crate) fn add(graph: &mut ModelBuilder, kind: OperationType) -> Option<Vec<OperandId>> {
    use OperationType as Op;
    let outputs = match kind {
        Op::Mean => {
            let input = graph.input(Operand::quant8([2, 3, 4], 0.5, 1));
            vec![graph.mean(input, [1, -1]).keep_dims(true).done()]
        }
        Op::ReduceAll => {
            let input = bools(graph);
            vec![graph.reduce_all(input, [0]).done()]
        }
        Op::ReduceAny => {
            let input = bools(graph);
            vec![graph.reduce_any(input, [0]).keep_dims(true).done()]
        }
        Op::ReduceMax => {
            let input = plane(graph);
            vec![graph.reduce_max(input, [1]).done()]
        }
        Op::ReduceMin => {
            let input = plane(graph);
            vec![graph.reduce_min(input, [1]).done()]
        }
        Op::ReduceProd => {
            let input = plane(graph);
            vec![graph.reduce_prod(input, [1]).done()]
        }
        Op::ReduceSum => {
            let input = plane(graph);
            vec![graph.reduce_sum(input, [1]).done()]
        }
        Op::Argmax => {
            let input = plane(graph);
            vec![graph.argmax(input, 1).done()]
        }
        Op::Argmin => {
            let input = plane(graph);
            vec![graph.argmin(input, 0).done()]
        }
        Op::TopkV2 => {
            let input = plane(graph);
            let best = graph.topk_v2(input, 2).done();
            vec![best.values, best.indices]
        }
        Op::Rank => {
            let input = plane(graph);
            vec![graph.rank(input).done()]
        }
        _ => return None,
    };
    Some(outputs)
}
