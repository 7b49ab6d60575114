//! MEAN: the average over some axes.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::{Loop, map};
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::quant::truncate;
use nnburst_kernels::tensor::{Element, In, OpError, Quantised, Real, Shape, poll};

use super::Op;
use super::support::{compiled, dispatch, same_quantisation};
use crate::lowering::recipe::Recipe;
use crate::lowering::{Lowered, OpBuilder};

pub(super) static MEAN: Op = Op { lower };

/// Axes may be negative and repeat; none reduce nothing. What is left of all axes is `[1]`.
/// The quantised mean is rounded to nearest, halves away from zero: the reference truncates, which
/// is biased, and both are within what the interface allows.
///
/// Source: NNAPI `MEAN`, since HAL 1.1.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    if input.shape.rank() > 4 || input.shape.contains(&0) {
        return Err(
            OpError::input(0, format!("{:?} is empty or of rank above 4", input.shape)).into()
        );
    }
    let reduction = Reduction::new(&input.shape, &op.i32s(1)?, op.i32(2)? > 0)?;
    op.set_output(0, reduction.shape.clone())?;
    dispatch!(input.kind, 0, real: real(op, reduction), byte: byte(op, reduction))
}

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
        let (mut extents, mut merged) = (Vec::<usize>::new(), Vec::<usize>::new());
        for (&extent, &stride) in input.iter().zip(&strides) {
            let outer = extents.last_mut().zip(merged.last_mut());
            match outer {
                _ if extent == 1 => {}
                Some((outer, of)) if *of == stride * extent => {
                    (*outer, *of) = (*outer * extent, stride);
                }
                _ => {
                    extents.push(extent);
                    merged.push(stride);
                }
            }
        }
        Ok(Self { shape, extents, strides: merged, count })
    }

    /// Adds what `read` makes of each element to the sum it belongs to.
    fn add<T: Element, S: Element + std::ops::Add<Output = S>>(
        &self,
        isa: Isa,
        input: In<'_, T>,
        sums: &mut [S],
        read: impl Fn(T) -> S,
    ) {
        self.fold(isa, input, sums, S::default(), |sum: S, x| sum + read(x), |a, b| a + b);
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

/// The results of all that are reduced into one. Of a line that is reduced every sixteenth element
/// is taken by itself first, the same in every form: one result alone waits for each addition,
/// 0.3 us for 256 floats. Where lines are added to each other, some of their columns stay in
/// registers.
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
                lanes.iter_mut().zip(xs).for_each(|(lane, x)| *lane = (self.each)(*lane, x));
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
            if poll::work(rows * WIDE / 8).is_err() {
                return;
            }
            column += match columns - column {
                WIDE.. => self.some_columns::<WIDE>(places, column, rows, columns),
                BLOCK.. => self.some_columns::<BLOCK>(places, column, rows, columns),
                _ => self.some_columns::<1>(places, column, rows, columns),
            };
        }
    }

    /// `N` columns from the one `first` on; returns `N`.
    #[inline(always)]
    fn some_columns<const N: usize>(
        &mut self,
        [from, to]: [usize; 2],
        first: usize,
        rows: usize,
        columns: usize,
    ) -> usize {
        let mut results = [self.start; N];
        results.copy_from_slice(&self.results[to + first..][..N]);
        for row in 0..rows {
            if row % REPORT_ROWS == REPORT_ROWS - 1 && poll::work(REPORT_ROWS).is_err() {
                return N;
            }
            let xs = self.input.block::<N>(from + row * columns + first);
            results.iter_mut().zip(xs).for_each(|(result, x)| *result = (self.each)(*result, x));
        }
        self.results[to + first..][..N].copy_from_slice(&results);
        N
    }
}

/// Rows between two reports of work: there may be as many as memory holds.
const REPORT_ROWS: usize = 1 << 12;

/// Elements that are added side by side.
const BLOCK: usize = 16;

#[expect(
    clippy::cast_precision_loss,
    reason = "counts within 24 bits are exact, others near enough"
)]
fn real<T: Real>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
    let elements = reduction.shape.elements();
    let isa = op.isa();
    let label = compiled(isa, "mean_real", &reduction.shape, 0);
    let rows_of = match (&reduction.extents[..], &reduction.strides[..]) {
        (&[_, columns], [1, 0]) if op.input_kind(0)? == OperandType::TensorFloat32 => Some(columns),
        _ => None,
    };
    op.emit_with_scratch(label, elements * 4, move |mut io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let sums = io.scratch_slice::<f32>();
        poll::fill(sums, 0.0)?;
        reduction.add(isa, input, sums, T::to_f32);
        output.fill(sums.iter().map(|sum| T::from_f32(sum / reduction.count as f32)));
        Ok(())
    });
    if let Some(columns) = rows_of {
        op.recipe(Recipe::Means { columns });
    }
    Ok(())
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
    same_quantisation(&op.input(0)?, &op.output(0)?)?;
    let elements = reduction.shape.elements();
    let count = i32::try_from(reduction.count)
        .ok()
        .filter(|&count| count <= 1 << 23)
        .ok_or_else(|| OpError::rule(format!("a mean over {} elements", reduction.count)))?;
    let isa = op.isa();
    let label = compiled(isa, "mean_byte", &reduction.shape, 0);
    op.emit_with_scratch(label, elements * 4, move |mut io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let sums = io.scratch_slice::<i32>();
        poll::fill(sums, 0)?;
        reduction.add(isa, input, sums, T::to_i32);
        in_chunks(sums.len().min(output.len()), |part| {
            let (sums, output) = (In::of(sums).slice(part.clone()), output.slice(part));
            map(isa, sums, output, |sum: i32| T::from_i32(divide_round(sum, count)));
            Ok(())
        })
    });
    Ok(())
}

/// To nearest, halves away from zero: of a sum of `count` bytes, at least one.
#[inline(always)]
pub(super) fn divide_round(sum: i32, count: i32) -> i32 {
    let half = count / 2;
    let sum = if sum > 0 { sum + half } else { sum - half };
    if count > 1 << 12 {
        return sum / count;
    }
    // Vectors divide floats alone. Sums of so few bytes are exact in them, and a quotient, up to
    // 256, is further from the next integer than it is rounded by: 2^-12 against 2^-17.
    #[expect(clippy::cast_precision_loss, reason = "exact")]
    truncate(sum as f32 / count as f32)
}

#[cfg(test)]
mod tests {
    use super::divide_round;

    #[test]
    fn bytes_are_divided_exactly() {
        for count in (1..=4096).filter(|count| count % 97 < 3 || *count < 70 || *count > 4090) {
            for whole in (-128..=255).step_by(3) {
                for near in [-count / 2, -1, 0, 1, count / 2] {
                    let sum = (whole * count + near).clamp(-128 * count, 255 * count);
                    let half = if sum > 0 { count / 2 } else { -(count / 2) };
                    assert_eq!(divide_round(sum, count), (sum + half) / count, "{sum} / {count}");
                }
            }
        }
    }
}
