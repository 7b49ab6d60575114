//! Extensions: the numbers of their types in this process, and what devices say about them.

use nnburst::hal::{ExtensionCode, Operand, OperandType};

use crate::error::{Error, Result};

/// Returns whether this process may use extensions.
///
/// # Errors
/// `BAD_DATA` if it may not.
pub(crate) fn check_allowed() -> Result<()> {
    if nnburst::extensions_are_allowed() {
        return Ok(());
    }
    Err(Error::data("this program is not on the list of those that may use extensions"))
}

/// Returns whether an operand of an extension's type may be.
///
/// # Errors
/// `BAD_DATA` with the rule it breaks.
pub(crate) fn check_operand(code: ExtensionCode, operand: &Operand) -> Result<()> {
    check_allowed()?;
    let Some(info) = nnburst::extension_type(code) else {
        return Err(Error::data(format!("{} is known to no device", operand.kind)));
    };
    if !info.is_tensor && !operand.dimensions.is_empty() {
        return Err(Error::data(format!("{} is a scalar and has no dimensions", operand.kind)));
    }
    let known: Vec<u32> = operand.dimensions.iter().copied().filter(|&extent| extent > 0).collect();
    data_size_of(operand.kind, &known).map(drop)
}

/// Returns whether the shape of an operand is not settled: types of extensions are tensors or
/// scalars as their device says.
pub(crate) fn is_open(operand: &Operand) -> bool {
    let is_tensor = match operand.kind {
        OperandType::Extension(code) => {
            nnburst::extension_type(code).is_some_and(|info| info.is_tensor)
        }
        kind => !kind.is_scalar(),
    };
    is_tensor && (operand.dimensions.is_empty() || operand.dimensions.contains(&0))
}

/// Bytes of an operand's value; 0 where the shape is not fully known.
///
/// # Errors
/// `BAD_DATA` for a size beyond 32 bits, or a type that no device knows.
pub(crate) fn data_size(operand: &Operand) -> Result<u64> {
    data_size_of(operand.kind, &operand.dimensions)
}

/// [`data_size`] of a type in another shape.
///
/// # Errors
/// As for [`data_size`].
pub(crate) fn data_size_of(kind: OperandType, dimensions: &[u32]) -> Result<u64> {
    let (is_tensor, bytes) = match kind {
        OperandType::Extension(code) => {
            let info = nnburst::extension_type(code)
                .ok_or_else(|| Error::data(format!("{kind} is not known")))?;
            (info.is_tensor, u64::from(info.byte_size))
        }
        _ => {
            let bytes = u64::try_from(kind.element_bytes().unwrap_or(0)).unwrap_or(0);
            (!kind.is_scalar(), bytes)
        }
    };
    if !is_tensor {
        return Ok(bytes);
    }
    if dimensions.is_empty() || dimensions.contains(&0) {
        return Ok(0);
    }
    let size = dimensions.iter().try_fold(bytes, |size, &extent| {
        size.checked_mul(u64::from(extent)).filter(|&size| size <= u64::from(u32::MAX))
    });
    size.ok_or_else(|| Error::data(format!("a {kind} of shape {dimensions:?} is beyond 4 GiB")))
}
