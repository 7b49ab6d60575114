//! A device's figures of time and energy.

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
    /// The figures of a type without an entry.
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
    /// The same figure for everything.
    pub fn uniform(info: PerformanceInfo) -> Self {
        Self {
            relaxed_float32_to_float16_scalar: info,
            relaxed_float32_to_float16_tensor: info,
            operand_performance: non_extension_operand_performance(info),
            if_performance: info,
            while_performance: info,
        }
    }

    /// The figures for operands of a type; [`PerformanceInfo::WORST`] where there is no entry.
    pub fn lookup(&self, kind: OperandType) -> PerformanceInfo {
        self.operand_performance
            .binary_search_by_key(&kind, |entry| entry.kind)
            .ok()
            .and_then(|at| self.operand_performance.get(at))
            .map_or(PerformanceInfo::WORST, |entry| entry.info)
    }

    /// Sets the figures for a type; adds the entry, at its place, if there is none.
    pub fn update(&mut self, kind: OperandType, info: PerformanceInfo) {
        let entries = &mut self.operand_performance;
        match entries.binary_search_by_key(&kind, |entry| entry.kind) {
            Ok(at) => {
                if let Some(entry) = entries.get_mut(at) {
                    entry.info = info;
                }
            }
            Err(at) => entries.insert(at, OperandPerformance { kind, info }),
        }
    }
}

/// One entry per type of the base interface as of 1.3, OEM types included and SUBGRAPH not, sorted,
/// all with the same figures: where a driver starts before it updates what it is better at.
pub fn non_extension_operand_performance(info: PerformanceInfo) -> Vec<OperandPerformance> {
    let kinds = OperandType::BASE.iter().filter(|&&kind| kind != OperandType::Subgraph);
    kinds.map(|&kind| OperandPerformance { kind, info }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: PerformanceInfo = PerformanceInfo { exec_time: 0.5, power_usage: 0.25 };

    #[test]
    fn figures_are_looked_up_by_type() {
        let mut capabilities = Capabilities {
            relaxed_float32_to_float16_scalar: FAST,
            relaxed_float32_to_float16_tensor: FAST,
            operand_performance: non_extension_operand_performance(PerformanceInfo::WORST),
            if_performance: FAST,
            while_performance: FAST,
        };
        assert_eq!(capabilities.operand_performance.len(), 17);
        assert!(capabilities.operand_performance.is_sorted_by_key(|entry| entry.kind));
        capabilities.update(OperandType::TensorFloat16, FAST);
        assert_eq!(capabilities.lookup(OperandType::TensorFloat16), FAST);
        assert_eq!(capabilities.lookup(OperandType::TensorFloat32), PerformanceInfo::WORST);
        assert_eq!(capabilities.lookup(OperandType::Subgraph), PerformanceInfo::WORST);
        assert_eq!(capabilities.operand_performance.len(), 17);
        capabilities.operand_performance.clear();
        for kind in [OperandType::TensorOemByte, OperandType::Float32, OperandType::Bool] {
            capabilities.update(kind, FAST);
        }
        assert!(capabilities.operand_performance.is_sorted_by_key(|entry| entry.kind));
    }
}
