//! Driver-managed buffers: which arguments a buffer may stand for, combined into one operand.

use std::collections::BTreeSet;

use super::error::{Direction, Place, Rule, ValidationError};
use super::operation::Operands;
use crate::types::{BufferDesc, BufferRole, Model, Operand};

/// One use of a buffer: an input or output of one of the models given with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryRole {
    /// Index into the list of models.
    pub model: usize,
    /// As input or output.
    pub direction: Direction,
    /// Position among the model's inputs or outputs.
    pub index: u32,
}

/// The roles of a valid descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRoles {
    /// The uses.
    pub roles: BTreeSet<MemoryRole>,
    /// Type and quantisation of every use, with the shapes of all combined.
    pub operand: Operand,
}

/// Returns whether a buffer can be made for these uses of these models. That the models are the
/// driver's own only the driver knows.
///
/// # Errors
/// The first rule that is broken.
pub fn validate_memory_desc(
    desc: &BufferDesc,
    models: &[&Model],
    input_roles: &[BufferRole],
    output_roles: &[BufferRole],
) -> Result<MemoryRoles, ValidationError> {
    let at_desc = |rule| ValidationError { place: Place::MemoryDesc, rule };
    if models.is_empty() {
        return Err(at_desc(Rule::NoRoles { what: "prepared model" }));
    }
    let mut roles = BTreeSet::new();
    let mut combined: Option<Operand> = None;
    for (direction, list) in [(Direction::Input, input_roles), (Direction::Output, output_roles)] {
        for (position, role) in list.iter().enumerate() {
            let error = |rule| ValidationError { place: Place::Role(direction, position), rule };
            let (found, operand) = find(role, models, direction).map_err(error)?;
            if !roles.insert(found) {
                return Err(error(Rule::RoleTwice));
            }
            let combined = combined.get_or_insert_with(|| Operand {
                dimensions: desc.dimensions.clone(),
                ..operand.clone()
            });
            combine(combined, operand).map_err(error)?;
        }
    }
    let operand = combined.ok_or_else(|| at_desc(Rule::NoRoles { what: "role" }))?;
    if operand.kind.is_scalar() && !operand.dimensions.is_empty() {
        return Err(at_desc(Rule::ScalarShape { combined: operand.dimensions }));
    }
    Ok(MemoryRoles { roles, operand })
}

fn find<'a>(
    role: &BufferRole,
    models: &[&'a Model],
    direction: Direction,
) -> Result<(MemoryRole, &'a Operand), Rule> {
    let index = usize::try_from(role.model_index).unwrap_or(usize::MAX);
    let Some(&model) = models.get(index) else {
        return Err(Rule::NoSuchModel { index: role.model_index, models: models.len() });
    };
    let list = match direction {
        Direction::Input => &model.main.input_indexes,
        Direction::Output => &model.main.output_indexes,
    };
    let position = usize::try_from(role.io_index).unwrap_or(usize::MAX);
    let Some(operand) = Operands(&model.main.operands).at(list, position) else {
        return Err(Rule::NoSuchArgument { direction, index: role.io_index, count: list.len() });
    };
    let frequency = role.frequency;
    if frequency > 0.0 && frequency <= 1.0 {
        Ok((MemoryRole { model: index, direction, index: role.io_index }, operand))
    } else {
        Err(Rule::Frequency { frequency })
    }
}

/// Merges an operand into what the roles before it came to.
fn combine(combined: &mut Operand, operand: &Operand) -> Result<(), Rule> {
    let conflicts = [
        ("type", combined.kind != operand.kind),
        ("scale", combined.scale != operand.scale),
        ("zero point", combined.zero_point != operand.zero_point),
        (
            "extra parameters",
            !operand.kind.is_extension() && combined.extra_params != operand.extra_params,
        ),
    ];
    if let Some((what, _)) = conflicts.into_iter().find(|&(_, conflict)| conflict) {
        return Err(Rule::RoleConflict { what });
    }
    combined.dimensions = combine_shapes(&combined.dimensions, &operand.dimensions)?;
    Ok(())
}

/// An unknown rank yields to the other, and so does an unknown extent.
fn combine_shapes(combined: &[u32], given: &[u32]) -> Result<Vec<u32>, Rule> {
    let conflict = || Rule::RoleShape { given: given.to_vec(), combined: combined.to_vec() };
    if combined.is_empty() || given.is_empty() {
        return Ok(if combined.is_empty() { given } else { combined }.to_vec());
    }
    if combined.len() != given.len() {
        return Err(conflict());
    }
    let merge = |(&a, &b): (&u32, &u32)| match (a, b) {
        (0, other) | (other, 0) => Ok(other),
        (a, b) if a == b => Ok(a),
        _ => Err(conflict()),
    };
    combined.iter().zip(given).map(merge).collect()
}
