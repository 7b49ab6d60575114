//! A model as a whole.

use super::control_flow::validate_control_flow;
use super::error::{GraphId, Place, Rule, ValidationError};
use super::extensions::validate_prefixes;
use super::graph::{check_flow, check_lists};
use super::operand::{OperandContext, validate_operand};
use super::operation::{Operands, check_signature, extension_prefix};
use super::polls::{Polls, marks};
use crate::memory::{Memory, MemoryKind};
use crate::types::{
    ExtraParams, Model, OperandLifeTime, Operation, OperationType, Subgraph, Version,
};

/// The deepest nesting of IF and WHILE. The interface sets no limit; this one keeps whoever walks
/// the graphs by recursion off the end of the stack, far beyond what models do.
pub const MAX_SUBGRAPH_DEPTH: usize = 64;

/// The caller of the validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationMode {
    /// As the reference's drivers: what a WHILE hands over has known sizes.
    Driver,
    /// As the reference's runtime: sizes may be unknown, for whoever resolves them while running.
    Runtime,
}

/// Returns whether a model is valid for a version of the HAL.
///
/// Sizes within a WHILE may be unknown ([`ValidationMode::Runtime`]); a driver that can't resolve
/// them asks [`validate_model_in`].
///
/// # Errors
/// The first rule that the model breaks, and where.
///
/// ```
/// use nnburst_hal::{Model, Version, validate_model};
///
/// let error = validate_model(&Model::default(), Version::V1_3).unwrap_err();
/// assert_eq!(error.to_string(), "the main graph: there are no operands");
/// ```
pub fn validate_model(model: &Model, version: Version) -> Result<(), ValidationError> {
    validate_model_in(model, version, ValidationMode::Runtime)
}

/// [`validate_model`], for whoever asks.
///
/// # Errors
/// The first rule that the model breaks, and where.
pub fn validate_model_in(
    model: &Model,
    version: Version,
    mode: ValidationMode,
) -> Result<(), ValidationError> {
    validate_with(model, version, mode, Polls::none())
}

/// [`validate_model`] of a model that may be large, for a client that may go: asks `goes_on` now
/// and then, less than 5 ms apart.
///
/// # Errors
/// The first rule that the model breaks, and where; [`Rule::Ended`] once `goes_on` is false.
pub fn validate_model_polled(
    model: &Model,
    version: Version,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), ValidationError> {
    validate_with(model, version, ValidationMode::Runtime, Polls::new(goes_on))
}

fn validate_with(
    model: &Model,
    version: Version,
    mode: ValidationMode,
    polls: Polls<'_>,
) -> Result<(), ValidationError> {
    check_expressible(model, version)?;
    let prefixes = validate_prefixes(&model.extension_name_to_prefix)?;
    let context = OperandContext { model, version, prefixes, polls };
    check_graph(&model.main, GraphId::Main, &context, mode)?;
    for (index, graph) in model.referenced.iter().enumerate() {
        check_graph(graph, GraphId::Referenced(index), &context, mode)?;
    }
    for (index, pool) in model.pools.iter().enumerate() {
        validate_pool(pool, version)
            .map_err(|rule| ValidationError { place: Place::Pool(index), rule })?;
    }
    check_nesting(model, &context.polls)
}

/// Returns whether a version of the HAL knows the kind of memory. That it can be mapped shows when
/// it is.
///
/// # Errors
/// The rule: the version of the HAL knows no memory of this kind.
pub fn validate_pool(pool: &Memory, version: Version) -> Result<(), Rule> {
    let kind = pool.kind();
    let known = match kind {
        MemoryKind::Ashmem | MemoryKind::MmapFd => true,
        MemoryKind::HardwareBufferBlob | MemoryKind::HardwareBuffer => version >= Version::V1_2,
    };
    if known { Ok(()) } else { Err(Rule::MemoryKind { kind, version }) }
}

/// Refuses parts of a model that the version has no field for. The relaxed flag, which 1.0 lacks,
/// is a permission that a driver may ignore, so it may be there.
fn check_expressible(model: &Model, version: Version) -> Result<(), ValidationError> {
    let fields = [
        ("extensions", !model.extension_name_to_prefix.is_empty(), Version::V1_2),
        ("referenced graphs", !model.referenced.is_empty(), Version::V1_3),
    ];
    match fields.into_iter().find(|&(_, used, since)| used && since > version) {
        Some((what, _, since)) => Err(ValidationError {
            place: Place::Model,
            rule: Rule::NotInVersion { what, since, version },
        }),
        None => Ok(()),
    }
}

fn check_graph(
    graph: &Subgraph,
    id: GraphId,
    context: &OperandContext<'_>,
    mode: ValidationMode,
) -> Result<(), ValidationError> {
    let at_graph = |rule| ValidationError { place: Place::Graph(id), rule };
    if id == GraphId::Main {
        // Only the main graph has to do something.
        check_not_empty(graph).map_err(at_graph)?;
    }
    for (index, operand) in graph.operands.iter().enumerate() {
        let channels = match &operand.extra_params {
            ExtraParams::ChannelQuant(quant) => quant.scales.len(),
            _ => 0,
        };
        let amount = operand.dimensions.len().saturating_add(channels).saturating_add(1);
        let validated =
            context.polls.pass(amount).and_then(|()| validate_operand(operand, context));
        validated.map_err(|rule| ValidationError {
            place: Place::Operand { graph: id, index, kind: operand.kind },
            rule,
        })?;
    }
    for (index, operation) in graph.operations.iter().enumerate() {
        let arguments = operation.inputs.len().saturating_add(operation.outputs.len());
        let checked = context
            .polls
            .pass(arguments.saturating_add(1))
            .and_then(|()| check_operation(operation, graph, context, mode));
        checked.map_err(|rule| ValidationError {
            place: Place::Operation { graph: id, index, kind: operation.kind },
            rule,
        })?;
    }
    check_lists(graph, id, &context.polls)?;
    check_flow(graph, id, &context.polls)
}

