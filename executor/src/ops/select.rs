//! SELECT: one of two tensors, element by element. NNAPI's three operands have one shape; those of
//! the extension broadcast.

use std::ops::Range;

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::tensor::quant::requantise;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Quantised, Shape, Tensor, poll};

use super::Op;
use super::support::{bad_kind, by_width, compiled, plain};
use crate::lowering::{Io, Label, Lowered, OpBuilder};

pub(super) static SELECT: Op = Op { lower };

/// Quantised operands are brought to the output's parameters.
///
/// Source: NNAPI `SELECT`, since HAL 1.2.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (condition, a, b) = (op.input(0)?, op.input(1)?, op.input(2)?);
    if condition.shape != a.shape || a.shape != b.shape || a.kind != b.kind {
        let what = format!(
            "condition of {:?}, {} of {:?} and {} of {:?}",
            condition.shape, a.kind, a.shape, b.kind, b.shape
        );
        return Err(OpError::rule(what).into());
    }
    op.set_output(0, a.shape.clone())?;
    match a.kind {
        OperandType::TensorQuant8Asymm => quantised::<u8>(op, &a, &b),
        OperandType::TensorQuant8AsymmSigned => quantised::<i8>(op, &a, &b),
        OperandType::TensorFloat32 | OperandType::TensorFloat16 | OperandType::TensorInt32 => {
            by_width!(a.kind, plainly(op))
        }
        other => Err(bad_kind(1, other).into()),
    }
}

fn plainly<T: Element>(op: &mut OpBuilder<'_>) -> Lowered {
    let shape = op.output(0)?.shape;
    let strides = shape.strides();
    let label = compiled(op.isa(), "select", &shape, 0);
    choose::<T>(op, label, Places::new(&shape, [&strides, &strides, &strides]));
    Ok(())
}

/// Adds a step that gives elements of input 1 or 2, as those of input 0 say.
pub(super) fn choose<T: Element>(op: &mut OpBuilder<'_>, label: Label, places: Places) {
    let isa = op.isa();
    op.emit(label, move |io: Io<'_>| {
        let (condition, output) = (io.input::<u8>(0), io.output::<T>(0));
        let values = [io.input::<T>(1), io.input::<T>(2)];
        let (len, rows) = (places.len, places.rows());
        // Parts of a long row, or some short ones together.
        let together = (poll::CHUNK / len.max(1)).max(1);
        for first in (0..rows).step_by(together) {
            let rows = first..rows.min(first + together);
            in_chunks(len, |part| {
                poll::work((rows.len() - 1) * len)?;
                let rows = rows.clone();
                isa.run(Select { places: &places, rows, part, condition, values, output });
                Ok(())
            })?;
        }
        Ok(())
    });
}

/// Positions in a condition and two tensors that broadcast to one shape, row by row. Neighbouring
/// axes that all of them walk alike are one.
#[derive(Debug)]
pub(super) struct Places {
    /// Extents of the outer axes, and strides of each operand along them.
    outer: Vec<(usize, [usize; 3])>,
    /// Elements of a row.
    len: usize,
    /// Elements of each operand from one result to the next: 1, or 0 where the first stands for
    /// all.
    steps: [usize; 3],
}

impl Places {
    pub(super) fn new(wide: &Shape, strides: [&[usize]; 3]) -> Self {
        let mut axes: Vec<(usize, [usize; 3])> = Vec::new();
        for (axis, &extent) in wide.iter().enumerate().filter(|&(_, &extent)| extent != 1) {
            let own = strides.map(|of| of[axis]);
            match axes.last_mut() {
                Some((outer, of)) if *of == own.map(|stride| stride * extent) => {
                    (*outer, *of) = (*outer * extent, own);
                }
                _ => axes.push((extent, own)),
            }
        }
        let (len, steps) = axes.pop().unwrap_or((1, [0; 3]));
        Self { outer: axes, len, steps }
    }

    fn rows(&self) -> usize {
        self.outer.iter().map(|&(extent, _)| extent).product()
    }

