//! One operation: its arguments against the signatures, and the conditions on ranks and
//! quantisation.

use super::error::{Direction, Rule};
use crate::signatures::{Condition, OperandRun, OperationInfo, Ranks, Signature, operation_info};
use crate::types::{Operand, OperandType, Operation, OperationType, Subgraph, Version};

/// The operands of one graph, looked up by an index that is not trusted.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a>(pub(crate) &'a [Operand]);

impl<'a> Operands<'a> {
    pub(crate) fn get(self, index: u32) -> Option<&'a Operand> {
        self.0.get(usize::try_from(index).ok()?)
    }

    /// The operand at a position of a list of indexes.
    pub(crate) fn at(self, list: &[u32], position: usize) -> Option<&'a Operand> {
        self.get(*list.get(position)?)
    }
}

/// The first version of the HAL whose signatures and conditions an operation meets; control flow
/// and OEM operations have none and count by their introduction.
///
/// # Errors
/// No version takes the operation: the rule it breaks.
pub fn operation_since(operation: &Operation, graph: &Subgraph) -> Result<Version, Rule> {
    let operands = Operands(&graph.operands);
    check_indexes(operation, operands)?;
    let Some(info) = operation_info(operation.kind).filter(|info| !info.signatures.is_empty())
    else {
        return Ok(operation.kind.since());
    };
    let since = signature_since(operation, operands, info)?;
    check_ranks(operation, operands, info.ranks)?;
    check_filter(operation, operands, info)?;
    Ok(since.max(operation.kind.since()))
}

/// Everything about an operation but control flow.
pub(super) fn check_signature(
    operation: &Operation,
    graph: &Subgraph,
    version: Version,
) -> Result<(), Rule> {
    check_indexes(operation, Operands(&graph.operands))?;
    let since = operation.kind.since();
    if since > version {
        return Err(Rule::OperationTooNew { since, version });
    }
    let since = operation_since(operation, graph)?;
    if since > version {
        return Err(Rule::SignatureTooNew { since, version });
    }
    Ok(())
}

/// Every index of an argument has to be that of an operand.
pub(super) fn check_indexes(operation: &Operation, operands: Operands<'_>) -> Result<(), Rule> {
    for (direction, list) in
        [(Direction::Input, &operation.inputs), (Direction::Output, &operation.outputs)]
    {
        for (position, &operand) in list.iter().enumerate() {
            if operands.get(operand).is_none() {
                let operands = operands.0.len();
                return Err(Rule::NoSuchOperand { direction, position, operand, operands });
            }
        }
    }
    Ok(())
}

fn signature_since(
    operation: &Operation,
    operands: Operands<'_>,
    info: &OperationInfo,
) -> Result<Version, Rule> {
    // The indexes are checked; an OEM type fits no signature.
    let kind = |&index: &u32| operands.get(index).map_or(OperandType::Oem, |operand| operand.kind);
    let (inputs, outputs) = (operation.inputs.iter().map(kind), operation.outputs.iter().map(kind));
    let mut failed = None;
    for signature in info.signatures {
        let Some(since) = signature.matches(inputs.clone(), outputs.clone()) else { continue };
        match condition_since(signature.condition, operation, operands) {
            Ok(conditional) => return Ok(since.max(conditional)),
            Err(rule) => failed = Some(rule),
        }
    }
    Err(failed.unwrap_or_else(|| {
        explain_mismatch(info.signatures, &inputs.collect::<Vec<_>>(), &outputs.collect::<Vec<_>>())
    }))
}

/// The first version in which a condition is met or not asked for.
fn condition_since(
    condition: Option<Condition>,
    operation: &Operation,
    operands: Operands<'_>,
) -> Result<Version, Rule> {
    let Some(condition) = condition else { return Ok(Version::V1_0) };
    let (Some(first), Some(output)) =
        (operands.at(&operation.inputs, 0), operands.at(&operation.outputs, 0))
    else {
        return Ok(Version::V1_0);
    };
    let rank = first.dimensions.len();
    let above_product = || {
        let second = operands.at(&operation.inputs, 1).map_or(0.0, |second| second.scale);
        output.scale > first.scale * second
    };
    let met = match condition {
        Condition::Rank4Before1_2 => rank == 4,
        Condition::Rank2Or4Before1_2 => matches!(rank, 0 | 2 | 4),
        Condition::ZeroPoint0Before1_2 => first.zero_point == 0,
        Condition::OneQuantizationBefore1_2 => {
            let tensors = operation.inputs.split_last().map_or(&[][..], |(_, tensors)| tensors);
            tensors.iter().filter_map(|&index| operands.get(index)).all(|tensor| {
                tensor.scale == output.scale && tensor.zero_point == output.zero_point
            })
        }
        // The reference reads the first input's scale for the output's in the two convolutions; the
        // rule that its documentation states is the one here.
        Condition::OutputScaleAboveProductBefore1_2 => above_product(),
        Condition::OutputScaleAboveProduct => {
            return if above_product() {
                Ok(Version::V1_0)
            } else {
                Err(Rule::Condition { condition })
            };
        }
    };
    Ok(if met { Version::V1_0 } else { Version::V1_2 })
}

