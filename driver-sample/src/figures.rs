//! What tells the drivers apart: their names, figures and supported operations.
//!
//! Source: the sample drivers of the Android NeuralNetworks module.

use std::cell::Cell;

use nnburst_executor::is_implemented;
use nnburst_hal::{
    Capabilities, MemoryError, Model, OperandLifeTime, OperandPerformance, OperandType, Operation,
    OperationType, PerformanceInfo, Subgraph,
};

use crate::calibrate::{Measured, Work};
use crate::fibonacci;

/// One of them.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    float: PerformanceInfo,
    relaxed: PerformanceInfo,
    other: PerformanceInfo,
    control_flow: PerformanceInfo,
    supports: Supports,
}

#[derive(Clone, Copy, Debug)]
enum Supports {
    /// Every operation there is.
    All,
    /// The operation of the Fibonacci extension.
    Fibonacci,
    /// Operations on float tensors.
    Float,
    /// Operations on 8-bit tensors with one scale and zero point.
    Quantised,
    /// Three operations on float tensors.
    Minimal,
}

const fn info(exec_time: f32, power_usage: f32) -> PerformanceInfo {
    PerformanceInfo { exec_time, power_usage }
}

static DRIVERS: [Figures; 5] = [
    Figures {
        name: "nnapi-sample_all",
        float: info(1.1, 1.1),
        relaxed: info(1.1, 1.1),
        other: info(1.1, 1.1),
        control_flow: info(1.1, 1.1),
        supports: Supports::All,
    },
    Figures {
        name: "nnapi-sample_float_fast",
        float: info(0.8, 1.2),
        relaxed: info(0.7, 1.1),
        other: info(1.0, 1.0),
        control_flow: info(1.0, 1.0),
        supports: Supports::Float,
    },
    Figures {
        name: "nnapi-sample_float_slow",
        float: info(1.3, 0.7),
        relaxed: info(1.2, 0.6),
        other: info(1.0, 1.0),
        control_flow: info(1.0, 1.0),
        supports: Supports::Float,
    },
    Figures {
        name: "nnapi-sample_quant",
        float: info(50.0, 1.0),
        relaxed: info(50.0, 1.0),
        other: info(50.0, 1.0),
        control_flow: info(50.0, 1.0),
        supports: Supports::Quantised,
    },
    Figures {
        name: "nnapi-sample_minimal",
        float: info(0.4, 0.5),
        relaxed: info(0.4, 0.5),
        other: info(1.0, 1.0),
        control_flow: info(1.0, 1.0),
        supports: Supports::Minimal,
    },
];

/// The driver with a vendor extension, [`FIBONACCI_EXTENSION`](crate::FIBONACCI_EXTENSION), and
/// nothing else.
pub const FIBONACCI_DRIVER: &str = "nnapi-sample_fibonacci";

static FIBONACCI: Figures = Figures {
    name: FIBONACCI_DRIVER,
    float: info(1.0, 1.0),
    relaxed: info(1.0, 1.0),
    other: info(1.0, 1.0),
    control_flow: info(1.0, 1.0),
    supports: Supports::Fibonacci,
};

/// The names of the five sample drivers; [`FIBONACCI_DRIVER`] is one more.
pub fn names() -> impl Iterator<Item = &'static str> {
    DRIVERS.iter().map(|driver| driver.name)
}

/// The driver of this name.
pub(crate) fn find(name: &str) -> Option<&'static Figures> {
    DRIVERS.iter().chain([&FIBONACCI]).find(|driver| driver.name == name)
}

impl Figures {
    pub(crate) fn has_extension(&self) -> bool {
        matches!(self.supports, Supports::Fibonacci)
    }

    /// The driver's own figures, or those that were measured on the machine.
    pub(crate) fn capabilities(&self, measured: Option<Measured>) -> Capabilities {
        if let Some(measured) = measured {
            return of_measured(&measured);
        }
        let (float, relaxed, other) = (self.float, self.relaxed, self.other);
        let entry = |&kind: &OperandType| {
            let is_float = matches!(kind, OperandType::Float32 | OperandType::TensorFloat32);
            OperandPerformance { kind, info: if is_float { float } else { other } }
        };
        let kinds = OperandType::BASE.iter().filter(|&&kind| kind != OperandType::Subgraph);
        let mut operand_performance: Vec<_> = kinds.map(entry).collect();
        operand_performance.sort_by_key(|entry| entry.kind);
        Capabilities {
            relaxed_float32_to_float16_scalar: relaxed,
            relaxed_float32_to_float16_tensor: relaxed,
            operand_performance,
            if_performance: self.control_flow,
            while_performance: self.control_flow,
        }
    }

    /// For each operation of the main graph of a valid model, whether it is taken.
    pub(crate) fn supported(&self, model: &Model) -> Vec<bool> {
        let main = &model.main;
        let known = vec![Cell::new(None); model.referenced.len()];
        let taken = |operation| self.takes(operation, main, model, &known);
        main.operations.iter().map(taken).collect()
    }

