//! What moves, repeats, picks and looks up elements.

use nnburst::hal::{Operand, OperationType};
use nnburst::operations::Projection;
use nnburst::{ModelBuilder, OperandId};

use crate::inputs::plane;

/// Adds an operation over inputs of its own; its outputs.
pub(crate) fn add(graph: &mut ModelBuilder, kind: OperationType) -> Option<Vec<OperandId>> {
    use OperationType as Op;
    let outputs = match kind {
        Op::Reshape => {
            let input = plane(graph);
            vec![graph.reshape(input, [-1, 2]).done()]
        }
        Op::Squeeze => {
            let input = graph.input(Operand::float32([1, 3, 1]));
            let all = graph.squeeze(input).done();
            let last = graph.squeeze(input).axes([2]).done();
            assert_eq!((graph.shape(all), graph.shape(last)), (&[3][..], &[1, 3][..]));
            vec![all, last]
        }
        Op::ExpandDims => {
            let input = plane(graph);
            vec![graph.expand_dims(input, 1).done()]
        }
        Op::Transpose => {
            let input = plane(graph);
            let turned = graph.transpose(input).done();
            let same = graph.transpose(input).permutation([0, 1]).done();
            vec![turned, same]
        }
        Op::Concatenation => {
            let (a, b) = (plane(graph), plane(graph));
            vec![graph.concatenation([a, b, a], 1).done()]
        }
        Op::Split => {
            let input = plane(graph);
            graph.split(input, 1, 3).done()
        }
        Op::Slice => {
            let input = plane(graph);
            vec![graph.slice(input, [0, 1], [-1, 2]).done()]
        }
        Op::StridedSlice => {
            let input = plane(graph);
            vec![graph.strided_slice(input, [0, 2], [2, 0], [1, -1]).end_mask(2).done()]
        }
        Op::Tile => {
            let input = plane(graph);
            vec![graph.tile(input, [2, 1]).done()]
        }
        Op::Pad => {
            let input = plane(graph);
            vec![graph.pad(input, [[1, 0], [0, 2]]).done()]
        }
        Op::PadV2 => {
            let (float, byte) = (plane(graph), graph.input(Operand::quant8([2, 3], 0.5, 1)));
            let float = graph.pad_v2(float, [[1, 0], [0, 2]], 0.5).done();
            vec![float, graph.pad_v2(byte, [[1, 0], [0, 2]], 7).done()]
        }
        Op::Fill => vec![graph.fill([2, 3], 1.5).done()],
        Op::Gather => {
            let (input, indices) = (plane(graph), graph.input(Operand::int32([2])));
            vec![graph.gather(input, 1, indices).done()]
        }
        Op::EmbeddingLookup => {
            let (lookups, values) = (graph.input(Operand::int32([4])), plane(graph));
            vec![graph.embedding_lookup(lookups, values).done()]
        }
        Op::HashtableLookup => {
            let (lookups, values) = (graph.input(Operand::int32([4])), plane(graph));
            let keys = graph.vector_i32(&[1, 5]);
            let found = graph.hashtable_lookup(lookups, keys, values).done();
            vec![found.output, found.hits]
        }
        Op::LshProjection => {
            let (hash, input) = (plane(graph), graph.input(Operand::int32([5])));
            let weight = graph.input(Operand::float32([5]));
            let dense = graph.lsh_projection(hash, input, Projection::Dense { weight }).done();
            vec![dense, graph.lsh_projection(hash, input, Projection::Sparse).done()]
        }
        Op::RandomMultinomial => {
            let input = plane(graph);
            vec![graph.random_multinomial(input, 7, [1, 2]).done()]
        }
        _ => return None,
    };
    Some(outputs)
}
