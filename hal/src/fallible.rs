//! Vectors as long as a message, model or request says: where there is no memory for them, that is
//! an error and not the end of the process.

use crate::error::Result;

/// The values of an iterator, up to the first error.
///
/// # Errors
/// The iterator's; `RESOURCE_EXHAUSTED_TRANSIENT` where there is no memory for as many as it
/// announces.
pub fn try_collect<T>(values: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut collected = Vec::new();
    collected.try_reserve_exact(values.size_hint().0)?;
    for value in values {
        if collected.len() == collected.capacity() {
            collected.try_reserve(1)?;
        }
        collected.push(value?);
    }
    Ok(collected)
}

/// `count` copies of a value.
///
/// # Errors
/// `RESOURCE_EXHAUSTED_TRANSIENT` where there is no memory for them.
pub fn try_filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut filled = Vec::new();
    filled.try_reserve_exact(count)?;
    filled.resize(count, value);
    Ok(filled)
}

/// A copy of these values.
///
/// # Errors
/// `RESOURCE_EXHAUSTED_TRANSIENT` where there is no memory for them.
pub fn try_copied<T: Copy>(values: &[T]) -> Result<Vec<T>> {
    let mut copied = Vec::new();
    copied.try_reserve_exact(values.len())?;
    copied.extend_from_slice(values);
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::HalError;
    use crate::types::ErrorStatus;

    #[test]
    fn what_there_is_no_memory_for_is_an_error() {
        assert_eq!(try_filled(7u8, 3).unwrap(), [7; 3]);
        assert_eq!(try_copied(&[1u8, 2]).unwrap(), [1, 2]);
        let refused = try_filled(0u64, usize::MAX / 16).unwrap_err();
        assert_eq!(refused.status, ErrorStatus::ResourceExhaustedTransient);
        let endless = std::iter::repeat_with(|| Ok(0u64));
        assert_eq!(try_collect(endless).unwrap_err().status, refused.status);
        let failing = [Ok(1), Err(HalError::failure("two"))].into_iter();
        assert_eq!(try_collect(failing).unwrap_err().reason, "two");
        // As many as come, not as many as were announced.
        assert_eq!(try_collect((0..9).filter(|it| it % 2 == 0).map(Ok)).unwrap(), [0, 2, 4, 6, 8]);
    }
}
