//! The operations of a model that a driver takes.

use std::cell::Cell;

use nnburst_executor::is_implemented;
use nnburst_hal::{
    MemoryError, Model, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
};

use crate::personality::Personality;

/// For each operation of the main graph of a valid model, whether it is taken.
pub(crate) fn supported(driver: &dyn Personality, model: &Model) -> Vec<bool> {
    let has_extensions = !driver.extensions().is_empty();
    let referenced = vec![Cell::new(None); model.referenced.len()];
    let support = Support { driver, has_extensions, model, referenced };
    model.main.operations.iter().map(|operation| support.takes(operation, &model.main)).collect()
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
