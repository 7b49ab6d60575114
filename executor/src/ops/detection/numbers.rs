//! Operands of any real or quantised type, read and written as `f32`.

use half::f16;
use nnburst_hal::{OperandType, View, ViewMut};
use nnburst_kernels::tensor::poll::{self, Halted};
use nnburst_kernels::tensor::quant::round_half_away;
use nnburst_kernels::tensor::{AlignedBytes, In, OpError, Out, Tensor};

use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::support::bad_kind;

/// Bytes that a run takes from the allocator for each element of its inputs: as a number, within a
/// box, and in a list or two of candidates.
const RUN_BYTES: usize = 64;

/// Charges what a run of an operation takes from the allocator, which depends on its inputs' sizes.
pub(super) fn claim_run(op: &mut OpBuilder<'_>, inputs: &[&Tensor]) -> Lowered {
    let elements = inputs.iter().map(|input| input.shape.elements());
    let elements = elements.fold(0usize, usize::saturating_add);
    op.claim(elements.saturating_mul(RUN_BYTES))
}

/// The quantisation of an operand's elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    kind: OperandType,
    scale: f32,
    zero_point: i32,
}

impl Numbers {
    /// The numbers of input `index`.
    pub(super) fn of(index: usize, tensor: &Tensor) -> Result<Self, OpError> {
        match tensor.kind {
            OperandType::TensorFloat32
            | OperandType::TensorFloat16
            | OperandType::TensorQuant8Asymm
            | OperandType::TensorQuant8AsymmSigned
            | OperandType::TensorQuant16Asymm
            | OperandType::TensorQuant16Symm => {}
            other => return Err(bad_kind(index, other)),
        }
        Ok(Self { kind: tensor.kind, scale: tensor.scale, zero_point: tensor.zero_point })
    }

    /// Element `index` of the bytes.
    pub(super) fn get(self, bytes: View<'_>, index: usize) -> f32 {
        let stored = match self.kind {
            OperandType::TensorFloat32 => return In::<f32>::new(bytes).get(index),
            OperandType::TensorFloat16 => return In::<f16>::new(bytes).get(index).to_f32(),
            OperandType::TensorQuant8Asymm => i32::from(In::<u8>::new(bytes).get(index)),
            OperandType::TensorQuant16Asymm => i32::from(In::<u16>::new(bytes).get(index)),
            OperandType::TensorQuant16Symm => i32::from(In::<i16>::new(bytes).get(index)),
            _ => i32::from(In::<i8>::new(bytes).get(index)),
        };
        #[expect(clippy::cast_precision_loss, reason = "at most 17 bits")]
        let steps = (stored - self.zero_point) as f32;
        steps * self.scale
    }

    /// All elements, each read once, in the place of what `numbers` held.
    ///
    /// # Errors
    /// The run is to end.
    pub(super) fn read(self, bytes: View<'_>, numbers: &mut Vec<f32>) -> Result<(), Halted> {
        numbers.clear();
        if self.kind == OperandType::TensorFloat32 {
            let floats = In::<f32>::new(bytes);
            numbers.resize(floats.len(), 0.0);
            for (at, chunk) in numbers.chunks_mut(poll::CHUNK).enumerate() {
                poll::work(chunk.len() / 4)?;
                let first = at * poll::CHUNK;
                floats.slice(first..first + chunk.len()).copy_to(chunk);
            }
            return Ok(());
        }
        let len = bytes.len() / self.kind.element_bytes().unwrap_or(1);
        numbers.extend(poll::each(0..len, 4).map(|index| self.get(bytes, index)));
        poll::work(0)
    }

    /// All elements, each read once.
    ///
    /// # Errors
    /// The run is to end.
    pub(super) fn to_vec(self, bytes: View<'_>) -> Result<Vec<f32>, Halted> {
        let mut numbers = Vec::new();
        self.read(bytes, &mut numbers).map(|()| numbers)
    }

    /// Writes element `index`; where quantised, the zero point is added before rounding.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the stored range"
    )]
    pub(super) fn set(self, bytes: ViewMut<'_>, index: usize, value: f32) {
        let stored = || round_half_away(value / self.scale + self.zero_point as f32);
        match self.kind {
            OperandType::TensorFloat32 => Out::<f32>::new(bytes).set(index, value),
            OperandType::TensorFloat16 => {
                Out::<f16>::new(bytes).set(index, f16::from_f32(value));
            }
            OperandType::TensorQuant8Asymm => {
                Out::<u8>::new(bytes).set(index, stored().clamp(0, 255) as u8);
            }
            OperandType::TensorQuant16Asymm => {
                Out::<u16>::new(bytes).set(index, stored().clamp(0, 65_535) as u16);
            }
            OperandType::TensorQuant16Symm => {
                Out::<i16>::new(bytes).set(index, stored().clamp(-32_768, 32_767) as i16);
            }
            _ => Out::<i8>::new(bytes).set(index, stored().clamp(-128, 127) as i8),
        }
    }

    /// Memory that holds these values.
    pub(super) fn pack(self, values: &[f32]) -> AlignedBytes {
        let element = self.kind.element_bytes().unwrap_or(1);
        let mut bytes = AlignedBytes::zeroed(values.len() * element);
        let view = bytes.view_mut();
        for (index, &value) in poll::each(values.iter().enumerate(), 8) {
            self.set(view, index, value);
        }
        bytes
    }
}

/// All elements of the first inputs.
///
/// # Errors
/// The run is to end.
pub(super) fn operands<const N: usize>(
    io: &Io<'_>,
    numbers: [Numbers; N],
) -> Result<[Vec<f32>; N], Halted> {
    let mut all = [const { Vec::new() }; N];
    read_operands(io, numbers, &mut all)?;
    Ok(all)
}

/// The same, in storage that is used again.
///
/// # Errors
/// The run is to end.
pub(super) fn read_operands<const N: usize>(
    io: &Io<'_>,
    numbers: [Numbers; N],
    all: &mut [Vec<f32>; N],
) -> Result<(), Halted> {
    for (index, (values, numbers)) in all.iter_mut().zip(numbers).enumerate() {
        numbers.read(io.input_bytes(index), values)?;
    }
    Ok(())
}

/// Memory that holds these integers.
pub(super) fn pack_i32(values: &[i32]) -> AlignedBytes {
    AlignedBytes::copy_of(bytemuck::cast_slice(values))
}
