//! Windows of any rank, and the borders and gaps that STABLEHLO puts around and between elements.

use std::ops::Range;

use nnburst_kernels::tensor::{OpError, Shape, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, sizes};
use super::combine::{Combination, FoldMany, Progression, fold_many};
use super::copy::{Axis, Copy, strides};
use crate::lowering::Lowered;
use crate::ops::support::plain;

/// The most dimensions of windows, and the most elements of one.
const MOST_RANK: usize = 6;
const MOST_TAPS: usize = 1 << 24;

/// A window along one axis of a tensor whose elements have gaps between them and borders around.
#[derive(Clone, Copy, Debug)]
struct Window {
    extent: i64,
    /// From one element to the next, gaps included.
    base: i64,
    /// Before the first element; negative where elements are cut off.
    low: i64,
    size: i64,
    stride: i64,
    dilation: i64,
    /// The number of windows.
    count: i64,
}

impl Window {
    /// A window of this geometry over an extent that ends with a border of `high`.
    fn placed(self, high: i64) -> Option<Self> {
        let positive = [self.base, self.size, self.stride, self.dilation].iter().all(|&it| it > 0);
        if !positive {
            return None;
        }
        let spread = match self.extent {
            0 => 0,
            extent => (extent - 1).checked_mul(self.base)?.checked_add(1)?,
        };
        let wide = spread.checked_add(self.low)?.checked_add(high).filter(|&wide| wide >= 0)?;
        let reach = (self.size - 1).checked_mul(self.dilation)?.checked_add(1)?;
        let count = if reach > wide { 0 } else { (wide - reach) / self.stride + 1 };
        (wide <= i64::from(i32::MAX)).then_some(Self { count, ..self })
    }

    /// The element under a tap of a window; none in a border or a gap.
    fn element(&self, window: usize, tap: usize) -> Option<usize> {
        let (window, tap) = (i64::try_from(window).ok()?, i64::try_from(tap).ok()?);
        let place = (window * self.stride + tap * self.dilation).checked_sub(self.low)?;
        if self.base == 1 {
            return usize::try_from(place).ok().filter(|_| place < self.extent);
        }
        let is_element = place % self.base == 0 && place / self.base < self.extent;
        usize::try_from(place).ok().filter(|_| is_element)?;
        usize::try_from(place / self.base).ok()
    }

    /// The taps of a window that are on elements, where these are without gaps: they follow each
    /// other.
    fn inner(&self, window: usize) -> Range<usize> {
        let at = |tap: i64| usize::try_from(tap.clamp(0, self.size)).unwrap_or(0);
        let window = i64::try_from(window).unwrap_or(i64::MAX);
        let start = window.saturating_mul(self.stride).saturating_sub(self.low);
        let taps_to = |place: i64| {
            let way = place.saturating_sub(start).max(0);
            way / self.dilation + i64::from(way % self.dilation != 0)
        };
        let before = at(taps_to(0));
        before..at(taps_to(self.extent)).max(before)
    }
}

/// Goes to the next place of some extents, the last of which counts first.
fn advance(place: &mut [usize], extents: &[usize]) {
    for (at, &extent) in place.iter_mut().zip(extents).rev() {
        *at += 1;
        if *at < extent {
            return;
        }
        *at = 0;
    }
}

/// REDUCE_WINDOW: tensor, what each window begins with, sizes, strides and dilations.
pub(super) fn reduce_window(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let extents = extents(&call.arg(0)?);
    let [size, stride, dilation] = [call.ints(2)?, call.ints(3)?, call.ints(4)?];
    same_rank(extents.len(), &[&size, &stride, &dilation])?;
    let windows = (0..extents.len()).map(|axis| {
        let (extent, base, low) = (extents[axis], 1, 0);
        let (size, stride, dilation) = (size[axis], stride[axis], dilation[axis]);
        Window { extent, base, low, size, stride, dilation, count: 0 }.placed(0)
    });
    reduce(call, windows.collect())
}

/// STABLEHLO_REDUCE_WINDOW: as [`reduce_window`], then gaps between elements, dilations, and
/// borders before and behind each dimension, which are what windows begin with.
pub(super) fn stablehlo_reduce_window(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let extents = extents(&call.arg(0)?);
    let [size, stride, base] = [call.ints(2)?, call.ints(3)?, call.ints(4)?];
    let (dilation, borders) = (call.ints(5)?, call.ints(6)?);
    same_rank(extents.len(), &[&size, &stride, &base, &dilation])?;
    let (borders, rest) = borders.as_chunks::<2>();
    if borders.len() != extents.len() || !rest.is_empty() {
        return Err(OpError::input(6, "has not two numbers for each dimension").into());
    }
    let windows = (0..extents.len()).map(|axis| {
        let (extent, [low, high]) = (extents[axis], borders[axis]);
        let (base, size, stride) = (base[axis], size[axis], stride[axis]);
        let dilation = dilation[axis];
        Window { extent, base, low, size, stride, dilation, count: 0 }.placed(high)
    });
    reduce(call, windows.collect())
}