    /// `known` is what was found of the graphs referred to: branches of branches are looked at
    /// once.
    fn takes(
        &self,
        operation: &Operation,
        graph: &Subgraph,
        model: &Model,
        known: &[Cell<Option<bool>>],
    ) -> bool {
        if unreadable(operation, graph, model).is_some() {
            return false;
        }
        let input = |position: usize| {
            let index = usize::try_from(*operation.inputs.get(position)?).ok()?;
            graph.operands.get(index)
        };
        let kind = |position| input(position).map(|operand| operand.kind);
        let float = || kind(0) == Some(OperandType::TensorFloat32);
        let chosen = match self.supports {
            Supports::All => true,
            Supports::Fibonacci => return fibonacci::takes(operation, model),
            Supports::Float => float(),
            Supports::Quantised => {
                // SELECT's input 0 says which; the values are in the next.
                let values = usize::from(operation.kind == OperationType::Select);
                matches!(
                    kind(values),
                    Some(OperandType::TensorQuant8Asymm | OperandType::TensorQuant8AsymmSigned)
                )
            }
            Supports::Minimal => {
                let three =
                    [OperationType::Add, OperationType::Concatenation, OperationType::Conv2d];
                three.contains(&operation.kind) && float()
            }
        };
        chosen && self.computes(operation, graph, model, known)
    }

    /// Whether the executor has the operation, and all of the graphs it refers to. A valid model's
    /// graphs don't refer in circles.
    fn computes(
        &self,
        operation: &Operation,
        graph: &Subgraph,
        model: &Model,
        known: &[Cell<Option<bool>>],
    ) -> bool {
        match operation.kind {
            OperationType::Extension(_) => false,
            OperationType::If | OperationType::While => operation
                .inputs
                .iter()
                .filter_map(|&index| graph.operands.get(usize::try_from(index).ok()?))
                .filter(|operand| operand.kind == OperandType::Subgraph)
                .filter_map(|operand| usize::try_from(operand.location.offset).ok())
                .all(|index| {
                    let (Some(inner), Some(found)) =
                        (model.referenced.get(index), known.get(index))
                    else {
                        return false;
                    };
                    let taken = found.get().unwrap_or_else(|| {
                        let mut operations = inner.operations.iter();
                        operations.all(|operation| self.takes(operation, inner, model, known))
                    });
                    found.set(Some(taken));
                    taken
                }),
            kind => is_implemented(kind),
        }
    }
}

fn of_measured(measured: &Measured) -> Capabilities {
    let kinds = OperandType::BASE.iter().filter(|&&kind| kind != OperandType::Subgraph);
    let entry = |&kind| OperandPerformance { kind, info: measured.of(Work::Operand(kind)) };
    let mut operand_performance: Vec<_> = kinds.map(entry).collect();
    operand_performance.sort_by_key(|entry| entry.kind);
    Capabilities {
        relaxed_float32_to_float16_scalar: measured.of(Work::RelaxedScalar),
        relaxed_float32_to_float16_tensor: measured.of(Work::RelaxedTensor),
        operand_performance,
        if_performance: measured.of(Work::If),
        while_performance: measured.of(Work::While),
    }
}

/// Why a constant of the operation can't be read, if one can't: preparing reads them, and nothing
/// is supported that can't be prepared.
pub(crate) fn unreadable(
    operation: &Operation,
    graph: &Subgraph,
    model: &Model,
) -> Option<MemoryError> {
    let operands = operation.inputs.iter().filter_map(|&index| {
        let operand = graph.operands.get(usize::try_from(index).ok()?)?;
        (operand.lifetime == OperandLifeTime::ConstantReference).then_some(operand)
    });
    let mut pools = operands.filter_map(|operand| {
        model.pools.get(usize::try_from(operand.location.pool_index).unwrap_or(usize::MAX))
    });
    pools.find_map(|pool| pool.read_at(0, &mut []).err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_sorted_and_complete() {
        for driver in &DRIVERS {
            let capabilities = driver.capabilities(None);
            let kinds: Vec<_> =
                capabilities.operand_performance.iter().map(|entry| entry.kind).collect();
            assert!(kinds.is_sorted(), "{}", driver.name);
            assert_eq!(
                kinds.len(),
                OperandType::BASE.len() - 1,
                "{}: all but SUBGRAPH",
                driver.name
            );
        }
        let fast = find("nnapi-sample_float_fast").unwrap().capabilities(None);
        assert_eq!(fast.lookup(OperandType::TensorFloat32), info(0.8, 1.2));
        assert_eq!(fast.lookup(OperandType::TensorFloat16), info(1.0, 1.0));
        assert_eq!(fast.relaxed_float32_to_float16_tensor, info(0.7, 1.1));
    }
}
