//! One operand by itself: type, rank, quantisation, extra parameters and where its value lies.

use std::collections::HashSet;

use super::error::Rule;
use super::polls::Polls;
use crate::types::{
    ChannelQuant, DataLocation, ExtraParams, Model, Operand, OperandLifeTime, OperandType, Version,
};

/// The context that operands are checked in.
pub(super) struct OperandContext<'a> {
    pub(super) model: &'a Model,
    pub(super) version: Version,
    /// The prefixes of the model's extensions.
    pub(super) prefixes: HashSet<u16>,
    pub(super) polls: Polls<'a>,
}

pub(super) fn validate_operand(
    operand: &Operand,
    context: &OperandContext<'_>,
) -> Result<(), Rule> {
    check_type(operand, context)?;
    check_rank(operand, context.version)?;
    check_scale(operand)?;
    check_zero_point(operand)?;
    check_extra_params(operand)?;
    check_size(operand)?;
    check_location(operand, context)
}

/// Returns whether an operand's type, shape and quantisation go together, wherever its value lives:
/// what can be said before the value and the parameters per channel are known. Of an extension's
/// type only the size is checked and that it has no quantisation.
///
/// # Errors
/// The rule it breaks.
pub fn validate_operand_type(operand: &Operand, version: Version) -> Result<(), Rule> {
    let since = operand.kind.since();
    if since > version {
        return Err(Rule::TypeTooNew { since, version });
    }
    check_rank(operand, version)?;
    check_scale(operand)?;
    check_zero_point(operand)?;
    check_size(operand)
}

/// Returns whether scales per channel fit the shape of their operand.
///
/// # Errors
/// The rule they break.
pub fn validate_channel_quant(quant: &ChannelQuant, dimensions: &[u32]) -> Result<(), Rule> {
    check_channel_quant(quant, dimensions)
}

fn check_type(operand: &Operand, context: &OperandContext<'_>) -> Result<(), Rule> {
    let (since, version) = (operand.kind.since(), context.version);
    if since > version {
        return Err(Rule::TypeTooNew { since, version });
    }
    match operand.kind {
        OperandType::Extension(code) if !context.prefixes.contains(&code.prefix) => {
            Err(Rule::UnknownPrefix { prefix: code.prefix })
        }
        _ => Ok(()),
    }
}

fn check_rank(operand: &Operand, version: Version) -> Result<(), Rule> {
    let rank = operand.dimensions.len();
    if operand.kind.is_extension() {
        return Ok(()); // whether it is a scalar, only the driver knows
    }
    if operand.kind.is_scalar() {
        return if rank == 0 { Ok(()) } else { Err(Rule::ScalarWithDimensions { rank }) };
    }
    if rank > 0 {
        Ok(())
    } else if version < Version::V1_2 {
        Err(Rule::UnknownRank { why: "that needs HAL 1.2" })
    } else if operand.is_constant() {
        Err(Rule::UnknownRank { why: "a constant's has to be known" })
    } else {
        Ok(())
    }
}

/// The reference lets NaN pass where it asks for `scale > 0` or `>= 0`, and infinity everywhere; no
/// arithmetic has a use for them, so they are refused here.
fn check_scale(operand: &Operand) -> Result<(), Rule> {
    use OperandType as T;
    let scale = operand.scale;
    match operand.kind {
        T::Oem | T::TensorOemByte => Ok(()),
        T::TensorInt32 if scale >= 0.0 && scale.is_finite() => Ok(()),
        T::TensorInt32 => Err(Rule::ScaleNegative { scale }),
        T::TensorQuant8Asymm
        | T::TensorQuant8AsymmSigned
        | T::TensorQuant8Symm
        | T::TensorQuant16Asymm
        | T::TensorQuant16Symm => {
            if is_positive(scale) {
                Ok(())
            } else {
                Err(Rule::ScaleNotPositive { scale })
            }
        }
        _ if scale == 0.0 => Ok(()),
        _ => Err(Rule::ScaleNotZero { scale }),
    }
}

fn check_zero_point(operand: &Operand) -> Result<(), Rule> {
    let (low, high) = match operand.kind {
        OperandType::Oem | OperandType::TensorOemByte => return Ok(()),
        OperandType::TensorQuant8Asymm => (0, 255),
        OperandType::TensorQuant8AsymmSigned => (-128, 127),
        OperandType::TensorQuant16Asymm => (0, 65535),
        _ => (0, 0),
    };
    let zero_point = operand.zero_point;
    if (low..=high).contains(&zero_point) {
        Ok(())
    } else {
        Err(Rule::ZeroPoint { zero_point, low, high })
    }
}

