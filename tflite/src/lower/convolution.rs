//! Convolutions, dense layers and pooling.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered, int_of, signed};
use crate::operand::is_quantized;
use crate::schema::options::{self, Fields};

/// The padding code of the HAL for that of the file.
pub(super) fn padding_code(padding: i8) -> Lowered<i32> {
    match padding {
        0 => Ok(1), // SAME
        1 => Ok(2), // VALID
        code => Err(format!("there is no padding {code}").into()),
    }
}

impl Lower<'_, '_> {
    fn ints(&mut self, values: &[i32]) -> Vec<u32> {
        values.iter().map(|&value| self.builder().int(value)).collect()
    }

    pub(super) fn conv_2d(&mut self) -> Lowered {
        use options::conv_2d as o;
        let options = self.options(o::KIND)?;
        let input = self.input(0)?;
        let filter = self.weights(1, input)?;
        let filter_dims = self.known_dims(filter)?;
        let &[outputs, _, _, depth] = filter_dims.as_slice() else {
            return Err(format!("its filter has the shape {filter_dims:?}").into());
        };
        self.check_channel_dim(filter, 0)?;
        let bias = self.bias(2, input, filter, outputs)?;
        let channels = self.import.builder.dims(input).last().copied().unwrap_or(0);
        let mut inputs = vec![input, filter, bias];
        inputs.extend(self.padding_and_strides(&options, o::PADDING, o::STRIDE_W, o::STRIDE_H)?);
        let activation = self.activation(options.byte(o::ACTIVATION)?)?;
        let dilations = [options.int(o::DILATION_W, 1)?, options.int(o::DILATION_H, 1)?];
        let output = self.output(0, None)?;
        if channels == depth || channels == 0 {
            inputs.push(activation);
            self.push_dilations(&mut inputs, dilations);
            self.emit(OperationType::Conv2d, &inputs, &[output]);
            return Ok(());
        }
        if !channels.is_multiple_of(depth) || dilations != [1, 1] {
            return Err(format!(
                "{channels} channels, a filter for {depth}, dilated {dilations:?}"
            )
            .into());
        }
        let groups = self.builder().int(int_of((channels / depth) as usize)?);
        let nchw = self.builder().boolean(false);
        inputs.extend([groups, activation, nchw]);
        self.emit(OperationType::GroupedConv2d, &inputs, &[output]);
        Ok(())
    }

    pub(super) fn depthwise_conv_2d(&mut self) -> Lowered {
        use options::depthwise_conv_2d as o;
        let options = self.options(o::KIND)?;
        let input = self.input(0)?;
        let filter = self.weights(1, input)?;
        let filter_dims = self.known_dims(filter)?;
        let &[1, _, _, outputs] = filter_dims.as_slice() else {
            return Err(format!("its filter has the shape {filter_dims:?}").into());
        };
        self.check_channel_dim(filter, 3)?;
        let bias = self.bias(2, input, filter, outputs)?;
        // The interpreter ignores the option and divides; so does this, where it can.
        let multiplier = match self.import.builder.dims(input).last().copied().unwrap_or(0) {
            0 => options.int(o::DEPTH_MULTIPLIER, 0)?,
            channels => int_of((outputs / channels) as usize)?,
        };
        let mut inputs = vec![input, filter, bias];
        inputs.extend(self.padding_and_strides(&options, o::PADDING, o::STRIDE_W, o::STRIDE_H)?);
        inputs.push(self.builder().int(multiplier));
        inputs.push(self.activation(options.byte(o::ACTIVATION)?)?);
        let dilations = [options.int(o::DILATION_W, 1)?, options.int(o::DILATION_H, 1)?];
        self.push_dilations(&mut inputs, dilations);
        let output = self.output(0, None)?;
        self.emit(OperationType::DepthwiseConv2d, &inputs, &[output]);
        Ok(())
    }

    pub(super) fn padding_and_strides(
        &mut self,
        options: &Fields<'_>,
        padding: crate::flatbuffer::Field,
        stride_w: crate::flatbuffer::Field,
        stride_h: crate::flatbuffer::Field,
    ) -> Lowered<Vec<u32>> {
        let padding = padding_code(options.byte(padding)?)?;
        Ok(self.ints(&[padding, options.int(stride_w, 0)?, options.int(stride_h, 0)?]))
    }

