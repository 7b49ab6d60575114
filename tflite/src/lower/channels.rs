//! Constants that the file quantises per channel itself: QUANTIZE and DEQUANTIZE of weights, where
//! the rounding was trained but the network stays one of floats.

use super::{Lower, Lowered, MAX_MADE_ELEMENTS};
use crate::schema::{Builtin, Tensor, TensorKind};
use nnburst_hal::{Operand, OperandType};

impl Lower<'_, '_> {
    /// Computes the operator at import if it quantises a constant by several scales, or makes
    /// floats of one that was: no operand has zero points per channel, and none of these is needed.
    /// Tells if it did.
    pub(super) fn fold_channels(&mut self) -> Lowered<bool> {
        match self.builtin() {
            Builtin::Quantize => self.quantise_channels(),
            Builtin::Dequantize if self.begins_variable()? => Ok(true),
            Builtin::Dequantize => self.dequantise_channels(),
            _ => Ok(false),
        }
    }

    /// Whether the operator does no more than to give a variable its zeros before the first
    /// inference, as converters have it where they made constants FLOAT16: the interpreter runs it
    /// once, and zeros are what variables begin with.
    fn begins_variable(&self) -> Lowered<bool> {
        let from = &self.import.graph.tensors[self.tensor_index(0)?];
        let data = self.import.file.data(from).filter(|_| from.kind == TensorKind::Float16);
        let is_zero = data.is_some_and(|data| data.iter().all(|&byte| byte == 0));
        Ok(is_zero && self.output_tensor(0)?.is_variable)
    }

    fn quantise_channels(&mut self) -> Lowered<bool> {
        let (index, to) = (self.tensor_index(0)?, self.output_tensor(0)?);
        let from = &self.import.graph.tensors[index];
        let is_read = from.kind == TensorKind::Float32 && from.shape == to.shape;
        let data =
            self.import.file.data(from).filter(|_| is_read && self.import.is_constant(index));
        let size = Operand::tensor(OperandType::TensorFloat32, from.shape.clone()).data_size();
        let before: usize = self.import.rounded.values().map(Vec::len).sum();
        let fits = |data: &&[u8]| before + data.len() / 4 <= MAX_MADE_ELEMENTS;
        let data = data.filter(|data| size == Some(data.len())).filter(fits);
        let (Some(data), Some(channels)) = (data, Channels::of(to)) else { return Ok(false) };
        let floats = data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        let reals = floats.enumerate().map(|(at, x)| channels.rounded(at, x)).collect();
        self.import.rounded.insert(self.op.outputs[0], reals);
        Ok(true)
    }

    fn dequantise_channels(&mut self) -> Lowered<bool> {
        let index = self.tensor_index(0)?;
        let to = self.output_tensor(0)?;
        if to.kind != TensorKind::Float32 {
            return Ok(false);
        }
        // Once, or a small file could ask for many copies.
        let Some(reals) = self.import.rounded.remove(&index) else { return Ok(false) };
        let bytes: Vec<u8> = reals.iter().flat_map(|real| real.to_le_bytes()).collect();
        let shape = self.import.graph.tensors[index].shape.clone();
        let operand = Operand::tensor(OperandType::TensorFloat32, shape);
        let value = self.builder().made_constant(operand, &bytes);
        self.bind(0, value)?;
        Ok(true)
    }
}

/// Scales and zero points along a dimension of a tensor.
struct Channels<'a> {
    scales: &'a [f32],
    zero_points: &'a [i64],
    /// The number of elements that have the same channel, one behind the other.
    inner: usize,
    range: (f32, f32),
}

impl<'a> Channels<'a> {
    /// `None` where the tensor has one scale at most, or another number of them than of channels.
    fn of(tensor: &'a Tensor) -> Option<Self> {
        let range = match tensor.kind {
            TensorKind::Uint8 => (0.0, 255.0),
            TensorKind::Int8 => (-128.0, 127.0),
            TensorKind::Int16 => (-32768.0, 32767.0),
            _ => return None,
        };
        let quantization = &tensor.quantization;
        let (scales, zero_points) = (&quantization.scales[..], &quantization.zero_points[..]);
        let dimension = usize::try_from(quantization.dimension).ok()?;
        let extent = usize::try_from(*tensor.shape.get(dimension)?).ok()?;
        let is_whole = scales.len() == extent && zero_points.len() == extent && extent > 1;
        let mut inner = tensor.shape[dimension + 1..].iter();
        let inner =
            inner.try_fold(1usize, |all, &it| all.checked_mul(usize::try_from(it).ok()?))?;
        (is_whole && inner > 0).then_some(Self { scales, zero_points, inner, range })
    }

    /// What element `at` is once it was rounded to a step of its scale.
    fn rounded(&self, at: usize, x: f32) -> f32 {
        let channel = at / self.inner % self.scales.len();
        let (scale, zero_point) = (self.scales[channel], self.zero_points[channel] as f32);
        let stored = ((x / scale).round() + zero_point).clamp(self.range.0, self.range.1);
        scale * (stored - zero_point)
    }
}