/// The reference checks neither FLOAT16 nor the OEM types. FLOAT16 has no use for parameters and is
/// checked like the other scalars here; what OEM types carry is their driver's affair.
fn check_extra_params(operand: &Operand) -> Result<(), Rule> {
    match (operand.kind, &operand.extra_params) {
        (OperandType::Oem | OperandType::TensorOemByte, _)
        | (OperandType::Extension(_), ExtraParams::None | ExtraParams::Extension(_)) => Ok(()),
        (OperandType::TensorQuant8SymmPerChannel, ExtraParams::ChannelQuant(quant)) => {
            check_channel_quant(quant, &operand.dimensions)
        }
        (OperandType::TensorQuant8SymmPerChannel, _) => Err(Rule::ExtraParams),
        (_, ExtraParams::None) => Ok(()),
        _ => Err(Rule::ExtraParams),
    }
}

fn check_channel_quant(quant: &ChannelQuant, dimensions: &[u32]) -> Result<(), Rule> {
    let channel_dim = quant.channel_dim;
    let extent = usize::try_from(channel_dim).ok().and_then(|dim| dimensions.get(dim)).copied();
    let Some(extent) = extent else {
        return Err(Rule::ChannelDim { channel_dim, rank: dimensions.len() });
    };
    if extent == 0 || usize::try_from(extent) != Ok(quant.scales.len()) {
        return Err(Rule::ChannelScales { scales: quant.scales.len(), extent });
    }
    match quant.scales.iter().enumerate().find(|&(_, &scale)| !is_positive(scale)) {
        Some((channel, &scale)) => Err(Rule::ChannelScale { channel, scale }),
        None => Ok(()),
    }
}

/// Known extents alone must not reach beyond 32 bits: the reference checks constants here and the
/// others when the model is built, where no driver sees it.
fn check_size(operand: &Operand) -> Result<(), Rule> {
    let bytes = u64::try_from(operand.kind.element_bytes().unwrap_or(1)).unwrap_or(u64::MAX);
    let known = operand.dimensions.iter().map(|&extent| u64::from(extent.max(1)));
    let size = known.into_iter().try_fold(bytes, |size, extent| {
        size.checked_mul(extent).filter(|&size| size <= u64::from(u32::MAX))
    });
    if size.is_some() { Ok(()) } else { Err(Rule::TooLarge) }
}

fn check_location(operand: &Operand, context: &OperandContext<'_>) -> Result<(), Rule> {
    use OperandLifeTime as L;
    let (lifetime, location, model) = (operand.lifetime, operand.location, context.model);
    let is_subgraph = lifetime == L::Subgraph;
    if is_subgraph != (operand.kind == OperandType::Subgraph) {
        return Err(Rule::SubgraphPairing { lifetime });
    }
    match lifetime {
        L::ConstantCopy => {
            if location.pool_index != 0 {
                return Err(Rule::PoolIndexNotZero { pool: location.pool_index });
            }
            check_range(location, length(model.operand_values.len()))?;
            check_constant_length(operand)
        }
        L::ConstantReference => {
            let pool = usize::try_from(location.pool_index).ok();
            let Some(pool) = pool.and_then(|pool| model.pools.get(pool)) else {
                let pools = model.pools.len();
                return Err(Rule::NoSuchPool { pool: location.pool_index, pools });
            };
            check_range(location, pool.size())?;
            check_constant_length(operand)
        }
        L::Subgraph => check_reference(location, model),
        L::TemporaryVariable | L::SubgraphInput | L::SubgraphOutput | L::NoValue => {
            if location == DataLocation::default() {
                Ok(())
            } else {
                Err(Rule::LocationNotEmpty { lifetime })
            }
        }
    }
}

/// A graph is referred to by its index, kept in the offset.
fn check_reference(location: DataLocation, model: &Model) -> Result<(), Rule> {
    if location.pool_index != 0 || location.length != 0 {
        return Err(Rule::LocationNotEmpty { lifetime: OperandLifeTime::Subgraph });
    }
    let graphs = model.referenced.len();
    if u64::from(location.offset) < length(graphs) {
        Ok(())
    } else {
        Err(Rule::NoSuchSubgraph { index: location.offset, graphs })
    }
}

/// The range lies within `size` bytes.
pub(super) fn check_range(location: DataLocation, size: u64) -> Result<(), Rule> {
    let DataLocation { offset, length, .. } = location;
    let end = u64::from(offset).checked_add(u64::from(length));
    if end.is_some_and(|end| end <= size) {
        Ok(())
    } else {
        Err(Rule::OutOfRange { offset, length, size })
    }
}

/// Checks a constant's length, but for OEM and extension types, whose contents only their driver
/// knows.
fn check_constant_length(operand: &Operand) -> Result<(), Rule> {
    let unchecked = [OperandType::Oem, OperandType::TensorOemByte];
    if unchecked.contains(&operand.kind) || operand.kind.is_extension() {
        return Ok(());
    }
    // An unknown extent counts as no bytes, as in the reference; so a zero-sized constant is legal.
    let size = length(operand.data_size().unwrap_or(0));
    let given = operand.location.length;
    if u64::from(given) == size {
        Ok(())
    } else {
        Err(Rule::ConstantLength { length: given, size })
    }
}

fn is_positive(scale: f32) -> bool {
    scale > 0.0 && scale.is_finite()
}

pub(super) fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
