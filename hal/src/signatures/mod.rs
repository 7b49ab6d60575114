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
mod v1_0;
mod v1_1;
mod v1_2;
mod v1_3;

use crate::types::{OperandType, OperationType, Version};

/// The properties of an operation that depend on no model.
#[derive(Clone, Copy, Debug)]
pub struct OperationInfo {
    /// The operation.
    pub kind: OperationType,
    /// Every list of operand types that it takes; none for IF and WHILE.
    pub signatures: &'static [Signature],
    /// Inputs that may be left out with lifetime NO_VALUE.
    pub omittable: &'static [u8],
    /// True if tensors with an extent of zero are computed.
    pub zero_sized: bool,
    /// The rule for ranks and shapes.
    pub ranks: Ranks,
    /// The dimension that counts channels in a filter with scales per channel.
    pub channel_dim: Option<u32>,
}

/// One list of operand types that an operation takes.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The first version of the HAL that takes it, without trailing arguments.
    pub since: Version,
    /// The inputs that must be there.
    pub inputs: &'static [OperandRun],
    /// Trailing inputs that may be left out; a group is there only if those before it are.
    pub trailing: &'static [Trailing],
    /// The outputs.
    pub outputs: &'static [OperandRun],
    /// The condition beyond types.
    pub condition: Option<Condition>,
}

/// Several operands of one type in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandRun {
    /// Their type.
    pub kind: OperandType,
    /// The fewest.
    pub least: usize,
    /// The most.
    pub most: usize,
}

/// A group of trailing inputs that come together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailing {
    /// Their types.
    pub kinds: &'static [OperandType],
    /// The first version of the HAL that knows them.
    pub since: Version,
}

/// Conditions of an operation on ranks and shapes. What is unknown passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// None before execution.
    Any,
    /// The first input has at most 4 dimensions.
    InputUpTo4,
    /// Each input but the last has at most 4 dimensions.
    EachTensorUpTo4,
    /// The first two inputs have at most 4 dimensions; checked where both ranks are known.
    PairUpTo4,
    /// Input and filter have 4 dimensions.
    InputAndFilter4,
    /// Input 2 to 4 dimensions, weights 2, bias 1, and the numbers of elements fit; checked where
    /// all three ranks are known.
    FullyConnected,
    /// Input and output have the same shape; checked where the output's is fully known.
    SameShape,
}

/// Conditions of a signature on quantisation and rank. Those "before 1.2" need version 1.2 where
/// they are not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Before 1.2 the first input has 4 dimensions; an unknown rank counts as not 4.
    Rank4Before1_2,
    /// Before 1.2 the first input has 2 or 4 dimensions, or their number is unknown.
    Rank2Or4Before1_2,
    /// Before 1.2 the first input's zero point is 0.
    ZeroPoint0Before1_2,
    /// Before 1.2 every tensor has the output's scale and zero point.
    OneQuantizationBefore1_2,
    /// Before 1.2 the output's scale is greater than the product of the first two inputs' scales.
    OutputScaleAboveProductBefore1_2,
    /// The output's scale is greater than the product of the first two inputs' scales, always.
    OutputScaleAboveProduct,
}

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

impl Signature {
    /// The types of so many inputs; `None` if it doesn't take that many.
    pub fn input_types(&self, count: usize) -> Option<Vec<OperandType>> {
        let trailing = self.trailing.iter().map(|group| group.kinds.len());
        let with_groups = trailing.scan(0usize, |sum, length| {
            *sum = sum.saturating_add(length);
            Some(*sum)
        });
        for trailing in std::iter::once(0).chain(with_groups) {
            let Some(runs) = count.checked_sub(trailing) else { continue };
            if let Some(mut kinds) = types_of(self.inputs, runs) {
                let rest = self.trailing.iter().flat_map(|group| group.kinds);
                kinds.extend(rest.take(trailing));
                return Some(kinds);
            }
        }
        None
    }

    /// The types of so many outputs; `None` if it doesn't give that many.
    pub fn output_types(&self, count: usize) -> Option<Vec<OperandType>> {
        types_of(self.outputs, count)
    }

    /// The first version of the HAL that takes operands of these types; `None` if none does.
    pub fn matches(
        &self,
        inputs: impl ExactSizeIterator<Item = OperandType> + Clone,
        outputs: impl ExactSizeIterator<Item = OperandType> + Clone,
    ) -> Option<Version> {
        let mut rest = take_runs(self.inputs, inputs)?;
        let mut since = self.since;
        for group in self.trailing {
            if rest.len() == 0 {
                break;
            }
            if !group.kinds.iter().all(|&kind| rest.next() == Some(kind)) {
                return None;
            }
            since = since.max(group.since);
        }
        let nothing_left = rest.len() == 0 && take_runs(self.outputs, outputs)?.len() == 0;
        nothing_left.then_some(since)
    }
}

/// The types of so many operands in runs, of which only one varies in length.
fn types_of(runs: &[OperandRun], count: usize) -> Option<Vec<OperandType>> {
    let least: usize = runs.iter().map(|run| run.least).sum();
    let spare = count.checked_sub(least)?;
    let mut kinds = Vec::new();
    for run in runs {
        let more = if run.least == run.most { 0 } else { spare };
        kinds.extend(std::iter::repeat_n(run.kind, run.least.saturating_add(more)));
    }
    (kinds.len() == count).then_some(kinds)
}

/// Takes runs off the front of a list of types.
fn take_runs<I: ExactSizeIterator<Item = OperandType> + Clone>(
    runs: &[OperandRun],
    mut kinds: I,
) -> Option<I> {
    for (index, run) in runs.iter().enumerate() {
        // Only one run of a signature varies in length, so it takes what the others leave.
        let others: usize =
            runs.iter().skip(index.saturating_add(1)).map(|other| other.least).sum();
        let count =
            if run.least == run.most { run.most } else { kinds.len().checked_sub(others)? };
        if count < run.least || count > kinds.len() {
            return None;
        }
        if !kinds.by_ref().take(count).all(|kind| kind == run.kind) {
            return None;
        }
    }
    Some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;
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
