//! DIV, MAXIMUM, MINIMUM, POW and PRELU: two tensors that broadcast.

use half::f16;
use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::NO_CLAMP;
use nnburst_kernels::kernels::binary_f32::Arithmetic;
use nnburst_kernels::tensor::quant::{
    BranchlessMultiplier, Multiplier, clamp_real, product_multiplier, real_activation_range,
    requantise,
};
use nnburst_kernels::tensor::{Element, OpError, Quantised, Real, Tensor};

use super::Op;
use super::broadcast::{Broadcast, emit_zip};
use super::byte_table::emit_table;
use super::elementwise::real_binary;
use super::support::{EACH, bad_kind, compiled, dispatch};
use crate::lowering::{Lowered, OpBuilder};

pub(super) static DIV: Op = Op { lower: lower_div };
pub(super) static MAXIMUM: Op = Op { lower: |op| lower_extreme(op, true) };
pub(super) static MINIMUM: Op = Op { lower: |op| lower_extreme(op, false) };
pub(super) static POW: Op = Op { lower: lower_pow };
pub(super) static PRELU: Op = Op { lower: lower_prelu };

/// Signed 8-bit passes the reference's validation without a kernel behind it; here it is refused.
///
/// Source: NNAPI `DIV`, since HAL 1.1; INT32 since 1.3.
fn lower_div(op: &mut OpBuilder<'_>) -> Lowered {
    let (a, b) = operands(op)?;
    let activation = op.fused_activation(2)?;
    let range = real_activation_range(activation);
    match a.kind {
        OperandType::TensorFloat32 => {
            let wide = op.output(0)?.shape;
            real_binary(op, Arithmetic::Div, [&a.shape, &b.shape], &wide, range);
            Ok(())
        }
        OperandType::TensorFloat16 => emit(op, &a, &b, move |a: f16, b: f16| {
            f16::from_f32(clamp_real(a.to_f32() / b.to_f32(), range.0, range.1))
        }),
        OperandType::TensorInt32 if activation == FusedActivation::None => {
            emit(op, &a, &b, floor_div)
        }
        OperandType::TensorInt32 => {
            Err(OpError::input(2, format!("{activation} behind INT32")).into())
        }
        other => Err(bad_kind(0, other).into()),
    }
}

/// Rounded towards minus infinity; 0 where the divisor is 0, and wrapping, as nothing may trap.
fn floor_div(a: i32, b: i32) -> i32 {
    if b == 0 {
        return 0;
    }
    let quotient = a.wrapping_div(b);
    let exact = a.wrapping_rem(b) == 0;
    if !exact && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// Quantised operands are brought to the output's parameters.
///
/// Source: NNAPI `MAXIMUM`, `MINIMUM`, since HAL 1.2; signed 8-bit since 1.3.
fn lower_extreme(op: &mut OpBuilder<'_>, largest: bool) -> Lowered {
    let (a, b) = operands(op)?;
    match a.kind {
        OperandType::TensorFloat32 => {
            let which = if largest { Arithmetic::Maximum } else { Arithmetic::Minimum };
            let wide = op.output(0)?.shape;
            real_binary(op, which, [&a.shape, &b.shape], &wide, NO_CLAMP);
            Ok(())
        }
        OperandType::TensorFloat16 => emit(op, &a, &b, pick::<f16>(largest)),
        OperandType::TensorInt32 => emit(op, &a, &b, pick::<i32>(largest)),
        OperandType::TensorQuant8Asymm => extreme_byte::<u8>(op, &a, &b, largest),
        OperandType::TensorQuant8AsymmSigned => extreme_byte::<i8>(op, &a, &b, largest),
        other => Err(bad_kind(0, other).into()),
    }
}

fn pick<T: Element>(largest: bool) -> impl Fn(T, T) -> T + Send + Sync + 'static {
    move |a, b| if (a > b) == largest { a } else { b }
}

fn extreme_byte<T: Quantised>(
    op: &mut OpBuilder<'_>,
    a: &Tensor,
    b: &Tensor,
    largest: bool,
) -> Lowered {
    let out = op.output(0)?;
    // One look for each value that there is, in place of a division.
    let to_output = |from: &Tensor| {
        let (from, to) = ((from.scale, from.zero_point), (out.scale, out.zero_point));
        let stored = |q| T::from_i32(requantise(q, from, to, T::MIN, T::MAX));
        (T::MIN..=T::MAX).map(stored).collect::<Vec<T>>()
    };
    let (of_a, of_b, pick) = (to_output(a), to_output(b), pick::<T>(largest));
    let is_same = |of: &[T]| of.iter().map(|q| q.to_i32()).eq(T::MIN..=T::MAX);
    if is_same(&of_a) && is_same(&of_b) {
        return emit(op, a, b, pick);
    }
    let index = |q: T| usize::try_from(q.to_i32() - T::MIN).unwrap_or(0);
    emit(op, a, b, move |a: T, b: T| pick(of_a[index(a)], of_b[index(b)]))
}

