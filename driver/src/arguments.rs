//! Lists of a request's arguments as sessions take them.

use nnburst_hal::{HalError, Result};

/// Requests with as many inputs and outputs as this need no allocation.
pub(crate) const FEW: usize = 16;

/// Most requests have no more: filling room for [`FEW`] takes a tenth of a small model's time.
pub(crate) const FEWER: usize = 4;

/// Room for `count` values: on the stack if they are few.
pub(crate) fn room<'a, T: Copy>(
    few: &'a mut [T],
    many: &'a mut Vec<T>,
    count: usize,
    empty: T,
) -> Result<&'a mut [T]> {
    if count <= few.len() {
        return Ok(few.get_mut(..count).unwrap_or_default());
    }
    many.try_reserve_exact(count)?;
    many.resize(count, empty);
    Ok(many)
}

pub(crate) fn outside(direction: &'static str, at: usize) -> HalError {
    HalError::invalid(format!("{direction} {at} is outside its memory, or that can't be written"))
}
