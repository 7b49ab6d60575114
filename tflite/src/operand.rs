//! Tensors of the file as operands of the HAL.
//!
//! | file                   | operand |
//! |------------------------|---|
//! | FLOAT32, FLOAT16, BOOL | the same |
//! | UINT8                  | TENSOR_QUANT8_ASYMM; scale 1 and zero point 0 unless quantised |
//! | INT8, INT4             | ..._ASYMM_SIGNED; of several scales TENSOR_QUANT8_SYMM_PER_CHANNEL |
//! | INT16                  | TENSOR_QUANT16_SYMM |
//! | INT32, INT64           | TENSOR_INT32; 64-bit constants have to fit |

use nnburst_hal::{Operand, OperandType};

use crate::graph::channel_quant;
use crate::schema::{Tensor, TensorKind};

/// The operand for a tensor, a temporary still; or why there is none.
pub(crate) fn operand_of(tensor: &Tensor) -> Result<Operand, String> {
    if tensor.quantization.custom {
        return Err(format!("tensor {:?} has a quantisation of its own", tensor.name));
    }
    if tensor.quantization.blockwise.is_some() {
        return Err(format!("tensor {:?} has scales of blocks", tensor.name));
    }
    let plain = |kind| Ok(Operand::tensor(kind, tensor.shape.clone()));
    match tensor.kind {
        TensorKind::Float32 => plain(OperandType::TensorFloat32),
        TensorKind::Float16 => plain(OperandType::TensorFloat16),
        TensorKind::Bool => plain(OperandType::TensorBool8),
        TensorKind::Int32 | TensorKind::Int64 => plain(OperandType::TensorInt32),
        TensorKind::Uint8 => quantized(tensor, OperandType::TensorQuant8Asymm, 0..=255),
        TensorKind::Int8 | TensorKind::Int4 | TensorKind::Int2
            if tensor.quantization.scales.len() > 1 =>
        {
            per_channel(tensor)
        }
        TensorKind::Int8 | TensorKind::Int4 | TensorKind::Int2 => {
            quantized(tensor, OperandType::TensorQuant8AsymmSigned, -128..=127)
        }
        TensorKind::Int16 => quantized(tensor, OperandType::TensorQuant16Symm, 0..=0),
        kind => {
            Err(format!("tensor {:?} is {}, which no operand type is", tensor.name, kind.name()))
        }
    }
}

fn quantized(
    tensor: &Tensor,
    kind: OperandType,
    zero_points: std::ops::RangeInclusive<i64>,
) -> Result<Operand, String> {
    let quantization = &tensor.quantization;
    let (scale, zero_point) = match quantization.scales.as_slice() {
        [] => (1.0, 0),
        [scale] => (*scale, quantization.zero_points.first().copied().unwrap_or(0)),
        scales => {
            return Err(format!(
                "tensor {:?} is {} with {} scales",
                tensor.name,
                tensor.kind.name(),
                scales.len()
            ));
        }
    };
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(format!("tensor {:?} has the scale {scale}", tensor.name));
    }
    let point = i32::try_from(zero_point).ok().filter(|_| zero_points.contains(&zero_point));
    let point = point.ok_or_else(|| {
        format!(
            "tensor {:?} has the zero point {zero_point}, {} allows {zero_points:?}",
            tensor.name,
            kind.name()
        )
    })?;
    Ok(Operand::tensor(kind, tensor.shape.clone()).with_quantization(scale, point))
}

/// The dimension that counts channels is taken from the file if it fits the scales, else from the
/// shape: some writers leave a dimension there that the tensor doesn't have, and interpreters for
/// microcontrollers never look at it.
fn per_channel(tensor: &Tensor) -> Result<Operand, String> {
    let quantization = &tensor.quantization;
    let count = quantization.scales.len();
    if quantization.zero_points.iter().any(|&point| point != 0) {
        return Err(format!("tensor {:?} has scales per channel and a zero point", tensor.name));
    }
    if let Some(scale) = quantization.scales.iter().find(|scale| scale.is_nan() || **scale <= 0.0) {
        return Err(format!("tensor {:?} has the scale {scale}", tensor.name));
    }
    let fits = |&dim: &usize| {
        tensor.shape.get(dim).is_some_and(|&extent| usize::try_from(extent) == Ok(count))
    };
    let declared = usize::try_from(quantization.dimension).ok().filter(fits);
    // Filters count output channels in their first dimension, those of depthwise convolutions in
    // their last.
    let dim = declared.or_else(|| {
        let last = tensor.shape.len().checked_sub(1)?;
        [0, last].into_iter().chain(0..last).find(fits)
    });
    let dim = dim.ok_or_else(|| {
        format!("tensor {:?} has {count} scales and the shape {:?}", tensor.name, tensor.shape)
    })?;
    let mut operand =
        Operand::tensor(OperandType::TensorQuant8SymmPerChannel, tensor.shape.clone());
    operand.extra_params = channel_quant(quantization.scales.clone(), dim);
    Ok(operand)
}

/// Returns whether values are integers that stand for real numbers.
pub(crate) fn is_quantized(kind: OperandType) -> bool {
    matches!(
        kind,
        OperandType::TensorQuant8Asymm
            | OperandType::TensorQuant8AsymmSigned
            | OperandType::TensorQuant8Symm
            | OperandType::TensorQuant8SymmPerChannel
            | OperandType::TensorQuant16Symm
    )
}
