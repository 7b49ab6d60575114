//! Operations that give integers about shapes, and runs of numbers.

use nnburst_kernels::tensor::{OpError, poll};

use super::arg::{ElementKind, OperatorCall, by_kind, refused};
use super::math::{cut, low};
use crate::lowering::Lowered;

/// Emits integers that are known as a tensor of one dimension, INT32 or INT64 as it is declared.
pub(super) fn emit_ints(call: &mut OperatorCall<'_, '_>, values: Vec<i64>) -> Lowered {
    let extents = [values.len()];
    emit_known(call, &extents, values)
}

fn emit_known(call: &mut OperatorCall<'_, '_>, extents: &[usize], values: Vec<i64>) -> Lowered {
    let shape = call.set(0, extents)?;
    match call.result(0)?.kind {
        ElementKind::I32 => call.step(&shape, move |io| {
            io.output::<i32>(0).fill(values.iter().map(|&value| low(value)));
            Ok(())
        }),
        ElementKind::I64 => call.step(&shape, move |io| {
            io.output::<i64>(0).fill(values.iter().copied());
            Ok(())
        }),
        ElementKind::U32 => call.step(&shape, move |io| {
            io.output::<u32>(0).fill(values.iter().map(|&value| low(value).cast_unsigned()));
            Ok(())
        }),
        kind => return Err(OpError::output(0, format!("is {kind:?}, not integers")).into()),
    }
    Ok(())
}

pub(super) fn shape(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let extents = call.arg(0)?.shape;
    let extents = extents.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX));
    let extents = extents.collect();
    emit_ints(call, extents)
}

pub(super) fn rank(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let rank = i64::try_from(call.arg(0)?.shape.rank()).unwrap_or(i64::MAX);
    emit_known(call, &[], vec![rank])
}

/// The numbers from the first input up to the second, by steps of the third.
pub(super) fn range(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let kind = call.arg(0)?.kind;
    match kind {
        ElementKind::I32 | ElementKind::I64 => {
            let [start, limit, delta] = [call.one_int(0)?, call.one_int(1)?, call.one_int(2)?];
            let span = i128::from(limit) - i128::from(start);
            if delta == 0 || (span != 0 && (span > 0) != (delta > 0)) {
                return Err(OpError::rule(format!("{start} to {limit} by {delta}")).into());
            }
            let count = span.unsigned_abs().div_ceil(u128::from(delta.unsigned_abs()));
            let count = elements(usize::try_from(count).ok())?;
            call.claim(8 * count)?;
            let next = |&at: &i64| Some(at.wrapping_add(delta));
            let values = std::iter::successors(Some(start), next).take(count).collect();
            emit_ints(call, values)
        }
        ElementKind::F32 => {
            let [start, limit, delta] = [call.one_real(0)?, call.one_real(1)?, call.one_real(2)?];
            let span = limit - start;
            if delta == 0.0 || (span > 0.0) != (delta > 0.0) && span != 0.0 {
                return Err(OpError::rule(format!("{start} to {limit} by {delta}")).into());
            }
            let count = cut(f64::from((span / delta).abs().ceil()));
            let count = elements(usize::try_from(count).ok())?;
            call.result_is(0, &[ElementKind::F32])?;
            let shape = call.set(0, &[count])?;
            call.step(&shape, move |io| {
                let output = io.output::<f32>(0);
                let mut value = start;
                for at in poll::each(0..output.len(), 2) {
                    output.set(at, value);
                    value += delta;
                }
                Ok(())
            });
            Ok(())
        }
        kind => Err(refused(0, kind).into()),
    }
}

/// A count that a tensor may have.
fn elements(count: Option<usize>) -> Result<usize, OpError> {
    let count = count.filter(|&count| count <= 1 << 28);
    count.ok_or_else(|| OpError::rule("more numbers than a tensor may have"))
}

