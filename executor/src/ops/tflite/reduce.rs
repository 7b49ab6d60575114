//! Reductions over any axes.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{Element, In, OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused};
use super::math::{Stored, apply_wide, f32_of, f64_of, low, round_i32};
use crate::lowering::Lowered;
use crate::ops::reduce::{emit, extreme as extreme_of, same};
use crate::ops::reduction::{IntegerSums, RealSums, Reduction};
use crate::ops::support::compiled;

/// The elements that each result is made of: where the first lies, and how far the others.
#[derive(Clone, Debug)]
struct Groups {
    /// Extents and strides of the axes that stay.
    kept: Vec<(usize, usize)>,
    /// Of those that go.
    reduced: Vec<(usize, usize)>,
}

impl Groups {
    fn count(&self) -> usize {
        self.reduced.iter().map(|&(extent, _)| extent).product()
    }

    /// Returns whether the elements of each result lie one behind the other.
    fn are_rows(&self) -> bool {
        let mut step = 1;
        self.reduced.iter().rev().filter(|&&(extent, _)| extent != 1).all(|&(extent, stride)| {
            let follows = stride == step;
            step *= extent;
            follows
        })
    }

    fn place(axes: &[(usize, usize)], mut at: usize) -> usize {
        let mut place = 0;
        for &(extent, stride) in axes.iter().rev() {
            place += at % extent * stride;
            at /= extent;
        }
        place
    }

    /// Combines the elements of result `at`.
    #[inline(always)]
    fn fold<T: Element, A>(
        &self,
        from: In<'_, T>,
        at: usize,
        first: A,
        f: impl Fn(A, T) -> A,
    ) -> A {
        let start = Self::place(&self.kept, at);
        (0..self.count())
            .fold(first, |sum, own| f(sum, from.get(start + Self::place(&self.reduced, own))))
    }
}

/// Input, result and what becomes of which: reads the axes, states the shape.
fn read(call: &mut OperatorCall<'_, '_>) -> Lowered<(Arg, Arg, Groups)> {
    let input = call.arg(0)?;
    let keeps = call.flag(0)?;
    let rank = input.shape.rank();
    let axes = call.ints(1)?;
    let axes = axes.iter().map(|&axis| call.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let strides = input.shape.strides();
    let (mut kept, mut reduced, mut extents) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, (&extent, stride)) in input.shape.iter().zip(strides).enumerate() {
        if axes.contains(&axis) {
            reduced.push((extent, stride));
            if keeps {
                extents.push(1);
            }
        } else {
            kept.push((extent, stride));
            extents.push(extent);
        }
    }
    let mut result = call.result(0)?;
    input.same_kind(&result)?;
    result.shape = call.set(0, &extents)?;
    Ok((input, result, Groups { kept, reduced }))
}

/// Sums or means; the sum of BOOL says whether any holds.
pub(super) fn sum(call: &mut OperatorCall<'_, '_>, is_mean: bool) -> Lowered {
    if call.arg(0)?.kind == ElementKind::Bool && !is_mean {
        return any(call, false);
    }
    let (input, result, groups) = read(call)?;
    let count = groups.count();
    let whole = i64::try_from(count).unwrap_or(i64::MAX);
    match input.kind {
        ElementKind::F32 => real_sum(call, &input, is_mean),
        ElementKind::I32 => {
            let finish = move |sum: i64| {
                low(if is_mean { sum.checked_div(whole).unwrap_or(0) } else { sum })
            };
            integer_sum::<i32>(call, &input, finish)
        }
        ElementKind::I64 => {
            let finish =
                move |sum: i64| if is_mean { sum.checked_div(whole).unwrap_or(0) } else { sum };
            integer_sum::<i64>(call, &input, finish)
        }
        ElementKind::I8 | ElementKind::U8 | ElementKind::I16 => {
            stored_sum(call, &input, &result, groups, is_mean)
        }
        kind => Err(refused(0, kind).into()),
    }
}

/// Of integers: sums wrap in 64 bits.
fn integer_sum<T: Element + Into<i64>>(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    finish: impl Fn(i64) -> T + Send + Sync + 'static,
) -> Lowered {
    let add = |of: &Reduction, isa, input: In<'_, T>, sums: &mut [i64]| {
        of.fold(isa, input, sums, 0, |sum: i64, x| sum.wrapping_add(x.into()), i64::wrapping_add);
    };
    let reduction = reduction(call, input)?;
    emit(call, reduction, 0i64, add, finish)
}

/// The axes that fall away, by operand 1.
fn reduction(call: &OperatorCall<'_, '_>, input: &Arg) -> Lowered<Reduction> {
    let axes: Vec<i32> = call.ints(1)?.into_iter().map(low).collect();
    Ok(Reduction::new(&input.shape, &axes, call.flag(0)?)?)
}

