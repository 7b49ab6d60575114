//! The operations of a model that a driver takes.

use std::cell::Cell;

use nnburst_executor::is_implemented;
use nnburst_hal::{
    MemoryError, Model, OperandLifeTime, OperandType, Operation, OperationType, Result, Subgraph,
    try_collect, try_filled,
};

use crate::personality::Personality;

/// For each operation of the main graph of a valid model, whether it is taken.
///
/// # Errors
/// There is no memory for as many.
pub(crate) fn supported(driver: &dyn Personality, model: &Model) -> Result<Vec<bool>> {
    let has_extensions = !driver.extensions().is_empty();
    let referenced = try_filled(Cell::new(None), model.referenced.len())?;
    let support = Support { driver, has_extensions, model, referenced };
    let takes = |operation| support.takes(operation, &model.main);
    try_collect(model.main.operations.iter().map(|operation| Ok(takes(operation))))
}

struct Support<'a> {
    driver: &'a dyn Personality,
    has_extensions: bool,
    model: &'a Model,
    /// The answers for the graphs referred to, so that branches of branches are visited once.
    referenced: Vec<Cell<Option<bool>>>,
}

impl Support<'_> {
    fn takes(&self, operation: &Operation, graph: &Subgraph) -> bool {
        unreadable(operation, graph, self.model).is_none()
            && self.driver.takes(operation, graph, self.model)
            && self.computes(operation, graph)
    }

    /// Returns whether the executor has the operation, and all of the graphs it refers to. A valid
    /// model's graphs don't refer in circles.
    fn computes(&self, operation: &Operation, graph: &Subgraph) -> bool {
        match operation.kind {
            OperationType::Extension(_) => self.has_extensions,
            OperationType::If | OperationType::While => operation
                .inputs
                .iter()
                .filter_map(|&index| graph.operands.get(usize::try_from(index).ok()?))
                .filter(|operand| operand.kind == OperandType::Subgraph)
                .filter_map(|operand| usize::try_from(operand.location.offset).ok())
                .all(|index| self.takes_graph(index)),
            kind => is_implemented(kind),
        }
    }

    fn takes_graph(&self, index: usize) -> bool {
        let (Some(graph), Some(known)) =
            (self.model.referenced.get(index), self.referenced.get(index))
        else {
            return false;
        };
        let taken = known.get().unwrap_or_else(|| {
            graph.operations.iter().all(|operation| self.takes(operation, graph))
        });
        known.set(Some(taken));
        taken
    }
}

/// Why a constant of the operation can't be read, if one can't: preparing reads them, and nothing
/// is supported that can't be prepared.
pub(crate) fn unreadable(
    operation: &Operation,
    graph: &Subgraph,
    model: &Model,
) -> Option<MemoryError> {
    let operands = operation.inputs.iter().filter_map(|&index| {
        let operand = graph.operands.get(usize::try_from(index).ok()?)?;
        (operand.lifetime == OperandLifeTime::ConstantReference).then_some(operand)
    });
    let mut pools = operands.filter_map(|operand| {
        model.pools.get(usize::try_from(operand.location.pool_index).unwrap_or(usize::MAX))
    });
    pools.find_map(|pool| pool.read_at(0, &mut []).err())
}
