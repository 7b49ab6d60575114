//! Operations that give integers about shapes, and runs of numbers.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{Element, In, OpError, Out, poll};

use super::arg::{ElementKind, OperatorCall, by_kind, refused};
use super::math::{cut, low, narrow, real_at};
use super::moves::fill_with;
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
    let (isa, around) = (call.isa(), input.shape.around(axis));
    let sums = RunningSums { around, exclusive, reverse };
    match input.kind {
        ElementKind::F32 => call.step(&shape, move |io| {
            sums.write(isa, io.input::<f32>(0), io.output(0), <f32 as std::ops::Add>::add)
        }),
        ElementKind::I32 => call.step(&shape, move |io| {
            sums.write(isa, io.input::<i32>(0), io.output(0), i32::wrapping_add)
        }),
        ElementKind::I64 => call.step(&shape, move |io| {
            sums.write(isa, io.input::<i64>(0), io.output(0), i64::wrapping_add)
        }),
        kind => return Err(refused(0, kind).into()),
    }
    Ok(())
}

/// Sums along the second axis of `[outer, extent, inner]`.
#[derive(Clone, Copy, Debug)]
struct RunningSums {
    around: (usize, usize, usize),
    exclusive: bool,
    reverse: bool,
}

impl RunningSums {
    fn write<T: Element>(
        self,
        isa: Isa,
        from: In<'_, T>,
        to: Out<'_, T>,
        add: impl Fn(T, T) -> T,
    ) -> Result<(), String> {
        let (outer, extent, inner) = self.around;
        if to.is_empty() {
            return Ok(()); // however many images of nothing there are
        }
        for image in 0..outer {
            let part = image * extent * inner..(image + 1) * extent * inner;
            let (from, to) = (from.slice(part.clone()), to.slice(part));
            if inner != 1 {
                isa.run(SumColumns { sums: self, from, to, add: &add });
                continue;
            }
            let mut sum = T::default();
            in_chunks(extent, |part| {
                for at in part {
                    let at = if self.reverse { extent - 1 - at } else { at };
                    let before = sum;
                    sum = add(before, from.get(at));
                    to.set(at, if self.exclusive { before } else { sum });
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The running sums of the columns of an image, many of them side by side.
struct SumColumns<'a, T, F> {
    sums: RunningSums,
    from: In<'a, T>,
    to: Out<'a, T>,
    add: F,
}

impl<T: Element, F: Fn(T, T) -> T> Loop for SumColumns<'_, T, F> {
    #[inline(always)]
    fn run(self) {
        const WIDE: usize = 64;
        let (_, _, inner) = self.sums.around;
        let mut first = 0;
        while first < inner {
            first += match inner - first {
                WIDE.. => self.columns::<WIDE>(first),
                8.. => self.columns::<8>(first),
                _ => self.columns::<1>(first),
            };
        }
    }
}

impl<T: Element, F: Fn(T, T) -> T> SumColumns<'_, T, F> {
    /// `N` columns from the one `first` on; returns `N`.
    #[inline(always)]
    fn columns<const N: usize>(&self, first: usize) -> usize {
        let RunningSums { around: (_, extent, inner), exclusive, reverse } = self.sums;
        let mut sums = [T::default(); N];
        for at in 0..extent {
            if at % REPORT_ROWS == 0 && poll::work(REPORT_ROWS.min(extent) * N / 8).is_err() {
                return N;
            }
            let at = if reverse { extent - 1 - at } else { at };
            let place = at * inner + first;
            let (before, xs) = (sums, self.from.block::<N>(place));
            sums.iter_mut().zip(&xs).for_each(|(sum, &x)| *sum = (self.add)(*sum, x));
            self.to.set_block(place, if exclusive { before } else { sums });
        }
        N
    }
}

/// Rows between two reports of work.
const REPORT_ROWS: usize = 1 << 10;

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
            let (on, output) = (io.input::<T>(2).get(0), io.output::<T>(0));
            fill_with(output.bytes(), io.input(3));
            for from in poll::each(0..output.len().checked_div(depth).unwrap_or(0), 8) {
                let index = super::index::index_at(&io, 0, indices.kind, from);
                if let Some(place) = usize::try_from(index).ok().filter(|&place| place < depth) {
                    let (outer, within) = (from / inner, from % inner);
                    output.set((outer * depth + place) * inner + within, on);
                }
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
    let isa = call.isa();
    call.step(&shape, move |io| {
        let (values, output) = (io.input::<u8>(0), io.output::<i32>(0));
        let bounds = io.input::<f32>(1);
        for first in poll::each((0..output.len()).step_by(BLOCK), 4 * BLOCK) {
            let end = output.len().min(first + BLOCK);
            let (mut block, mut counts) = ([0.0; BLOCK], [0; BLOCK]);
            let numbers = &mut block[..end - first];
            if input.kind == ElementKind::F32 {
                values.cast().slice(first..end).copy_to(numbers);
            } else {
                for (at, number) in (first..end).zip(&mut *numbers) {
                    *number = narrow(real_at(&input, values, at));
                }
            }
            for part in (0..count).step_by(poll::CHUNK) {
                let part = part..count.min(part + poll::CHUNK);
                poll::work(part.len() * BLOCK / 8)?;
                let bounds = bounds.slice(part);
                isa.run(CountBounds { numbers: &block, bounds, counts: &mut counts });
            }
            output.slice(first..end).copy_from(In::of(&counts[..end - first]));
        }
        Ok(())
    });
    Ok(())
}

/// Numbers that are looked at together.
const BLOCK: usize = 64;

/// Counts those of the bounds that each number is not below.
struct CountBounds<'a> {
    numbers: &'a [f32; BLOCK],
    bounds: In<'a, f32>,
    counts: &'a mut [i32; BLOCK],
}

impl Loop for CountBounds<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { numbers, bounds, counts } = self;
        for bound in bounds.iter() {
            let pairs = counts.iter_mut().zip(numbers);
            // What is no number is below none.
            pairs.for_each(|(count, &value)| {
                *count += i32::from((value >= bound) | value.is_nan());
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_an_end() {
        assert_eq!(elements(Some(3)).ok(), Some(3));
        assert!(elements(Some(1 << 29)).is_err() && elements(None).is_err());
    }

    #[test]
    fn sums_run_along_an_axis_either_way() {
        for around @ (outer, extent, inner) in [(1, 5, 1), (3, 4, 7), (2, 3, 75), (1, 2000, 9)] {
            let from: Vec<i32> =
                (0..).map(|i| i * i % 101 - 50).take(outer * extent * inner).collect();
            for (isa, exclusive, reverse) in Isa::all().flat_map(|isa| {
                [(false, false), (false, true), (true, false), (true, true)]
                    .map(|(a, b)| (isa, a, b))
            }) {
                let mut got = vec![9; from.len()];
                let sums = RunningSums { around, exclusive, reverse };
                sums.write(isa, In::of(&from), Out::of(&mut got), i32::wrapping_add).unwrap();
                for (place, &got) in got.iter().enumerate() {
                    let (line, at) = (place % inner, place / inner % extent);
                    let first = place / inner / extent * extent * inner + line;
                    let before = |other: &usize| if reverse { *other > at } else { *other < at };
                    let is_in = |other: &usize| before(other) || (!exclusive && *other == at);
                    let values = (0..extent).filter(is_in).map(|other| from[first + other * inner]);
                    assert_eq!(got, values.sum::<i32>(), "{around:?} {exclusive} {reverse}");
                }
            }
        }
    }

    #[test]
    fn images_of_nothing_take_no_time_however_many_there_are() {
        for around in [(usize::MAX, 0, 1), (usize::MAX, 3, 0)] {
            let sums = RunningSums { around, exclusive: false, reverse: false };
            let (from, mut to) = ([0i32; 0], [0i32; 0]);
            let add = i32::wrapping_add;
            sums.write(Isa::best(), In::of(&from), Out::of(&mut to), add).unwrap();
        }
    }

    #[test]
    fn what_is_no_number_is_below_no_bound() {
        let mut numbers = [0.5; BLOCK];
        numbers[..4].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0]);
        for isa in Isa::all() {
            let mut counts = [1; BLOCK];
            let bounds = In::of(&[-1.0, 0.5, 1.0]);
            isa.run(CountBounds { numbers: &numbers, bounds, counts: &mut counts });
            assert_eq!(counts[..5], [4, 4, 1, 4, 3], "{isa:?}");
        }
    }
}
