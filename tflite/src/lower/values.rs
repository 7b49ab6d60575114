//! The parts that operators share: float weights out of compressed ones, biases, integers known at
//! import.

use nnburst_hal::{Operand, OperandType, OperationType};

use super::{Lower, Lowered, MAX_MADE_ELEMENTS, axis_of, blockwise};
use crate::flatbuffer::Field;
use crate::operand::{is_quantized, operand_of};
use crate::schema::options::{self, OptionsKind};
use crate::schema::{Builtin, Tensor, TensorKind};

/// Constant integers of more elements than this aren't computed at import.
const MAX_FOLDED: usize = 1 << 16;

impl Lower<'_, '_> {
    /// An argument as the weights of an operation over `input`: where the input is FLOAT32 and the
    /// weights are not, they are widened. Converters compress weights this way ("dynamic range"),
    /// and the interpreter quantises activations on the fly; NNAPI has no such operation, so that
    /// what comes out is that of the widened network.
    pub(super) fn weights(&mut self, argument: usize, input: u32) -> Lowered<u32> {
        let index = self.tensor_index(argument)?;
        if self.import.graph.tensors[index].quantization.blockwise.is_some() {
            return self.blockwise_weights(index);
        }
        let kind = operand_of(&self.import.graph.tensors[index])?.kind;
        let narrow = is_quantized(kind) || kind == OperandType::TensorFloat16;
        if self.kind(input) != OperandType::TensorFloat32 || !narrow {
            return self.import.value(index);
        }
        if let Some(&widened) = self.import.widened.get(&index) {
            return Ok(widened);
        }
        let value = self.symmetric(index)?;
        let dims = self.import.builder.dims(value).to_vec();
        let widened = self.builder().temporary(OperandType::TensorFloat32, dims);
        let with = match kind {
            OperandType::TensorFloat16 => OperationType::Cast,
            _ => OperationType::Dequantize,
        };
        self.emit(with, &[value], &[widened]);
        self.import.widened.insert(index, widened);
        Ok(widened)
    }

    /// A constant with scales of blocks as FLOAT32, computed at import.
    pub(super) fn blockwise_weights(&mut self, index: usize) -> Lowered<u32> {
        if let Some(&widened) = self.import.widened.get(&index) {
            return Ok(widened);
        }
        let reals = blockwise::blocks(self.import.file, self.import.graph, index)?.reals();
        let shape = self.import.graph.tensors[index].shape.clone();
        let operand = Operand::tensor(OperandType::TensorFloat32, shape);
        let bytes: Vec<u8> = reals.into_iter().flat_map(f32::to_le_bytes).collect();
        let widened = self.builder().made_constant(operand, &bytes);
        self.import.widened.insert(index, widened);
        Ok(widened)
    }

    /// A constant with scales of blocks as its integers, of scale 1, and the scales as FLOAT32
    /// `[units, blocks of a row]`. A block has a multiple of `word` elements.
    pub(super) fn blockwise_integers(&mut self, index: usize, word: usize) -> Lowered<[u32; 2]> {
        let blocks = blockwise::blocks(self.import.file, self.import.graph, index)?;
        if !blocks.block.is_multiple_of(word) {
            return Err(format!("its weights have scales of blocks of {}", blocks.block).into());
        }
        if let Some(scale) = blocks.scales.iter().find(|scale| !scale.is_finite()) {
            return Err(format!("its weights have a block of scale {scale}").into());
        }
        let shape = self.import.graph.tensors[index].shape.clone();
        let [units, _] = shape[..] else {
            return Err(format!("its weights have the shape {shape:?}").into());
        };
        let count = u32::try_from(blocks.scales.len()).unwrap_or(u32::MAX);
        let scales = vec![units, count.checked_div(units).unwrap_or(0)];
        let scales = Operand::tensor(OperandType::TensorFloat32, scales);
        let bytes: Vec<u8> = blocks.scales.iter().flat_map(|x| x.to_le_bytes()).collect();
        let scales = self.builder().made_constant(scales, &bytes);
        let weights = Operand::tensor(OperandType::TensorQuant8AsymmSigned, shape);
        let weights = weights.with_quantization(1.0, 0);
        Ok([self.builder().made_constant(weights, &blocks.integers), scales])
    }

    /// The value of a tensor; INT8 constants without a zero point as TENSOR_QUANT8_SYMM, which HAL
    /// 1.2 dequantises while the asymmetric signed type needs 1.3.
    pub(super) fn symmetric(&mut self, index: usize) -> Lowered<u32> {
        let tensor = &self.import.graph.tensors[index];
        let operand = operand_of(tensor)?;
        let fits = operand.kind == OperandType::TensorQuant8AsymmSigned && operand.zero_point == 0;
        if !fits || !self.import.is_constant(index) || self.import.values[index].is_some() {
            return self.import.value(index);
        }
        let operand = Operand { kind: OperandType::TensorQuant8Symm, ..operand };
        self.import.constant_as(index, operand)
    }