/// Source: NNAPI `POW`, since HAL 1.2.
fn lower_pow(op: &mut OpBuilder<'_>) -> Lowered {
    let (a, b) = operands(op)?;
    match a.kind {
        OperandType::TensorFloat32 => emit(op, &a, &b, f32::powf),
        OperandType::TensorFloat16 => {
            emit(op, &a, &b, |a: f16, b: f16| f16::from_f32(a.to_f32().powf(b.to_f32())))
        }
        other => Err(bad_kind(0, other).into()),
    }
}

/// `x >= 0 ? x : x * alpha`.
///
/// Source: NNAPI `PRELU`, since HAL 1.2; signed 8-bit since 1.3.
fn lower_prelu(op: &mut OpBuilder<'_>) -> Lowered {
    let (x, alpha) = operands(op)?;
    dispatch!(x.kind, 0, real: prelu_real(op, &x, &alpha), byte: prelu_byte(op, &x, &alpha))
}

fn prelu_real<T: Real>(op: &mut OpBuilder<'_>, x: &Tensor, alpha: &Tensor) -> Lowered {
    emit(op, x, alpha, |x: T, alpha: T| {
        let real = x.to_f32();
        if real >= 0.0 { x } else { T::from_f32(real * alpha.to_f32()) }
    })
}

fn prelu_byte<T: Quantised>(op: &mut OpBuilder<'_>, x: &Tensor, alpha: &Tensor) -> Lowered {
    let out = op.output(0)?;
    let positive = Multiplier::new(f64::from(x.scale) / f64::from(out.scale));
    let negative = product_multiplier(x.scale, alpha.scale, out.scale);
    let [positive, negative] = [positive, negative].map(BranchlessMultiplier::from);
    let (zp_x, zp_alpha, zp_out) = (x.zero_point, alpha.zero_point, out.zero_point);
    let each = move |x: T, alpha: T| {
        let (x, alpha) = (x.to_i32() - zp_x, alpha.to_i32() - zp_alpha);
        // Both, so that there are vectors of them.
        let (above, below) = (positive.apply(x), negative.apply(x * alpha));
        let y = if x >= 0 { above } else { below };
        T::from_i32(y.saturating_add(zp_out))
    };
    // With one slope for all that is known, a result depends on one byte alone.
    if let Some(slopes) = op.constant(1)
        && let &[slope] = slopes.typed::<T>()
        && out.shape == x.shape
    {
        op.absorb(1);
        emit_table(op, &out, |x| each(x, slope));
        return Ok(());
    }
    emit(op, x, alpha, each)
}

fn operands(op: &mut OpBuilder<'_>) -> Lowered<(Tensor, Tensor)> {
    let (a, b) = (op.input(0)?, op.input(1)?);
    if a.kind != b.kind {
        return Err(OpError::input(1, format!("is {} beside {}", b.kind, a.kind)).into());
    }
    op.set_output(0, a.shape.broadcast(&b.shape)?)?;
    Ok((a, b))
}

fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    a: &Tensor,
    b: &Tensor,
    each: impl Fn(T, T) -> T + Send + Sync + 'static,
) -> Lowered {
    let wide = op.output(0)?.shape;
    let broadcast = Broadcast::new(&wide, &a.shape, &b.shape);
    let label = compiled(op.isa(), "binary", &wide, 0);
    emit_zip(op, label, broadcast, each);
    op.in_place(&[0, 1]);
    op.rows(&EACH);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::floor_div;

    #[test]
    fn integer_division_rounds_down_and_never_traps() {
        for (a, b, want) in [
            (7, 2, 3),
            (-7, 2, -4),
            (7, -2, -4),
            (-7, -2, 3),
            (6, -2, -3),
            (5, 0, 0),
            (i32::MIN, -1, i32::MIN),
        ] {
            assert_eq!(floor_div(a, b), want, "{a} / {b}");
        }
    }
}
