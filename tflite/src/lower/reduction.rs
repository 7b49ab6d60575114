//! Reductions along axes.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered, axis_of, int_of};
use crate::operand::is_quantized;
use crate::schema::options;

impl Lower<'_, '_> {
    /// The axes of argument 1, and the shape without them.
    fn axes(&mut self, input: u32, keep_dims: bool) -> Lowered<(u32, Vec<u32>)> {
        let dims = self.import.builder.dims(input).to_vec();
        let axes = self.constant_ints(1)?;
        let axes = axes.iter().map(|&axis| axis_of(axis, dims.len()));
        let axes = axes.collect::<Lowered<Vec<usize>>>()?;
        let mut left = Vec::new();
        for (axis, &extent) in dims.iter().enumerate() {
            match (axes.contains(&axis), keep_dims) {
                (false, _) => left.push(extent),
                (true, true) => left.push(1),
                (true, false) => {}
            }
        }
        if left.is_empty() {
            left.push(1);
        }
        let axes = axes.into_iter().map(int_of).collect::<Lowered<Vec<i32>>>()?;
        Ok((self.builder().ints(&axes), left))
    }

    /// NNAPI's mean of quantised numbers keeps their scale; into another one it goes by way of
    /// FLOAT32.
    pub(super) fn mean(&mut self) -> Lowered {
        use options::reducer as o;
        let keep_dims = self.options(o::KIND)?.boolean(o::KEEP_DIMS, false)?;
        let input = self.input(0)?;
        let (axes, left) = self.axes(input, keep_dims)?;
        let keep = self.builder().int(i32::from(keep_dims));
        let output = self.output(0, Some(&left))?;
        if self.same_quantization(input, output).is_ok() {
            self.emit(OperationType::Mean, &[input, axes, keep], &[output]);
            return Ok(());
        }
        self.reduce_in_float(OperationType::Mean, [input, axes, keep], output)
    }

    pub(super) fn reduce(&mut self, kind: OperationType) -> Lowered {
        use options::reducer as o;
        let keep_dims = self.options(o::KIND)?.boolean(o::KEEP_DIMS, false)?;
        let input = self.input(0)?;
        let (axes, left) = self.axes(input, keep_dims)?;
        let keep = self.builder().boolean(keep_dims);
        let output = self.output(0, Some(&left))?;
        let sums = matches!(kind, OperationType::ReduceSum | OperationType::ReduceProd);
        if is_quantized(self.kind(input)) && sums {
            return self.reduce_in_float(kind, [input, axes, keep], output);
        }
        self.same_quantization(input, output)?;
        self.emit(kind, &[input, axes, keep], &[output]);
        Ok(())
    }

    fn reduce_in_float(
        &mut self,
        kind: OperationType,
        [input, axes, keep]: [u32; 3],
        output: u32,
    ) -> Lowered {
        let real = self.as_float(input);
        let dims = self.import.builder.dims(output).to_vec();
        let result = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(kind, &[real, axes, keep], &[result]);
        self.emit(OperationType::Quantize, &[result], &[output]);
        Ok(())
    }

    pub(super) fn arg(&mut self, kind: OperationType) -> Lowered {
        let input = self.input(0)?;
        let mut dims = self.import.builder.dims(input).to_vec();
        let axis = self.constant_axis(1, dims.len())?;
        dims.remove(axis);
        if dims.is_empty() {
            dims.push(1);
        }
        let axis = self.builder().int(int_of(axis)?);
        let output = self.output(0, Some(&dims))?;
        self.emit(kind, &[input, axis], &[output]);
        Ok(())
    }

    pub(super) fn top_k(&mut self) -> Lowered {
        let input = self.input(0)?;
        let k = self.constant_int(1)?;
        let k = self.builder().int(k);
        let outputs = [self.output(0, None)?, self.output(1, None)?];
        self.emit(OperationType::TopkV2, &[input, k], &outputs);
        Ok(())
    }
}
