//! What a device says of its speed and thirst.

use serde::{Deserialize, Serialize};

use super::codes::OperandType;

/// Time and energy relative to the reference CPU; smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerformanceInfo {
    /// Time of an operation.
    pub exec_time: f32,
    /// Energy of an operation.
    pub power_usage: f32,
}

impl PerformanceInfo {
    /// What a type without an entry counts as.
    pub const WORST: Self = Self { exec_time: f32::MAX, power_usage: f32::MAX };
}

/// Performance with operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperandPerformance {
    /// The type.
    pub kind: OperandType,
    /// Its figures.
    pub info: PerformanceInfo,
}

/// A device's performance figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// FLOAT32 scalars of models that allow relaxed precision.
    pub relaxed_float32_to_float16_scalar: PerformanceInfo,
    /// FLOAT32 tensors of models that allow relaxed precision.
    pub relaxed_float32_to_float16_tensor: PerformanceInfo,
    /// Sorted by type, one entry per type, none for SUBGRAPH.
    pub operand_performance: Vec<OperandPerformance>,
    /// IF, where the device runs it itself.
    pub if_performance: PerformanceInfo,
    /// WHILE, where the device runs it itself.
    pub while_performance: PerformanceInfo,
}

impl Capabilities {
    /// The figures for operands of a type; [`PerformanceInfo::WORST`] where there is no entry.
    pub fn lookup(&self, kind: OperandType) -> PerformanceInfo {
        self.operand_performance
            .binary_search_by_key(&kind, |entry| entry.kind)
            .ok()
            .and_then(|at| self.operand_performance.get(at))
            .map_or(PerformanceInfo::WORST, |entry| entry.info)
    }
}
