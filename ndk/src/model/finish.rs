//! Finishing a model: execution order, validation, and what may be left out.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use nnburst::hal::{self, OperandLifeTime, Subgraph, Version};

use super::Finished;
use crate::error::{Error, Result};

/// Puts the operations in order, checks everything, and drops trailing arguments that say what
/// would hold without them, so that older drivers can take the model.
pub(super) fn finish(mut model: hal::Model) -> Result<Finished> {
    model.extension_name_to_prefix = extensions(&model);
    let order = sort(&mut model.main)?;
    hal::validate_model(&model, Version::V1_3).map_err(|error| Error::data(error.to_string()))?;
    hal::trim_default_arguments(&mut model);
    Ok(Finished { model, order })
}

/// For each operation in the order of `addOperation`, whether one of the devices takes it.
pub(super) fn supported(finished: &Finished, devices: &[nnburst::Device]) -> Result<Vec<bool>> {
    let taken = nnburst::supported_operations(&finished.model, devices)?;
    let mut supported = vec![false; finished.order.len()];
    for (&original, taken) in finished.order.iter().zip(taken) {
        if let Some(supported) = supported.get_mut(original) {
            *supported = taken;
        }
    }
    Ok(supported)
}

/// Operations in an order in which each comes after those that it reads from: the one they were
/// added in, as far as that goes. Returns which each was before.
fn sort(graph: &mut Subgraph) -> Result<Vec<usize>> {
    let operations = &graph.operations;
    let mut readers: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut missing = vec![0usize; operations.len()];
    for ((at, operation), missing) in operations.iter().enumerate().zip(&mut missing) {
        for &input in &operation.inputs {
            let operand = usize::try_from(input).ok().and_then(|at| graph.operands.get(at));
            let computed = operand.is_some_and(|operand| {
                matches!(
                    operand.lifetime,
                    OperandLifeTime::TemporaryVariable | OperandLifeTime::SubgraphOutput
                )
            });
            if computed {
                *missing = missing.saturating_add(1);
                readers.entry(input).or_default().push(at);
            }
        }
    }
    let mut ready: BinaryHeap<_> =
        (0..operations.len()).filter(|&at| missing.get(at) == Some(&0)).map(Reverse).collect();
    let mut order = Vec::with_capacity(operations.len());
    while let Some(Reverse(at)) = ready.pop() {
        order.push(at);
        let outputs = operations.get(at).map_or(&[][..], |operation| &operation.outputs);
        for output in outputs {
            // Taken out: a second writer finds no reader, and is found out by the validation.
            for reader in readers.remove(output).unwrap_or_default() {
                let Some(missing) = missing.get_mut(reader) else { continue };
                *missing = missing.saturating_sub(1);
                if *missing == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
    }
    if order.len() != operations.len() {
        return Err(Error::data(
            "there is no order of execution: operations wait for each other, or for what none computes",
        ));
    }
    let sorted = order.iter().filter_map(|&at| operations.get(at).cloned()).collect();
    graph.operations = sorted;
    Ok(order)
}

/// The extensions that a model uses, by the prefixes of its types and operations.
fn extensions(model: &hal::Model) -> Vec<hal::ExtensionNameAndPrefix> {
    let mut prefixes = BTreeSet::new();
    for graph in std::iter::once(&model.main).chain(&model.referenced) {
        let operands = graph.operands.iter().filter_map(|operand| match operand.kind {
            hal::OperandType::Extension(code) => Some(code.prefix),
            _ => None,
        });
        let operations = graph.operations.iter().filter_map(|operation| match operation.kind {
            hal::OperationType::Extension(code) => Some(code.prefix),
            _ => None,
        });
        prefixes.extend(operands.chain(operations));
    }
    let named = |prefix| {
        nnburst::extension_name(prefix).map(|name| hal::ExtensionNameAndPrefix { name, prefix })
    };
    prefixes.into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use nnburst::hal::{Operand, OperandType, Operation, OperationType};

    use super::*;

    fn relu(input: u32, output: u32) -> Operation {
        Operation { kind: OperationType::Relu, inputs: vec![input], outputs: vec![output] }
    }

    fn graph(operations: Vec<Operation>) -> Subgraph {
        let tensor = Operand::tensor(OperandType::TensorFloat32, vec![1]);
        let mut operands = vec![tensor; 4];
        operands[0].lifetime = OperandLifeTime::SubgraphInput;
        Subgraph { operands, operations, ..Subgraph::default() }
    }

    #[test]
    fn readers_come_after_writers_and_nothing_else_moves() {
        let mut sorted = graph(vec![relu(2, 3), relu(0, 1), relu(1, 2)]);
        assert_eq!(sort(&mut sorted).unwrap(), [1, 2, 0]);
        assert_eq!(sorted.operations, [relu(0, 1), relu(1, 2), relu(2, 3)]);
        let mut untouched = graph(vec![relu(0, 1), relu(0, 2), relu(1, 3)]);
        assert_eq!(sort(&mut untouched).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_circle_and_a_hole_have_no_order() {
        assert!(sort(&mut graph(vec![relu(2, 1), relu(1, 2)])).is_err(), "circle");
        assert!(sort(&mut graph(vec![relu(1, 2)])).is_err(), "nobody writes operand 1");
    }
}