    /// Where a row starts in each operand.
    #[inline(always)]
    fn start(&self, row: usize) -> [usize; 3] {
        let (mut rest, mut first) = (row, [0; 3]);
        for (axis, (extent, strides)) in self.outer.iter().enumerate().rev() {
            // A division takes longer than a short row does.
            let (at, outer) = if axis == 0 { (rest, 0) } else { (rest % extent, rest / extent) };
            rest = outer;
            first.iter_mut().zip(strides).for_each(|(first, stride)| *first += at * stride);
        }
        first
    }
}

/// A part of some rows.
struct Select<'a, T> {
    places: &'a Places,
    rows: Range<usize>,
    part: Range<usize>,
    condition: In<'a, u8>,
    values: [In<'a, T>; 2],
    output: Out<'a, T>,
}

impl<T: Element> Loop for Select<'_, T> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 64;
        const SMALL: usize = 16;
        let part = self.part.clone();
        let whole = part.start + part.len() / BLOCK * BLOCK;
        let small = part.start + part.len() / SMALL * SMALL;
        for row in self.rows.clone() {
            let start = self.places.start(row);
            let to = row * self.places.len;
            (part.start..whole).step_by(BLOCK).for_each(|at| self.block::<BLOCK>(start, to, at));
            (whole..small).step_by(SMALL).for_each(|at| self.block::<SMALL>(start, to, at));
            (small..part.end).for_each(|at| self.block::<1>(start, to, at));
        }
    }
}

impl<T: Element> Select<'_, T> {
    /// `N` elements of the row that starts there, from the one `at` on.
    #[inline(always)]
    fn block<const N: usize>(&self, start: [usize; 3], to: usize, at: usize) {
        let Self { condition, values: [a, b], output, .. } = *self;
        let steps = self.places.steps;
        let from = [0, 1, 2].map(|of| start[of] + at * steps[of]);
        let holds: [u8; N] = block(condition, steps[0], from[0]);
        let (xs, ys): ([T; N], [T; N]) = (block(a, steps[1], from[1]), block(b, steps[2], from[2]));
        let mut chosen = [T::default(); N];
        let each = holds.iter().zip(&xs).zip(&ys);
        chosen.iter_mut().zip(each).for_each(|(to, ((&holds, &x), &y))| {
            *to = if holds != 0 { x } else { y };
        });
        output.set_block(to + at, chosen);
    }
}

/// Elements from a place on, or the one there as often.
#[inline(always)]
fn block<T: Element, const N: usize>(of: In<'_, T>, step: usize, at: usize) -> [T; N] {
    if step == 0 { [of.get(at); N] } else { of.block(at) }
}

fn quantised<T: Quantised>(op: &mut OpBuilder<'_>, a: &Tensor, b: &Tensor) -> Lowered {
    let out = op.output(0)?;
    let parameters = |of: &Tensor| (of.scale.to_bits(), of.zero_point);
    if [a, b].iter().all(|of| parameters(of) == parameters(&out)) {
        return plainly::<T>(op);
    }
    let to_output = |from: &Tensor| {
        let (from, to) = ((from.scale, from.zero_point), (out.scale, out.zero_point));
        move |q: T| T::from_i32(requantise(q.to_i32(), from, to, T::MIN, T::MAX))
    };
    emit(op, to_output(a), to_output(b))
}

fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    of_a: impl Fn(T) -> T + Send + Sync + 'static,
    of_b: impl Fn(T) -> T + Send + Sync + 'static,
) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit(plain("select", &shape, 0), move |io: Io<'_>| {
        let condition = io.input::<u8>(0);
        let (a, b, output) = (io.input::<T>(1), io.input::<T>(2), io.output::<T>(0));
        for at in poll::each(0..output.len(), 4) {
            let value = if condition.get(at) != 0 { of_a(a.get(at)) } else { of_b(b.get(at)) };
            output.set(at, value);
        }
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_all_operands_walk_alike_are_one() {
        let shape = |extents: &[usize]| Shape::new(extents.to_vec()).unwrap();
        let wide = shape(&[2, 3, 4, 5]);
        let own = [&[4, 5][..], &[2, 3, 4, 5], &[1]].map(|it| shape(it).broadcast_strides(&wide));
        let places = Places::new(&wide, own.each_ref().map(Vec::as_slice));
        assert_eq!((places.len, places.steps, places.rows()), (20, [1, 1, 0], 6));
        assert_eq!(places.start(5), [0, 100, 0]);
    }
}
