//! Reductions along any axes: which elements become one result, in loops over whole rows and
//! columns, and sums in the order that takes the least time.

use std::any::TypeId;

use half::f16;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::kernels::row_sums_f32::RowSums;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{Element, In, OpError, Real, Shape, poll};

/// The axes that fall away, and the destination of each element.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    pub(super) shape: Shape,
    /// Extents of the input. Neighbouring axes that are reduced alike are one, and those of one
    /// element are left out.
    extents: Vec<usize>,
    /// Stride in the output of each input axis; 0 for those reduced.
    strides: Vec<usize>,
    /// Elements reduced into one.
    pub(super) count: usize,
}

/// Axes as extents and strides: those of one element are left out, and neighbours that are walked
/// alike are one.
fn merged(axes: impl IntoIterator<Item = (usize, usize)>) -> (Vec<usize>, Vec<usize>) {
    let (mut extents, mut strides) = (Vec::<usize>::new(), Vec::<usize>::new());
    for (extent, stride) in axes {
        let outer = extents.last_mut().zip(strides.last_mut());
        match outer {
            _ if extent == 1 => {}
            Some((outer, of)) if *of == stride * extent => {
                (*outer, *of) = (*outer * extent, stride);
            }
            _ => {
                extents.push(extent);
                strides.push(stride);
            }
        }
    }
    (extents, strides)
}

/// The places in the output of all positions along some axes, in order.
#[inline(always)]
fn places<'a>(extents: &'a [usize], strides: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    (0..extents.iter().product()).map(move |row| {
        // Divisions would take longer than a short line.
        if let [stride] = strides {
            return row * stride;
        }
        let (mut rest, mut to) = (row, 0);
        for (&extent, &stride) in extents.iter().zip(strides).rev() {
            to += rest % extent * stride;
            rest /= extent;
        }
        to
    })
}

impl Reduction {
    pub(super) fn new(input: &Shape, axes: &[i32], keep: bool) -> Result<Self, OpError> {
        let mut reduced = vec![false; input.rank()];
        for &axis in axes {
            reduced[input.axis(axis)?] = true;
        }
        let full: Vec<usize> =
            input.iter().zip(&reduced).map(|(&n, &gone)| if gone { 1 } else { n }).collect();
        let mut strides = Shape::new(full.clone())?.strides();
        strides.iter_mut().zip(&reduced).for_each(|(s, &gone)| *s = if gone { 0 } else { *s });
        let mut extents: Vec<usize> = full
            .iter()
            .zip(&reduced)
            .filter(|&(_, &gone)| keep || !gone)
            .map(|(&extent, _)| extent)
            .collect();
        if extents.is_empty() {
            extents.push(1);
        }
        let shape = Shape::new(extents)?;
        let count = input.elements().checked_div(shape.elements()).unwrap_or(0);
        let (extents, strides) = merged(input.iter().copied().zip(strides));
        Ok(Self { shape, extents, strides, count })
    }

    /// The columns of the rows that are one result each, if the input is such rows. A long row
    /// alone is none of them: side by side its elements are added in other lanes.
    pub(super) fn columns_of_rows(&self) -> Option<usize> {
        const LONG: usize = 1 << 12;
        match (&self.extents[..], &self.strides[..]) {
            (&[_, columns], [1, 0]) => Some(columns),
            (&[columns @ 1..LONG], [0]) => Some(columns),
            _ => None,
        }
    }

    /// Where the last axis is reduced and another one outside of it: the same reduction of all but
    /// the last axis, and the columns that this leaves for each result.
    fn all_but_last(&self) -> Option<(Self, usize)> {
        let (&columns, outer) = self.extents.split_last()?;
        if outer.len() < 2 || self.strides.last() != Some(&0) {
            return None;
        }
        let axes = outer.iter().zip(&self.strides).map(|(&n, &stride)| (n, stride * columns));
        let (extents, strides) = merged(axes.chain([(columns, 1)]));
        let count = self.count.checked_div(columns)?;
        let shape = Shape::new([self.shape.elements(), columns]).ok()?;
        Some((Self { shape, extents, strides, count }, columns))
    }

    /// Rows that are one result each.
    fn of_rows(rows: &Shape, columns: usize) -> Self {
        let (extents, strides) = merged([(rows.elements(), 1), (columns, 0)]);
        Self { shape: rows.clone(), extents, strides, count: columns }
    }

