//! Softmax, normalisations, resizing of images.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered, int_of};
use crate::operand::is_quantized;
use crate::schema::options;

impl Lower<'_, '_> {
    pub(super) fn softmax(&mut self) -> Lowered {
        use options::softmax as o;
        let beta = self.options(o::KIND)?.float(o::BETA)?;
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let y = self.import.builder.operand(output);
        let zero_point = if y.kind == OperandType::TensorQuant8AsymmSigned { -128 } else { 0 };
        let fixed = (y.scale, y.zero_point) == (1.0 / 256.0, zero_point);
        let beta = self.builder().float(beta);
        if !is_quantized(self.kind(output)) || fixed {
            self.emit(OperationType::Softmax, &[input, beta], &[output]);
            return Ok(());
        }
        let real = self.as_float(input);
        let result = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(OperationType::Softmax, &[real, beta], &[result]);
        self.emit(OperationType::Quantize, &[result], &[output]);
        Ok(())
    }

    /// LOG_SOFTMAX of NNAPI is for real numbers only.
    pub(super) fn log_softmax(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let beta = self.builder().float(1.0);
        let axis = self.builder().int(-1);
        if !is_quantized(self.kind(output)) {
            self.emit(OperationType::LogSoftmax, &[input, beta, axis], &[output]);
            return Ok(());
        }
        let real = self.as_float(input);
        let result = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(OperationType::LogSoftmax, &[real, beta, axis], &[result]);
        self.emit(OperationType::Quantize, &[result], &[output]);
        Ok(())
    }

    pub(super) fn l2_normalization(&mut self) -> Lowered {
        use options::l2_norm as o;
        if self.options(o::KIND)?.byte(o::ACTIVATION)? != 0 {
            return Err("NNAPI fuses no activation here".into());
        }
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        self.emit(OperationType::L2Normalization, &[input], &[output]);
        Ok(())
    }

    pub(super) fn local_response_normalization(&mut self) -> Lowered {
        use options::local_response as o;
        let options = self.options(o::KIND)?;
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let radius = self.builder().int(options.int(o::RADIUS, 0)?);
        let mut inputs = vec![input, radius];
        for field in [o::BIAS, o::ALPHA, o::BETA] {
            let value = options.float(field)?;
            inputs.push(self.builder().float(value));
        }
        self.emit(OperationType::LocalResponseNormalization, &inputs, &[output]);
        Ok(())
    }

    /// The size comes as height and width, and goes as width and height.
    pub(super) fn resize(&mut self, kind: OperationType) -> Lowered {
        let (align, half) = if kind == OperationType::ResizeBilinear {
            use options::resize_bilinear as o;
            let options = self.options(o::KIND)?;
            (
                options.boolean(o::ALIGN_CORNERS, false)?,
                options.boolean(o::HALF_PIXEL_CENTERS, false)?,
            )
        } else {
            use options::resize_nearest as o;
            let options = self.options(o::KIND)?;
            (
                options.boolean(o::ALIGN_CORNERS, false)?,
                options.boolean(o::HALF_PIXEL_CENTERS, false)?,
            )
        };
        let input = self.input(0)?;
        let size = self.constant_ints(1)?;
        let &[height, width] = size.as_slice() else {
            return Err(format!("its size has {} numbers, not 2", size.len()).into());
        };
        let mut inputs = vec![input];
        for extent in [width, height] {
            let extent = usize::try_from(extent).map_err(|_| format!("its size is {size:?}"))?;
            let extent = int_of(extent)?;
            inputs.push(self.builder().int(extent));
        }
        // Arguments of newer versions are given only where they do something.
        let optional = align || half || kind == OperationType::ResizeNearestNeighbor;
        if optional {
            inputs.push(self.builder().boolean(false));
        }
        if align || half {
            inputs.push(self.builder().boolean(align));
            inputs.push(self.builder().boolean(half));
        }
        let output = self.output(0, None)?;
        self.same_quantization(input, output)?;
        self.emit(kind, &inputs, &[output]);
        Ok(())
    }
}
