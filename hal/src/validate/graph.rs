//! One graph: its lists of inputs and outputs, and the flow of values through its operations.

use super::error::{Direction, GraphId, Place, Rule, ValidationError};
use super::operation::Operands;
use super::polls::{Polls, marks};
use crate::types::{Operand, OperandLifeTime, Subgraph};

/// The lists name exactly the operands of the matching lifetime, each once.
pub(super) fn check_lists(
    graph: &Subgraph,
    id: GraphId,
    polls: &Polls<'_>,
) -> Result<(), ValidationError> {
    check_list(graph, id, Direction::Input, polls)?;
    check_list(graph, id, Direction::Output, polls)
}

fn check_list(
    graph: &Subgraph,
    id: GraphId,
    direction: Direction,
    polls: &Polls<'_>,
) -> Result<(), ValidationError> {
    let (list, wanted) = match direction {
        Direction::Input => (&graph.input_indexes, OperandLifeTime::SubgraphInput),
        Direction::Output => (&graph.output_indexes, OperandLifeTime::SubgraphOutput),
    };
    let at_graph = |rule| ValidationError { place: Place::Graph(id), rule };
    let operands = graph.operands.len();
    polls.pass(operands).map_err(at_graph)?;
    let mut listed = marks(false, operands).map_err(at_graph)?;
    for (position, &operand) in list.iter().enumerate() {
        polls.pass(1).map_err(at_graph)?;
        let Some(found) = Operands(&graph.operands).get(operand) else {
            return Err(at_graph(Rule::NoSuchListed { direction, position, operand, operands }));
        };
        if found.lifetime != wanted {
            let lifetime = found.lifetime;
            return Err(at_graph(Rule::ListedLifetime { direction, position, operand, lifetime }));
        }
        if mark(&mut listed, operand) {
            return Err(at_operand(graph, id, operand, Rule::ListedTwice));
        }
    }
    let missing = graph
        .operands
        .iter()
        .zip(&listed)
        .position(|(operand, &listed)| operand.lifetime == wanted && !listed);
    match missing {
        Some(index) => {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            Err(at_operand(graph, id, index, Rule::NotListed { lifetime: wanted }))
        }
        None => Ok(()),
    }
}

/// In the order of execution every operation reads what has a value and writes what has none; in
/// the end everything has one, and every operand is read as often as it says.
pub(super) fn check_flow(
    graph: &Subgraph,
    id: GraphId,
    polls: &Polls<'_>,
) -> Result<(), ValidationError> {
    let at_graph = |rule| ValidationError { place: Place::Graph(id), rule };
    let operands = graph.operands.len();
    polls.pass(operands).map_err(at_graph)?;
    let mut known = marks(false, operands).map_err(at_graph)?;
    known.iter_mut().zip(&graph.operands).for_each(|(known, it)| *known = has_value_before(it));
    let mut reads = marks(0u32, operands).map_err(at_graph)?;
    for (index, operation) in graph.operations.iter().enumerate() {
        let error = |rule| ValidationError {
            place: Place::Operation { graph: id, index, kind: operation.kind },
            rule,
        };
        let arguments = operation.inputs.len().saturating_add(operation.outputs.len());
        polls.pass(arguments.saturating_add(1)).map_err(error)?;
        for (position, &operand) in operation.inputs.iter().enumerate() {
            if !is_set(&known, operand) {
                return Err(error(Rule::ReadBeforeWritten { position, operand }));
            }
            if let Some(reads) = usize::try_from(operand).ok().and_then(|at| reads.get_mut(at)) {
                *reads = reads.saturating_add(1);
            }
        }
        for (position, &operand) in operation.outputs.iter().enumerate() {
            if mark(&mut known, operand) {
                return Err(error(Rule::WrittenTwice { position, operand }));
            }
        }
    }
    for (index, ((operand, &known), &actual)) in
        graph.operands.iter().zip(&known).zip(&reads).enumerate()
    {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if !known {
            return Err(at_operand(graph, id, index, Rule::NeverWritten));
        }
        let declared = operand.number_of_consumers;
        if declared != actual {
            return Err(at_operand(graph, id, index, Rule::Consumers { declared, actual }));
        }
    }
    Ok(())
}

/// Temporaries and outputs are written by operations; everything else is there, or left out.
fn has_value_before(operand: &Operand) -> bool {
    !matches!(
        operand.lifetime,
        OperandLifeTime::TemporaryVariable | OperandLifeTime::SubgraphOutput
    )
}

/// Sets a flag; true if it was set.
fn mark(flags: &mut [bool], index: u32) -> bool {
    let flag = usize::try_from(index).ok().and_then(|at| flags.get_mut(at));
    flag.is_some_and(|flag| std::mem::replace(flag, true))
}

fn is_set(flags: &[bool], index: u32) -> bool {
    usize::try_from(index).ok().and_then(|at| flags.get(at)).copied().unwrap_or(false)
}

fn at_operand(graph: &Subgraph, id: GraphId, operand: u32, rule: Rule) -> ValidationError {
    let index = usize::try_from(operand).unwrap_or(usize::MAX);
    let place = match graph.operands.get(index) {
        Some(operand) => Place::Operand { graph: id, index, kind: operand.kind },
        None => Place::Graph(id),
    };
    ValidationError { place, rule }
}
