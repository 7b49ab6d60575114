//! What most operations are tried on.

use nnburst::hal::Operand;
use nnburst::{ModelBuilder, OperandId};

pub(crate) fn plane(graph: &mut ModelBuilder) -> OperandId {
    graph.input(Operand::float32([2, 3]))
}

/// A plane and what goes with each of its rows.
pub(crate) fn plane_and_row(graph: &mut ModelBuilder) -> (OperandId, OperandId) {
    (plane(graph), graph.input(Operand::float32([3])))
}

pub(crate) fn bools(graph: &mut ModelBuilder) -> OperandId {
    graph.input(Operand::bool8([2, 3]))
}

pub(crate) fn picture(graph: &mut ModelBuilder) -> OperandId {
    graph.input(Operand::float32([1, 4, 4, 4]))
}
