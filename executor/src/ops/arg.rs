//! ARGMAX, ARGMIN and TOPK_V2: where the extremes are.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::tensor::poll::Halted;
use nnburst_kernels::tensor::{Element, OpError, Shape, poll};

use super::Op;
use super::extremes::Extremes;
use super::sort::{Ranked, sort_by};
use super::support::{bad_kind, compiled, plain, same_quantisation};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static ARGMAX: Op = Op { lower: |op| lower_arg(op, true) };
pub(super) static ARGMIN: Op = Op { lower: |op| lower_arg(op, false) };
pub(super) static TOPK_V2: Op = Op { lower: lower_topk };

/// Instantiates a generic function for any type that has an order; quantised types by their bytes.
macro_rules! ordered {
    ($kind:expr, $f:ident($($arg:expr),*)) => {
        match $kind {
            OperandType::TensorFloat32 => $f::<f32>($($arg),*),
            OperandType::TensorFloat16 => $f::<f16>($($arg),*),
            OperandType::TensorInt32 => $f::<i32>($($arg),*),
            OperandType::TensorQuant8Asymm => $f::<u8>($($arg),*),
            OperandType::TensorQuant8AsymmSigned => $f::<i8>($($arg),*),
            other => Err(bad_kind(0, other).into()),
        }
    };
}

/// The first of equals wins; the axis goes, and what is left of one axis is `[1]`.
///
/// Source: NNAPI `ARGMAX`, `ARGMIN`, since HAL 1.2.
fn lower_arg(op: &mut OpBuilder<'_>, largest: bool) -> Lowered {
    let input = op.input(0)?;
    let axis = input.shape.axis(op.i32(1)?)?;
    let mut extents = input.shape.to_vec();
    if extents.remove(axis) == 0 {
        return Err(
            OpError::input(0, format!("of {:?} has nothing along {axis}", input.shape)).into()
        );
    }
    if extents.is_empty() {
        extents.push(1);
    }
    op.set_output(0, Shape::new(extents)?)?;
    ordered!(input.kind, emit_arg(op, &input.shape, axis, largest))
}

fn emit_arg<T: Element>(
    op: &mut OpBuilder<'_>,
    shape: &Shape,
    axis: usize,
    largest: bool,
) -> Lowered {
    let extremes = Extremes::new(op.isa(), shape.around(axis), largest);
    let label = compiled(op.isa(), "arg", shape, shape.elements() as u64);
    let bytes = extremes.scratch_len() * size_of::<T>();
    op.emit_with_scratch(label, bytes, move |mut io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<i32>(0));
        Ok(extremes.find(input, output, io.scratch_slice())?)
    });
    Ok(())
}

/// Values in descending order; of equal ones the larger index comes first, as in the reference,
/// which sorts pairs of value and index.
///
/// Source: NNAPI `TOPK_V2`, since HAL 1.2.
fn lower_topk(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let k = op.extent(1, 1)?;
    let extent = input.shape.last().copied().unwrap_or(0);
    if k > extent {
        return Err(
            OpError::input(1, format!("is {k}, more than the {extent} elements of a row")).into()
        );
    }
    let mut extents = input.shape.to_vec();
    if let Some(last) = extents.last_mut() {
        *last = k;
    }
    let shape = Shape::new(extents)?;
    op.set_output(0, shape.clone())?;
    op.set_output(1, shape)?;
    ordered!(input.kind, emit_topk(op, extent, k))
}

fn emit_topk<T: Ranked>(op: &mut OpBuilder<'_>, extent: usize, k: usize) -> Lowered {
    let shape = op.output(0)?.shape;
    let rows = shape.elements() / k;
    // What is sorted in chunks takes a buffer as long as the row.
    let buffer = if extent > poll::CHUNK { extent } else { 0 };
    let bytes = (extent + buffer) * 8 + extent * size_of::<T>();
    op.emit_with_scratch(plain("topk", &shape, 0), bytes, move |mut io: Io<'_>| {
        let input = io.input::<T>(0);
        let (values, indices) = (io.output::<T>(0), io.output::<i32>(1));
        let (order, own) = io.scratch_slice::<u8>().split_at_mut((extent + buffer) * 8);
        // A row is copied once: it may change while it is sorted.
        let own: &mut [T] = bytemuck::cast_slice_mut(own);
        let (order, buffer) = bytemuck::cast_slice_mut(order).split_at_mut(extent);
        for row in 0..rows {
            poll::work(extent * 2)?;
            input.slice(row * extent..(row + 1) * extent).copy_to(own);
            for ((key, value), index) in order.iter_mut().zip(&*own).zip(0u32..) {
                *key = u64::from(value.rank()) << 32 | u64::from(index);
            }
            greatest_first(order, buffer)?;
            for (at, &key) in order.iter().take(k).enumerate() {
                let [index, ..] = bytemuck::cast::<_, [u32; 2]>(key.to_le());
                values.set(row * k + at, own[index as usize]);
                indices.set(row * k + at, index.cast_signed());
            }
        }
        Ok(())
    });
    Ok(())
}

fn greatest_first(keys: &mut [u64], buffer: &mut [u64]) -> Result<(), Halted> {
    sort_by(keys, buffer, |a, b| b.cmp(a))
}
