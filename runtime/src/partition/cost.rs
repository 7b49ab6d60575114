//! The cost of a plan: estimated time of its operations, and of the crossings into other processes.
//!
//! Figures say how a device compares with the reference device, per operation. A plan of more than
//! one step also pays for every step that runs in another process, and for the bytes that go there
//! and come back. To hold both against each other, operations get an estimate of the reference
//! device's time. It is rough, and only asked whether a plan of several steps is worth more than
//! its crossings.

use nnburst_hal::{Operand, OperandLifeTime, Operation, OperationType, Subgraph};

use crate::graphs::{is_computed, operand};

/// Nanoseconds of a step on a device in another process, beside what it computes. Between the two
/// paths that a step may take, since a plan is made before it is known which: 111 us by calls over
/// the control connection, 0.4 us in a burst whose ends poll; `runtime/tests/crossing.rs` measures
/// both.
const STEP_NS: f32 = 25_000.0;
/// Nanoseconds of a byte that one process writes and another one reads: 0.18 by calls, which map
/// the memory anew, next to nothing in a burst that has it mapped.
const BYTE_NS: f32 = 0.1;

/// Estimated nanoseconds of any operation: the least that one takes.
const OPERATION_NS: f32 = 500.0;
/// Of a multiplication and addition.
const PRODUCT_NS: f32 = 0.05;
/// Of an element that is read or written.
const ELEMENT_NS: f32 = 0.25;

/// The advantage below which figures count as equal: measured figures of equal devices scatter by a
/// tenth to either side.
pub(super) const NOISE: f32 = 0.185;

/// Returns the cost of a step on a device beside what it computes; nothing in this process.
pub(super) fn crossing(graph: &Subgraph, operations: &[usize], is_here: bool) -> f32 {
    if is_here { 0.0 } else { BYTE_NS.mul_add(boundary_bytes(graph, operations), STEP_NS) }
}

/// Bytes of the values that go into a step and come out of it; each open extent counts as 1.
fn boundary_bytes(graph: &Subgraph, operations: &[usize]) -> f32 {
    /// The users of an operand.
    #[derive(Clone, Copy, Default)]
    struct Uses {
        made_inside: bool,
        read_inside: bool,
        read_outside: bool,
    }
    let mut is_inside = vec![false; graph.operations.len()];
    for &at in operations {
        if let Some(is_inside) = is_inside.get_mut(at) {
            *is_inside = true;
        }
    }
    let mut uses = vec![Uses::default(); graph.operands.len()];
    for (operation, is_inside) in graph.operations.iter().zip(is_inside) {
        for index in places(&operation.outputs) {
            if let Some(uses) = uses.get_mut(index) {
                uses.made_inside |= is_inside;
            }
        }
        for index in places(&operation.inputs) {
            if let Some(uses) = uses.get_mut(index) {
                uses.read_inside |= is_inside;
                uses.read_outside |= !is_inside;
            }
        }
    }
    let moves = |operand: &Operand, uses: &Uses| {
        let is_result = operand.lifetime == OperandLifeTime::SubgraphOutput;
        let is_given = operand.lifetime == OperandLifeTime::SubgraphInput;
        match uses.made_inside {
            true => is_result || uses.read_outside,
            false => uses.read_inside && (is_given || is_computed(operand)),
        }
    };
    let operands = graph.operands.iter().zip(&uses);
    operands.filter(|(operand, uses)| moves(operand, uses)).map(|(operand, _)| bytes(operand)).sum()
}

fn places(indexes: &[u32]) -> impl Iterator<Item = usize> {
    indexes.iter().filter_map(|&index| usize::try_from(index).ok())
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn bytes(operand: &Operand) -> f32 {
    elements(operand) * operand.kind.element_bytes().unwrap_or(1) as f32
}

/// Elements of an operand, each open extent being 1.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn elements(operand: &Operand) -> f32 {
    operand.dimensions.iter().map(|&extent| extent.max(1) as f32).product()
}

/// Estimated nanoseconds of an operation on the reference device; of control flow, without what it
/// refers to.
pub(super) fn nanoseconds(graph: &Subgraph, operation: &Operation) -> f32 {
    let of = |indexes: &[u32]| -> f32 {
        indexes.iter().filter_map(|&index| operand(graph, index)).map(elements).sum()
    };
    let touched = of(&operation.inputs) + of(&operation.outputs);
    PRODUCT_NS.mul_add(products(graph, operation), ELEMENT_NS.mul_add(touched, OPERATION_NS))
}

/// Multiplications, roughly: of what computes with weights, each output element's.
fn products(graph: &Subgraph, operation: &Operation) -> f32 {
    let input = |at: usize| operation.inputs.get(at).and_then(|&index| operand(graph, index));
    let extent = |at: usize, axis: usize| {
        let extent = input(at).and_then(|operand| operand.dimensions.get(axis)).copied();
        f32::from(u16::try_from(extent.unwrap_or(1).max(1)).unwrap_or(u16::MAX))
    };
    let results = operation.outputs.first().and_then(|&index| operand(graph, index));
    let results = results.map_or(1.0, elements);
    match operation.kind {
        OperationType::Conv2d | OperationType::GroupedConv2d => {
            results * extent(1, 1) * extent(1, 2) * extent(1, 3)
        }
        OperationType::DepthwiseConv2d => results * extent(1, 1) * extent(1, 2),
        OperationType::TransposeConv2d => {
            let inputs = input(0).map_or(1.0, elements);
            inputs * extent(1, 0) * extent(1, 1) * extent(1, 2)
        }
        OperationType::FullyConnected => results * extent(1, 1),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_builder::ModelBuilder;

    #[test]
    fn what_goes_in_and_out_of_a_step_is_counted_once() {
        let mut graph = ModelBuilder::new();
        let [a, b] = [(); 2].map(|()| graph.input(Operand::float32([100])));
        let sum = graph.add(a, b).done();
        let product = graph.mul(sum, sum).done();
        let both = graph.add(product, sum).done();
        graph.output(both);
        let main = graph.build().unwrap().main;
        for (operations, tensors) in
            [(&[0][..], 3.0), (&[1], 2.0), (&[0, 1], 4.0), (&[0, 1, 2], 3.0)]
        {
            let bytes = boundary_bytes(&main, operations);
            assert!((bytes - tensors * 400.0).abs() < 0.5, "{operations:?}: {bytes}");
        }
        assert!(crossing(&main, &[0], true).abs() < f32::EPSILON);
        assert!(crossing(&main, &[0], false) > STEP_NS);
    }

    #[test]
    fn convolutions_take_longer_than_sums() {
        let mut graph = ModelBuilder::new();
        let picture = graph.input(Operand::float32([1, 64, 64, 8]));
        let filter = graph.constant_of(Operand::float32([8, 3, 3, 8]), &[0.5f32; 8 * 3 * 3 * 8]);
        let bias = graph.constant_of(Operand::float32([8]), &[0.5f32; 8]);
        let features = graph.conv_2d(picture, filter, bias).same().done();
        let sum = graph.add(features, features).done();
        graph.output(sum);
        let main = graph.build().unwrap().main;
        let [conv, add] = [0, 1].map(|at| nanoseconds(&main, &main.operations[at]));
        assert!(conv > 5.0 * add, "{conv} {add}");
    }
}
