//! Outputs as decoders see them: their elements as real numbers, and limits of what is reported.

use nnburst::f16;
use nnburst::hal::OperandType;
use nnburst_tflite::TensorInfo;

/// The bytes of an output, with its type and shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputTensor<'a> {
    info: &'a TensorInfo,
    bytes: &'a [u8],
}

impl<'a> OutputTensor<'a> {
    pub(crate) fn new(info: &'a TensorInfo, bytes: &'a [u8]) -> Self {
        Self { info, bytes }
    }

    /// The real values: stored ones of quantised tensors scaled. None of types that are no numbers.
    pub(crate) fn values(self) -> Vec<f32> {
        let Self { info, bytes } = self;
        let zero = info.zero_point;
        #[expect(clippy::cast_precision_loss, reason = "stored values are of 16 bits at most")]
        let real = |stored: i32| stored.saturating_sub(zero) as f32 * info.scale;
        let pairs = || bytes.as_chunks::<2>().0.iter();
        let fours = || bytes.as_chunks::<4>().0.iter();
        #[expect(clippy::cast_precision_loss, reason = "counts and classes are far smaller")]
        match info.kind {
            OperandType::TensorFloat32 => fours().map(|b| f32::from_le_bytes(*b)).collect(),
            OperandType::TensorFloat16 => {
                pairs().map(|b| f16::from_le_bytes(*b).to_f32()).collect()
            }
            OperandType::TensorInt32 => fours().map(|b| i32::from_le_bytes(*b) as f32).collect(),
            OperandType::TensorQuant8Asymm => bytes.iter().map(|&b| real(i32::from(b))).collect(),
            OperandType::TensorQuant8AsymmSigned | OperandType::TensorQuant8Symm => {
                bytes.iter().map(|&b| real(i32::from(b.cast_signed()))).collect()
            }
            OperandType::TensorQuant16Symm => {
                pairs().map(|b| real(i32::from(i16::from_le_bytes(*b)))).collect()
            }
            OperandType::TensorQuant16Asymm => {
                pairs().map(|b| real(i32::from(u16::from_le_bytes(*b)))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The type of an element.
    pub(crate) fn kind(self) -> OperandType {
        self.info.kind
    }

    /// The little-endian bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// Limits of what is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The most classes of a classifier.
    pub top_k: usize,
    /// Scores below it are left out.
    pub threshold: f64,
}

/// Elements of a tensor; 0 where an extent is not known.
pub(crate) fn element_count(info: &TensorInfo) -> usize {
    let extents = info.dims.iter().map(|&extent| usize::try_from(extent).unwrap_or(usize::MAX));
    extents.fold(1, usize::saturating_mul)
}

#[cfg(test)]
pub(crate) mod tests {
    use nnburst_tflite::TensorKind;

    use super::*;

    /// An output of a type and shape.
    pub(crate) fn output(kind: OperandType, dims: &[u32]) -> TensorInfo {
        let (name, file_kind) = (String::new(), TensorKind::Float32);
        TensorInfo {
            tensor: 0,
            name,
            kind,
            file_kind,
            dims: dims.to_vec(),
            scale: 1.0,
            zero_point: 0,
        }
    }
}
