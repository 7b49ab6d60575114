//! Performance figures of older versions, upwards and downwards.
//!
//! 1.0 and 1.1 have one figure for float and one for quantised types; 1.2 has one per type; 1.3
//! adds control flow. Upwards every type of 1.0 gets its group's figure. The reference leaves
//! TENSOR_QUANT8_ASYMM out and relies on a search that lands on the next entry; the search here
//! wants the type itself, so the entry is there.

use super::{v1_0, v1_1, v1_2};
use crate::types::{Capabilities, OperandPerformance, OperandType, PerformanceInfo, Version};

/// The loss of a newer version's figures on their way to an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} have performance figures of their own")]
pub struct CapabilityLoss {
    /// The figures that are lost.
    pub what: &'static str,
}

/// Types that share the quantised figure of 1.0 and 1.1.
const QUANTIZED: [OperandType; 6] = [
    OperandType::Int32,
    OperandType::Uint32,
    OperandType::TensorInt32,
    OperandType::TensorQuant8Asymm,
    OperandType::Oem,
    OperandType::TensorOemByte,
];

impl From<v1_0::Capabilities> for Capabilities {
    fn from(old: v1_0::Capabilities) -> Self {
        v1_1::Capabilities {
            float32: old.float32,
            quantized8: old.quantized8,
            relaxed_float32_to_float16: old.float32,
        }
        .into()
    }
}

impl From<v1_1::Capabilities> for Capabilities {
    fn from(old: v1_1::Capabilities) -> Self {
        let mut new = Self {
            relaxed_float32_to_float16_scalar: old.relaxed_float32_to_float16,
            relaxed_float32_to_float16_tensor: old.relaxed_float32_to_float16,
            operand_performance: Vec::new(),
            if_performance: PerformanceInfo::WORST,
            while_performance: PerformanceInfo::WORST,
        };
        for kind in QUANTIZED {
            new.update(kind, old.quantized8);
        }
        for kind in [OperandType::Float32, OperandType::TensorFloat32] {
            new.update(kind, old.float32);
        }
        new
    }
}

impl From<v1_2::Capabilities> for Capabilities {
    fn from(old: v1_2::Capabilities) -> Self {
        Self {
            relaxed_float32_to_float16_scalar: old.relaxed_float32_to_float16_scalar,
            relaxed_float32_to_float16_tensor: old.relaxed_float32_to_float16_tensor,
            operand_performance: old.operand_performance,
            if_performance: PerformanceInfo::WORST,
            while_performance: PerformanceInfo::WORST,
        }
    }
}

impl Capabilities {
    /// The figures that a driver of 1.0 reports; lossy where types of a group differ. Each loss is
    /// logged as a warning.
    pub fn to_v1_0(&self) -> (v1_0::Capabilities, Vec<CapabilityLoss>) {
        let (capabilities, mut losses) = self.grouped();
        let relaxed_differs =
            capabilities.relaxed_float32_to_float16 != self.lookup(OperandType::TensorFloat32);
        if relaxed_differs {
            losses.push(CapabilityLoss { what: "relaxed computations" });
        }
        warn_of(&losses, Version::V1_0);
        let v1_1::Capabilities { float32, quantized8, .. } = capabilities;
        (v1_0::Capabilities { float32, quantized8 }, losses)
    }

    /// The figures that a driver of 1.1 reports; lossy where types of a group differ. Each loss is
    /// logged as a warning.
    pub fn to_v1_1(&self) -> (v1_1::Capabilities, Vec<CapabilityLoss>) {
        let (capabilities, losses) = self.grouped();
        warn_of(&losses, Version::V1_1);
        (capabilities, losses)
    }

    fn grouped(&self) -> (v1_1::Capabilities, Vec<CapabilityLoss>) {
        let tensor = self.lookup(OperandType::TensorFloat32);
        let quantized = self.lookup(OperandType::TensorQuant8Asymm);
        let relaxed = self.relaxed_float32_to_float16_tensor;
        let checks = [
            ("relaxed scalars", self.relaxed_float32_to_float16_scalar == relaxed),
            ("FLOAT32 scalars", self.lookup(OperandType::Float32) == tensor),
            ("integers", QUANTIZED.into_iter().all(|kind| self.lookup(kind) == quantized)),
        ];
        let losses = checks.into_iter().filter(|&(_, same)| !same);
        let capabilities = v1_1::Capabilities {
            float32: tensor,
            quantized8: quantized,
            relaxed_float32_to_float16: relaxed,
        };
        (capabilities, losses.map(|(what, _)| CapabilityLoss { what }).collect())
    }

    /// The figures that a driver of 1.2 reports: without the types of 1.3, which it doesn't know,
    /// and control flow. What has figures and is left out is logged as a warning.
    pub fn to_v1_2(&self) -> v1_2::Capabilities {
        let known = |entry: &&OperandPerformance| entry.kind.since() <= Version::V1_2;
        let flow = [self.if_performance, self.while_performance];
        let checks = [
            ("types of 1.3", self.operand_performance.iter().all(|entry| known(&entry))),
            ("IF and WHILE", flow == [PerformanceInfo::WORST; 2]),
        ];
        let losses = checks.into_iter().filter(|&(_, none)| !none);
        let losses: Vec<_> = losses.map(|(what, _)| CapabilityLoss { what }).collect();
        warn_of(&losses, Version::V1_2);
        v1_2::Capabilities {
            relaxed_float32_to_float16_scalar: self.relaxed_float32_to_float16_scalar,
            relaxed_float32_to_float16_tensor: self.relaxed_float32_to_float16_tensor,
            operand_performance: self.operand_performance.iter().filter(known).copied().collect(),
        }
    }
}

fn warn_of(losses: &[CapabilityLoss], version: Version) {
    for loss in losses {
        tracing::warn!(target: "nnburst::driver", ?version, "conversion of capabilities: {loss}");
    }
}
