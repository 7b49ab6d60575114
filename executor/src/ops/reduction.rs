//! Reductions along any axes: which elements become one result, in loops over whole rows and
//! columns, and sums in the order that takes the least time.

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

    /// The columns of the rows that are one result each, if the input is such rows.
    pub(super) fn columns_of_rows(&self) -> Option<usize> {
        matches!(self.strides[..], [1, 0]).then(|| self.extents[1])
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
        isa.run(Fold { reduction: self, input, results, start, each, join });
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

/// The results of all that are reduced into one. Of a line that is reduced every sixteenth element
/// is taken by itself first, the same in every form: one result alone waits for each addition,
/// 0.3 us for 256 floats. Short lines are taken in order, several side by side. Where lines are
/// added to each other, some of their columns stay in registers.
struct Fold<'a, T, S, E, J> {
    reduction: &'a Reduction,
    input: In<'a, T>,
    results: &'a mut [S],
    start: S,
    each: E,
    join: J,
}

impl<T, S, E, J> Loop for Fold<'_, T, S, E, J>
where
    T: Element,
    S: Element,
    E: Fn(S, T) -> S,
    J: Fn(S, S) -> S,
{
    #[inline(always)]
    fn run(mut self) {
        let Reduction { extents, strides, .. } = self.reduction;
        // Where the last but one axis is reduced, all its lines at once.
        let (outer, rows, columns, step) = match (&extents[..], &strides[..]) {
            ([outer @ .., rows, columns], [.., 0, 1]) => (outer, *rows, *columns, 1),
            ([outer @ .., columns], [.., step]) => (outer, 1, *columns, *step),
            // A single number is a line of one.
            _ => (&[][..], 1, 1, 0),
        };
        if let (&[rows, columns @ 1..=SHORT], [1, 0]) = (&extents[..], &strides[..]) {
            return self.short_lines(rows, columns);
        }
        // No closure: of one as large as this the compiler makes a function of its own, which has
        // no vectors.
        for (at, to) in places(outer, strides).enumerate() {
            let from = at * rows * columns;
            if poll::work(8).is_err() {
                return;
            }
            match step {
                0 => self.line(from, to, columns),
                _ => self.columns([from, to], rows, columns),
            }
        }
    }
}

