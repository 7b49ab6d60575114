//! Raw tensor bytes as numbers.

use nnburst::hal::tflite_extension::ExtensionType;
use nnburst::hal::{Operand, OperandType};

use crate::failure::Failure;

/// Bytes of a value; `None` where the shape is not fully known.
pub(crate) fn byte_len(operand: &Operand) -> Option<usize> {
    match ExtensionType::of_operand(operand.kind) {
        None => operand.data_size(),
        Some(kind) => {
            let element = usize::try_from(kind.element_bytes()).ok()?;
            operand.element_count()?.checked_mul(element)
        }
    }
}

/// The name of a type, those of the extension `dev.nnburst.tflite` included.
pub(crate) fn type_name(kind: OperandType) -> &'static str {
    match ExtensionType::of_operand(kind) {
        Some(ExtensionType::TensorInt64) => "TENSOR_INT64",
        Some(ExtensionType::TensorUint32) => "TENSOR_UINT32",
        Some(ExtensionType::TensorUint16) => "TENSOR_UINT16",
        Some(ExtensionType::TensorUint64) => "TENSOR_UINT64",
        Some(ExtensionType::TensorFloat64) => "TENSOR_FLOAT64",
        Some(ExtensionType::TensorComplex64) => "TENSOR_COMPLEX64",
        None => kind.name(),
    }
}

/// The real values of a tensor's little-endian bytes: quantised ones scaled; empty for types that
/// are no numbers.
pub(crate) fn real_values(operand: &Operand, bytes: &[u8]) -> Vec<f64> {
    let scaled = |stored: i64| {
        // Stored values are of 16 bits at most; per-channel scales don't occur in outputs.
        #[expect(clippy::cast_precision_loss, reason = "16 bits fit a double")]
        let steps = (stored - i64::from(operand.zero_point)) as f64;
        steps * f64::from(operand.scale)
    };
    let pairs = || bytes.as_chunks::<2>().0.iter();
    let fours = || bytes.as_chunks::<4>().0.iter();
    let eights = || bytes.as_chunks::<8>().0.iter();
    match operand.kind {
        OperandType::TensorFloat32 => fours().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
        OperandType::TensorFloat16 => {
            pairs().map(|b| f64::from(half::f16::from_le_bytes(*b))).collect()
        }
        OperandType::TensorInt32 => fours().map(|b| f64::from(i32::from_le_bytes(*b))).collect(),
        OperandType::TensorQuant8Asymm => bytes.iter().map(|&b| scaled(i64::from(b))).collect(),
        OperandType::TensorQuant8AsymmSigned | OperandType::TensorQuant8Symm => {
            bytes.iter().map(|&b| scaled(i64::from(b.cast_signed()))).collect()
        }
        OperandType::TensorQuant16Asymm => {
            pairs().map(|b| scaled(i64::from(u16::from_le_bytes(*b)))).collect()
        }
        OperandType::TensorQuant16Symm => {
            pairs().map(|b| scaled(i64::from(i16::from_le_bytes(*b)))).collect()
        }
        OperandType::TensorBool8 => bytes.iter().map(|&b| f64::from(b)).collect(),
        #[expect(clippy::cast_precision_loss, reason = "values are shown, not computed with")]
        kind => match ExtensionType::of_operand(kind) {
            Some(ExtensionType::TensorInt64) => {
                eights().map(|b| i64::from_le_bytes(*b) as f64).collect()
            }
            Some(ExtensionType::TensorUint64) => {
                eights().map(|b| u64::from_le_bytes(*b) as f64).collect()
            }
            Some(ExtensionType::TensorFloat64) => {
                eights().map(|b| f64::from_le_bytes(*b)).collect()
            }
            Some(ExtensionType::TensorUint32) => {
                fours().map(|b| f64::from(u32::from_le_bytes(*b))).collect()
            }
            Some(ExtensionType::TensorUint16) => {
                pairs().map(|b| f64::from(u16::from_le_bytes(*b))).collect()
            }
            Some(ExtensionType::TensorComplex64) | None => Vec::new(),
        },
    }
}

/// The 32-bit integers of a model's operand for the 64-bit ones of its file.
///
/// # Errors
/// A value doesn't fit.
pub(crate) fn narrowed(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let values = bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
    let narrow = |(index, value): (usize, i64)| {
        i32::try_from(value).map(i32::to_le_bytes).map_err(|_| {
            Failure::usage(format!("element {index} is {value}, the model computes with 32 bits"))
        })
    };
    let values: Result<Vec<_>, _> = values.enumerate().map(narrow).collect();
    Ok(values?.concat())
}

/// The 64-bit integers of a model's file for the 32-bit ones of its operand.
pub(crate) fn widened(bytes: &[u8]) -> Vec<u8> {
    let values = bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
    values.flat_map(|value| i64::from(value).to_le_bytes()).collect()
}

/// The indexes of the largest values, largest first; of equals the lower index first.
pub(crate) fn top(values: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    // The sort is stable, so equals keep their order.
    order.sort_by(|&a, &b| {
        let at = |index| values.get(index).copied().unwrap_or(f64::NEG_INFINITY);
        at(b).total_cmp(&at(a))
    });
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_keep_their_order() {
        assert_eq!(top(&[1.0, 3.0, 2.0, 3.0], 3), [1, 3, 2]);
        assert_eq!(top(&[1.0], 5), [0]);
    }

    #[test]
    fn integers_of_64_bits_go_through_32() {
        let values = [3i64, -1, i64::from(i32::MIN)];
        let wide: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(widened(&narrowed(&wide).unwrap()), wide);
        let error = narrowed(&[7i64, 1 << 31].map(i64::to_le_bytes).concat()).unwrap_err();
        assert!(error.message.contains("element 1 is 2147483648"), "{}", error.message);
    }

    #[test]
    fn stored_values_are_scaled() {
        let operand = |kind| Operand::tensor(kind, vec![2]).with_quantization(0.5, -1);
        assert_eq!(
            real_values(&operand(OperandType::TensorQuant8AsymmSigned), &[0xFF, 1]),
            [0.0, 1.0]
        );
        assert_eq!(real_values(&operand(OperandType::TensorFloat32), &2.5f32.to_le_bytes()), [2.5]);
    }
}