fn check_not_empty(graph: &Subgraph) -> Result<(), Rule> {
    if graph.operands.is_empty() {
        Err(Rule::Empty { what: "operands" })
    } else if graph.operations.is_empty() {
        Err(Rule::Empty { what: "operations" })
    } else {
        Ok(())
    }
}

/// Returns whether an operation may be added to the main graph of a model whose operands, and
/// graphs referred to, are there: its signature, and for IF and WHILE the graphs.
///
/// # Errors
/// The rule it breaks.
pub fn validate_operation(
    operation: &Operation,
    model: &Model,
    version: Version,
    mode: ValidationMode,
) -> Result<(), Rule> {
    check_signature(operation, &model.main, version)?;
    if matches!(operation.kind, OperationType::If | OperationType::While) {
        validate_control_flow(operation, &model.main, model, mode, &Polls::none())?;
    }
    Ok(())
}

fn check_operation(
    operation: &Operation,
    graph: &Subgraph,
    context: &OperandContext<'_>,
    mode: ValidationMode,
) -> Result<(), Rule> {
    check_signature(operation, graph, context.version)?;
    match extension_prefix(operation.kind) {
        Some(prefix) if !context.prefixes.contains(&prefix) => {
            return Err(Rule::UnknownPrefix { prefix });
        }
        _ => {}
    }
    if matches!(operation.kind, OperationType::If | OperationType::While) {
        validate_control_flow(operation, graph, context.model, mode, &context.polls)?;
    }
    check_outputs(operation, graph)
}

/// Operations write temporaries and outputs of their graph, nothing else.
fn check_outputs(operation: &Operation, graph: &Subgraph) -> Result<(), Rule> {
    for (position, &operand) in operation.outputs.iter().enumerate() {
        let lifetime = Operands(&graph.operands).get(operand).map(|operand| operand.lifetime);
        match lifetime {
            Some(OperandLifeTime::TemporaryVariable | OperandLifeTime::SubgraphOutput) | None => {}
            Some(lifetime) => return Err(Rule::OutputLifetime { position, operand, lifetime }),
        }
    }
    Ok(())
}

/// The progress of the search with a referenced graph.
#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Unseen,
    /// On the path that is being followed.
    Open,
    /// Nothing below it reaches itself; so deep is what it refers to, itself counted.
    Done {
        depth: usize,
    },
}

/// One graph on the path: which operand to look at next, and the depth found below it so far.
struct Step {
    graph: usize,
    next_operand: usize,
    depth_below: usize,
}

/// No referenced graph reaches itself, and they aren't nested too deep. Depth first, with a stack
/// of its own; every operand is looked at once.
fn check_nesting(model: &Model, polls: &Polls<'_>) -> Result<(), ValidationError> {
    let at_model = |rule| ValidationError { place: Place::Model, rule };
    let mut visits = marks(Visit::Unseen, model.referenced.len()).map_err(at_model)?;
    for start in 0..model.referenced.len() {
        if visits.get(start) != Some(&Visit::Unseen) {
            continue;
        }
        let mut path = vec![Step { graph: start, next_operand: 0, depth_below: 0 }];
        while let Some(step) = path.last_mut() {
            let graph = step.graph;
            let error =
                |rule| ValidationError { place: Place::Graph(GraphId::Referenced(graph)), rule };
            set(&mut visits, graph, Visit::Open);
            let (from, child) = (step.next_operand, next_reference(model, step));
            polls.pass(step.next_operand.saturating_sub(from).saturating_add(1)).map_err(error)?;
            let Some(child) = child else {
                let depth = step.depth_below.saturating_add(1);
                if depth > MAX_SUBGRAPH_DEPTH {
                    return Err(error(Rule::TooDeep { limit: MAX_SUBGRAPH_DEPTH }));
                }
                set(&mut visits, graph, Visit::Done { depth });
                path.pop();
                if let Some(parent) = path.last_mut() {
                    parent.depth_below = parent.depth_below.max(depth);
                }
                continue;
            };
            match visits.get(child) {
                Some(Visit::Open) => return Err(error(Rule::Cycle)),
                Some(&Visit::Done { depth }) => step.depth_below = step.depth_below.max(depth),
                Some(Visit::Unseen) => {
                    path.push(Step { graph: child, next_operand: 0, depth_below: 0 });
                }
                None => {}
            }
        }
    }
    Ok(())
}

fn set(visits: &mut [Visit], graph: usize, visit: Visit) {
    if let Some(slot) = visits.get_mut(graph) {
        *slot = visit;
    }
}

/// The next graph that the step's graph refers to.
fn next_reference(model: &Model, step: &mut Step) -> Option<usize> {
    let operands = model.referenced.get(step.graph)?.operands.get(step.next_operand..)?;
    let skipped =
        operands.iter().position(|operand| operand.lifetime == OperandLifeTime::Subgraph)?;
    let operand = operands.get(skipped)?;
    step.next_operand = step.next_operand.saturating_add(skipped).saturating_add(1);
    usize::try_from(operand.location.offset).ok()
}