fn extents(of: &Arg) -> Vec<i64> {
    of.shape.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX)).collect()
}

fn same_rank(rank: usize, lists: &[&[i64]]) -> Result<(), OpError> {
    if (1..=MOST_RANK).contains(&rank) && lists.iter().all(|list| list.len() == rank) {
        return Ok(());
    }
    Err(OpError::rule(format!("windows of other dimensions than the tensor's {rank}")))
}

fn reduce(call: &mut OperatorCall<'_, '_>, windows: Option<Vec<Window>>) -> Lowered {
    let windows = windows.ok_or_else(|| OpError::rule("its windows are no windows"))?;
    let input = call.arg(0)?;
    call.one_element(1, input.kind)?;
    call.same(&input, 0)?;
    let how = Combination::of(call.int(0)?)?;
    if how == Combination::Replace {
        return Err(OpError::rule("windows are not reduced").into());
    }
    let counts: Vec<i64> = windows.iter().map(|window| window.count).collect();
    let taps: Vec<i64> = windows.iter().map(|window| window.size).collect();
    let taps = Shape::new(sizes(&taps)?)?;
    if taps.elements() > MOST_TAPS {
        return Err(OpError::rule(format!("windows of {taps:?}")).into());
    }
    let shape = call.set(0, &sizes(&counts)?)?;
    by_kind!(
        input.kind,
        [F32 f32, F64 f64, I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64],
        T => {
            let number = OfNumber { bytes: input.kind.bytes(), how, fold: fold_many::<T> };
            emit(call, windows, (&input.shape, &taps, &shape), number)
        }
    )
}

/// The size of a number of the tensor's type, and what combines two.
#[derive(Clone, Copy)]
struct OfNumber {
    bytes: usize,
    how: Combination,
    fold: FoldMany,
}

/// The shapes of the tensor, a window and the result.
type Shapes<'s> = (&'s Shape, &'s Shape, &'s Shape);

fn emit(
    call: &mut OperatorCall<'_, '_>,
    windows: Vec<Window>,
    shapes: Shapes<'_>,
    number: OfNumber,
) -> Lowered {
    let (input, taps, shape) = shapes;
    let strides = input.strides();
    let (taps, counts) = (taps.to_vec(), shape.to_vec());
    let (each, count): (usize, usize) = (taps.iter().product(), shape.elements());
    let work = u64::try_from(count.saturating_mul(each)).unwrap_or(u64::MAX);
    call.emit(plain("tflite_reduce_window", shape, work), move |io| {
        let OfNumber { bytes, how, fold } = number;
        let (from, to, first) = (io.input::<u8>(0), io.output::<u8>(0), io.input::<u8>(1));
        let Some((line, outer)) = windows.split_last() else { return Ok(()) };
        let (along, rows) = (strides[outer.len()], each / taps[outer.len()].max(1));
        let mut window = [0; MOST_RANK];
        for at in 0..count {
            let sum = to.slice(at * bytes..(at + 1) * bytes);
            sum.copy_from(first);
            let mut tap = [0; MOST_RANK];
            let inner = line.inner(window[outer.len()]);
            let own = |tap: usize| line.element(window[outer.len()], tap);
            let start = own(inner.start).filter(|_| !inner.is_empty());
            for _ in poll::each(0..rows, 5 * windows.len() + taps[outer.len()]) {
                let mut places = outer.iter().zip(window.iter().zip(&tap)).zip(&strides);
                let place = places.try_fold(0, |place, ((axis, (&window, &tap)), stride)| {
                    axis.element(window, tap).map(|own| place + own * stride)
                });
                let many = taps[outer.len()];
                match place {
                    None => fold(how, first, Progression { first: 0, step: 0, count: many }, sum),
                    Some(place) if line.base == 1 => {
                        let border = |count: usize| {
                            if count > 0 {
                                fold(how, first, Progression { first: 0, step: 0, count }, sum);
                            }
                        };
                        border(inner.start);
                        if let Some(start) = start {
                            let step =
                                usize::try_from(line.dilation).unwrap_or(0).saturating_mul(along);
                            let (start, count) = (place + start * along, inner.len());
                            fold(how, from, Progression { first: start, step, count }, sum);
                        }
                        border(many - inner.end);
                    }
                    Some(place) => {
                        for tap in 0..many {
                            let (of, at) =
                                own(tap).map_or((first, 0), |own| (from, place + own * along));
                            fold(how, of, Progression { first: at, step: 0, count: 1 }, sum);
                        }
                    }
                }
                advance(&mut tap[..outer.len()], &taps);
            }
            advance(&mut window[..windows.len()], &counts);
        }
        Ok(())
    });
    Ok(())
}

