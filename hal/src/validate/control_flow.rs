//! IF and WHILE: what they hand to the graphs they refer to, and get back.

use super::error::{Direction, LoopOperand, Rule};
use super::model::ValidationMode;
use super::operation::Operands;
use super::polls::Polls;
use crate::types::{Model, Operand, OperandType, Operation, OperationType, Subgraph};

/// The arguments of an IF or WHILE, whose indexes are checked.
pub(super) fn validate_control_flow(
    operation: &Operation,
    graph: &Subgraph,
    model: &Model,
    mode: ValidationMode,
    polls: &Polls<'_>,
) -> Result<(), Rule> {
    for (direction, given, least) in [
        (Direction::Input, operation.inputs.len(), 3),
        (Direction::Output, operation.outputs.len(), 1),
    ] {
        if given < least {
            return Err(Rule::ArgumentCount { direction, given, least, most: usize::MAX });
        }
    }
    let call = Call { operation, operands: Operands(&graph.operands), model, polls };
    match operation.kind {
        OperationType::If => call.validate_if(),
        _ => call.validate_while(mode),
    }
}

struct Call<'a> {
    operation: &'a Operation,
    operands: Operands<'a>,
    model: &'a Model,
    polls: &'a Polls<'a>,
}

/// A referenced graph and its index.
#[derive(Clone, Copy)]
struct Target<'a> {
    index: usize,
    graph: &'a Subgraph,
}

/// An operand and how to name it.
type Named<'a> = (LoopOperand, &'a Operand);

impl<'a> Call<'a> {
    /// Condition, then-graph, else-graph, values; both graphs take the values and give the outputs.
    fn validate_if(&self) -> Result<(), Rule> {
        let condition = self.operands.at(&self.operation.inputs, 0);
        if !condition.is_some_and(is_condition) {
            return Err(Rule::ConditionShape);
        }
        let values = self.operation.inputs.len().saturating_sub(3);
        let outputs = self.operation.outputs.len();
        for position in [1, 2] {
            let branch = self.target(position)?;
            branch.check_count(Direction::Input, values, values)?;
            branch.check_count(Direction::Output, outputs, outputs)?;
            for at in 0..values {
                self.polls.pass(1)?;
                compatible(self.input(at.saturating_add(3)), branch.input(at))?;
            }
            for at in 0..outputs {
                self.polls.pass(1)?;
                compatible(self.output(at), branch.output(at))?;
            }
        }
        Ok(())
    }

    /// Condition graph, body graph, loop variables. Of these the first are given back, those that
    /// follow are state that the body renews, the rest stay as they are.
    fn validate_while(&self, mode: ValidationMode) -> Result<(), Rule> {
        let variables = self.operation.inputs.len().saturating_sub(2);
        let outputs = self.operation.outputs.len();
        let (condition, body) = (self.target(0)?, self.target(1)?);
        condition.check_count(Direction::Input, variables, variables)?;
        condition.check_count(Direction::Output, 1, 1)?;
        body.check_count(Direction::Input, variables, variables)?;
        body.check_count(Direction::Output, outputs, variables)?;
        if !condition.output(0).is_some_and(|(_, operand)| is_condition(operand)) {
            return Err(Rule::ConditionShape);
        }
        let renewed = body.graph.output_indexes.len();
        for at in 0..variables {
            self.polls.pass(1)?;
            let outer = self.input(at.saturating_add(2));
            compatible(outer, condition.input(at))?;
            compatible(outer, body.input(at))?;
            if at < renewed {
                compatible(body.input(at), body.output(at))?;
            }
            if at < outputs {
                compatible(self.output(at), body.output(at))?;
            }
            if mode == ValidationMode::Driver {
                for operand in [outer, condition.input(at), body.input(at)] {
                    known_size(operand)?;
                }
            }
        }
        if mode == ValidationMode::Driver {
            (0..outputs).try_for_each(|at| known_size(self.output(at)))?;
            (0..renewed).try_for_each(|at| known_size(body.output(at)))?;
        }
        Ok(())
    }

    /// The graph that an input refers to.
    fn target(&self, position: usize) -> Result<Target<'a>, Rule> {
        let operand = self.operands.at(&self.operation.inputs, position);
        let Some(operand) = operand.filter(|operand| operand.kind == OperandType::Subgraph) else {
            return Err(Rule::NotASubgraph { position });
        };
        let index = usize::try_from(operand.location.offset).unwrap_or(usize::MAX);
        match self.model.referenced.get(index) {
            Some(graph) => Ok(Target { index, graph }),
            None => Err(Rule::NotASubgraph { position }),
        }
    }

    fn input(&self, position: usize) -> Option<Named<'a>> {
        let operand = self.operands.at(&self.operation.inputs, position)?;
        Some((LoopOperand::Outer(Direction::Input, position), operand))
    }

    fn output(&self, position: usize) -> Option<Named<'a>> {
        let operand = self.operands.at(&self.operation.outputs, position)?;
        Some((LoopOperand::Outer(Direction::Output, position), operand))
    }
}

impl<'a> Target<'a> {
    fn check_count(self, direction: Direction, least: usize, most: usize) -> Result<(), Rule> {
        let given = match direction {
            Direction::Input => self.graph.input_indexes.len(),
            Direction::Output => self.graph.output_indexes.len(),
        };
        if (least..=most).contains(&given) {
            return Ok(());
        }
        Err(Rule::SubgraphArguments { graph: self.index, direction, given, least, most })
    }

    fn input(self, position: usize) -> Option<Named<'a>> {
        let operand = Operands(&self.graph.operands).at(&self.graph.input_indexes, position)?;
        Some((LoopOperand::Inner(self.index, Direction::Input, position), operand))
    }

    fn output(self, position: usize) -> Option<Named<'a>> {
        let operand = Operands(&self.graph.operands).at(&self.graph.output_indexes, position)?;
        Some((LoopOperand::Inner(self.index, Direction::Output, position), operand))
    }
}

/// TENSOR_BOOL8 of shape `[1]`.
fn is_condition(operand: &Operand) -> bool {
    operand.kind == OperandType::TensorBool8 && operand.dimensions == [1]
}

/// Same type and quantisation, and shapes that may turn out equal. An operand that isn't there (a
/// bad index in a referenced graph) is reported where its own graph is checked.
fn compatible(outer: Option<Named<'_>>, inner: Option<Named<'_>>) -> Result<(), Rule> {
    let (Some((outer, a)), Some((inner, b))) = (outer, inner) else { return Ok(()) };
    let same = a.kind == b.kind
        && shapes_agree(&a.dimensions, &b.dimensions)
        && a.scale == b.scale
        && a.zero_point == b.zero_point
        && a.extra_params == b.extra_params;
    if same { Ok(()) } else { Err(Rule::Incompatible { outer, inner }) }
}

/// An unknown rank agrees with every shape, an unknown extent with every extent.
fn shapes_agree(a: &[u32], b: &[u32]) -> bool {
    a.is_empty()
        || b.is_empty()
        || (a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| a == 0 || b == 0 || a == b))
}

fn known_size(operand: Option<Named<'_>>) -> Result<(), Rule> {
    match operand {
        Some((name, operand))
            if !operand.kind.is_extension() && operand.element_count().is_none() =>
        {
            Err(Rule::UnknownSize { operand: name })
        }
        _ => Ok(()),
    }
}