    /// Adds what `read` makes of each element to the sum it belongs to. A function by its name, no
    /// closure, is one type in all callers, whose loops are then compiled once.
    pub(super) fn add<T: Element, S: Element + std::ops::Add<Output = S>>(
        &self,
        isa: Isa,
        input: In<'_, T>,
        sums: &mut [S],
        read: impl Fn(T) -> S,
    ) {
        self.fold(isa, input, sums, S::default(), |sum: S, x| sum + read(x), |a, b| a + b);
    }

    /// The smallest or largest elements; `results` begin with what none is beyond.
    pub(super) fn extremes<T: Element>(
        &self,
        isa: Isa,
        input: In<'_, T>,
        results: &mut [T],
        start: T,
        largest: bool,
    ) {
        // A loop each: where the direction is a value, no loop becomes vectors.
        match largest {
            true => self.fold(isa, input, results, start, larger, larger),
            false => self.fold(isa, input, results, start, smaller, smaller),
        }
    }

    /// Folds each element into the result that it belongs to; `join` is the same of two results,
    /// and `start` the result of nothing. Elements are taken in an order of its own.
    pub(super) fn fold<T: Element, S: Element>(
        &self,
        isa: Isa,
        input: In<'_, T>,
        results: &mut [S],
        start: S,
        each: impl Fn(S, T) -> S,
        join: impl Fn(S, S) -> S,
    ) {
        let fold = Fold {
            reduction: self,
            input,
            results,
            start,
            fold: &|lanes, input, rows, results| {
                isa.run(FoldRows { lanes, input, rows, results, each: &each, join: &join });
            },
            fold_lines: &|input, len, results| {
                // Some side by side: one waits for each of its elements.
                let (some, rest) = results.as_chunks_mut::<4>();
                let (lines, done) = (len * 4, some.len() * 4 * len);
                for (at, results) in some.iter_mut().enumerate() {
                    let lines = input.slice(at * lines..(at + 1) * lines);
                    let mut folded = [start; 4];
                    for at in 0..len {
                        let of = |line: usize| lines.get(line * len + at);
                        folded[0] = each(folded[0], of(0));
                        folded[1] = each(folded[1], of(1));
                        folded[2] = each(folded[2], of(2));
                        folded[3] = each(folded[3], of(3));
                    }
                    results.iter_mut().zip(folded).for_each(|(a, b)| *a = join(*a, b));
                }
                for (at, result) in rest.iter_mut().enumerate() {
                    let line = input.slice(done + at * len..done + (at + 1) * len);
                    *result = join(*result, line.iter().fold(start, &each));
                }
            },
            join: &|lanes, Joined { columns, together }, results| {
                let mut left = together;
                if (columns, together) == (1, LANES) {
                    lanes[0] = joined(*lanes, &join);
                    left = 1;
                }
                while left > 1 {
                    let half = left.div_ceil(2);
                    let (some, others) = lanes.split_at_mut(half * columns);
                    let others = &others[..(left - half) * columns];
                    some.iter_mut().zip(others).for_each(|(a, &b)| *a = join(*a, b));
                    left = half;
                }
                results.iter_mut().zip(lanes).for_each(|(a, b)| *a = join(*a, *b));
            },
        };
        // A run that is to end is noticed by whoever asks for the results.
        let _ = fold.run();
    }
}

/// The larger of two; the first where one of them is no number.
#[inline(always)]
fn larger<T: Element>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// The smaller of two; the first where one of them is no number.
#[inline(always)]
fn smaller<T: Element>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

/// Elements that are folded side by side, the same in every form: one result alone waits for each
/// addition, 0.3 us for 256 floats.
const LANES: usize = 64;

/// Elements of a line that is short.
const SHORT: usize = 32;

/// Rows of few elements that lie one behind the other, as many side by side as there are lanes for.
#[derive(Clone, Copy)]
struct FewColumns {
    /// Elements of as many rows.
    width: usize,
    /// How many times that are folded, and elements of the last.
    count: usize,
    last: usize,
    joined: Joined,
}

impl FewColumns {
    /// Of at least one row, and one column.
    fn of(rows: usize, columns: usize) -> Self {
        let together = LANES / columns;
        let width = together * columns;
        let count = (rows * columns).div_ceil(width);
        let last = rows * columns - (count - 1) * width;
        Self { width, count, last, joined: Joined { columns, together: together.min(rows) } }
    }
}