/// DILATE: so many steps from one element to the next along each dimension; the third input lies
/// between them.
pub(super) fn dilate(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let steps = call.ints(1)?;
    let none = vec![0; steps.len()];
    spread(call, 2, [&none, &none], &steps)
}

/// STABLEHLO_PAD: tensor and filler, then how much of it lies before, behind and between elements.
pub(super) fn stablehlo_pad(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (low, high, between) = (call.ints(2)?, call.ints(3)?, call.ints(4)?);
    let steps: Vec<i64> = between.iter().map(|&gap| gap.saturating_add(1)).collect();
    spread(call, 1, [&low, &high], &steps)
}

fn spread(
    call: &mut OperatorCall<'_, '_>,
    filler: usize,
    borders: [&[i64]; 2],
    steps: &[i64],
) -> Lowered {
    let input = call.arg(0)?;
    call.same(&input, 0)?;
    call.one_element(filler, input.kind)?;
    let own = extents(&input);
    let [low, high] = borders;
    if own.is_empty() || [low, high, steps].iter().any(|list| list.len() != own.len()) {
        return Err(OpError::rule("borders of other dimensions than the tensor's").into());
    }
    let mut wide = Vec::new();
    for axis in 0..own.len() {
        let step = Some(steps[axis]).filter(|&step| step > 0);
        let wanted = step.and_then(|step| (own[axis] - 1).checked_mul(step));
        let wanted = wanted.and_then(|it| it.checked_add(1)?.checked_add(low[axis]));
        let wanted = wanted.and_then(|it| it.checked_add(high[axis]));
        wide.push(wanted.ok_or_else(|| OpError::rule("borders beyond 64 bits"))?);
    }
    if wide.iter().any(|&extent| extent <= 0) {
        wide.fill(0); // as there: nothing is left of any dimension
    }
    let extents = sizes(&wide)?;
    let shape = call.set(0, &extents)?;
    let (from, to) = (strides(&input.shape), strides(&extents));
    let (mut axes, mut starts) = (Vec::new(), [0usize; 2]);
    for axis in 0..own.len() {
        let step = steps[axis];
        // The first and the last element that lie within the result.
        let cut = low[axis].saturating_neg().max(0);
        let first = cut / step + i64::from(cut % step != 0);
        let last = (wide[axis] - 1).saturating_sub(low[axis]).div_euclid(step).min(own[axis] - 1);
        let count = usize::try_from(last - first + 1).unwrap_or(0);
        let place = usize::try_from(first.saturating_mul(step).saturating_add(low[axis]));
        let step = isize::try_from(step).unwrap_or(isize::MAX);
        axes.push(Axis { count, from: from[axis], to: to[axis].saturating_mul(step) });
        if count > 0 {
            let first = usize::try_from(first).unwrap_or(0);
            starts[0] += first * from[axis].unsigned_abs();
            starts[1] += place.unwrap_or(0) * to[axis].unsigned_abs();
        }
    }
    let copy = Copy::new(&axes, starts[0], starts[1], input.kind.bytes());
    let is_empty = shape.elements() == 0 || axes.iter().any(|axis| axis.count == 0);
    call.step(&shape, move |io| {
        super::moves::fill_with(io.output(0), io.input(filler));
        if is_empty {
            return Ok(());
        }
        copy.run(io.input(0), io.output(0))
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_in_borders_and_gaps_are_no_elements() {
        let window =
            Window { extent: 3, base: 2, low: 1, size: 2, stride: 1, dilation: 2, count: 0 };
        let window = window.placed(0).unwrap();
        // border, 0, gap, 1, gap, 2
        assert_eq!(window.count, 4);
        assert_eq!([window.element(0, 0), window.element(0, 1)], [None, None]);
        assert_eq!([window.element(1, 0), window.element(1, 1)], [Some(0), Some(1)]);
        assert_eq!(window.element(3, 1), Some(2));
        assert!(Window { size: i64::MAX, dilation: 2, ..window }.placed(0).is_none());
        assert!(window.placed(-9).is_none());
        // Without gaps those of a window on elements follow each other.
        for (low, high, size, stride, dilation) in
            [(0, 0, 3, 1, 1), (4, 4, 3, 1, 2), (-2, 1, 2, 2, 1), (9, 9, 4, 3, 5), (7, -1, 2, 1, 9)]
        {
            let of = Window { extent: 5, base: 1, low, size, stride, dilation, count: 0 };
            let of = of.placed(high).unwrap();
            for at in 0..usize::try_from(of.count).unwrap() {
                let taps = 0..usize::try_from(size).unwrap();
                let inner = taps.filter(|&tap| of.element(at, tap).is_some());
                assert_eq!(inner.collect::<Vec<_>>(), of.inner(at).collect::<Vec<_>>(), "{of:?}");
            }
        }
        assert_eq!(Window { size: 9, ..window }.placed(0).unwrap().count, 0);
    }
}