    /// Dilations are arguments of HAL 1.2, so they are given only where they do something.
    fn push_dilations(&mut self, inputs: &mut Vec<u32>, dilations: [i32; 2]) {
        if dilations != [1, 1] {
            inputs.push(self.builder().boolean(false));
            inputs.extend(self.ints(&dilations));
        }
    }

    pub(super) fn check_channel_dim(&self, filter: u32, wanted: u32) -> Lowered {
        match self.import.builder.operand(filter).channel_quant() {
            Some(quant) if quant.channel_dim != wanted => Err(format!(
                "its filter has scales along dimension {}, not {wanted}",
                quant.channel_dim
            )
            .into()),
            _ => Ok(()),
        }
    }

    pub(super) fn fully_connected(&mut self) -> Lowered {
        use options::fully_connected as o;
        let options = self.options(o::KIND)?;
        if options.byte(o::WEIGHTS_FORMAT)? != 0 {
            return Err("its weights are shuffled".into());
        }
        let input = self.input(0)?;
        let weights = self.weights(1, input)?;
        let weight_dims = self.known_dims(weights)?;
        let &[units, depth] = weight_dims.as_slice() else {
            return Err(format!("its weights have the shape {weight_dims:?}").into());
        };
        let bias = self.bias(2, input, weights, units)?;
        let activation = self.activation(options.byte(o::ACTIVATION)?)?;
        let batch = self.rows_of(input, depth)?;
        let per_channel = self.kind(weights) == OperandType::TensorQuant8SymmPerChannel;
        if per_channel {
            return self.dense_per_channel([input, weights, bias, activation], batch, units, depth);
        }
        // NNAPI takes two dimensions at least, and gives two always.
        let input = if self.import.builder.dims(input).len() == 1 {
            self.reshaped(input, vec![batch, depth])?
        } else {
            input
        };
        let (output, product) = self.matrix_output(batch, units)?;
        self.emit(OperationType::FullyConnected, &[input, weights, bias, activation], &[product]);
        self.finish_matrix(product, output)
    }

    /// Returns the number of rows of so many elements that a tensor has; 0 if that is not known.
    fn rows_of(&self, input: u32, depth: u32) -> Lowered<u32> {
        match self.import.builder.operand(input).element_count() {
            None => Ok(0),
            Some(count) => {
                let depth = depth as usize;
                if depth == 0 || !count.is_multiple_of(depth) {
                    return Err(format!("{count} elements are no rows of {depth}").into());
                }
                u32::try_from(count / depth).map_err(|_| "its input is too large".into())
            }
        }
    }

    /// The operator's result, and the matrix to compute: the same unless the result has another
    /// rank.
    fn matrix_output(&mut self, batch: u32, units: u32) -> Lowered<(u32, u32)> {
        let dims = [batch, units];
        let output = self.output(0, Some(&dims))?;
        let plain = self.import.builder.dims(output).len() == 2;
        let product = if plain { output } else { self.builder().like(output, dims.to_vec()) };
        Ok((output, product))
    }

    fn finish_matrix(&mut self, product: u32, output: u32) -> Lowered {
        if product == output {
            return Ok(());
        }
        self.reshape_into(product, output)
    }

    /// A dense layer with scales per output, which FULLY_CONNECTED hasn't: as a convolution over
    /// one pixel.
    fn dense_per_channel(
        &mut self,
        [input, weights, bias, activation]: [u32; 4],
        batch: u32,
        units: u32,
        depth: u32,
    ) -> Lowered {
        self.check_channel_dim(weights, 0)?;
        let filter = self.builder().constant_as(weights, vec![units, 1, 1, depth]);
        let filter = filter.ok_or("its weights per channel are no constant")?;
        let pixels = self.reshaped(input, vec![batch, 1, 1, depth])?;
        let output = self.output(0, Some(&[batch, units]))?;
        let product = self.builder().like(output, vec![batch, 1, 1, units]);
        let mut inputs = vec![pixels, filter, bias];
        inputs.extend(self.ints(&[2, 1, 1]));
        inputs.push(activation);
        self.emit(OperationType::Conv2d, &inputs, &[product]);
        self.reshape_into(product, output)
    }