    /// The bias of a convolution or dense layer with so many outputs: INT32 in steps of input times
    /// weights for quantised layers, whatever scale the file gives it, since that is what the
    /// arithmetic means. A missing one is zero.
    pub(super) fn bias(
        &mut self,
        argument: usize,
        input: u32,
        weights: u32,
        outputs: u32,
    ) -> Lowered<u32> {
        let (x, w) = (self.import.builder.operand(input), self.import.builder.operand(weights));
        let float = !is_quantized(x.kind);
        let scale = if float { 0.0 } else { x.scale * w.scale };
        let kind = if float { x.kind } else { OperandType::TensorInt32 };
        let wanted = Operand::tensor(kind, vec![outputs]).with_quantization(scale, 0);
        if !self.has(argument) {
            let bytes = wanted.data_size().filter(|&bytes| bytes <= 4 * MAX_MADE_ELEMENTS);
            let bytes = bytes.ok_or("its number of outputs is not known")?;
            return Ok(self.builder().made_constant(wanted, &vec![0; bytes]));
        }
        let index = self.tensor_index(argument)?;
        if float {
            return self.weights(argument, input);
        }
        if !self.import.is_constant(index) {
            let bias = self.import.value(index)?;
            // What the file says of its scale is lost, INT32 being plain numbers elsewhere.
            let operand = self.builder().operand_mut(bias);
            if operand.kind == OperandType::TensorInt32 && operand.scale == 0.0 {
                operand.scale = scale;
            }
            return Ok(bias);
        }
        let tensor = &self.import.graph.tensors[index];
        if tensor.kind != TensorKind::Int32 || tensor.shape != [outputs] {
            return Err(format!(
                "its bias is {}{:?}, not INT32[{outputs}]",
                tensor.kind.name(),
                tensor.shape
            )
            .into());
        }
        self.import.constant_as(index, wanted)
    }

    /// A constant of INT16 or INT32 with one scale as FLOAT32, computed at import since NNAPI
    /// dequantises neither.
    pub(super) fn float_constant(&mut self, argument: usize) -> Lowered<u32> {
        let tensor = self.tensor(argument)?;
        let index = self.tensor_index(argument)?;
        let data = self.import.file.data(tensor).filter(|_| self.import.is_constant(index));
        let data = data.ok_or_else(|| format!("input {argument} is no constant"))?;
        let &[scale] = tensor.quantization.scales.as_slice() else {
            return Err(format!("input {argument} has not one scale").into());
        };
        let reals: Vec<f32> = match tensor.kind {
            TensorKind::Int16 => {
                let (integers, _) = data.as_chunks();
                integers.iter().map(|&bytes| f32::from(i16::from_le_bytes(bytes)) * scale).collect()
            }
            TensorKind::Int32 => {
                let (integers, _) = data.as_chunks();
                let real = |bytes| f64::from(i32::from_le_bytes(bytes)) * f64::from(scale);
                #[expect(clippy::cast_possible_truncation, reason = "FLOAT32 is what is asked for")]
                integers.iter().map(|&bytes| real(bytes) as f32).collect()
            }
            kind => return Err(format!("input {argument} is {}", kind.name()).into()),
        };
        let operand = Operand::tensor(OperandType::TensorFloat32, tensor.shape.clone());
        if operand.element_count() != Some(reals.len()) {
            return Err(format!("input {argument} has {} elements", reals.len()).into());
        }
        let bytes: Vec<u8> = reals.into_iter().flat_map(f32::to_le_bytes).collect();
        Ok(self.builder().made_constant(operand, &bytes))
    }

    /// A state that the file keeps as integers, kept as FLOAT32.
    pub(super) fn float_state(&mut self, argument: usize) -> Lowered<u32> {
        let index = self.tensor_index(argument)?;
        if let Some(value) = self.import.values[index] {
            return Ok(value);
        }
        let tensor = &self.import.graph.tensors[index];
        let operand = Operand::tensor(OperandType::TensorFloat32, tensor.shape.clone());
        self.import.add_state(index, operand)
    }

    /// Computes the operator at import if its results are integers that follow from shapes and
    /// constants: converters leave such arithmetic behind where shapes were dynamic once. Tells if
    /// it did.
    pub(super) fn fold(&mut self) -> Lowered<bool> {
        let results = self.op.outputs.iter().map(|&index| &self.import.graph.tensors[index]);
        let results: Vec<&Tensor> = results.collect();
        let is_integer =
            |tensor: &&Tensor| matches!(tensor.kind, TensorKind::Int32 | TensorKind::Int64);
        if !results.iter().all(is_integer) {
            return Ok(false);
        }
        let Some(values) = self.folded_results() else { return Ok(false) };
        if values.len() != results.len()
            || !values.iter().zip(&results).all(|(values, tensor)| is_held_by(tensor, values))
        {
            return Ok(false);
        }
        for (&index, values) in self.op.outputs.iter().zip(values) {
            if self.import.values[index].is_some() {
                let name = &self.import.graph.tensors[index].name;
                return Err(format!("tensor {name:?} is written twice").into());
            }
            self.import.folded.insert(index, values);
        }
        Ok(true)
    }

