//! The same elements in another shape or order: reshaping, joining, blocks, gathering, filling.

use nnburst_hal::{Operand, OperandType, OperationType};

use super::{Lower, Lowered, MAX_MADE_ELEMENTS, axis_of, int_of, signed};
use crate::operand::is_quantized;
use crate::schema::Builtin;
use crate::schema::options;

impl Lower<'_, '_> {
    /// RESHAPE, SQUEEZE and EXPAND_DIMS: what counts is the shape of the result.
    pub(super) fn reshape(&mut self, builtin: Builtin) -> Lowered {
        let input = self.input(0)?;
        if self.import.options.extension && self.is_shape_computed(builtin, input)? {
            return Err("its shape is known at run time alone".into());
        }
        let inferred = match builtin {
            Builtin::Reshape => self.wanted_shape(input)?,
            // An empty shape is a scalar's, or one that isn't known; one element is a scalar either
            // way.
            _ if self.import.builder.operand(input).element_count() == Some(1) => Some(Vec::new()),
            _ => None,
        };
        let dims = self.result_dims(0, inferred.as_deref())?;
        if dims.is_empty() {
            return Err("the shape of its result is not known".into());
        }
        if let Some(constant) = self.builder().constant_as(input, dims) {
            return self.bind(0, constant);
        }
        let output = self.output(0, inferred.as_deref())?;
        self.same_quantization(input, output)?;
        self.reshape_into(input, output)
    }

    /// Returns whether the extents that the file leaves open follow from values or extents that are
    /// known at run time alone.
    fn is_shape_computed(&self, builtin: Builtin, input: u32) -> Lowered<bool> {
        let result = self.output_tensor(0)?;
        let follows_values = builtin == Builtin::Reshape
            && self.tensor_index(1).is_ok_and(|index| !self.import.is_constant(index));
        let dims = self.import.builder.dims(input);
        let is_input_open = dims.is_empty() || dims.contains(&0);
        let is_example = result.signature.contains(&0) && !result.is_shape_given;
        Ok(is_example && (follows_values || is_input_open)
            || result.is_shape_open && follows_values)
    }

    /// The shape that RESHAPE asks for in its options or its second argument, for files whose
    /// results have none.
    fn wanted_shape(&self, input: u32) -> Lowered<Option<Vec<u32>>> {
        use options::reshape as o;
        let mut wanted: Vec<i64> = match self.constant_ints(1) {
            Ok(values) => values,
            Err(_) if self.has(1) => return Ok(None),
            Err(_) => {
                self.options(o::KIND)?.ints(o::NEW_SHAPE)?.into_iter().map(i64::from).collect()
            }
        };
        let known = wanted.iter().filter(|&&extent| extent > 0);
        let known = known.fold(1i64, |product, &extent| product.saturating_mul(extent));
        let count = self.import.builder.operand(input).element_count();
        if let (Some(count), Some(open)) = (count, wanted.iter_mut().find(|extent| **extent == -1))
        {
            *open =
                i64::try_from(count).ok().and_then(|count| count.checked_div(known)).unwrap_or(0);
        }
        Ok(wanted.iter().map(|&extent| u32::try_from(extent).ok()).collect())
    }

    pub(super) fn transpose(&mut self) -> Lowered {
        let input = self.input(0)?;
        let order = self.input(1)?;
        let output = self.output(0, None)?;
        self.emit(OperationType::Transpose, &[input, order], &[output]);
        Ok(())
    }

    pub(super) fn concatenation(&mut self) -> Lowered {
        use options::concatenation as o;
        let options = self.options(o::KIND)?;
        if options.byte(o::ACTIVATION)? != 0 {
            return Err("NNAPI fuses no activation here".into());
        }
        let count = self.op.inputs.len();
        let mut inputs = (0..count).map(|i| self.input(i)).collect::<Lowered<Vec<u32>>>()?;
        let first = inputs.first().copied().ok_or("it has no inputs")?;
        let rank = self.import.builder.dims(first).len();
        let axis = axis_of(i64::from(options.int(o::AXIS, 0)?), rank)?;
        inputs.push(self.builder().int(int_of(axis)?));
        let output = self.output(0, None)?;
        self.emit(OperationType::Concatenation, &inputs, &[output]);
        Ok(())
    }

