//! SELECT: one of two tensors, element by element. All three operands have one shape.

use nnburst_hal::OperandType;
use nnburst_kernels::tensor::quant::requantise;
use nnburst_kernels::tensor::{Element, OpError, Quantised, Tensor, poll};

use super::Op;
use super::support::{bad_kind, by_width, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static SELECT: Op = Op { lower };

/// Quantised operands are brought to the output's parameters.
///
/// Source: NNAPI `SELECT`, since HAL 1.2.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (condition, a, b) = (op.input(0)?, op.input(1)?, op.input(2)?);
    if condition.shape != a.shape || a.shape != b.shape || a.kind != b.kind {
        let what = format!(
            "condition of {:?}, {} of {:?} and {} of {:?}",
            condition.shape, a.kind, a.shape, b.kind, b.shape
        );
        return Err(OpError::rule(what).into());
    }
    op.set_output(0, a.shape.clone())?;
    match a.kind {
        OperandType::TensorQuant8Asymm => quantised::<u8>(op, &a, &b),
        OperandType::TensorQuant8AsymmSigned => quantised::<i8>(op, &a, &b),
        OperandType::TensorFloat32 | OperandType::TensorFloat16 | OperandType::TensorInt32 => {
            by_width!(a.kind, plainly(op))
        }
        other => Err(bad_kind(1, other).into()),
    }
}

fn plainly<T: Element>(op: &mut OpBuilder<'_>) -> Lowered {
    emit(op, |a: T| a, |b: T| b)
}

fn quantised<T: Quantised>(op: &mut OpBuilder<'_>, a: &Tensor, b: &Tensor) -> Lowered {
    let out = op.output(0)?;
    let to_output = |from: &Tensor| {
        let (from, to) = ((from.scale, from.zero_point), (out.scale, out.zero_point));
        move |q: T| T::from_i32(requantise(q.to_i32(), from, to, T::MIN, T::MAX))
    };
    emit(op, to_output(a), to_output(b))
}

fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    of_a: impl Fn(T) -> T + Send + Sync + 'static,
    of_b: impl Fn(T) -> T + Send + Sync + 'static,
) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit(plain("select", &shape, 0), move |io: Io<'_>| {
        let condition = io.input::<u8>(0);
        let (a, b, output) = (io.input::<T>(1), io.input::<T>(2), io.output::<T>(0));
        for at in poll::each(0..output.len(), 4) {
            let value = if condition.get(at) != 0 { of_a(a.get(at)) } else { of_b(b.get(at)) };
            output.set(at, value);
        }
        Ok(())
    });
    Ok(())
}
