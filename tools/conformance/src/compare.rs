//! The rules of a right result: the reference suites' acceptance criteria.

use half::f16;
use nnburst_hal::OperandType;

use crate::Case;

/// The mismatch of a result; of values, the first.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// The case has no such output.
    #[error("there is no output {output}")]
    NoSuchOutput {
        /// Position among the outputs.
        output: usize,
    },
    /// The shape differs.
    #[error("output {output} has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// Position among the outputs.
        output: usize,
        /// The actual elements.
        actual: Vec<u32>,
        /// The expected elements.
        expected: Vec<u32>,
    },
    /// The number of bytes differs.
    #[error("output {output} has {actual} bytes, expected {expected}")]
    Length {
        /// Position among the outputs.
        output: usize,
        /// The actual elements.
        actual: usize,
        /// The expected elements.
        expected: usize,
    },
    /// A value differs by more than is allowed, or is not a number.
    #[error(
        "output {output} element {element} is {actual}, expected {expected} within {allowed}; {wrong} of {elements} are wrong"
    )]
    Value {
        /// Position among the outputs.
        output: usize,
        /// Row-major position of the first wrong element.
        element: usize,
        /// The actual elements.
        actual: f64,
        /// The expected elements.
        expected: f64,
        /// The greatest difference that would have passed.
        allowed: f64,
        /// Wrong elements.
        wrong: usize,
        /// All elements.
        elements: usize,
    },
    /// A class is drawn too often or too seldom.
    #[error(
        "output {output} draws class {class} with frequency {actual}, expected {expected} within {allowed}"
    )]
    Distribution {
        /// Position among the outputs.
        output: usize,
        /// The class.
        class: usize,
        /// Its share of the draws.
        actual: f64,
        /// Its probability.
        expected: f64,
        /// The tolerance.
        allowed: f64,
    },
}

/// Allowed difference: `atol + rtol * |expected|`.
#[derive(Clone, Copy)]
struct Tolerance {
    atol: f64,
    rtol: f64,
}

impl Case {
    /// Returns whether the case has to do with quantised numbers: an operand of any graph is of
    /// such a type.
    pub fn is_quantised(&self) -> bool {
        let mut operands = self.graphs().flat_map(|graph| &graph.operands);
        operands.any(|operand| operand.kind.name().contains("QUANT"))
    }

    /// Returns whether these are the very bytes that the case expects. Floats have a tolerance and
    /// count as exact.
    pub fn is_exact(&self, index: usize, bytes: &[u8]) -> bool {
        self.outputs.get(index).is_none_or(|expected| {
            let is_float =
                matches!(expected.kind, OperandType::TensorFloat32 | OperandType::TensorFloat16);
            is_float || expected.is_ignored || expected.bytes == bytes
        })
    }

    /// Judges an output: its shape, then its elements, row-major and little-endian. Ignored outputs
    /// pass.
    ///
    /// # Errors
    /// How the result is wrong, with the first wrong value.
    pub fn compare(&self, output: usize, dimensions: &[u32], bytes: &[u8]) -> Result<(), Mismatch> {
        let expected = self.outputs.get(output).ok_or(Mismatch::NoSuchOutput { output })?;
        if expected.is_ignored {
            return Ok(());
        }
        if dimensions != expected.dimensions {
            let (actual, expected) = (dimensions.to_vec(), expected.dimensions.clone());
            return Err(Mismatch::Shape { output, actual, expected });
        }
        if bytes.len() != expected.bytes.len() {
            let (actual, expected) = (bytes.len(), expected.bytes.len());
            return Err(Mismatch::Length { output, actual, expected });
        }
        let actual = elements(expected.kind, bytes);
        if self.multinomial_tolerance > 0.0 {
            return self.compare_distribution(output, &actual);
        }
        let tolerance = self.tolerance(expected.kind);
        compare_values(output, &actual, &elements(expected.kind, &expected.bytes), tolerance)
    }