    /// Each input gets an extent of 1 where they are to be joined.
    pub(super) fn pack(&mut self) -> Lowered {
        use options::pack as o;
        let axis = self.options(o::KIND)?.int(o::AXIS, 0)?;
        let first = self.input(0)?;
        let mut dims = self.known_dims(first)?;
        if self.tensor(0)?.is_scalar() {
            dims.clear(); // a scalar, which is one element of one dimension here
        }
        let axis = axis_of(i64::from(axis), dims.len() + 1)?;
        dims.insert(axis, 1);
        let mut parts = Vec::new();
        for argument in 0..self.op.inputs.len() {
            let part = self.input(argument)?;
            parts.push(self.reshaped(part, dims.clone())?);
        }
        let output = self.output(0, None)?;
        if let [part] = parts.as_slice() {
            return self.reshape_into(*part, output);
        }
        parts.push(self.builder().int(int_of(axis)?));
        self.emit(OperationType::Concatenation, &parts, &[output]);
        Ok(())
    }

    /// Split, then drop the extent of 1 of each part.
    pub(super) fn unpack(&mut self) -> Lowered {
        use options::unpack as o;
        let axis = self.options(o::KIND)?.int(o::AXIS, 0)?;
        let input = self.input(0)?;
        let mut dims = self.known_dims(input)?;
        let axis = axis_of(i64::from(axis), dims.len())?;
        let count = self.op.outputs.len();
        let mut parts = vec![input];
        if count > 1 {
            let mut part_dims = dims.clone();
            part_dims[axis] = 1;
            parts = (0..count).map(|_| self.builder().like(input, part_dims.clone())).collect();
            let axis = self.builder().int(int_of(axis)?);
            let number = self.builder().int(int_of(count)?);
            self.emit(OperationType::Split, &[input, axis, number], &parts);
        }
        dims.remove(axis);
        for (result, part) in parts.into_iter().enumerate() {
            let output = self.output(result, Some(&dims))?;
            self.reshape_into(part, output)?;
        }
        Ok(())
    }

    pub(super) fn tile(&mut self) -> Lowered {
        let inputs = [self.input(0)?, self.input(1)?];
        let output = self.output(0, None)?;
        self.emit(OperationType::Tile, &inputs, &[output]);
        Ok(())
    }

    /// As many copies along each axis as it takes.
    pub(super) fn broadcast_to(&mut self) -> Lowered {
        let input = self.input(0)?;
        let mut dims = self.known_dims(input)?;
        let output = self.output(0, None)?;
        let wanted = self.known_dims(output)?;
        let missing = wanted.len().checked_sub(dims.len());
        let missing = missing.ok_or_else(|| format!("{dims:?} is more than {wanted:?}"))?;
        dims.splice(0..0, std::iter::repeat_n(1, missing));
        let input = self.reshaped(input, dims.clone())?;
        let multiples = wanted.iter().zip(&dims).map(|(&to, &from)| to / from.max(1));
        let multiples = multiples.collect::<Vec<u32>>();
        let multiples = signed(&multiples)?;
        let multiples = self.builder().ints(&multiples);
        self.emit(OperationType::Tile, &[input, multiples], &[output]);
        Ok(())
    }

    pub(super) fn gather(&mut self) -> Lowered {
        use options::gather as o;
        let options = self.options(o::KIND)?;
        if options.int(o::BATCH_DIMS, 0)? != 0 {
            return Err("NNAPI gathers without batch dimensions only".into());
        }
        let input = self.input(0)?;
        let dims = self.known_dims(input)?;
        let axis = axis_of(i64::from(options.int(o::AXIS, 0)?), dims.len())?;
        let indexes = self.input(1)?;
        let mut result = dims;
        result.splice(axis..=axis, self.known_dims(indexes)?);
        let axis = self.builder().int(int_of(axis)?);
        let output = self.output(0, Some(&result))?;
        // A scalar index takes its axis away; as one element of one dimension it leaves an extent
        // of 1.
        let scalar = self.tensor(1)?.is_scalar() && self.import.builder.dims(output) != result;
        let gathered = if scalar { self.builder().like(output, result) } else { output };
        self.emit(OperationType::Gather, &[input, axis, indexes], &[gathered]);
        if scalar {
            self.reshape_into(gathered, output)?;
        }
        Ok(())
    }

