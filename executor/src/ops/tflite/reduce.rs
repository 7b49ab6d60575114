//! Reductions over any axes.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::quant::{BranchlessMultiplier, Multiplier, round_half_away};
use nnburst_kernels::tensor::{Element, In, OpError, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused};
use super::math::{Stored, apply_wide, f32_of, f64_of, low};
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
            stored_sum(call, &input, &result, count, is_mean)
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
    count: usize,
    is_mean: bool,
) -> Lowered {
    let whole = i64::try_from(count).unwrap_or(i64::MAX);
    let mut multiplier = Multiplier::new(f64::from(input.scale) / f64::from(result.scale));
    if is_mean && count > 0 {
        let bits = i32::try_from(63 - whole.leading_zeros()).unwrap_or(0);
        let shift = bits.min(32).min(31 + multiplier.shift);
        multiplier.fraction = low((i64::from(multiplier.fraction) << shift) / whole);
        multiplier.shift -= shift;
    }
    let (from_zero, scale) = (input.zero_point, input.scale / result.scale);
    let scaled = match is_mean {
        true => Scaled::Mean {
            multiplier: multiplier.into(),
            offset: low(whole * i64::from(from_zero)),
        },
        false => Scaled::Sum { scale, bias: f32_of(-from_zero) * scale * f32_of(low(whole)) },
    };
    let finish = Finish { scaled, zero_point: result.zero_point, range: result.kind.range() };
    let (isa, reduction) = (call.isa(), reduction(call, input)?);
    by_kind!(input.kind, [I8 i8, U8 u8, I16 i16], T => {
        if i32::try_from(count.saturating_mul(1 << T::BITS)).is_err() {
            let add = |of: &Reduction, isa, input: In<'_, T>, sums: &mut [i64]| {
                of.fold(isa, input, sums, 0, |sum: i64, x| sum + i64::from(x.wide()), |a, b| a + b);
            };
            return emit(call, reduction, 0i64, add, move |sum| T::stored(finish.of(low(sum))));
        }
        let label = compiled(isa, "tflite_sum", &input.shape, 0);
        let sums = IntegerSums::new(isa, reduction);
        let bytes = sums.scratch_elements() * size_of::<i32>();
        call.emit_with_scratch(label, bytes, move |mut io| {
            let (from, to) = (io.input::<T>(0), io.output::<T>(0));
            let sums = sums.compute(from, io.scratch_slice::<i32>())?;
            isa.run(FinishAll { finish, sums });
            to.fill(sums.iter().map(|&sum| T::stored(sum)));
            Ok(())
        });
    });
    Ok(())
}

/// What becomes of a sum of stored values, which 32 bits hold.
#[derive(Clone, Copy, Debug)]
struct Finish {
    scaled: Scaled,
    zero_point: i32,
    range: (i32, i32),
}

#[derive(Clone, Copy, Debug)]
enum Scaled {
    /// `offset` is as many zero points.
    Mean {
        multiplier: BranchlessMultiplier,
        offset: i32,
    },
    Sum {
        scale: f32,
        bias: f32,
    },
}

impl Finish {
    #[inline(always)]
    fn of(self, sum: i32) -> i32 {
        let scaled = match self.scaled {
            Scaled::Mean { multiplier, offset } => multiplier.apply(sum.wrapping_sub(offset)),
            Scaled::Sum { scale, bias } => round_half_away(f32_of(sum) * scale + bias),
        };
        scaled.saturating_add(self.zero_point).clamp(self.range.0, self.range.1)
    }
}

/// Sums in the place of which are put the stored values that become of them.
struct FinishAll<'a> {
    finish: Finish,
    sums: &'a mut [i32],
}

impl Loop for FinishAll<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { finish, sums } = self;
        // A loop each: with the choice within, neither becomes vectors.
        match finish.scaled {
            Scaled::Mean { .. } => sums.iter_mut().for_each(|sum| *sum = finish.of(*sum)),
            Scaled::Sum { .. } => sums.iter_mut().for_each(|sum| *sum = finish.of(*sum)),
        }
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
