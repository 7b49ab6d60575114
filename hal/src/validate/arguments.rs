//! Arguments of calls that are numbers of the interface.

use super::error::{Place, ValidationError};
use crate::types::{ExecutionPreference, Priority};

/// The preference of this number.
///
/// # Errors
/// There is none.
pub fn validate_preference(code: i32) -> Result<ExecutionPreference, ValidationError> {
    ExecutionPreference::try_from(code)
        .map_err(|error| ValidationError { place: Place::Call, rule: error.into() })
}

/// The priority of this number.
///
/// # Errors
/// There is none.
pub fn validate_priority(code: i32) -> Result<Priority, ValidationError> {
    Priority::try_from(code)
        .map_err(|error| ValidationError { place: Place::Call, rule: error.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_the_enums_are_refused() {
        for code in 0..=2 {
            assert_eq!(validate_preference(code).unwrap().code(), code);
            assert_eq!(validate_priority(code).unwrap().code(), code);
        }
        for code in [-1, 3, i32::MAX, i32::MIN] {
            assert!(validate_preference(code).is_err() && validate_priority(code).is_err());
        }
        assert_eq!(validate_priority(3).unwrap_err().to_string(), "call: 3 is no Priority");
    }
}