fn check_ranks(operation: &Operation, operands: Operands<'_>, ranks: Ranks) -> Result<(), Rule> {
    let shape = |position| {
        operands.at(&operation.inputs, position).map_or(&[][..], |operand| &operand.dimensions)
    };
    let met = match ranks {
        Ranks::Any => true,
        Ranks::InputUpTo4 => shape(0).len() <= 4,
        Ranks::EachTensorUpTo4 => {
            let tensors = operation.inputs.len().saturating_sub(1);
            (0..tensors).all(|position| shape(position).len() <= 4)
        }
        Ranks::PairUpTo4 => {
            let (a, b) = (shape(0).len(), shape(1).len());
            a == 0 || b == 0 || (a <= 4 && b <= 4)
        }
        Ranks::InputAndFilter4 => [shape(0), shape(1)].iter().all(|s| matches!(s.len(), 0 | 4)),
        Ranks::FullyConnected => fully_connected_fits(shape(0), shape(1), shape(2)),
        Ranks::SameShape => {
            let output = operands.at(&operation.outputs, 0);
            let output = output.map_or(&[][..], |operand| &operand.dimensions);
            shape(0).is_empty() || output.is_empty() || output.contains(&0) || shape(0) == output
        }
    };
    if met { Ok(()) } else { Err(Rule::Ranks { ranks }) }
}

/// Input of any rank is taken as `[batch, input size]`; weights are `[units, input size]`, the bias
/// is `[units]`. An extent of 0 is unknown and fits.
fn fully_connected_fits(input: &[u32], weights: &[u32], bias: &[u32]) -> bool {
    if input.is_empty() || weights.is_empty() || bias.is_empty() {
        return true;
    }
    let (&[units, input_size], &[bias]) = (weights, bias) else { return false };
    if !(2..=4).contains(&input.len()) {
        return false;
    }
    let elements =
        input.iter().try_fold(1u64, |product, &extent| product.checked_mul(u64::from(extent)));
    let whole_batches = match (elements, u64::from(input_size)) {
        (None, _) => false,
        (Some(0), _) | (_, 0) => true,
        (Some(elements), input_size) => elements.checked_rem(input_size) == Some(0),
    };
    let fits = |a: u32, b: u32| a == 0 || b == 0 || a == b;
    whole_batches && fits(units, bias)
}

/// A filter with scales per channel counts channels along the operation's own dimension.
fn check_filter(
    operation: &Operation,
    operands: Operands<'_>,
    info: &OperationInfo,
) -> Result<(), Rule> {
    let filter = operands.at(&operation.inputs, 1);
    match (info.channel_dim, filter.and_then(Operand::channel_quant)) {
        (Some(expected), Some(quant)) if quant.channel_dim != expected => {
            Err(Rule::FilterChannelDim { given: quant.channel_dim, expected })
        }
        _ => Ok(()),
    }
}

/// Why no signature takes the operands: by count, else by the argument at which the signature that
/// goes furthest parts from them.
fn explain_mismatch(
    signatures: &[Signature],
    inputs: &[OperandType],
    outputs: &[OperandType],
) -> Rule {
    let counted = [
        (Direction::Input, inputs.len(), signatures.iter().map(input_counts).collect::<Vec<_>>()),
        (
            Direction::Output,
            outputs.len(),
            signatures.iter().map(|signature| counts(signature.outputs)).collect(),
        ),
    ];
    for (direction, given, counts) in counted {
        let least = counts.iter().map(|&(least, _)| least).min().unwrap_or(0);
        let most = counts.iter().map(|&(_, most)| most).max().unwrap_or(0);
        if !(least..=most).contains(&given) {
            return Rule::ArgumentCount { direction, given, least, most };
        }
    }
    let furthest = signatures
        .iter()
        .filter_map(|signature| first_difference(signature, inputs, outputs))
        .max_by_key(|&(direction, position, _, _)| (direction, position));
    match furthest {
        Some((direction, position, given, expected)) => {
            Rule::ArgumentType { direction, position, given, expected }
        }
        None => Rule::NoSignature,
    }
}

fn input_counts(signature: &Signature) -> (usize, usize) {
    let trailing: usize = signature.trailing.iter().map(|group| group.kinds.len()).sum();
    let (least, most) = counts(signature.inputs);
    (least, most.saturating_add(trailing))
}

fn counts(runs: &[OperandRun]) -> (usize, usize) {
    let least = runs.iter().map(|run| run.least).sum();
    (least, runs.iter().fold(0, |most: usize, run| most.saturating_add(run.most)))
}

/// The first argument that is not what a signature has there. Runs that vary in length end the
/// comparison: what follows them has no fixed place.
fn first_difference(
    signature: &Signature,
    inputs: &[OperandType],
    outputs: &[OperandType],
) -> Option<(Direction, usize, OperandType, OperandType)> {
    let fixed = |runs: &'static [OperandRun]| {
        runs.iter()
            .take_while(|run| run.least == run.most)
            .flat_map(|run| std::iter::repeat_n(run.kind, run.least))
    };
    let trailing = signature.trailing.iter().flat_map(|group| group.kinds).copied();
    let expected_inputs = fixed(signature.inputs).chain(trailing);
    let differ =
        |direction, given: &[OperandType], expected: &mut dyn Iterator<Item = OperandType>| {
            given
                .iter()
                .copied()
                .zip(expected)
                .enumerate()
                .find(|&(_, (given, expected))| given != expected)
                .map(|(position, (given, expected))| (direction, position, given, expected))
        };
    differ(Direction::Input, inputs, &mut { expected_inputs })
        .or_else(|| differ(Direction::Output, outputs, &mut fixed(signature.outputs)))
}

/// Returns whether an operation is of an extension.
pub(super) fn extension_prefix(kind: OperationType) -> Option<u16> {
    match kind {
        OperationType::Extension(code) => Some(code.prefix),
        _ => None,
    }
}