/// Rows of elements that are folded into the lanes.
#[derive(Clone, Copy)]
struct LaneRows {
    count: usize,
    /// Elements from a row to the next one.
    stride: usize,
    /// Elements of the last row that are; those behind them are no part of it.
    last: usize,
}

/// Folds rows into the lanes: [`FoldRows`].
type FoldLanes<'f, T, S> = dyn Fn(&mut [S; LANES], In<'_, T>, LaneRows, &mut [S]) + 'f;

/// Folds lines of so many elements into a result each.
type FoldLines<'f, T, S> = dyn Fn(In<'_, T>, usize, &mut [S]) + 'f;

/// Joins lanes that are some rows side by side, and then results with those.
type Join<'f, S> = dyn Fn(&mut [S; LANES], Joined, &mut [S]) + 'f;

/// What lanes are: so many rows of so many columns.
#[derive(Clone, Copy)]
struct Joined {
    columns: usize,
    together: usize,
}

/// The results of all that are reduced into one. What finds elements and results is compiled once
/// for all functions of the same types, and for every instruction set only what folds rows of
/// [`LANES`] elements: [`FoldRows`].
struct Fold<'a, T, S> {
    reduction: &'a Reduction,
    input: In<'a, T>,
    results: &'a mut [S],
    start: S,
    fold: &'a FoldLanes<'a, T, S>,
    fold_lines: &'a FoldLines<'a, T, S>,
    join: &'a Join<'a, S>,
}

impl<T: Element, S: Element> Fold<'_, T, S> {
    #[inline(never)]
    fn run(mut self) -> Result<(), poll::Halted> {
        let Reduction { extents, strides, .. } = self.reduction;
        // Where the last but one axis is reduced, all its lines at once. A line that is reduced is
        // as many of one column, and a single number is a line of one.
        let (outer, rows, columns) = match (&extents[..], &strides[..]) {
            ([outer @ .., rows, columns], [.., 0, 1]) => (outer, *rows, *columns),
            ([outer @ .., columns], [.., 0]) => (outer, *columns, 1),
            ([outer @ .., columns], _) => (outer, 1, *columns),
            _ => (&[][..], 1, 1),
        };
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        if let (&[rows, columns @ 1..=SHORT], [1, 0]) = (&extents[..], &strides[..]) {
            for (at, results) in self.results[..rows].chunks_mut(LANES).enumerate() {
                poll::work(results.len() * columns)?;
                let from = at * LANES * columns;
                let lines = self.input.slice(from..from + results.len() * columns);
                (self.fold_lines)(lines, columns, results);
            }
            return Ok(());
        }
        let done = if columns == 1 { self.whole_rows()? } else { 0 };
        let few = (columns < LANES).then(|| FewColumns::of(rows, columns));
        for (at, to) in places(outer, &strides[..outer.len()]).enumerate().skip(done) {
            poll::work(8)?;
            let from = at * rows * columns;
            match few {
                Some(few) => self.few_columns(from, to, few)?,
                None => self.columns(from, to, rows, columns)?,
            }
        }
        Ok(())
    }

    /// Folds rows that are one result each, as long as all lanes can be read; returns how many
    /// were. None are where the input is no such rows.
    fn whole_rows(&mut self) -> Result<usize, poll::Halted> {
        let (&[rows, columns @ 1..=poll::CHUNK], [1, 0]) =
            (&self.reduction.extents[..], &self.reduction.strides[..])
        else {
            return Ok(0);
        };
        let lanes = columns.next_multiple_of(LANES);
        let Some(others) = self.input.len().checked_sub(lanes) else { return Ok(0) };
        let whole = rows.min(others / columns + 1);
        let together = poll::CHUNK / columns;
        for (at, results) in self.results[..whole].chunks_mut(together).enumerate() {
            poll::work(results.len() * columns)?;
            let from = at * together * columns;
            let len = (results.len() - 1) * columns + lanes;
            let rows = LaneRows::of(columns);
            let input = self.input.slice(from..from + len);
            (self.fold)(&mut [self.start; LANES], input, rows, results);
        }
        Ok(whole)
    }

    /// Folds rows from the element `from` on, all of which are there.
    fn fold(
        &self,
        lanes: &mut [S; LANES],
        mut from: usize,
        mut rows: LaneRows,
    ) -> Result<(), poll::Halted> {
        while rows.count > 0 {
            let count = rows.count.min(poll::CHUNK / LANES);
            poll::work(count * LANES)?;
            let input = self.input.slice(from..from + (count - 1) * rows.stride + LANES);
            rows.count -= count;
            let last = if rows.count == 0 { rows.last } else { LANES };
            (self.fold)(lanes, input, LaneRows { count, last, ..rows }, &mut []);
            from += count * rows.stride;
        }
        Ok(())
    }

    /// Rows of many elements, each of which is folded into the result at its place.
    fn columns(
        &mut self,
        from: usize,
        to: usize,
        rows: usize,
        columns: usize,
    ) -> Result<(), poll::Halted> {
        let rows = LaneRows { count: rows, stride: columns, last: LANES };
        for column in (0..columns).step_by(LANES) {
            // The last ones lie over those before, whose results are there.
            let first = column.min(columns - LANES);
            let mut lanes = [self.start; LANES];
            self.fold(&mut lanes, from + first, rows)?;
            let count = LANES.min(columns - column);
            if count < LANES {
                lanes.copy_within(LANES - count.., 0);
            }
            let alone = Joined { columns: count, together: 1 };
            (self.join)(&mut lanes, alone, &mut self.results[to + column..][..count]);
        }
        Ok(())
    }

    /// Rows of few elements, from the one at `from` on.
    fn few_columns(
        &mut self,
        mut from: usize,
        to: usize,
        few: FewColumns,
    ) -> Result<(), poll::Halted> {
        let FewColumns { width, count, last, joined } = few;
        let mut lanes = [self.start; LANES];
        // All lanes are read, also those behind the last column: they must be there.
        if from + (count - 1) * width + LANES <= self.input.len() {
            self.fold(&mut lanes, from, LaneRows { count, stride: width, last })?;
        } else {
            let there = (self.input.len() - from + width).saturating_sub(LANES) / width;
            let some = count.min(there);
            self.fold(&mut lanes, from, LaneRows { count: some, stride: width, last: LANES })?;
            from += some * width;
            for at in some..count {
                let last = if at + 1 == count { last } else { width };
                let mut rest = [T::default(); LANES];
                self.input.slice(from..from + last).copy_to(&mut rest);
                let rows = LaneRows { count: 1, stride: 0, last };
                (self.fold)(&mut lanes, In::of(&rest), rows, &mut []);
                from += last;
            }
        }
        (self.join)(&mut lanes, joined, &mut self.results[to..][..joined.columns]);
        Ok(())
    }
}

