//! Functions of one number: ABS, NEG, FLOOR, EXP, LOG, RSQRT, SIN, SQRT, ELU.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::transcendental_f32::{Function, Map};
use nnburst_kernels::tensor::{Element, Real};

use super::Op;
use super::support::{bad_kind, by_real, compiled, emit_each, plain};
use crate::lowering::recipe::Recipe;
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static ABS: Op = Op { lower: |op| lower(op, |x| x.abs(), Some(i32::wrapping_abs)) };
pub(super) static NEG: Op = Op { lower: lower_negative };
pub(super) static FLOOR: Op = Op { lower: |op| lower(op, |x| x.floor(), None) };
pub(super) static EXP: Op = Op { lower: lower_exp };
pub(super) static LOG: Op = Op { lower: lower_log };
pub(super) static RSQRT: Op = Op { lower: lower_inverse_root };
pub(super) static SIN: Op = Op { lower: lower_sin };
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

fn lower_negative(op: &mut OpBuilder<'_>) -> Lowered {
    lower(op, |x| -x, Some(i32::wrapping_neg))?;
    if op.input_kind(0)? == OperandType::TensorFloat32 {
        op.recipe(Recipe::Negatives);
    }
    Ok(())
}

fn lower_inverse_root(op: &mut OpBuilder<'_>) -> Lowered {
    lower(op, |x| 1.0 / x.sqrt(), None)?;
    if op.input_kind(0)? == OperandType::TensorFloat32 {
        op.recipe(Recipe::InverseRoots);
    }
    Ok(())
}

/// Source: NNAPI `EXP`, since HAL 1.2.
fn lower_exp(op: &mut OpBuilder<'_>) -> Lowered {
    match op.input_kind(0)? {
        OperandType::TensorFloat32 => emit_map(op, Function::Exp),
        _ => lower(op, f32::exp, None),
    }
}

/// Source: NNAPI `LOG`, since HAL 1.2.
fn lower_log(op: &mut OpBuilder<'_>) -> Lowered {
    match op.input_kind(0)? {
        OperandType::TensorFloat32 => emit_map(op, Function::Log),
        _ => lower(op, f32::ln, None),
    }
}

/// Source: NNAPI `SIN`, since HAL 1.2.
fn lower_sin(op: &mut OpBuilder<'_>) -> Lowered {
    match op.input_kind(0)? {
        OperandType::TensorFloat32 => emit_map(op, Function::Sin),
        _ => lower(op, f32::sin, None),
    }
}

/// A function in vectors.
pub(super) fn emit_map(op: &mut OpBuilder<'_>, function: Function) -> Lowered {
    let map = Map::new(op.isa(), function);
    let shape = op.input(0)?.shape;
    op.set_output(0, shape.clone())?;
    let label = Label { form: map.isa(), ..plain("transcendental_f32", &shape, 0) };
    emit_each(op, label, move |from, to| {
        map.compute(from, to);
        Ok(())
    });
    op.recipe(Recipe::Map(function));
    Ok(())
}

/// `max(0, x) + min(0, alpha * (exp(x) - 1))`; NaN stays one.
///
/// Source: NNAPI `ELU`, since HAL 1.3.
fn lower_elu(op: &mut OpBuilder<'_>) -> Lowered {
    let alpha = op.f32(1)?;
    if alpha.to_bits() == 1.0f32.to_bits() && op.input_kind(0)? == OperandType::TensorFloat32 {
        return emit_map(op, Function::Elu);
    }
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
