//! REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ALL and REDUCE_ANY.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{Element, In, OpError, Real, poll};

use super::Op;
use super::reduction::Reduction;
use super::support::{bad_kind, by_real, compiled, same_quantisation};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static REDUCE_SUM: Op = Op { lower: lower_sum };
pub(super) static REDUCE_PROD: Op = Op { lower: lower_product };
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

/// FLOAT16 is reduced in `f32` and rounded once.
fn lower_sum(op: &mut OpBuilder<'_>) -> Lowered {
    fn sum<T: Real>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
        let fold = |of: &Reduction, isa, input: In<'_, T>, sums: &mut [f32]| {
            of.add(isa, input, sums, T::to_f32);
        };
        emit(op, reduction, 0.0, fold, T::from_f32)
    }
    let (reduction, kind) = reduction(op)?;
    by_real!(kind, sum(op, reduction))
}

fn lower_product(op: &mut OpBuilder<'_>) -> Lowered {
    /// The reference takes 0 times infinity as 0 in a product.
    fn times(a: f32, b: f32) -> f32 {
        if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
    }
    fn product<T: Real>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
        let fold = |of: &Reduction, isa, input: In<'_, T>, products: &mut [f32]| {
            of.fold(isa, input, products, 1.0, |a, x: T| times(a, x.to_f32()), times);
        };
        emit(op, reduction, 1.0, fold, T::from_f32)
    }
    let (reduction, kind) = reduction(op)?;
    by_real!(kind, product(op, reduction))
}

fn lower_extreme(op: &mut OpBuilder<'_>, largest: bool) -> Lowered {
    let (reduction, kind) = reduction(op)?;
    match kind {
        OperandType::TensorFloat32 => extreme(op, reduction, largest, [f32::MIN, f32::MAX], same),
        OperandType::TensorFloat16 => extreme(op, reduction, largest, [f16::MIN, f16::MAX], same),
        OperandType::TensorQuant8Asymm => extreme(op, reduction, largest, [u8::MIN, u8::MAX], same),
        OperandType::TensorQuant8AsymmSigned => {
            extreme(op, reduction, largest, [i8::MIN, i8::MAX], same)
        }
        other => Err(bad_kind(0, other).into()),
    }
}

/// All hold where the smallest byte does, any where the largest does.
fn lower_logical(op: &mut OpBuilder<'_>, all: bool) -> Lowered {
    let (reduction, kind) = reduction(op)?;
    if kind != OperandType::TensorBool8 {
        return Err(bad_kind(0, kind).into());
    }
    extreme(op, reduction, !all, [u8::MIN, u8::MAX], |x| u8::from(x != 0))
}

pub(super) fn same<T>(x: T) -> T {
    x
}

/// The smallest or largest elements, out of the limits of their type.
pub(super) fn extreme<T: Element>(
    op: &mut OpBuilder<'_>,
    reduction: Reduction,
    largest: bool,
    [lowest, highest]: [T; 2],
    narrow: fn(T) -> T,
) -> Lowered {
    let start = if largest { lowest } else { highest };
    let fold = move |of: &Reduction, isa, input: In<'_, T>, results: &mut [T]| {
        of.extremes(isa, input, results, start, largest);
    };
    emit(op, reduction, start, fold, narrow)
}

/// Emits the step of a reduction, whose results `fold` takes from `start` on.
pub(super) fn emit<T: Element, A: Element>(
    op: &mut OpBuilder<'_>,
    reduction: Reduction,
    start: A,
    fold: impl Fn(&Reduction, Isa, In<'_, T>, &mut [A]) + Send + Sync + 'static,
    narrow: impl Fn(A) -> T + Send + Sync + 'static,
) -> Lowered {
    let bytes = reduction.shape.elements() * size_of::<A>();
    let isa = op.isa();
    let label = compiled(isa, "reduce", &reduction.shape, 0);
    op.emit_with_scratch(label, bytes, move |mut io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let results = io.scratch_slice::<A>();
        poll::fill(results, start)?;
        fold(&reduction, isa, input, results);
        output.fill(results.iter().map(|&result| narrow(result)));
        Ok(())
    });
    Ok(())
}
