//! Checks whether an older version of the HAL can express a model or request.

use crate::types::{
    Model, Operand, OperandLifeTime, Operation, Request, RequestPool, Subgraph, Version,
};
use crate::validate::{operation_since, validate_pool};

/// Returns whether a version of the HAL can express every operation of a valid model's main graph,
/// with the operands it uses.
///
/// The relaxed flag plays no part: a driver of 1.0 computes with full precision, which is always
/// allowed.
pub fn compliant_with(model: &Model, version: Version) -> bool {
    let check = Check { model, version };
    model.main.operations.iter().all(|operation| check.operation(operation))
}

/// The operations of the main graph that a version of the HAL can't express, by index.
pub fn noncompliant_operations(model: &Model, version: Version) -> Vec<usize> {
    let check = Check { model, version };
    let operations = model.main.operations.iter().enumerate();
    operations
        .filter(|&(_, operation)| !check.operation(operation))
        .map(|(index, _)| index)
        .collect()
}

/// Returns whether a version of the HAL knows every memory of a request.
pub fn request_compliant_with(request: &Request, version: Version) -> bool {
    request.pools.iter().all(|pool| match pool {
        RequestPool::Memory(memory) => validate_pool(memory, version).is_ok(),
        RequestPool::Token(_) => version >= Version::V1_3,
    })
}

struct Check<'a> {
    model: &'a Model,
    version: Version,
}

impl Check<'_> {
    fn operation(&self, operation: &Operation) -> bool {
        let graph = &self.model.main;
        operation_since(operation, graph).is_ok_and(|since| since <= self.version)
            && operands_of(operation, graph).all(|operand| self.operand(operand))
    }

    fn operand(&self, operand: &Operand) -> bool {
        let ranked = operand.kind.is_scalar() || !operand.dimensions.is_empty();
        operand.kind.since() <= self.version
            && (self.version >= Version::V1_2 || ranked)
            && operand.lifetime.since() <= self.version
            && (operand.lifetime != OperandLifeTime::ConstantReference || self.pool(operand))
    }

    fn pool(&self, operand: &Operand) -> bool {
        let index = usize::try_from(operand.location.pool_index).unwrap_or(usize::MAX);
        let pool = self.model.pools.get(index);
        pool.is_some_and(|pool| validate_pool(pool, self.version).is_ok())
    }
}

/// The operands that an operation reads and writes; indexes of none are left out.
fn operands_of<'a>(
    operation: &'a Operation,
    graph: &'a Subgraph,
) -> impl Iterator<Item = &'a Operand> {
    operation.inputs.iter().chain(&operation.outputs).filter_map(|&index| {
        usize::try_from(index).ok().and_then(|index| graph.operands.get(index))
    })
}