/// Of floats.
fn real_sum(call: &mut OperatorCall<'_, '_>, input: &Arg, is_mean: bool) -> Lowered {
    let sums = RealSums::new(call.isa(), reduction(call, input)?);
    let count = sums.count();
    let divisor = match is_mean && count > 0 {
        true => super::math::narrow(f64_of(i64::try_from(count).unwrap_or(i64::MAX))),
        false => 1.0,
    };
    let label = compiled(call.isa(), "tflite_sum", &input.shape, 0);
    call.emit_with_scratch(label, sums.scratch_elements() * 4, move |mut io| {
        let (input, output) = (io.input::<f32>(0), io.output::<f32>(0));
        let sums = sums.compute(input, io.scratch_slice::<f32>())?;
        output.fill(sums.iter().map(|sum| sum / divisor));
        Ok(())
    });
    Ok(())
}

/// Of stored values. The divisor of a mean is part of the multiplier, whose fraction is cut for it;
/// a sum is scaled in single precision, as the interpreter's plain kernel does.
fn stored_sum(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    result: &Arg,
    groups: Groups,
    is_mean: bool,
) -> Lowered {
    let count = groups.count();
    let whole = i64::try_from(count).unwrap_or(i64::MAX);
    let mut multiplier = Multiplier::new(f64::from(input.scale) / f64::from(result.scale));
    if is_mean && count > 0 {
        let bits = i32::try_from(63 - whole.leading_zeros()).unwrap_or(0);
        let shift = bits.min(32).min(31 + multiplier.shift);
        multiplier.fraction = low((i64::from(multiplier.fraction) << shift) / whole);
        multiplier.shift -= shift;
    }
    let (from_zero, to_zero) = (input.zero_point, result.zero_point);
    let (min, max) = result.kind.range();
    let scale = input.scale / result.scale;
    let bias = f32_of(-from_zero) * scale * f32_of(low(whole));
    let finish = move |sum: i64| {
        let scaled = match is_mean {
            true => multiplier.apply(low(sum)),
            false => round_i32(f32_of(low(sum + whole * i64::from(from_zero))) * scale + bias),
        };
        scaled.saturating_add(to_zero).clamp(min, max)
    };
    let (isa, are_rows) = (call.isa(), groups.are_rows());
    if (!are_rows || count <= SHORT_ROW) && count <= EXACT_SUMS {
        let label = compiled(isa, "tflite_sum", &input.shape, 0);
        let sums = IntegerSums::new(isa, reduction(call, input)?);
        let bytes = sums.scratch_elements() * size_of::<i32>();
        by_kind!(input.kind, [I8 i8, U8 u8, I16 i16], T => {
            call.emit_with_scratch(label, bytes, move |mut io| {
                let (from, to) = (io.input::<T>(0), io.output::<T>(0));
                let sums = sums.compute(from, io.scratch_slice::<i32>())?;
                to.fill(sums.iter().map(|&sum| {
                    T::stored(finish(i64::from(sum) - whole * i64::from(from_zero)))
                }));
                Ok(())
            });
        });
        return Ok(());
    }
    by_kind!(input.kind, [I8 i8, U8 u8, I16 i16], T => call.step(&input.shape, move |io| {
        let (from, to) = (io.input::<T>(0), io.output::<T>(0));
        for at in poll::each(0..to.len(), 2 * count) {
            let sum = if are_rows {
                let (row, mut sum) = (from.slice(at * count..(at + 1) * count), 0);
                isa.run(RowSum { row, sum: &mut sum });
                sum - whole * i64::from(from_zero)
            } else {
                groups.fold(from, at, 0i64, |sum, x| sum + i64::from(x.wide() - from_zero))
            };
            to.set(at, T::stored(finish(sum)));
        }
        Ok(())
    }));
    Ok(())
}

/// Elements of a row that is added together with others.
const SHORT_ROW: usize = 32;

/// Stored values whose sum 32 bits hold, whatever they are.
const EXACT_SUMS: usize = 1 << 15;

/// The sum of a row of stored values.
struct RowSum<'a, T> {
    row: In<'a, T>,
    sum: &'a mut i64,
}