    /// The values of each result.
    fn folded_results(&self) -> Option<Vec<Vec<i64>>> {
        let (axis, sizes) = match self.builtin() {
            Builtin::SplitV => {
                let whole = self.constant_ints(0).ok()?.len();
                (i64::from(self.constant_int(2).ok()?), self.split_sizes(whole)?)
            }
            Builtin::Unpack => {
                let axis = self.options(options::unpack::KIND).ok()?;
                let axis = axis.int(options::unpack::AXIS, 0).ok()?;
                (i64::from(axis), vec![1; self.op.outputs.len()])
            }
            _ => return Some(vec![self.folded_values()?]),
        };
        // The parts of a list.
        let rank = self.tensor(0).ok()?.shape.len();
        (rank == 1 && axis_of(axis, rank).is_ok()).then_some(())?;
        let mut rest = self.constant_ints(0).ok()?;
        let mut parts = Vec::new();
        for size in sizes {
            let behind = (size <= rest.len()).then(|| rest.split_off(size))?;
            parts.push(std::mem::replace(&mut rest, behind));
        }
        rest.is_empty().then_some(parts)
    }

    fn folded_values(&self) -> Option<Vec<i64>> {
        use options as o;
        let ints = |argument| self.constant_ints(argument).ok();
        match self.builtin() {
            Builtin::Shape => {
                let dims = self.static_dims(0)?;
                Some(dims.into_iter().map(i64::from).collect())
            }
            Builtin::Rank => Some(vec![i64::try_from(self.static_dims(0)?.len()).ok()?]),
            Builtin::Reshape | Builtin::Squeeze | Builtin::ExpandDims | Builtin::Cast => ints(0),
            Builtin::Pack | Builtin::Concatenation => {
                if self.joined_axis()? != 0 {
                    return None;
                }
                let parts = (0..self.op.inputs.len()).map(ints).collect::<Option<Vec<_>>>()?;
                Some(parts.concat())
            }
            Builtin::Gather => self.fold_gather(),
            Builtin::Slice => {
                let values = ints(0)?;
                let (&[begin], &[size]) = (&ints(1)?[..], &ints(2)?[..]) else { return None };
                let rest = values.get(usize::try_from(begin).ok()?..)?;
                let size = if size == -1 { rest.len() } else { usize::try_from(size).ok()? };
                rest.get(..size).map(<[i64]>::to_vec)
            }
            Builtin::StridedSlice => self.fold_slice(),
            Builtin::ReduceProd => {
                (self.output_tensor(0).ok()?.shape.iter().all(|&extent| extent == 1))
                    .then_some(())?;
                ints(0)?.into_iter().try_fold(1i64, i64::checked_mul).map(|product| vec![product])
            }
            Builtin::UnsortedSegmentProd => self.fold_segments(),
            Builtin::Add => {
                self.fold_arithmetic(o::add::KIND, o::add::ACTIVATION, i64::checked_add)
            }
            Builtin::Sub => {
                self.fold_arithmetic(o::sub::KIND, o::sub::ACTIVATION, i64::checked_sub)
            }
            Builtin::Mul => {
                self.fold_arithmetic(o::mul::KIND, o::mul::ACTIVATION, i64::checked_mul)
            }
            Builtin::FloorDiv => self.fold_pairs(|a, b| {
                let quotient = a.checked_div(b)?;
                let inexact = a.checked_rem(b)? != 0;
                if inexact && (a < 0) != (b < 0) { quotient.checked_sub(1) } else { Some(quotient) }
            }),
            Builtin::FloorMod => self.fold_pairs(|a, b| {
                let rest = a.checked_rem(b)?;
                if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
            }),
            Builtin::Maximum => self.fold_pairs(|a, b| Some(a.max(b))),
            Builtin::Minimum => self.fold_pairs(|a, b| Some(a.min(b))),
            _ => None,
        }
    }

    /// The extents of an argument if all are known.
    fn static_dims(&self, argument: usize) -> Option<Vec<u32>> {
        let index = self.optional_tensor(argument)?;
        let dims = match self.import.values[index] {
            Some(value) => self.import.builder.dims(value),
            None => &self.import.graph.tensors[index].shape,
        };
        let scalar = self.import.graph.tensors[index].is_scalar();
        (!dims.is_empty() && !dims.contains(&0) && !scalar).then(|| dims.to_vec())
    }

