//! Between types: QUANTIZE, DEQUANTIZE, CAST.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered};
use crate::operand::is_quantized;

impl Lower<'_, '_> {
    /// From integers to integers by way of FLOAT32, since NNAPI quantises real numbers only.
    pub(super) fn quantize(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let real = self.as_float(input);
        self.emit(OperationType::Quantize, &[real], &[output]);
        Ok(())
    }

    /// FLOAT16 is widened by CAST: NNAPI dequantises quantised integers only.
    pub(super) fn dequantize(&mut self) -> Lowered {
        let index = self.tensor_index(0)?;
        let input = self.symmetric(index)?;
        let dims = self.import.builder.dims(input).to_vec();
        let kind = match self.kind(input) {
            OperandType::TensorFloat16 => OperationType::Cast,
            kind if is_quantized(kind) && kind != OperandType::TensorQuant16Symm => {
                OperationType::Dequantize
            }
            kind => return Err(format!("NNAPI dequantises no {kind}").into()),
        };
        let output = self.output(0, Some(&dims))?;
        self.emit(kind, &[input], &[output]);
        Ok(())
    }

    /// Truth values are no numbers to NNAPI, so they are selected from numbers, and compared with
    /// 0.
    pub(super) fn cast(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let (from, to) = (self.kind(input), self.kind(output));
        if from == OperandType::TensorBool8 && to != OperandType::TensorBool8 {
            return self.cast_from_bool(input, output);
        }
        if to == OperandType::TensorBool8 && from != OperandType::TensorBool8 {
            let zero = self.filled(from, &[1], 0)?;
            self.emit(OperationType::NotEqual, &[input, zero], &[output]);
            return Ok(());
        }
        let signed = OperandType::TensorQuant8AsymmSigned;
        if from != to && (from == signed || to == signed) {
            return Err(format!("NNAPI casts no {from} to {to}").into());
        }
        self.emit(OperationType::Cast, &[input], &[output]);
        Ok(())
    }

    fn cast_from_bool(&mut self, input: u32, output: u32) -> Lowered {
        let dims = self.known_dims(input)?;
        let kind = self.kind(output);
        let (one, zero) = (self.filled(kind, &dims, 1)?, self.filled(kind, &dims, 0)?);
        self.emit(OperationType::Select, &[input, one, zero], &[output]);
        Ok(())
    }
}
