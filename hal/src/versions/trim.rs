//! Trailing arguments that say what would hold without them.
//!
//! A model built in the newer form (`NHWC` said out loud) can go to an older driver once they are
//! gone, so the runtime removes them when a model is finished.

use crate::types::{
    Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
};

/// Removes trailing constant arguments equal to their defaults from every operation of every graph;
/// gives back how many. Operands that nothing reads any more go too, because an older version may
/// not know their type; those behind them move up.
///
/// Only values within the model ([`OperandLifeTime::ConstantCopy`]) are looked at: one in a memory
/// may change.
pub fn trim_default_arguments(model: &mut Model) -> usize {
    let mut removed = 0usize;
    let values = &model.operand_values;
    for graph in std::iter::once(&mut model.main).chain(&mut model.referenced) {
        let operands = &mut graph.operands;
        let mut idle = vec![false; operands.len()];
        for operation in &mut graph.operations {
            let keep = arguments_to_keep(operation, operands, values);
            for index in operation.inputs.drain(keep..) {
                let at = usize::try_from(index).unwrap_or(usize::MAX);
                if let (Some(operand), Some(idle)) = (operands.get_mut(at), idle.get_mut(at)) {
                    operand.number_of_consumers = operand.number_of_consumers.saturating_sub(1);
                    *idle = operand.number_of_consumers == 0;
                }
                removed = removed.saturating_add(1);
            }
        }
        remove_operands(graph, &idle);
    }
    removed
}

/// Takes operands out of a graph; an index of one that is taken out stays, and the graph is
/// invalid.
fn remove_operands(graph: &mut Subgraph, remove: &[bool]) {
    let mut next = 0u32;
    let moved: Vec<Option<u32>> = remove
        .iter()
        .map(|&remove| {
            let index = next;
            next = next.saturating_add(u32::from(!remove));
            (!remove).then_some(index)
        })
        .collect();
    let mut flags = remove.iter();
    graph.operands.retain(|_| flags.next() != Some(&true));
    let operations = graph.operations.iter_mut();
    let arguments =
        operations.flat_map(|operation| [&mut operation.inputs, &mut operation.outputs]);
    let lists = arguments.chain([&mut graph.input_indexes, &mut graph.output_indexes]);
    for index in lists.flatten() {
        let at = usize::try_from(*index).unwrap_or(usize::MAX);
        if let Some(&Some(moved)) = moved.get(at) {
            *index = moved;
        }
    }
}

/// A default: a type and its little-endian bytes.
#[derive(Clone, Copy)]
enum DefaultValue {
    False,
    Int(i32),
}

/// The arguments from an index on, with their defaults.
struct Tail {
    first: usize,
    defaults: &'static [DefaultValue],
    /// The number of them that must not be left: one dilation without the other is no signature.
    never_left: Option<usize>,
}

fn arguments_to_keep(operation: &Operation, operands: &[Operand], values: &[u8]) -> usize {
    let count = operation.inputs.len();
    let Some(tail) = tail_of(operation, operands) else { return count };
    if count > tail.first.saturating_add(tail.defaults.len()) {
        return count;
    }
    let mut keep = count;
    let present = operation.inputs.iter().skip(tail.first).zip(tail.defaults).enumerate();
    for (offset, (&input, default)) in present.rev() {
        let operand = usize::try_from(input).ok().and_then(|at| operands.get(at));
        if !operand.is_some_and(|operand| default.is(operand, values)) {
            break;
        }
        keep = tail.first.saturating_add(offset);
    }
    let left = keep.checked_sub(tail.first);
    if keep < count && left.is_some() && left == tail.never_left {
        keep = keep.saturating_add(1);
    }
    keep
}

impl DefaultValue {
    fn is(self, operand: &Operand, values: &[u8]) -> bool {
        if operand.lifetime != OperandLifeTime::ConstantCopy {
            return false;
        }
        let start = usize::try_from(operand.location.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(operand.location.length).unwrap_or(usize::MAX);
        let bytes = start.checked_add(length).and_then(|end| values.get(start..end));
        match self {
            Self::False => operand.kind == OperandType::Bool && bytes == Some(&[0]),
            Self::Int(value) => {
                operand.kind == OperandType::Int32 && bytes == Some(&value.to_le_bytes())
            }
        }
    }
}

/// Returns the start of an operation's optional arguments, and their defaults.
fn tail_of(operation: &Operation, operands: &[Operand]) -> Option<Tail> {
    use DefaultValue::{False, Int};
    use OperationType as O;
    const DILATED: &[DefaultValue] = &[False, Int(1), Int(1)];
    let (first, defaults): (usize, &'static [DefaultValue]) = match operation.kind {
        O::AveragePool2d | O::L2Pool2d | O::MaxPool2d => {
            (if is_explicit(operation, operands, 7, 10) { 10 } else { 7 }, &[False])
        }
        O::Conv2d => (if is_explicit(operation, operands, 7, 10) { 10 } else { 7 }, DILATED),
        O::DepthwiseConv2d => {
            (if is_explicit(operation, operands, 8, 11) { 11 } else { 8 }, DILATED)
        }
        O::DepthToSpace | O::SpaceToDepth | O::BatchToSpaceNd => (2, &[False]),
        O::SpaceToBatchNd => (3, &[False]),
        O::L2Normalization => (1, &[Int(-1)]),
        O::LocalResponseNormalization => (5, &[Int(-1)]),
        O::Softmax => (2, &[Int(-1)]),
        O::ResizeBilinear => (3, &[False, False, False]),
        O::ResizeNearestNeighbor => (4, &[False, False]),
        _ => return None,
    };
    let is_dilated = matches!(operation.kind, O::Conv2d | O::DepthwiseConv2d);
    Some(Tail { first, defaults, never_left: is_dilated.then_some(2) })
}

/// Returns whether padding is given side by side: then the argument after the implicit form's is an
/// INT32.
fn is_explicit(
    operation: &Operation,
    operands: &[Operand],
    first_optional: usize,
    least: usize,
) -> bool {
    let operand = operation
        .inputs
        .get(first_optional)
        .and_then(|&input| usize::try_from(input).ok().and_then(|at| operands.get(at)));
    operation.inputs.len() >= least
        && operand.is_some_and(|operand| operand.kind == OperandType::Int32)
}