    /// A product with a constant second matrix is a dense layer; others NNAPI hasn't.
    pub(super) fn batch_matmul(&mut self) -> Lowered {
        use options::batch_matmul as o;
        let options = self.options(o::KIND)?;
        let input = self.input(0)?;
        let right = self.weights(1, input)?;
        let right_dims = self.known_dims(right)?;
        let (right, rows, columns) = match *right_dims.as_slice() {
            [rows, columns] => (right, rows, columns),
            // One matrix, whatever the batch, of real numbers.
            [ref ones @ .., rows, columns]
                if ones.iter().all(|&extent| extent == 1) && !is_quantized(self.kind(right)) =>
            {
                let matrix = self.builder().constant_as(right, vec![rows, columns]);
                let matrix = matrix.ok_or("its second matrix is no constant")?;
                (matrix, rows, columns)
            }
            _ => return Err(format!("its second matrix has the shape {right_dims:?}").into()),
        };
        if options.boolean(o::ADJ_X, false)? {
            return Err("its first matrix is transposed".into());
        }
        if is_quantized(self.kind(input)) && self.kind(right) != self.kind(input) {
            return Err("its matrices are of different types".into());
        }
        let (units, depth, weights) = if options.boolean(o::ADJ_Y, false)? {
            (rows, columns, right)
        } else {
            let weights = self.builder().like(right, vec![columns, rows]);
            let order = self.builder().ints(&[1, 0]);
            self.emit(OperationType::Transpose, &[right, order], &[weights]);
            (columns, rows, weights)
        };
        let batch = self.rows_of(input, depth)?;
        let bias = self.bias(usize::MAX, input, weights, units)?;
        let (output, product) = self.matrix_output(batch, units)?;
        let activation = self.no_activation();
        self.emit(OperationType::FullyConnected, &[input, weights, bias, activation], &[product]);
        self.finish_matrix(product, output)
    }

    pub(super) fn pool(&mut self, kind: OperationType) -> Lowered {
        use options::pool_2d as o;
        let options = self.options(o::KIND)?;
        let input = self.input(0)?;
        let mut inputs = vec![input];
        inputs.extend(self.padding_and_strides(&options, o::PADDING, o::STRIDE_W, o::STRIDE_H)?);
        let filter = [options.int(o::FILTER_WIDTH, 0)?, options.int(o::FILTER_HEIGHT, 0)?];
        inputs.extend(self.ints(&filter));
        inputs.push(self.activation(options.byte(o::ACTIVATION)?)?);
        let output = self.output(0, None)?;
        self.same_quantization(input, output)?;
        self.emit(kind, &inputs, &[output]);
        Ok(())
    }

    /// A value under another shape.
    pub(super) fn reshaped(&mut self, value: u32, dims: Vec<u32>) -> Lowered<u32> {
        if self.import.builder.dims(value) == dims {
            return Ok(value);
        }
        if let Some(constant) = self.builder().constant_as(value, dims.clone()) {
            return Ok(constant);
        }
        let reshaped = self.builder().like(value, dims);
        self.reshape_into(value, reshaped)?;
        Ok(reshaped)
    }

    /// Copies a value into an operand of another shape.
    pub(super) fn reshape_into(&mut self, value: u32, output: u32) -> Lowered {
        let dims = self.import.builder.dims(output).to_vec();
        match self.kind(value) {
            OperandType::TensorInt32 | OperandType::TensorBool8 => {
                self.reshape_by_inserting(value, output)
            }
            _ => {
                let shape = signed(&dims)?;
                let shape = self.builder().ints(&shape);
                self.emit(OperationType::Reshape, &[value, shape], &[output]);
                Ok(())
            }
        }
    }

    /// NNAPI reshapes no integers, but it inserts extents of 1.
    fn reshape_by_inserting(&mut self, value: u32, output: u32) -> Lowered {
        let from = self.import.builder.dims(value).to_vec();
        let to = self.import.builder.dims(output).to_vec();
        if from == to && self.kind(value) == OperandType::TensorInt32 {
            self.emit(OperationType::Cast, &[value], &[output]);
            return Ok(());
        }
        if self.kind(value) != OperandType::TensorInt32 || to.len() != from.len() + 1 {
            return Err(
                format!("NNAPI reshapes no {} from {from:?} to {to:?}", self.kind(value)).into()
            );
        }
        let inserted = |axis: &usize| {
            let mut without = to.clone();
            without.remove(*axis) == 1 && without == from
        };
        let axis = (0..to.len()).find(inserted);
        let axis =
            axis.ok_or_else(|| format!("NNAPI reshapes no integers from {from:?} to {to:?}"))?;
        let axis = self.builder().int(int_of(axis)?);
        self.emit(OperationType::ExpandDims, &[value, axis], &[output]);
        Ok(())
    }
}