    /// Indexes of several dimensions become indexes into those dimensions taken as one.
    pub(super) fn gather_nd(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.known_dims(input)?;
        let indexes = self.input(1)?;
        let index_dims = self.known_dims(indexes)?;
        let depth = index_dims.last().copied().unwrap_or(0) as usize;
        if depth == 0 || depth > dims.len() {
            return Err(format!("indexes of {depth} dimensions into {dims:?}").into());
        }
        let (outer, inner) = dims.split_at(depth);
        let flat = self.flat_indexes(indexes, &index_dims, outer)?;
        let mut table_dims = vec![product_of(outer)?];
        table_dims.extend_from_slice(inner);
        let table = self.reshaped(input, table_dims)?;
        let mut gathered_dims = index_dims.clone();
        if let Some(last) = gathered_dims.last_mut() {
            *last = 1;
        }
        gathered_dims.extend_from_slice(inner);
        let output = self.output(0, None)?;
        let gathered = self.builder().like(output, gathered_dims);
        let axis = self.builder().int(0);
        self.emit(OperationType::Gather, &[table, axis, flat], &[gathered]);
        self.reshape_into(gathered, output)
    }

    /// Sum of index times stride, along the last axis of the indexes, which stays as an extent of
    /// 1.
    fn flat_indexes(&mut self, indexes: u32, dims: &[u32], outer: &[u32]) -> Lowered<u32> {
        let mut part_dims = dims.to_vec();
        if let Some(last) = part_dims.last_mut() {
            *last = 1;
        }
        if outer.len() == 1 {
            return Ok(indexes);
        }
        let parts: Vec<u32> =
            outer.iter().map(|_| self.builder().like(indexes, part_dims.clone())).collect();
        let axis = self.builder().int(int_of(dims.len() - 1)?);
        let count = self.builder().int(int_of(outer.len())?);
        self.emit(OperationType::Split, &[indexes, axis, count], &parts);
        let none = self.no_activation();
        let mut sum = None;
        for (i, part) in parts.into_iter().enumerate() {
            let stride = product_of(&outer[i + 1..])?;
            let stride = signed(&[stride])?;
            let stride = self.builder().ints(&stride);
            let scaled = self.builder().like(indexes, part_dims.clone());
            self.emit(OperationType::Mul, &[part, stride, none], &[scaled]);
            sum = Some(match sum {
                None => scaled,
                Some(before) => {
                    let next = self.builder().like(indexes, part_dims.clone());
                    self.emit(OperationType::Add, &[before, scaled, none], &[next]);
                    next
                }
            });
        }
        sum.ok_or_else(|| "its indexes have no dimensions".into())
    }

    pub(super) fn embedding_lookup(&mut self) -> Lowered {
        let lookups = self.input(0)?;
        let table = self.tensor_index(1)?;
        let values = match self.import.graph.tensors[table].quantization.blockwise {
            Some(_) => self.blockwise_weights(table)?,
            None => self.input(1)?,
        };
        if self.kind(values) == OperandType::TensorQuant8SymmPerChannel {
            return Err("NNAPI looks up rows of one scale alone".into());
        }
        let output = self.output(0, None)?;
        if is_quantized(self.kind(values)) && !is_quantized(self.kind(output)) {
            let values = self.symmetric_rows(values)?;
            // The rows that are looked up are fewer than all, so they are widened after that.
            let dims = self.known_dims(output)?;
            let rows = self.builder().like(values, dims);
            self.emit(OperationType::EmbeddingLookup, &[lookups, values], &[rows]);
            self.emit(OperationType::Dequantize, &[rows], &[output]);
            return Ok(());
        }
        self.emit(OperationType::EmbeddingLookup, &[lookups, values], &[output]);
        Ok(())
    }

    /// A table whose rows become floats, as TFLite reads it: the bytes are signed and their zero
    /// point is 0, whatever the file says of them.
    fn symmetric_rows(&mut self, values: u32) -> Lowered<u32> {
        let operand = self.import.builder.operand(values);
        let kind = OperandType::TensorQuant8AsymmSigned;
        if operand.kind == kind && operand.zero_point == 0 {
            return Ok(values);
        }
        let symmetric = Operand::tensor(kind, Vec::new()).with_quantization(operand.scale, 0);
        let table = self.tensor_index(1)?;
        self.import.constant_as(table, symmetric)
    }

    pub(super) fn space_to_depth(&mut self) -> Lowered {
        use options::space_to_depth as o;
        let block = self.options(o::KIND)?.int(o::BLOCK_SIZE, 0)?;
        self.blocks(OperationType::SpaceToDepth, block)
    }

    pub(super) fn depth_to_space(&mut self) -> Lowered {
        use options::depth_to_space as o;
        let block = self.options(o::KIND)?.int(o::BLOCK_SIZE, 0)?;
        self.blocks(OperationType::DepthToSpace, block)
    }

