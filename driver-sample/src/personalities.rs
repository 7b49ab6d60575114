//! The sample drivers: their names, figures and supported operations.
//!
//! Source: the sample drivers of the Android NeuralNetworks module.

use std::sync::Arc;

use nnburst_driver::{Personality, PersonalityExtension, uniform_capabilities};
use nnburst_hal::{
    Capabilities, Model, OperandType, Operation, OperationType, PerformanceInfo, Subgraph,
};

use crate::fibonacci;

/// A sample driver.
#[derive(Debug)]
pub(crate) struct Sample {
    name: &'static str,
    float: PerformanceInfo,
    relaxed: PerformanceInfo,
    other: PerformanceInfo,
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

static SAMPLES: [Sample; 5] = [
    Sample {
        name: "nnapi-sample_all",
        float: info(1.1, 1.1),
        relaxed: info(1.1, 1.1),
        other: info(1.1, 1.1),
        supports: Supports::All,
    },
    Sample {
        name: "nnapi-sample_float_fast",
        float: info(0.8, 1.2),
        relaxed: info(0.7, 1.1),
        other: info(1.0, 1.0),
        supports: Supports::Float,
    },
    Sample {
        name: "nnapi-sample_float_slow",
        float: info(1.3, 0.7),
        relaxed: info(1.2, 0.6),
        other: info(1.0, 1.0),
        supports: Supports::Float,
    },
    Sample {
        name: "nnapi-sample_quant",
        float: info(50.0, 1.0),
        relaxed: info(50.0, 1.0),
        other: info(50.0, 1.0),
        supports: Supports::Quantised,
    },
    Sample {
        name: "nnapi-sample_minimal",
        float: info(0.4, 0.5),
        relaxed: info(0.4, 0.5),
        other: info(1.0, 1.0),
        supports: Supports::Minimal,
    },
];

/// The driver with a vendor extension, [`FIBONACCI_EXTENSION`](crate::FIBONACCI_EXTENSION), and
/// nothing else.
pub const FIBONACCI_DRIVER: &str = "nnapi-sample_fibonacci";

static FIBONACCI: Sample = Sample {
    name: FIBONACCI_DRIVER,
    float: info(1.0, 1.0),
    relaxed: info(1.0, 1.0),
    other: info(1.0, 1.0),
    supports: Supports::Fibonacci,
};

/// The names of the five sample drivers; [`FIBONACCI_DRIVER`] is one more.
pub fn names() -> impl Iterator<Item = &'static str> {
    SAMPLES.iter().map(|sample| sample.name)
}

/// Returns the sample driver of this name.
pub(crate) fn find(name: &str) -> Option<&'static Sample> {
    SAMPLES.iter().chain([&FIBONACCI]).find(|sample| sample.name == name)
}

impl Personality for &'static Sample {
    fn name(&self) -> &str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = uniform_capabilities(self.other);
        capabilities.relaxed_float32_to_float16_scalar = self.relaxed;
        capabilities.relaxed_float32_to_float16_tensor = self.relaxed;
        for entry in &mut capabilities.operand_performance {
            if matches!(entry.kind, OperandType::Float32 | OperandType::TensorFloat32) {
                entry.info = self.float;
            }
        }
        capabilities
    }

    fn takes(&self, operation: &Operation, graph: &Subgraph, model: &Model) -> bool {
        let kind = |position: usize| {
            let index = usize::try_from(*operation.inputs.get(position)?).ok()?;
            graph.operands.get(index).map(|operand| operand.kind)
        };
        let is_float = || kind(0) == Some(OperandType::TensorFloat32);
        match self.supports {
            Supports::All => true,
            Supports::Fibonacci => fibonacci::takes(operation, graph, model),
            Supports::Float => is_float(),
            Supports::Quantised => {
                // SELECT's input 0 is the condition; the values are in the next.
                let values = usize::from(operation.kind == OperationType::Select);
                matches!(
                    kind(values),
                    Some(OperandType::TensorQuant8Asymm | OperandType::TensorQuant8AsymmSigned)
                )
            }
            Supports::Minimal => {
                let three =
                    [OperationType::Add, OperationType::Concatenation, OperationType::Conv2d];
                three.contains(&operation.kind) && is_float()
            }
        }
    }

    fn extensions(&self) -> Vec<PersonalityExtension> {
        match self.supports {
            Supports::Fibonacci => vec![PersonalityExtension {
                extension: fibonacci::extension(),
                executor: Arc::new(fibonacci::Fibonacci),
            }],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_figures_of_their_own() {
        let fast = find("nnapi-sample_float_fast").unwrap().capabilities();
        assert_eq!(fast.lookup(OperandType::TensorFloat32), info(0.8, 1.2));
        assert_eq!(fast.lookup(OperandType::TensorFloat16), info(1.0, 1.0));
        assert_eq!(fast.relaxed_float32_to_float16_tensor, info(0.7, 1.1));
    }
}
