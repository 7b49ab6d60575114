//! The differences between drivers on the executor: name, figures, operations, extensions.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use nnburst_executor::{ExtensionExecutor, TfliteExecutor, takes_tflite};
use nnburst_hal::{
    Capabilities, Extension, Model, OperandPerformance, OperandType, Operation, OperationType,
    PerformanceInfo, Subgraph, tflite_extension,
};

use crate::calibrate::{Measured, Work};

/// The name of the CPU driver and its device.
pub const CPU: &str = "nnburst-cpu";

/// The differences of a driver on top of this crate's device from `nnburst-cpu`.
pub trait Personality: Debug + Send + Sync {
    /// The name of the driver, its device and its service.
    fn name(&self) -> &str;

    /// The figures of its device, where none were measured on the machine.
    fn capabilities(&self) -> Capabilities;

    /// Returns whether it takes an operation of `graph`, which is the main graph of a valid model
    /// or one that an operation refers to. The executor's own limits are applied besides: control
    /// flow is taken where all that it refers to is, and extension operations where
    /// [`extensions`](Self::extensions) has any.
    fn takes(&self, operation: &Operation, graph: &Subgraph, model: &Model) -> bool;

    /// The vendor extensions that it has; none by default.
    fn extensions(&self) -> Vec<PersonalityExtension> {
        Vec::new()
    }
}

/// A vendor extension of a driver.
#[derive(Clone)]
pub struct PersonalityExtension {
    /// Its name and operand types, as the device reports them.
    pub extension: Extension,
    /// Executes its operations.
    pub executor: Arc<dyn ExtensionExecutor>,
}

impl Debug for PersonalityExtension {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { extension, .. } = self;
        f.debug_struct("PersonalityExtension").field("extension", extension).finish_non_exhaustive()
    }
}

/// `nnburst-cpu`: every operation that the executor has, at the reference device's figures.
#[derive(Debug)]
pub(crate) struct Cpu;

impl Personality for Cpu {
    fn name(&self) -> &str {
        CPU
    }

    /// 1 throughout: the reference device computes with the same kernels, and the cost of crossing
    /// into another process is the partitioner's to add.
    fn capabilities(&self) -> Capabilities {
        uniform_capabilities(PerformanceInfo { exec_time: 1.0, power_usage: 1.0 })
    }

    fn takes(&self, operation: &Operation, graph: &Subgraph, model: &Model) -> bool {
        let is_extension = matches!(operation.kind, OperationType::Extension(_));
        !is_extension || takes_tflite(operation, graph, model)
    }

    fn extensions(&self) -> Vec<PersonalityExtension> {
        vec![PersonalityExtension {
            extension: tflite_extension::extension(),
            executor: Arc::new(TfliteExecutor),
        }]
    }
}

/// Capabilities with the same figures for every operand type, relaxed or not, and control flow.
pub fn uniform_capabilities(info: PerformanceInfo) -> Capabilities {
    Capabilities {
        relaxed_float32_to_float16_scalar: info,
        relaxed_float32_to_float16_tensor: info,
        operand_performance: operand_performance(|_| info),
        if_performance: info,
        while_performance: info,
    }
}

/// The figures that were measured on the machine.
pub(crate) fn measured_capabilities(measured: &Measured) -> Capabilities {
    Capabilities {
        relaxed_float32_to_float16_scalar: measured.of(Work::RelaxedScalar),
        relaxed_float32_to_float16_tensor: measured.of(Work::RelaxedTensor),
        operand_performance: operand_performance(|kind| measured.of(Work::Operand(kind))),
        if_performance: measured.of(Work::If),
        while_performance: measured.of(Work::While),
    }
}

/// An entry for each operand type but SUBGRAPH, sorted as the interface wants it.
fn operand_performance(info: impl Fn(OperandType) -> PerformanceInfo) -> Vec<OperandPerformance> {
    let kinds = OperandType::BASE.iter().filter(|&&kind| kind != OperandType::Subgraph);
    let mut entries: Vec<_> =
        kinds.map(|&kind| OperandPerformance { kind, info: info(kind) }).collect();
    entries.sort_by_key(|entry| entry.kind);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_sorted_and_complete() {
        let capabilities = Cpu.capabilities();
        let kinds: Vec<_> =
            capabilities.operand_performance.iter().map(|entry| entry.kind).collect();
        assert!(kinds.is_sorted());
        assert_eq!(kinds.len(), OperandType::BASE.len() - 1, "all but SUBGRAPH");
    }
}
