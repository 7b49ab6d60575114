//! MEAN: the average over some axes.

use super::Op;
use super::support::{dispatch, plain, same_quantisation};
use crate::element::{Element, Quantised, Real};
use crate::error::OpError;
use crate::io::In;
use crate::plan::{Lowered, OpBuilder};
use crate::shape::Shape;

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

/// Which axes fall away, and where each element goes.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    pub(super) shape: Shape,
    extents: Vec<usize>,
    /// Stride in the output of each input axis; 0 for those reduced.
    strides: Vec<usize>,
    /// Elements reduced into one.
    pub(super) count: usize,
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
        Ok(Self { shape, extents: input.to_vec(), strides, count })
    }

    /// Calls `each(input position, output position)` in order of the input.
    pub(super) fn each(&self, mut each: impl FnMut(usize, usize)) {
        self.each_line(|from, to, count, step| {
            (0..count).for_each(|at| each(from + at, to + at * step));
        });
    }

    /// Calls `each(input position, output position, elements, output step)` for every innermost line; the step
    /// is 0 where the line is reduced, else 1.
    pub(super) fn each_line(&self, mut each: impl FnMut(usize, usize, usize, usize)) {
        let Some((&inner, outer)) = self.extents.split_last() else { return each(0, 0, 1, 0) };
        let step = self.strides[outer.len()];
        for row in 0..outer.iter().product() {
            let (mut rest, mut target) = (row, 0);
            for axis in (0..outer.len()).rev() {
                target += rest % outer[axis] * self.strides[axis];
                rest /= outer[axis];
            }
            each(row * inner, target, inner, step);
        }
    }

    /// Adds what `read` makes of each element to the sum it belongs to.
    fn add<T: Element, S: Copy + std::ops::AddAssign>(
        &self,
        input: In<'_, T>,
        sums: &mut [S],
        read: impl Fn(T) -> S,
    ) {
        self.each_line(|from, to, count, step| {
            let line = input.slice(from..from + count).iter();
            if step == 0 {
                line.for_each(|x| sums[to] += read(x));
            } else {
                sums[to..to + count].iter_mut().zip(line).for_each(|(sum, x)| *sum += read(x));
            }
        });
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts within 24 bits are exact, others near enough"
)]
fn real<T: Real>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
    let elements = reduction.shape.elements();
    let label = plain("mean_real", &reduction.shape, 0);
    op.emit_with_scratch(label, elements * 4, move |mut io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let sums = io.scratch_slice::<f32>();
        sums.fill(0.0);
        reduction.add(input, sums, T::to_f32);
        output.fill(sums.iter().map(|sum| T::from_f32(sum / reduction.count as f32)));
        Ok(())
    });
    Ok(())
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, reduction: Reduction) -> Lowered {
    same_quantisation(&op.input(0)?, &op.output(0)?)?;
    let elements = reduction.shape.elements();
    let count = i32::try_from(reduction.count)
        .ok()
        .filter(|&count| count <= 1 << 23)
        .ok_or_else(|| OpError::rule(format!("a mean over {} elements", reduction.count)))?;
    let label = plain("mean_byte", &reduction.shape, 0);
    op.emit_with_scratch(label, elements * 4, move |mut io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let sums = io.scratch_slice::<i32>();
        sums.fill(0);
        reduction.add(input, sums, T::to_i32);
        output.fill(sums.iter().map(|&sum| T::from_i32(divide_round(sum, count))));
        Ok(())
    });
    Ok(())
}

/// To nearest, halves away from zero.
pub(super) fn divide_round(sum: i32, count: i32) -> i32 {
    if sum > 0 { (sum + count / 2) / count } else { (sum - count / 2) / count }
}