impl LaneRows {
    /// The lanes of a row of so many columns, at least one.
    fn of(columns: usize) -> Self {
        let count = columns.div_ceil(LANES);
        Self { count, stride: LANES, last: columns - (count - 1) * LANES }
    }

    /// Elements of all rows, where they lie one behind the other.
    fn elements(self) -> usize {
        (self.count - 1) * self.stride + self.last
    }
}

/// Folds rows into [`LANES`] lanes, an element into the one at its place.
///
/// Where there are results, each is of as many rows, which lie one behind the other; the lanes
/// begin for each as they are, and are joined with it. All lanes of all rows are read.
struct FoldRows<'a, T, S, E, J> {
    lanes: &'a mut [S; LANES],
    input: In<'a, T>,
    rows: LaneRows,
    results: &'a mut [S],
    each: &'a E,
    join: &'a J,
}

impl<T: Element, S: Element, E: Fn(S, T) -> S, J: Fn(S, S) -> S> Loop for FoldRows<'_, T, S, E, J> {
    #[inline(always)]
    fn run(self) {
        let Self { lanes: all, input, rows, results, each, join } = self;
        let LaneRows { count, stride, last } = rows;
        let whole = if last < LANES { count - 1 } else { count };
        for at in 0..results.len().max(1) {
            let input = input.slice(at * rows.elements()..input.len());
            // A copy, so that they stay in registers.
            let mut lanes = *all;
            for row in 0..whole {
                let xs = input.block::<LANES>(row * stride);
                lanes.iter_mut().zip(&xs).for_each(|(lane, &x)| *lane = each(*lane, x));
            }
            if whole < count {
                let xs = input.block::<LANES>(whole * stride);
                for (at, (lane, &x)) in lanes.iter_mut().zip(&xs).enumerate() {
                    *lane = if at < last { each(*lane, x) } else { *lane };
                }
            }
            match results.get_mut(at) {
                Some(result) => *result = join(*result, joined(lanes, join)),
                None => *all = lanes,
            }
        }
    }
}

