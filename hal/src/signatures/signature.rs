//! The rows of the tables: what each says of an operation, and which operands match it.

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
