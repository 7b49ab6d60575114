//! Requests: the arguments of one execution against the model's inputs and outputs.
//!
//! Runs for every frame of a burst, so nothing here allocates unless something is wrong.

use super::error::{Direction, Place, Rule, ValidationError};
use super::model::validate_pool;
use super::operand::check_range;
use super::operation::Operands;
use crate::memory::MemoryKind;
use crate::types::{
    DataLocation, Model, Operand, OperandType, Request, RequestArgument, RequestPool, Version,
};

/// True if the shape of an output may be left for the execution to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowUnspecifiedOutput {
    /// As in every execution since 1.2 but fenced ones.
    Yes,
    /// As in fenced executions, and everywhere before 1.2.
    No,
}

/// Returns whether a request is valid for a model, by the rules of a version of the HAL.
///
/// Two rules are stricter than the reference's: an input must not be shorter than its value, which
/// the reference does not look at; and an input of unknown rank needs dimensions from the request,
/// where the reference lets it through and computes with a shape of no dimensions.
///
/// # Errors
/// The first rule that the request breaks, and where.
pub fn validate_request(
    request: &Request,
    model: &Model,
    version: Version,
    allow: AllowUnspecifiedOutput,
) -> Result<(), ValidationError> {
    let main = &model.main;
    let sides = [
        (Direction::Input, &request.inputs, &main.input_indexes),
        (Direction::Output, &request.outputs, &main.output_indexes),
    ];
    for (direction, arguments, indexes) in sides {
        let (given, expected) = (arguments.len(), indexes.len());
        if given != expected {
            return Err(ValidationError {
                place: Place::Request,
                rule: Rule::RequestCount { direction, given, expected },
            });
        }
    }
    check_pools(request, version)?;
    let unknown_outputs = version >= Version::V1_2 && allow == AllowUnspecifiedOutput::Yes;
    for (direction, arguments, indexes) in sides {
        for (position, (argument, &index)) in arguments.iter().zip(indexes).enumerate() {
            let Some(operand) = Operands(&main.operands).get(index) else { continue };
            let may_be_unknown = direction == Direction::Output && unknown_outputs;
            check_argument(argument, operand, request, direction, may_be_unknown).map_err(
                |rule| ValidationError { place: Place::Argument(direction, position), rule },
            )?;
        }
    }
    Ok(())
}

fn check_pools(request: &Request, version: Version) -> Result<(), ValidationError> {
    for (index, pool) in request.pools.iter().enumerate() {
        let checked = match pool {
            RequestPool::Memory(memory) => validate_pool(memory, version),
            RequestPool::Token(_) if version < Version::V1_3 => {
                let since = Version::V1_3;
                Err(Rule::NotInVersion { what: "driver-managed buffers", since, version })
            }
            RequestPool::Token(0) => Err(Rule::TokenZero),
            RequestPool::Token(_) => Ok(()),
        };
        checked.map_err(|rule| ValidationError { place: Place::Pool(index), rule })?;
    }
    Ok(())
}

fn check_argument(
    argument: &RequestArgument,
    operand: &Operand,
    request: &Request,
    direction: Direction,
    may_be_unknown: bool,
) -> Result<(), Rule> {
    let location = argument.location;
    if argument.has_no_value {
        let empty = location == DataLocation::default() && argument.dimensions.is_empty();
        return if empty { Ok(()) } else { Err(Rule::NoValueNotEmpty) };
    }
    let pool = usize::try_from(location.pool_index).ok().and_then(|at| request.pools.get(at));
    let Some(pool) = pool else {
        let pools = request.pools.len();
        return Err(Rule::NoSuchPool { pool: location.pool_index, pools });
    };
    // A buffer of the driver is used whole, so its location is empty; it counts as size 0.
    let pool_size = match pool {
        RequestPool::Memory(memory) => memory.size(),
        RequestPool::Token(_) => 0,
    };
    check_range(location, pool_size)?;
    check_dimensions(&argument.dimensions, operand, may_be_unknown)?;
    match pool {
        // How large a buffer with a format is, its own device knows.
        RequestPool::Memory(memory) if memory.kind() == MemoryKind::HardwareBuffer => Ok(()),
        RequestPool::Memory(_) if direction == Direction::Input => {
            check_length(argument, operand, pool_size)
        }
        _ => Ok(()),
    }
}

/// The request's dimensions fill in what the model leaves unknown and change nothing else.
fn check_dimensions(given: &[u32], operand: &Operand, may_be_unknown: bool) -> Result<(), Rule> {
    let expected = &operand.dimensions;
    if given.is_empty() {
        return if may_be_unknown { Ok(()) } else { check_known(operand) };
    }
    let rank_is_known = operand.kind.is_scalar() || !expected.is_empty();
    if rank_is_known && given.len() != expected.len() {
        return Err(Rule::RequestRank { given: given.len(), expected: expected.len() });
    }
    for (dimension, &given) in given.iter().enumerate() {
        let expected = expected.get(dimension).copied().unwrap_or(0);
        if expected != 0 && given != expected {
            return Err(Rule::RequestExtent { dimension, given, expected });
        }
        if given == 0 && !may_be_unknown {
            return Err(Rule::UnknownExtent { dimension });
        }
    }
    Ok(())
}

fn check_known(operand: &Operand) -> Result<(), Rule> {
    if let Some(dimension) = operand.dimensions.iter().position(|&extent| extent == 0) {
        return Err(Rule::UnknownExtent { dimension });
    }
    let is_tensor = !operand.kind.is_scalar() && !operand.kind.is_extension();
    if is_tensor && operand.dimensions.is_empty() {
        return Err(Rule::UnknownRank { why: "the request gives no dimensions" });
    }
    Ok(())
}

/// An input has at least the bytes of its value; offset 0 and length 0 stand for the whole pool.
fn check_length(argument: &RequestArgument, operand: &Operand, pool_size: u64) -> Result<(), Rule> {
    let DataLocation { offset, length, .. } = argument.location;
    let length = if offset == 0 && length == 0 { pool_size } else { u64::from(length) };
    let Some(bytes) = operand.kind.element_bytes() else { return Ok(()) };
    if operand.kind == OperandType::Oem {
        return Ok(());
    }
    let shape =
        if argument.dimensions.is_empty() { &operand.dimensions } else { &argument.dimensions };
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let needed = shape.iter().try_fold(bytes, |size, &extent| size.checked_mul(u64::from(extent)));
    match needed {
        Some(needed) if needed <= u64::from(u32::MAX) => {
            if needed <= length {
                Ok(())
            } else {
                Err(Rule::TooShort { length, needed })
            }
        }
        _ => Err(Rule::TooLarge),
    }
}
