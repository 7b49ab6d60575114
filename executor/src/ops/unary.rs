//! Functions of one number: ABS, NEG, FLOOR, EXP, LOG, RSQRT, SIN, SQRT, ELU.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::tensor::{Element, Real};

use super::Op;
use super::support::{bad_kind, by_real, compiled, emit_each};
use crate::lowering::recipe::Recipe;
use crate::lowering::{Lowered, OpBuilder};

pub(super) static ABS: Op = Op { lower: |op| lower(op, |x| x.abs(), Some(i32::wrapping_abs)) };
pub(super) static NEG: Op = Op { lower: |op| lower(op, |x| -x, Some(i32::wrapping_neg)) };
pub(super) static FLOOR: Op = Op { lower: |op| lower(op, |x| x.floor(), None) };
pub(super) static EXP: Op = Op { lower: |op| lower(op, |x| x.exp(), None) };
pub(super) static LOG: Op = Op { lower: |op| lower(op, |x| x.ln(), None) };
pub(super) static RSQRT: Op = Op { lower: lower_inverse_root };
pub(super) static SIN: Op = Op { lower: |op| lower(op, |x| x.sin(), None) };
pub(super) static SQRT: Op = Op { lower: |op| lower(op, |x| x.sqrt(), None) };
pub(super) static ELU: Op = Op { lower: lower_elu };

/// FLOAT16 is computed in `f32` and rounded once; INT32, where it is known, wraps. `real` is a
/// closure, as one behind a pointer would not become vectors.
///
/// Source: NNAPI `FLOOR`, since HAL 1.0; the others since 1.2; INT32 for `ABS` since 1.3.
fn lower(
    op: &mut OpBuilder<'_>,
    real: impl Fn(f32) -> f32 + Send + Sync + 'static,
    integer: Option<fn(i32) -> i32>,
) -> Lowered {
    match (op.input_kind(0)?, integer) {
        (OperandType::TensorFloat32, _) => emit(op, real),
        (OperandType::TensorFloat16, _) => emit(op, move |x: f16| f16::from_f32(real(x.to_f32()))),
        (OperandType::TensorInt32, Some(integer)) => emit(op, integer),
        (other, _) => Err(bad_kind(0, other).into()),
    }
}

fn lower_inverse_root(op: &mut OpBuilder<'_>) -> Lowered {
    lower(op, |x| 1.0 / x.sqrt(), None)?;
    if op.input_kind(0)? == OperandType::TensorFloat32 {
        op.recipe(Recipe::InverseRoots);
    }
    Ok(())
}

/// `max(0, x) + min(0, alpha * (exp(x) - 1))`; NaN stays one.
///
/// Source: NNAPI `ELU`, since HAL 1.3.
fn lower_elu(op: &mut OpBuilder<'_>) -> Lowered {
    let alpha = op.f32(1)?;
    by_real!(op.input_kind(0)?, emit_elu(op, alpha))
}

fn emit_elu<T: Real>(op: &mut OpBuilder<'_>, alpha: f32) -> Lowered {
    emit(op, move |x: T| {
        let x = x.to_f32();
        let y = x.max(0.0) + (alpha * (x.exp() - 1.0)).min(0.0);
        // `max` and `min` drop a NaN.
        T::from_f32(if x.is_nan() { x } else { y })
    })
}

fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    each: impl Fn(T) -> T + Send + Sync + 'static,
) -> Lowered {
    let shape = op.input(0)?.shape;
    op.set_output(0, shape.clone())?;
    let isa = op.isa();
    emit_each(op, compiled(isa, "unary", &shape, 0), move |from, to| {
        map(isa, from, to, &each);
        Ok(())
    });
    Ok(())
}
