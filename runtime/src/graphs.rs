//! Looking things up in the graphs of a model.

use nnburst_hal::{
    Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
};

/// An operand of a graph.
pub(crate) fn operand(graph: &Subgraph, index: u32) -> Option<&Operand> {
    graph.operands.get(usize::try_from(index).ok()?)
}

/// Returns the place in [`Model::referenced`] of the graph that an operand refers to.
pub(crate) fn reference(graph: &Subgraph, index: u32) -> Option<usize> {
    let operand = operand(graph, index)?;
    let refers =
        operand.kind == OperandType::Subgraph && operand.lifetime == OperandLifeTime::Subgraph;
    refers.then(|| usize::try_from(operand.location.offset).ok()).flatten()
}

/// The graph that an operand refers to.
pub(crate) fn referenced<'m>(
    model: &'m Model,
    graph: &Subgraph,
    index: u32,
) -> Option<&'m Subgraph> {
    model.referenced.get(reference(graph, index)?)
}

/// The two kinds of control flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFlow {
    If,
    While,
}

/// Returns the kind of control flow that an operation is, if it is any.
pub(crate) fn control_flow(operation: &Operation) -> Option<ControlFlow> {
    match operation.kind {
        OperationType::If => Some(ControlFlow::If),
        OperationType::While => Some(ControlFlow::While),
        _ => None,
    }
}

/// Returns whether an operation of `graph` is one of an extension, or refers to graphs that have
/// some, directly or by way of others.
pub(crate) fn uses_extensions(model: &Model, graph: &Subgraph, operation: &Operation) -> bool {
    let is_of_extension =
        |operation: &Operation| matches!(operation.kind, OperationType::Extension(_));
    let places = |graph: &Subgraph, operation: &Operation| -> Vec<usize> {
        operation.inputs.iter().filter_map(|&index| reference(graph, index)).collect()
    };
    if is_of_extension(operation) {
        return true;
    }
    let mut seen = vec![false; model.referenced.len()];
    let mut left = places(graph, operation);
    while let Some(place) = left.pop() {
        let (Some(inner), Some(seen)) = (model.referenced.get(place), seen.get_mut(place)) else {
            continue;
        };
        if std::mem::replace(seen, true) {
            continue;
        }
        if inner.operations.iter().any(is_of_extension) {
            return true;
        }
        left.extend(inner.operations.iter().flat_map(|operation| places(inner, operation)));
    }
    false
}

/// Returns whether an operand is computed by an operation of its graph.
pub(crate) fn is_computed(operand: &Operand) -> bool {
    matches!(operand.lifetime, OperandLifeTime::TemporaryVariable | OperandLifeTime::SubgraphOutput)
}