impl<T, S, E, J> Fold<'_, T, S, E, J>
where
    T: Element,
    S: Element,
    E: Fn(S, T) -> S,
    J: Fn(S, S) -> S,
{
    /// Lines that become one result each, element by element but several side by side: blocks and
    /// what is found out of them take longer than few elements do.
    #[inline(always)]
    fn short_lines(&mut self, lines: usize, len: usize) {
        const TOGETHER: usize = 8;
        let whole = lines / TOGETHER * TOGETHER;
        for first in (0..whole).step_by(TOGETHER) {
            if poll::work(TOGETHER * len).is_err() {
                return;
            }
            self.some_lines::<TOGETHER>(first, len);
        }
        (whole..lines).for_each(|line| self.some_lines::<1>(line, len));
    }

    #[inline(always)]
    fn some_lines<const N: usize>(&mut self, first: usize, len: usize) {
        let mut results = [self.start; N];
        for at in 0..len {
            for (line, result) in results.iter_mut().enumerate() {
                let x = self.input.get((first + line) * len + at);
                *result = (self.each)(*result, x);
            }
        }
        for (to, result) in self.results[first..][..N].iter_mut().zip(results) {
            *to = (self.join)(*to, result);
        }
    }

    /// A line that becomes one result.
    #[inline(always)]
    fn line(&mut self, from: usize, to: usize, count: usize) {
        let whole = from + count / BLOCK * BLOCK;
        let mut lanes = [self.start; BLOCK];
        for start in (from..whole).step_by(poll::CHUNK) {
            let end = whole.min(start + poll::CHUNK);
            if poll::work(end - start).is_err() {
                return;
            }
            for at in (start..end).step_by(BLOCK) {
                let xs = self.input.block::<BLOCK>(at);
                lanes.iter_mut().zip(&xs).for_each(|(lane, &x)| *lane = (self.each)(*lane, x));
            }
        }
        for half in [BLOCK / 2, BLOCK / 4, BLOCK / 8, BLOCK / 16] {
            (0..half).for_each(|lane| lanes[lane] = (self.join)(lanes[lane], lanes[lane + half]));
        }
        let rest = self.input.slice(whole..from + count).iter();
        let result = rest.fold(lanes[0], |result, x| (self.each)(result, x));
        self.results[to] = (self.join)(self.results[to], result);
    }

    /// `rows` lines one behind the other, each folded into the same results: an element into the
    /// one at its place.
    #[inline(always)]
    fn columns(&mut self, places: [usize; 2], rows: usize, columns: usize) {
        const WIDE: usize = 4 * BLOCK;
        let mut column = 0;
        while column < columns {
            if poll::work(rows.saturating_mul(WIDE / 8)).is_err() {
                return;
            }
            let extents = [rows, columns];
            column += match columns - column {
                WIDE.. => self.some_columns::<WIDE, true>(places, column, extents),
                BLOCK.. => self.some_columns::<BLOCK, true>(places, column, extents),
                _ => self.some_columns::<BLOCK, false>(places, column, extents),
            };
        }
    }

    /// `N` columns from the one `first` on, or those that are left where not `ALL` are there;
    /// returns how many.
    #[inline(always)]
    fn some_columns<const N: usize, const ALL: bool>(
        &mut self,
        [from, to]: [usize; 2],
        first: usize,
        [rows, columns]: [usize; 2],
    ) -> usize {
        let count = if ALL { N } else { N.min(columns - first) };
        // Rows in turns: of few columns each addition would wait for the one before it.
        let mut turns = [[self.start; N]; TURNS];
        let whole = if N <= BLOCK { rows / TURNS * TURNS } else { 0 };
        for row in (0..whole).step_by(TURNS) {
            if row % REPORT_ROWS == REPORT_ROWS - TURNS && poll::work(2 * REPORT_ROWS).is_err() {
                return count;
            }
            for (turn, results) in turns.iter_mut().enumerate() {
                let xs = self.row::<N, ALL>(from + (row + turn) * columns + first, count);
                results
                    .iter_mut()
                    .zip(&xs)
                    .for_each(|(result, &x)| *result = (self.each)(*result, x));
            }
        }
        let mut results = [self.start; N];
        results[..count].copy_from_slice(&self.results[to + first..][..count]);
        if whole > 0 {
            let [a, b, c, d] = turns;
            for (lane, result) in results.iter_mut().enumerate() {
                let halves = ((self.join)(a[lane], b[lane]), (self.join)(c[lane], d[lane]));
                *result = (self.join)(*result, (self.join)(halves.0, halves.1));
            }
        }
        for row in whole..rows {
            if row % REPORT_ROWS == REPORT_ROWS - 1 && poll::work(2 * REPORT_ROWS).is_err() {
                return count;
            }
            let xs = self.row::<N, ALL>(from + row * columns + first, count);
            results.iter_mut().zip(&xs).for_each(|(result, &x)| *result = (self.each)(*result, x));
        }
        self.results[to + first..][..count].copy_from_slice(&results[..count]);
        count
    }

    /// `count` elements, and where not `ALL` are asked for, whatever is behind them.
    #[inline(always)]
    fn row<const N: usize, const ALL: bool>(&self, at: usize, count: usize) -> [T; N] {
        if ALL || at + N <= self.input.len() {
            return self.input.block(at);
        }
        std::array::from_fn(|lane| self.input.get(at + lane.min(count - 1)))
    }
}

/// Rows that are folded side by side, where they have few columns.
const TURNS: usize = 4;

/// Rows between two reports of work: there may be as many as memory holds.
const REPORT_ROWS: usize = 1 << 12;

/// Elements that are added side by side.
const BLOCK: usize = 16;

/// Elements of a line that is short.
const SHORT: usize = 32;

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
    ) -> Result<&'s [i32], String> {
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

#[cfg(test)]
mod tests {
    use nnburst_kernels::tensor::quant::truncate;

    use super::*;

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
}