    fn blocks(&mut self, kind: OperationType, block: i32) -> Lowered {
        let input = self.input(0)?;
        let block = self.builder().int(block);
        let output = self.output(0, None)?;
        self.emit(kind, &[input, block], &[output]);
        Ok(())
    }

    /// NNAPI's images have a height and a width, whatever their shape turns out to be.
    fn check_blocks(&self) -> Lowered {
        let Ok(block) = self.constant_ints(1) else { return Ok(()) };
        if block.len() == 2 {
            return Ok(());
        }
        Err(format!("NNAPI has blocks of a height and a width, and these are {block:?}").into())
    }

    /// The block of a sequence, which has one spatial dimension.
    fn block_of_sequence(&self) -> Option<i32> {
        let &[block] = &self.constant_ints(1).ok()?[..] else { return None };
        i32::try_from(block).ok()
    }

    /// The sequence that an operand has as an image of one line, and its extents.
    fn line_of(&mut self, sequence: u32) -> Lowered<(u32, [u32; 3])> {
        let dims = self.known_dims(sequence)?;
        let &[batches, width, depth] = &dims[..] else {
            return Err(format!("a sequence of the shape {dims:?}").into());
        };
        let line = self.builder().like(sequence, vec![batches, 1, width, depth]);
        Ok((line, [batches, width, depth]))
    }

    /// The pair of numbers in front of and behind a sequence.
    fn ends(&self) -> Lowered<[i32; 2]> {
        let ends = self.constant_ints(2)?;
        let &[head, tail] = &ends[..] else { return Err(format!("its ends are {ends:?}").into()) };
        let [head, tail] = [head, tail].map(i32::try_from);
        match (head, tail) {
            (Ok(head), Ok(tail)) => Ok([head, tail]),
            _ => Err(format!("its ends are {ends:?}").into()),
        }
    }

    /// A sequence is an image of one line.
    fn sequence_to_batch(&mut self, block: i32) -> Lowered {
        let ([head, tail], input) = (self.ends()?, self.input(0)?);
        let output = self.output(0, None)?;
        let ((line, _), (spread, _)) = (self.line_of(input)?, self.line_of(output)?);
        self.reshape_into(input, line)?;
        let block = self.builder().ints(&[1, block]);
        let borders = self.builder().int_tensor(&[0, 0, head, tail], vec![2, 2]);
        self.emit(OperationType::SpaceToBatchNd, &[line, block, borders], &[spread]);
        self.reshape_into(spread, output)
    }

    fn batch_to_sequence(&mut self, block: i32) -> Lowered {
        let ([head, tail], input) = (self.ends()?, self.input(0)?);
        let output = self.output(0, None)?;
        let ((spread, _), (line, dims)) = (self.line_of(input)?, self.line_of(output)?);
        self.reshape_into(input, spread)?;
        let block = self.builder().ints(&[1, block]);
        let (before, after) = (u32::try_from(head), u32::try_from(tail));
        let [batches, width, depth] = dims;
        let (Ok(before), Ok(after)) = (before, after) else {
            return Err(format!("its crops are {head} and {tail}").into());
        };
        let whole = width.checked_add(before).and_then(|sum| sum.checked_add(after));
        let whole = whole.ok_or_else(|| format!("its crops are {head} and {tail}"))?;
        if whole == width {
            self.emit(OperationType::BatchToSpaceNd, &[spread, block], &[line]);
        } else {
            let all = self.builder().like(output, vec![batches, 1, whole, depth]);
            self.emit(OperationType::BatchToSpaceNd, &[spread, block], &[all]);
            let sizes = signed(&[batches, 1, width, depth])?;
            let begin = self.builder().ints(&[0, 0, head, 0]);
            let sizes = self.builder().ints(&sizes);
            self.emit(OperationType::Slice, &[all, begin, sizes], &[line]);
        }
        self.reshape_into(line, output)
    }

    pub(super) fn space_to_batch(&mut self) -> Lowered {
        if let Some(block) = self.block_of_sequence() {
            return self.sequence_to_batch(block);
        }
        self.check_blocks()?;
        let inputs = [self.input(0)?, self.input(1)?, self.input(2)?];
        let output = self.output(0, None)?;
        self.emit(OperationType::SpaceToBatchNd, &inputs, &[output]);
        Ok(())
    }

