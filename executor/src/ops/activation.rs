//! RELU, RELU1, RELU6: clamping, in the real or in the stored range.

use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::binary_f32::{Arithmetic, Binary};
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::tensor::quant::{activation_range, clamp_real, real_activation_range};
use nnburst_kernels::tensor::{In, Quantised, Real};

use super::Op;
use super::support::{compiled, dispatch, emit_each, plain, same_quantisation};
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static RELU: Op = Op { lower: |op| lower(op, FusedActivation::Relu) };
pub(super) static RELU1: Op = Op { lower: |op| lower(op, FusedActivation::Relu1) };
pub(super) static RELU6: Op = Op { lower: |op| lower(op, FusedActivation::Relu6) };

/// Source: NNAPI `RELU`, `RELU1`, `RELU6`, since HAL 1.0.
fn lower(op: &mut OpBuilder<'_>, activation: FusedActivation) -> Lowered {
    if op.is_activated() {
        let input = op.input(0)?;
        op.set_output(0, input.shape)?;
        return Ok(op.alias(0, 0)?);
    }
    dispatch!(op.input_kind(0)?, 0, real: real(op, activation), byte: byte(op, activation))
}

fn real<T: Real>(op: &mut OpBuilder<'_>, activation: FusedActivation) -> Lowered {
    let input = op.input(0)?;
    op.set_output(0, input.shape.clone())?;
    let (low, high) = real_activation_range(activation);
    if input.kind == OperandType::TensorFloat32 {
        // Times 1 is the number itself, whatever it is.
        let clamp = Binary::new(op.isa(), Arithmetic::Mul, (low, high));
        let label = Label { form: clamp.isa(), ..plain("binary_f32", &input.shape, 0) };
        emit_each(op, label, move |from, to| clamp.compute(from, In::of(&[1.0]), to));
        return Ok(());
    }
    let isa = op.isa();
    emit_each(op, compiled(isa, "clamp_real", &input.shape, 0), move |from, to| {
        map(isa, from, to, |x: T| T::from_f32(clamp_real(x.to_f32(), low, high)));
        Ok(())
    });
    Ok(())
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, activation: FusedActivation) -> Lowered {
    let (input, output) = (op.input(0)?, op.output(0)?);
    same_quantisation(&input, &output)?;
    op.set_output(0, input.shape.clone())?;
    let (low, high) = activation_range(activation, input.scale, input.zero_point, T::MIN, T::MAX);
    let isa = op.isa();
    emit_each(op, compiled(isa, "clamp_byte", &input.shape, 0), move |from, to| {
        map(isa, from, to, |q: T| T::from_i32(q.to_i32().max(low).min(high)));
        Ok(())
    });
    Ok(())
}