    fn tolerance(&self, kind: OperandType) -> Tolerance {
        const HALF: f64 = 5.0 * 0.000_976_562_5; // 5 * 2^-10, the last digits of FLOAT16
        // The reference computes its limits in f32.
        const SINGLE_ATOL: f64 = 1e-5_f32 as f64;
        const SINGLE_RTOL: f64 = (5.0 * f32::EPSILON) as f64;
        let (atol, rtol) = match kind {
            OperandType::TensorFloat32 | OperandType::Float32
                if self.is_relaxed || self.has_operand(OperandType::TensorFloat16) =>
            {
                (HALF, HALF)
            }
            OperandType::TensorFloat32 | OperandType::Float32 => (SINGLE_ATOL, SINGLE_RTOL),
            OperandType::TensorFloat16 | OperandType::Float16 => (HALF, HALF),
            OperandType::TensorQuant8Asymm
            | OperandType::TensorQuant8AsymmSigned
            | OperandType::TensorQuant8Symm
                if self.name.contains("mobilenet") =>
            {
                (3.0, 0.0)
            }
            OperandType::TensorBool8 | OperandType::Bool => (0.0, 0.0),
            _ => (1.0, 0.0),
        };
        Tolerance { atol, rtol }
    }

    /// Draws of RANDOM_MULTINOMIAL: the share of each class against the softmax of the first input.
    fn compare_distribution(&self, output: usize, draws: &[f64]) -> Result<(), Mismatch> {
        let logits = self.inputs.first().map(|input| elements(input.kind, &input.bytes));
        let logits = logits.unwrap_or_default();
        let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logits.iter().map(|logit| (logit - greatest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let allowed = f64::from(self.multinomial_tolerance);
        for (class, weight) in weights.iter().enumerate() {
            let drawn = draws.iter().filter(|&&draw| draw == class as f64).count();
            let (actual, expected) = (drawn as f64 / draws.len() as f64, weight / total);
            if !is_within(actual, expected, allowed) {
                return Err(Mismatch::Distribution { output, class, actual, expected, allowed });
            }
        }
        Ok(())
    }
}

fn compare_values(
    output: usize,
    actual: &[f64],
    expected: &[f64],
    tolerance: Tolerance,
) -> Result<(), Mismatch> {
    let allowed = |expected: f64| tolerance.atol + tolerance.rtol * expected.abs();
    let mut wrong = actual
        .iter()
        .zip(expected)
        .enumerate()
        .filter(|&(_, (&actual, &expected))| !is_within(actual, expected, allowed(expected)));
    let Some((element, (&first_actual, &first_expected))) = wrong.next() else { return Ok(()) };
    Err(Mismatch::Value {
        output,
        element,
        actual: first_actual,
        expected: first_expected,
        allowed: allowed(first_expected),
        wrong: wrong.count().saturating_add(1),
        elements: expected.len(),
    })
}

/// False for a NaN on either side.
fn is_within(actual: f64, expected: f64, allowed: f64) -> bool {
    (actual - expected).abs() <= allowed
}

/// The stored elements as numbers; quantised ones stay the integers they are.
fn elements(kind: OperandType, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|&element| read(element)).collect()
    }
    use OperandType as T;
    match kind {
        T::TensorFloat32 | T::Float32 => each(bytes, |b| f64::from(f32::from_le_bytes(b))),
        T::TensorFloat16 | T::Float16 => each(bytes, |b| f16::from_le_bytes(b).to_f64()),
        T::TensorInt32 | T::Int32 => each(bytes, |b| f64::from(i32::from_le_bytes(b))),
        T::Uint32 => each(bytes, |b| f64::from(u32::from_le_bytes(b))),
        T::TensorQuant16Symm => each(bytes, |b| f64::from(i16::from_le_bytes(b))),
        T::TensorQuant16Asymm => each(bytes, |b| f64::from(u16::from_le_bytes(b))),
        T::TensorQuant8Symm | T::TensorQuant8SymmPerChannel | T::TensorQuant8AsymmSigned => {
            each(bytes, |b| f64::from(i8::from_le_bytes(b)))
        }
        _ => each(bytes, |[byte]| f64::from(byte)),
    }
}

#[cfg(test)]
mod tests;