/// Sums along an axis so far, that of the element itself left out where the operation is exclusive.
pub(super) fn cumsum(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?;
    let axis = call.axis(call.one_int(1)?, input.shape.rank())?;
    let (exclusive, reverse) = (call.flag(0)?, call.flag(1)?);
    call.same(&input, 0)?;
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let (outer, extent, inner) = input.shape.around(axis);
    macro_rules! emit {
        ($T:ty, $add:expr) => {
            call.step(&shape, move |io| {
                let (from, to) = (io.input::<$T>(0), io.output::<$T>(0));
                for line in nnburst_kernels::tensor::poll::each(0..outer * inner, extent) {
                    let start = line / inner * extent * inner + line % inner;
                    let mut sum = <$T>::default();
                    for at in 0..extent {
                        let at = if reverse { extent - 1 - at } else { at };
                        let place = start + at * inner;
                        let value = from.get(place);
                        let before = sum;
                        sum = $add(sum, value);
                        to.set(place, if exclusive { before } else { sum });
                    }
                }
                Ok(())
            })
        };
    }
    match input.kind {
        ElementKind::F32 => emit!(f32, |a: f32, b: f32| a + b),
        ElementKind::I32 => emit!(i32, i32::wrapping_add),
        ElementKind::I64 => emit!(i64, i64::wrapping_add),
        kind => return Err(refused(0, kind).into()),
    }
    Ok(())
}

/// One at the place that an index names along the axis, the other value elsewhere.
pub(super) fn one_hot(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let indices = call.arg(0)?;
    let depth = usize::try_from(call.one_int(1)?).map_err(|_| OpError::rule("a negative depth"))?;
    let on = call.arg(2)?;
    call.one_element(2, on.kind)?;
    call.one_element(3, on.kind)?;
    super::index::check_index_kind(0, indices.kind)?;
    call.same(&on, 0)?;
    let rank = indices.shape.rank();
    let axis = match call.int(0)? {
        -1 => rank,
        axis => call.axis(i64::from(axis), rank + 1)?,
    };
    let mut extents = indices.shape.to_vec();
    extents.insert(axis, depth);
    let shape = call.set(0, &extents)?;
    let inner: usize = indices.shape[axis..].iter().product();
    by_kind!(
        on.kind,
        [F32 f32, I8 i8, U8 u8, I16 i16, I32 i32, I64 i64, Bool u8],
        T => call.step(&shape, move |io| {
            let (on, off) = (io.input::<T>(2).get(0), io.input::<T>(3).get(0));
            let output = io.output::<T>(0);
            for at in poll::each(0..output.len(), 8) {
                let (outer, place, within) = (at / inner / depth, at / inner % depth, at % inner);
                let from = outer * inner + within;
                let index = super::index::index_at(&io, 0, indices.kind, from);
                let hit = usize::try_from(index) == Ok(place);
                output.set(at, if hit { on } else { off });
            }
            Ok(())
        })
    );
    Ok(())
}

/// The boundaries that a number is not below, counted; they are the second input.
pub(super) fn bucketize(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, bounds) = (call.arg(0)?, call.arg(1)?);
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let count = bounds.shape.elements();
    if bounds.kind != ElementKind::F32 {
        return Err(refused(1, bounds.kind).into());
    }
    call.result_is(0, &[ElementKind::I32])?;
    call.step(&shape, move |io| {
        let output = io.output::<i32>(0);
        let bounds = io.input::<f32>(1);
        for at in poll::each(0..output.len(), 8 + count) {
            let value = super::math::narrow(super::math::real_at(&input, io.input(0), at));
            let below = (0..count).filter(|&bound| bounds.get(bound) <= value).count();
            output.set(at, i32::try_from(below).unwrap_or(i32::MAX));
        }
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_an_end() {
        assert_eq!(elements(Some(3)).ok(), Some(3));
        assert!(elements(Some(1 << 29)).is_err() && elements(None).is_err());
    }
}
