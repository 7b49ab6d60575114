//! The inputs and outputs of each operation, as data: one row per operation, one line per
//! signature.
//!
//! ```text
//!   Softmax { zero_sized: true, ranks: Ranks::InputUpTo4 } [
//!       V1_0: TF32 F32 [AXIS] => TF32, Rank2Or4Before1_2;
//!       │     │    │   │         │     └ condition on quantisation or rank
//!       │     │    │   │         └ outputs
//!       │     │    │   └ trailing arguments that may be left out, group by group from the end
//!       │     │    └ a scalar (tensors start with T)
//!       │     └ first input
//!       └ first version of the HAL that takes it
//! ```
//!
//! The rows are those of the reference validators, compared with them case by case. Control flow,
//! OEM and extension operations have no signatures: [`crate::validate_model`] knows the rules of
//! the first, drivers those of the others.

mod rows;
mod signature;
mod v1_0;
mod v1_1;
mod v1_2;
mod v1_3;

pub use signature::{Condition, OperandRun, OperationInfo, Ranks, Signature, Trailing};

use crate::types::OperationType;

/// The row of an operation; `None` for OEM and extension operations.
pub fn operation_info(kind: OperationType) -> Option<&'static OperationInfo> {
    let code = usize::try_from(kind.code()).ok()?;
    let mut first = 0usize;
    for table in TABLES {
        if let Some(info) = table.get(code.checked_sub(first)?) {
            return Some(info);
        }
        first = first.saturating_add(table.len());
    }
    None
}

/// Every row, in the order of the operations' codes.
pub fn all_operations() -> impl Iterator<Item = &'static OperationInfo> {
    TABLES.into_iter().flatten()
}

/// The codes of the interface run on from version to version, and so do the tables.
const TABLES: [&[OperationInfo]; 4] =
    [v1_0::OPERATIONS, v1_1::OPERATIONS, v1_2::OPERATIONS, v1_3::OPERATIONS];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{OperandType, Version};
    use OperandType as T;

    #[test]
    fn types_of_any_count_are_those_that_match() {
        for info in all_operations() {
            for signature in info.signatures {
                let inputs: Vec<_> = (0..70).filter_map(|n| signature.input_types(n)).collect();
                let outputs: Vec<_> = (0..9).filter_map(|n| signature.output_types(n)).collect();
                assert!(!inputs.is_empty() && !outputs.is_empty(), "{:?}", info.kind);
                for (inputs, outputs) in inputs.iter().zip(outputs.iter().cycle()) {
                    let since = signature.matches(inputs.iter().copied(), outputs.iter().copied());
                    assert!(since.is_some(), "{:?} {inputs:?} {outputs:?}", info.kind);
                }
            }
        }
        let conv = operation_info(OperationType::Conv2d).unwrap().signatures[0];
        let counts: Vec<_> = (0..20).filter(|&n| conv.input_types(n).is_some()).collect();
        assert_eq!(counts, [7, 8, 10]);
    }

    #[test]
    fn every_operation_has_its_row() {
        for &kind in OperationType::BASE {
            let info = operation_info(kind);
            if kind == OperationType::OemOperation {
                assert!(info.is_none());
                continue;
            }
            let info = info.unwrap();
            assert_eq!(info.kind, kind);
            let earliest = info.signatures.iter().map(|signature| signature.since).min();
            assert_eq!(earliest.unwrap_or(Version::V1_3), kind.since(), "{kind}");
        }
        assert_eq!(all_operations().count(), 102);
    }

    #[test]
    fn trailing_groups_come_whole_and_in_order() {
        let conv = operation_info(OperationType::Conv2d).unwrap();
        let version = |tail: &[T]| {
            let mut inputs = vec![T::TensorFloat32; 3];
            inputs.extend([T::Int32; 4]);
            inputs.extend(tail);
            conv.signatures.iter().find_map(|signature| {
                signature.matches(inputs.iter().copied(), [T::TensorFloat32].into_iter())
            })
        };
        assert_eq!(version(&[]), Some(Version::V1_0));
        assert_eq!(version(&[T::Bool]), Some(Version::V1_2));
        assert_eq!(version(&[T::Bool, T::Int32]), None, "one dilation");
        assert_eq!(version(&[T::Bool, T::Int32, T::Int32]), Some(Version::V1_2));
        assert_eq!(version(&[T::Bool, T::Int32, T::Int32, T::Int32]), None);
        assert_eq!(version(&[T::Int32; 3]), Some(Version::V1_0), "explicit padding");
    }

    #[test]
    fn variable_runs_take_what_the_others_leave() {
        let concatenation = &operation_info(OperationType::Concatenation).unwrap().signatures[0];
        let matches = |tensors: usize, axis: &[T]| {
            let mut inputs = vec![T::TensorFloat32; tensors];
            inputs.extend(axis);
            concatenation.matches(inputs.into_iter(), [T::TensorFloat32].into_iter()).is_some()
        };
        assert!(matches(1, &[T::Int32]) && matches(9, &[T::Int32]));
        assert!(!matches(0, &[T::Int32]) && !matches(2, &[]) && !matches(2, &[T::Int32; 2]));
        let split = &operation_info(OperationType::Split).unwrap().signatures[0];
        let inputs = [T::TensorFloat16, T::Int32, T::Int32];
        for outputs in [0, 1, 7] {
            let outputs = vec![T::TensorFloat16; outputs];
            assert!(split.matches(inputs.into_iter(), outputs.into_iter()).is_some());
        }
    }
}