impl<T: Stored> Loop for RowSum<'_, T> {
    #[inline(always)]
    fn run(self) {
        /// Elements of a block, and of as many blocks as 32 bits hold the sums of.
        const BLOCK: usize = 64;
        const EXACT: usize = BLOCK << 14;
        let Self { row, sum } = self;
        let whole = row.len() / BLOCK * BLOCK;
        for start in (0..whole).step_by(EXACT) {
            let mut sums = [0i32; BLOCK];
            for at in (start..whole.min(start + EXACT)).step_by(BLOCK) {
                let block = row.block::<BLOCK>(at);
                sums.iter_mut().zip(&block).for_each(|(sum, &x)| *sum += x.wide());
            }
            *sum += sums.iter().map(|&sum| i64::from(sum)).sum::<i64>();
        }
        let rest = row.len() - whole;
        if whole == 0 || rest == 0 {
            *sum += row.slice(whole..row.len()).iter().map(|x| i64::from(x.wide())).sum::<i64>();
            return;
        }
        // A block that lies over the one before, of which the last ones count.
        let block = row.block::<BLOCK>(row.len() - BLOCK);
        let mut last = [0i32; BLOCK];
        for (at, (last, &x)) in last.iter_mut().zip(&block).enumerate() {
            *last = if at < BLOCK - rest { 0 } else { x.wide() };
        }
        *sum += i64::from(last.iter().sum::<i32>());
    }
}

/// The greatest or least element.
pub(super) fn extreme(call: &mut OperatorCall<'_, '_>, least: bool) -> Lowered {
    if call.arg(0)?.kind == ElementKind::Bool {
        return any(call, least);
    }
    let (input, _, groups) = read(call)?;
    let count = groups.count();
    if count == 0 {
        return Err(OpError::rule("nothing is reduced").into());
    }
    let (reduction, kind) = (reduction(call, &input)?, input.kind);
    match kind {
        ElementKind::F32 => extreme_of(call, reduction, !least, [f32::MIN, f32::MAX], same),
        ElementKind::I8 => extreme_of(call, reduction, !least, [i8::MIN, i8::MAX], same),
        ElementKind::U8 => extreme_of(call, reduction, !least, [u8::MIN, u8::MAX], same),
        ElementKind::I16 => extreme_of(call, reduction, !least, [i16::MIN, i16::MAX], same),
        ElementKind::I32 => extreme_of(call, reduction, !least, [i32::MIN, i32::MAX], same),
        ElementKind::I64 => extreme_of(call, reduction, !least, [i64::MIN, i64::MAX], same),
        kind => Err(refused(0, kind).into()),
    }
}

/// Any byte but 0 is true: all are where the least one is, any where the greatest.
pub(super) fn any(call: &mut OperatorCall<'_, '_>, all: bool) -> Lowered {
    let (input, ..) = read(call)?;
    if input.kind != ElementKind::Bool {
        return Err(refused(0, input.kind).into());
    }
    let reduction = reduction(call, &input)?;
    extreme_of(call, reduction, !all, [u8::MIN, u8::MAX], |x| u8::from(x != 0))
}

/// Of numbers whose products begin with a one.
fn product_of<T: Element>(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    one: T,
    times: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
) -> Lowered {
    let reduction = reduction(call, input)?;
    let fold = move |of: &Reduction, isa, input: In<'_, T>, products: &mut [T]| {
        of.fold(isa, input, products, one, times, times);
    };
    emit(call, reduction, one, fold, same)
}

/// Products. Of stored values each factor is rescaled by its share of the result's scale.
pub(super) fn product(call: &mut OperatorCall<'_, '_>) -> Lowered {
    if call.arg(0)?.kind == ElementKind::Bool {
        return any(call, true);
    }
    let (input, result, groups) = read(call)?;
    let count = groups.count();
    match input.kind {
        ElementKind::F32 => product_of(call, &input, 1.0f32, |a, b| a * b)?,
        ElementKind::I32 => product_of(call, &input, 1, i32::wrapping_mul)?,
        ElementKind::I64 => product_of(call, &input, 1, i64::wrapping_mul)?,
        ElementKind::I8 | ElementKind::I16 => {
            let root =
                f64::from(result.scale).powf(1.0 / f64_of(i64::try_from(count).unwrap_or(1)));
            let step = Multiplier::new(f64::from(input.scale) / root);
            let (from_zero, to_zero) = (input.zero_point, result.zero_point);
            let (min, max) = result.kind.range();
            by_kind!(input.kind, [I8 i8, I16 i16], T => call.step(&input.shape, move |io| {
                let (from, to) = (io.input::<T>(0), io.output::<T>(0));
                for at in poll::each(0..to.len(), 4 * count) {
                    let product = groups.fold(from, at, None, |product: Option<i32>, x| {
                        let factor = x.wide() - from_zero;
                        Some(product.map_or(factor, |product| {
                            apply_wide(step, i64::from(product) * i64::from(factor))
                        }))
                    });
                    let scaled = apply_wide(step, i64::from(product.unwrap_or(0)));
                    to.set(at, T::stored(scaled.wrapping_add(to_zero).clamp(min, max)));
                }
                Ok(())
            }));
        }
        kind => return Err(refused(0, kind).into()),
    }
    Ok(())
}