    /// As [`Self::fold_pairs`], of an operator that may have an activation, which is left to runs.
    fn fold_arithmetic(
        &self,
        options: OptionsKind,
        activation: Field,
        apply: impl Fn(i64, i64) -> Option<i64>,
    ) -> Option<Vec<i64>> {
        let has_none = self.options(options).ok()?.byte(activation).ok()? == 0;
        has_none.then(|| self.fold_pairs(apply))?
    }

    fn fold_pairs(&self, apply: impl Fn(i64, i64) -> Option<i64>) -> Option<Vec<i64>> {
        let (a, b) = (self.constant_ints(0).ok()?, self.constant_ints(1).ok()?);
        let at = |values: &[i64], i: usize| if values.len() == 1 { values[0] } else { values[i] };
        if a.is_empty() || b.is_empty() || (a.len() != b.len() && a.len() != 1 && b.len() != 1) {
            return None;
        }
        (0..a.len().max(b.len())).map(|i| apply(at(&a, i), at(&b, i))).collect()
    }

    /// The products of extents that are to become one, as where a tensor is made a matrix.
    fn fold_segments(&self) -> Option<Vec<i64>> {
        const MOST: usize = 64;
        let (values, segments) = (self.constant_ints(0).ok()?, self.constant_ints(1).ok()?);
        let count = usize::try_from(self.one_int(2)?).ok().filter(|&count| count <= MOST)?;
        (values.len() == segments.len()).then_some(())?;
        let mut products = vec![1i64; count];
        for (value, segment) in values.into_iter().zip(segments) {
            let product = products.get_mut(usize::try_from(segment).ok()?)?;
            *product = product.checked_mul(value)?;
        }
        Some(products)
    }

    fn fold_gather(&self) -> Option<Vec<i64>> {
        let values = self.constant_ints(0).ok()?;
        (self.tensor(0).ok()?.shape.len() == 1).then_some(())?;
        let indexes = self.constant_ints(1).ok()?;
        indexes.iter().map(|&index| values.get(usize::try_from(index).ok()?).copied()).collect()
    }

    /// The axis along which PACK or CONCATENATION joins its inputs, in the result.
    fn joined_axis(&self) -> Option<usize> {
        use options::{concatenation, pack};
        let (kind, field) = match self.builtin() {
            Builtin::Pack => (pack::KIND, pack::AXIS),
            _ => (concatenation::KIND, concatenation::AXIS),
        };
        let axis = self.options(kind).ok()?.int(field, 0).ok()?;
        let rank = self.output_tensor(0).ok()?.shape.len();
        axis_of(i64::from(axis), rank).ok()
    }

    fn fold_slice(&self) -> Option<Vec<i64>> {
        let values = self.constant_ints(0).ok()?;
        let dims = &self.tensor(0).ok()?.shape;
        let plan = self.slice_plan(dims).ok()?;
        let ranges = (0..dims.len()).map(|axis| plan.range(axis)).collect::<Option<Vec<_>>>()?;
        if ranges.iter().any(|&(_, _, count)| count == 0) {
            return Some(Vec::new());
        }
        // Ranges are clamped to their extents, but not the index that an axis shrinks to.
        let mut begins = ranges.iter().zip(dims).map(|(range, &extent)| (range.0, extent));
        begins.all(|(begin, extent)| (0..i64::from(extent)).contains(&begin)).then_some(())?;
        // Offsets of the elements, the last axis moving fastest.
        let mut offsets = vec![0];
        for (&(begin, stride, count), &extent) in ranges.iter().zip(dims) {
            let first = |&offset: &i64| offset * i64::from(extent) + begin;
            let along = |offset| (0..count).map(move |i| first(offset) + i * stride);
            offsets = offsets.iter().flat_map(along).collect();
        }
        let value = |&at: &i64| values.get(usize::try_from(at).ok()?).copied();
        offsets.iter().map(value).collect()
    }

    /// The axis that an argument names.
    pub(super) fn constant_axis(&self, argument: usize, rank: usize) -> Lowered<usize> {
        axis_of(i64::from(self.constant_int(argument)?), rank)
    }
}

/// Returns whether a tensor has room for as many integers, and they are few and in its range.
fn is_held_by(tensor: &Tensor, values: &[i64]) -> bool {
    let mut extents = tensor.shape.iter().map(|&extent| usize::try_from(extent).ok());
    let wanted = extents.try_fold(1usize, |count, extent| count.checked_mul(extent?));
    let is_in_range =
        |&value: &i64| tensor.kind != TensorKind::Int32 || i32::try_from(value).is_ok();
    wanted == Some(values.len()) && values.len() <= MAX_FOLDED && values.iter().all(is_in_range)
}
