//! REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ALL and REDUCE_ANY.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::tensor::{Element, OpError, poll};

use super::Op;
use super::reduction::Reduction;
use super::support::{bad_kind, compiled, same_quantisation};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static REDUCE_SUM: Op = Op { lower: |op| lower_float(op, 0.0, |a, b| a + b) };
pub(super) static REDUCE_PROD: Op = Op { lower: |op| lower_float(op, 1.0, product) };
pub(super) static REDUCE_MAX: Op = Op { lower: |op| lower_extreme(op, true) };
pub(super) static REDUCE_MIN: Op = Op { lower: |op| lower_extreme(op, false) };
pub(super) static REDUCE_ALL: Op = Op { lower: |op| lower_logical(op, true) };
pub(super) static REDUCE_ANY: Op = Op { lower: |op| lower_logical(op, false) };

/// Source: the NNAPI REDUCE operations, since HAL 1.2. Axes may be negative and repeat.
fn reduction(op: &mut OpBuilder<'_>) -> Lowered<(Reduction, OperandType)> {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    if input.shape.rank() > 4 || input.shape.contains(&0) {
        return Err(
            OpError::input(0, format!("{:?} is empty or of rank above 4", input.shape)).into()
        );
    }
    let reduction = Reduction::new(&input.shape, &op.i32s(1)?, op.bool(2)?)?;
    op.set_output(0, reduction.shape.clone())?;
    Ok((reduction, input.kind))
}

/// The reference takes 0 times infinity as 0 in a product.
fn product(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

/// FLOAT16 is reduced in `f32` and rounded once.
fn lower_float(
    op: &mut OpBuilder<'_>,
    start: f32,
    each: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
) -> Lowered {
    let (reduction, kind) = reduction(op)?;
    match kind {
        OperandType::TensorFloat32 => emit(op, reduction, start, |x: f32| x, each, |x| x),
        OperandType::TensorFloat16 => emit(op, reduction, start, f16::to_f32, each, f16::from_f32),
        other => Err(bad_kind(0, other).into()),
    }
}

fn lower_extreme(op: &mut OpBuilder<'_>, largest: bool) -> Lowered {
    let (reduction, kind) = reduction(op)?;
    match kind {
        OperandType::TensorFloat32 => extreme(op, reduction, largest, f32::MIN, f32::MAX),
        OperandType::TensorFloat16 => extreme(op, reduction, largest, f16::MIN, f16::MAX),
        OperandType::TensorQuant8Asymm => extreme(op, reduction, largest, u8::MIN, u8::MAX),
        OperandType::TensorQuant8AsymmSigned => extreme(op, reduction, largest, i8::MIN, i8::MAX),
        other => Err(bad_kind(0, other).into()),
    }
}

fn extreme<T: Element>(
    op: &mut OpBuilder<'_>,
    reduction: Reduction,
    largest: bool,
    lowest: T,
    highest: T,
) -> Lowered {
    let start = if largest { lowest } else { highest };
    let each = move |a: T, b: T| if if largest { b > a } else { b < a } { b } else { a };
    emit(op, reduction, start, |x: T| x, each, |x| x)
}

fn lower_logical(op: &mut OpBuilder<'_>, all: bool) -> Lowered {
    let (reduction, kind) = reduction(op)?;
    if kind != OperandType::TensorBool8 {
        return Err(bad_kind(0, kind).into());
    }
    let each = move |a: u8, b: u8| if all { a & b } else { a | b };
    emit(op, reduction, u8::from(all), |x: u8| u8::from(x != 0), each, |x| x)
}

fn emit<T: Element, A: Element>(
    op: &mut OpBuilder<'_>,
    reduction: Reduction,
    start: A,
    widen: impl Fn(T) -> A + Send + Sync + 'static,
    each: impl Fn(A, A) -> A + Send + Sync + 'static,
    narrow: impl Fn(A) -> T + Send + Sync + 'static,
) -> Lowered {
    let bytes = reduction.shape.elements() * size_of::<A>();
    let isa = op.isa();
    let label = compiled(isa, "reduce", &reduction.shape, 0);
    op.emit_with_scratch(label, bytes, move |mut io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let results = io.scratch_slice::<A>();
        poll::fill(results, start)?;
        reduction.fold(isa, input, results, start, |a, x| each(a, widen(x)), &each);
        output.fill(results.iter().map(|&result| narrow(result)));
        Ok(())
    });
    Ok(())
}
