//! CAST: between number types, without regard to quantisation.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::tensor::{Element, OpError};

use super::Op;
use super::support::{bad_kind, by_width, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static CAST: Op = Op { lower };

/// Any pair of FLOAT16, FLOAT32, INT32 and QUANT8_ASYMM (as plain unsigned bytes); other types to
/// themselves alone. To bytes values are clamped, then cut; to INT32 they are cut and saturate.
///
/// Source: NNAPI `CAST`, since HAL 1.2; types to themselves since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (from, to) = (op.input(0)?, op.output(0)?);
    op.set_output(0, from.shape.clone())?;
    match (from.kind, to.kind) {
        (from, to) if from == to => by_width!(from, copy(op)),
        (OperandType::TensorFloat16, to) => to_kind::<f16>(op, to, |x| f64::from(x.to_f32())),
        (OperandType::TensorFloat32, to) => to_kind::<f32>(op, to, f64::from),
        (OperandType::TensorInt32, to) => to_kind::<i32>(op, to, f64::from),
        (OperandType::TensorQuant8Asymm, to) => to_kind::<u8>(op, to, f64::from),
        (from, to) => Err(OpError::rule(format!("no cast from {from} to {to}")).into()),
    }
}

fn copy<T: Element>(op: &mut OpBuilder<'_>) -> Lowered {
    emit::<T, T>(op, |x| x)
}

/// Every number of the four types is exact as `f64`, so one step between suffices.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts cut and saturate, which is the rule"
)]
fn to_kind<T: Element>(
    op: &mut OpBuilder<'_>,
    to: OperandType,
    wide: impl Fn(T) -> f64 + Send + Sync + 'static,
) -> Lowered {
    match to {
        OperandType::TensorFloat16 => emit(op, move |x| f16::from_f64(wide(x))),
        OperandType::TensorFloat32 => emit(op, move |x| wide(x) as f32),
        OperandType::TensorInt32 => emit(op, move |x| wide(x) as i32),
        OperandType::TensorQuant8Asymm => emit(op, move |x| wide(x) as u8),
        other => Err(bad_kind(0, other).into()),
    }
}

fn emit<T: Element, U: Element>(
    op: &mut OpBuilder<'_>,
    cast: impl Fn(T) -> U + Send + Sync + 'static,
) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit(plain("cast", &shape, 0), move |io: Io<'_>| {
        io.output::<U>(0).fill(io.input::<T>(0).iter().map(&cast));
        Ok(())
    });
    Ok(())
}
