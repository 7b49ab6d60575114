//! IF becomes the operations of the branch taken; WHILE becomes a loop over plans of its own.

use nnburst_hal::OperandType;
use nnburst_kernels::tensor::OpError;

use super::lower::{LoopDraft, Next};
use crate::lowering::OpBuilder;
use crate::lowering::builder::{Reason, Stop};
use crate::lowering::draft::DraftPlace;
use crate::lowering::state::{Storage, ValueId};
use crate::lowering::step::DynamicTarget;

/// The condition is a value like any other that lowering depends on: where it is constant the
/// branch is chosen once, else a run keeps the stages of both branches as it comes to know them.
///
/// Source: NNAPI `IF`, since HAL 1.3.
pub(super) fn lower_if(op: &mut OpBuilder<'_>) -> Result<Next, Stop> {
    let kind = op.input_kind(0)?;
    if kind != OperandType::TensorBool8 {
        return Err(OpError::input(0, format!("is {kind} and not TENSOR_BOOL8")).into());
    }
    let bytes = op.value(0)?;
    let [condition] = bytes.as_slice() else {
        return Err(OpError::input(0, format!("has {} elements and not 1", bytes.len())).into());
    };
    let graph = referenced(op, if *condition != 0 { 1 } else { 2 })?;
    let inputs = values(op, 2)?;
    let outputs: Vec<ValueId> =
        op.operation.outputs.iter().map(|&operand| op.map[operand as usize]).collect();
    let this = &op.context.graphs[graph];
    check_count("inputs of the branch", this.inputs.len(), inputs.len())?;
    check_count("outputs of the branch", this.outputs.len(), outputs.len())?;
    Ok(Next::Enter { graph, inputs, outputs })
}

/// Source: NNAPI `WHILE`, since HAL 1.3.
pub(super) fn lower_while(op: &mut OpBuilder<'_>) -> Result<Next, Stop> {
    let (condition, body) = (referenced(op, 0)?, referenced(op, 1)?);
    let inputs = op.operation.inputs.get(2..).unwrap_or_default();
    let mut places = Vec::new();
    for (index, &operand) in inputs.iter().enumerate() {
        let shape = op.input(index + 2)?.shape;
        let value = &op.state.values[op.map[operand as usize]];
        let kind = op.context.graphs[op.graph].operands[operand as usize].kind;
        places.push((DraftPlace::of(value, kind, &op.context.types), shape.to_u32()));
    }
    let graphs = &op.context.graphs;
    check_count("inputs of the condition", graphs[condition].inputs.len(), places.len())?;
    check_count("inputs of the body", graphs[body].inputs.len(), places.len())?;
    check_count("outputs of the condition", graphs[condition].outputs.len(), 1)?;
    let (states, results) = (graphs[body].outputs.len(), op.operation.outputs.len());
    if states < results || states > places.len() || results == 0 {
        let what = format!("a body of {} inputs and {states} outputs for {results}", places.len());
        return Err(OpError::rule(what).into());
    }
    let outputs = op
        .operation
        .outputs
        .iter()
        .map(|&operand| {
            let value = op.map[operand as usize];
            let info = &op.state.values[value];
            DynamicTarget { value, output: info.output, declared: info.declared.clone() }
        })
        .collect();
    Ok(Next::Loop(LoopDraft { condition, body, inputs: places, outputs }))
}

fn referenced(op: &OpBuilder<'_>, input: usize) -> Result<usize, Stop> {
    let graphs = &op.context.graphs;
    let operand = op.operation.inputs.get(input).map(|&operand| operand as usize);
    operand
        .and_then(|operand| graphs[op.graph].referenced(operand, graphs.len()))
        .ok_or_else(|| OpError::input(input, "refers to no graph of the model").into())
}

fn values(op: &OpBuilder<'_>, behind: usize) -> Result<Vec<ValueId>, Stop> {
    let operands = op.operation.inputs.get(behind + 1..).unwrap_or_default();
    operands
        .iter()
        .enumerate()
        .map(|(at, &operand)| {
            let value = op.map[operand as usize];
            match op.state.values[value].storage {
                Storage::Unset => Err(Stop(Reason::Error(OpError::input(
                    behind + 1 + at,
                    "is read before anything computes it",
                )))),
                _ => Ok(value),
            }
        })
        .collect()
}

fn check_count(what: &str, got: usize, want: usize) -> Result<(), OpError> {
    if got == want { Ok(()) } else { Err(OpError::rule(format!("{got} {what}, given {want}"))) }
}