/// All lanes joined in one, halves with each other. The compiler knows sums and extremes of
/// integers one by one.
#[inline(always)]
fn joined<S: Element>(mut lanes: [S; LANES], join: &impl Fn(S, S) -> S) -> S {
    if !is_float::<S>() {
        return lanes[1..].iter().fold(lanes[0], |all, &lane| join(all, lane));
    }
    // All of it known, for the compiler to make vectors of.
    for half in [LANES / 2, LANES / 4, LANES / 8, LANES / 16, 2, 1] {
        for lane in 0..half {
            lanes[lane] = join(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

/// Sums of floats along the axes of a reduction.
///
/// Rows are added four at a time. Where the last axis is reduced and another one outside of it,
/// rows are added to each other first: a row of eight elements alone takes as long as one of 64.
#[derive(Clone, Debug)]
pub(super) struct RealSums {
    isa: Isa,
    reduction: Reduction,
    rows: RowSums,
    /// What is added first, and the columns that it leaves for each sum.
    first: Option<(Reduction, usize)>,
}

impl RealSums {
    pub(super) fn new(isa: Isa, reduction: Reduction) -> Self {
        let first = reduction.all_but_last();
        Self { isa, reduction, rows: RowSums::new(isa), first }
    }

    /// The elements that are added up in one.
    pub(super) fn count(&self) -> usize {
        self.reduction.count
    }

    /// Elements of scratch memory.
    pub(super) fn scratch_elements(&self) -> usize {
        let columns = self.first.as_ref().map_or(0, |(_, columns)| *columns);
        self.reduction.shape.elements().saturating_mul(columns.saturating_add(1))
    }

    /// The sums of an input's elements, in the scratch memory.
    ///
    /// # Errors
    /// The run is to end.
    pub(super) fn compute<'s, T: Real>(
        &self,
        input: In<'_, T>,
        scratch: &'s mut [f32],
    ) -> Result<&'s [f32], String> {
        let Self { isa, reduction, rows, first } = self;
        let (sums, partial) = scratch.split_at_mut(reduction.shape.elements().min(scratch.len()));
        if let Some((first, columns)) = first {
            let partial = &mut partial[..sums.len() * columns];
            poll::fill(partial, 0.0)?;
            first.add(*isa, input, partial, T::to_f32);
            rows.compute(In::of(partial), sums)?;
        } else if reduction.columns_of_rows().is_some() && size_of::<T>() == size_of::<f32>() {
            rows.compute(input.cast(), sums)?;
        } else {
            poll::fill(sums, 0.0)?;
            reduction.add(*isa, input, sums, T::to_f32);
        }
        Ok(sums)
    }
}

/// Sums of integers along the axes of a reduction, in the same two steps.
#[derive(Clone, Debug)]
pub(super) struct IntegerSums {
    isa: Isa,
    reduction: Reduction,
    /// What is added first, and what is added of that.
    steps: Option<[Reduction; 2]>,
}

impl IntegerSums {
    pub(super) fn new(isa: Isa, reduction: Reduction) -> Self {
        let steps = reduction
            .all_but_last()
            .map(|(first, columns)| [first, Reduction::of_rows(&reduction.shape, columns)]);
        Self { isa, reduction, steps }
    }

    /// Elements of scratch memory.
    pub(super) fn scratch_elements(&self) -> usize {
        let first = self.steps.as_ref().map_or(0, |[first, _]| first.shape.elements());
        self.reduction.shape.elements().saturating_add(first)
    }

    /// The sums of an input's elements, in the scratch memory. They must not overflow.
    ///
    /// # Errors
    /// The run is to end.
    pub(super) fn compute<'s, T: Element + Into<i32>>(
        &self,
        input: In<'_, T>,
        scratch: &'s mut [i32],
    ) -> Result<&'s mut [i32], String> {
        let Self { isa, reduction, steps } = self;
        poll::fill(scratch, 0)?;
        let (sums, partial) = scratch.split_at_mut(reduction.shape.elements().min(scratch.len()));
        if let Some([first, last]) = steps {
            first.add(*isa, input, partial, Into::into);
            last.add(*isa, In::of(partial), sums, Into::into);
        } else {
            reduction.add(*isa, input, sums, Into::into);
        }
        Ok(sums)
    }
}

