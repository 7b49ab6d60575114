//! Between types: QUANTIZE, DEQUANTIZE, CAST.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered};
use crate::operand::is_quantized;
use crate::schema::{Builtin, TensorKind};

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

    /// Quantises floats to integers of four bits, which operands have in eight: such as are beyond
    /// those are cut here. Tells if that is what the operator does.
    pub(super) fn quantise_nibbles(&mut self) -> Lowered<bool> {
        if self.builtin() != Builtin::Quantize {
            return Ok(false);
        }
        let (from, to) = (self.tensor(0)?.kind, self.output_tensor(0)?.kind);
        if (from, to) != (TensorKind::Float32, TensorKind::Int4) {
            return Ok(false);
        }
        let first = self.builder().graph.operations.len();
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let [bytes, cut] = [(); 2].map(|()| self.builder().like(output, dims.clone()));
        self.emit(OperationType::Quantize, &[input], &[bytes]);
        let bounds =
            [(OperationType::Minimum, 7, bytes, cut), (OperationType::Maximum, -8, cut, output)];
        for (kind, bound, from, to) in bounds {
            let mut operand = self.import.builder.operand(output).clone();
            operand.dimensions = vec![1];
            let bound = self.builder().made_constant(operand, &i8::to_le_bytes(bound));
            self.emit(kind, &[from, bound], &[to]);
        }
        // Scales per channel and many dimensions are for neither of them.
        self.import.check_operations(first)?;
        Ok(true)
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