    /// NNAPI crops nothing, so that a slice follows where the file crops.
    pub(super) fn batch_to_space(&mut self) -> Lowered {
        if let Some(block) = self.block_of_sequence() {
            return self.batch_to_sequence(block);
        }
        self.check_blocks()?;
        let (input, block) = (self.input(0)?, self.input(1)?);
        let crops = self.constant_ints(2)?;
        let output = self.output(0, None)?;
        if crops.iter().all(|&crop| crop == 0) {
            self.emit(OperationType::BatchToSpaceNd, &[input, block], &[output]);
            return Ok(());
        }
        let &[top, bottom, left, right] = crops.as_slice() else {
            return Err(format!("its crops are {crops:?}").into());
        };
        let wanted = self.known_dims(output)?;
        let mut whole = wanted.clone();
        let mut begin = vec![0; whole.len()];
        for (axis, before, after) in [(1, top, bottom), (2, left, right)] {
            let extent = whole.get_mut(axis).ok_or("its result has no two spatial dimensions")?;
            let grown =
                i64::from(*extent).checked_add(before).and_then(|sum| sum.checked_add(after));
            let grown = grown.and_then(|grown| u32::try_from(grown).ok());
            *extent = grown.ok_or_else(|| format!("its crops are {crops:?}"))?;
            begin[axis] = i32::try_from(before).map_err(|_| format!("its crops are {crops:?}"))?;
        }
        let uncropped = self.builder().like(output, whole);
        self.emit(OperationType::BatchToSpaceNd, &[input, block], &[uncropped]);
        let sizes = signed(&wanted)?;
        let (begin, sizes) = (self.builder().ints(&begin), self.builder().ints(&sizes));
        self.emit(OperationType::Slice, &[uncropped, begin, sizes], &[output]);
        Ok(())
    }

    /// A constant tensor of one value.
    pub(super) fn filled(&mut self, kind: OperandType, dims: &[u32], value: i8) -> Lowered<u32> {
        let operand = Operand::tensor(kind, dims.to_vec());
        let count = operand.element_count().filter(|&count| count <= MAX_MADE_ELEMENTS);
        let count = count.ok_or_else(|| format!("a constant of the shape {dims:?}"))?;
        let bytes = match kind {
            OperandType::TensorFloat32 => f32::from(value).to_le_bytes().repeat(count),
            OperandType::TensorInt32 => i32::from(value).to_le_bytes().repeat(count),
            OperandType::TensorBool8 => vec![u8::from(value != 0); count],
            OperandType::TensorQuant8Asymm => vec![u8::from(value != 0); count],
            kind => return Err(format!("a constant of {kind}").into()),
        };
        let scale = if kind == OperandType::TensorQuant8Asymm { 1.0 } else { 0.0 };
        Ok(self.builder().made_constant(operand.with_quantization(scale, 0), &bytes))
    }

    /// A constant, if its shape and value are; else FILL does it.
    pub(super) fn fill(&mut self) -> Lowered {
        let value = self.input(1)?;
        if self.constant_dims(0).is_none() && !self.output_tensor(0)?.is_shape_given {
            return Err("the shape that it fills is known at run time alone".into());
        }
        let dims = self.result_dims(0, None)?;
        let count = dims.iter().try_fold(1usize, |product, &extent| {
            product.checked_mul(usize::try_from(extent).ok().filter(|&extent| extent > 0)?)
        });
        let count = count.filter(|&count| count <= MAX_MADE_ELEMENTS);
        let count = count.ok_or_else(|| format!("it fills the shape {dims:?}"))?;
        let index = self.tensor_index(1)?;
        let tensor = &self.import.graph.tensors[index];
        let bytes = self.import.file.data(tensor).filter(|_| self.import.is_constant(index));
        let bytes = bytes.ok_or("its value is not a constant")?;
        if Some(bytes.len()) != self.import.builder.operand(value).data_size() {
            return Err("its value is not a scalar".into());
        }
        let mut operand = self.declared(0)?;
        operand.dimensions = dims;
        let constant = self.builder().made_constant(operand, &bytes.repeat(count));
        self.bind(0, constant)
    }

    pub(super) fn zeros_like(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.known_dims(input)?;
        let kind = self.kind(input);
        let zeros = self.filled(kind, &dims, 0)?;
        self.bind(0, zeros)
    }
}

fn product_of(dims: &[u32]) -> Lowered<u32> {
    let product = dims.iter().try_fold(1u32, |product, &extent| product.checked_mul(extent));
    product.ok_or_else(|| format!("the shape {dims:?} has too many elements").into())
}