/// Returns whether the order of operations makes a difference.
#[inline(always)]
fn is_float<S: Element>() -> bool {
    let of = TypeId::of::<S>();
    of == TypeId::of::<f32>() || of == TypeId::of::<f64>() || of == TypeId::of::<f16>()
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::tensor::quant::truncate;

    use super::*;

    #[test]
    fn nothing_is_folded_where_there_is_nothing() {
        for extents in [[0, 3, 2], [2, 0, 3], [3, 2, 0], [2, 0, 0]] {
            for gone in 0..8u32 {
                let axes: Vec<i32> = (0..3).filter(|axis| gone >> axis & 1 == 1).collect();
                let reduction =
                    Reduction::new(&Shape::new(extents).unwrap(), &axes, false).unwrap();
                let mut results = vec![7i64; reduction.shape.elements()];
                reduction.add(Isa::best(), In::of(&[0i64; 0]), &mut results, |x| x);
                reduction.extremes(Isa::best(), In::of(&[]), &mut results, 9, true);
                assert!(results.iter().all(|&x| x == 7 || x == 9), "{extents:?} {axes:?}");
            }
        }
    }

    #[test]
    fn floats_are_added_along_any_axes() {
        let shape = Shape::new([3, 4, 5, 2, 6]).unwrap();
        let integers: Vec<i16> = (0..720).map(|at| at * 37 % 101 - 50).collect();
        let numbers: Vec<f32> = integers.iter().map(|&x| x.into()).collect();
        for gone in 0..32u32 {
            let axes: Vec<i32> = (0..5).filter(|axis| gone >> axis & 1 == 1).collect();
            let reduction = Reduction::new(&shape, &axes, false).unwrap();
            let mut want = vec![0.0; reduction.shape.elements()];
            for (at, x) in numbers.iter().enumerate() {
                let (mut rest, mut to, mut stride) = (at, 0, 1);
                for (axis, extent) in shape.iter().enumerate().rev() {
                    if gone >> axis & 1 == 0 {
                        to += rest % extent * stride;
                        stride *= extent;
                    }
                    rest /= extent;
                }
                want[to] += x;
            }
            for isa in Isa::all() {
                let sums = RealSums::new(isa, reduction.clone());
                let mut scratch = vec![9.0; sums.scratch_elements()];
                // Integers, so that their order makes no difference.
                let got = sums.compute(In::of(&numbers), &mut scratch).unwrap();
                assert_eq!(got, want, "{axes:?}, {isa:?}");
                let sums = IntegerSums::new(isa, reduction.clone());
                let mut scratch = vec![9; sums.scratch_elements()];
                let got = sums.compute(In::of(&integers), &mut scratch).unwrap();
                assert!(got.iter().zip(&want).all(|(&sum, &x)| sum == truncate(x)), "{axes:?}");
            }
        }
    }

    #[test]
    fn rows_of_any_length_are_folded() {
        for columns in (30..70).chain([127, 128, 129, 200, 320, poll::CHUNK, poll::CHUNK + 1]) {
            for rows in 1..=if columns > 320 { 2 } else { 5 } {
                let numbers = (0..1009i16).cycle().step_by(389).map(|x| x - 500);
                let numbers: Vec<i16> = numbers.take(rows * columns).collect();
                let floats: Vec<f32> = numbers.iter().map(|&x| x.into()).collect();
                let shape = Shape::new([rows, columns]).unwrap();
                let reduction = Reduction::new(&shape, &[1], false).unwrap();
                let want = numbers.chunks(columns);
                let sums: Vec<i64> =
                    want.clone().map(|row| row.iter().copied().map(i64::from).sum()).collect();
                let most: Vec<i16> = want.clone().map(|row| *row.iter().max().unwrap()).collect();
                let least: Vec<f32> = want.map(|row| (*row.iter().min().unwrap()).into()).collect();
                for isa in Isa::all() {
                    let mut got = vec![0i64; rows];
                    reduction.add(isa, In::of(&numbers), &mut got, i64::from);
                    assert_eq!(got, sums, "{rows} of {columns}, {isa:?}");
                    let mut got = vec![i16::MIN; rows];
                    reduction.extremes(isa, In::of(&numbers), &mut got, i16::MIN, true);
                    assert_eq!(got, most, "{rows} of {columns}, {isa:?}");
                    let mut got = vec![f32::MAX; rows];
                    reduction.extremes(isa, In::of(&floats), &mut got, f32::MAX, false);
                    assert_eq!(got, least, "{rows} of {columns}, {isa:?}");
                }
            }
        }
    }
}
