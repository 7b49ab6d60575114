//! SELECT: elements of one of two tensors, as a third says for each; all three broadcast.

use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::tensor::{Element, OpError, Shape};

use super::arg::{ElementKind, OperatorCall, refused};
use crate::lowering::Lowered;
use crate::ops::select::Select;

/// Elements of the second or third input, as the first says; all three broadcast.
pub(super) fn select(call: &mut OperatorCall<'_, '_>, broadcasts: bool) -> Lowered {
    let (condition, a, b) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    if condition.kind != ElementKind::Bool {
        return Err(refused(0, condition.kind).into());
    }
    a.same_kind(&b)?;
    call.same(&a, 0)?;
    let mut own = condition.shape;
    let wide = if broadcasts {
        own.broadcast(&a.shape)?.broadcast(&b.shape)?
    } else {
        if a.shape != b.shape {
            return Err(OpError::rule("the values differ in shape").into());
        }
        // A condition of one dimension chooses whole rows.
        if own.rank() == 1 && a.shape.rank() > 1 && own.first() == a.shape.first() {
            let mut extents = own.to_vec();
            extents.resize(a.shape.rank(), 1);
            own = Shape::new(extents)?;
        }
        own.broadcast(&a.shape)?
    };
    let shape = call.set(0, &wide)?;
    let strides = [&own, &a.shape, &b.shape].map(|it| it.broadcast_strides(&wide));
    let walk = Walk::new(&wide, &strides);
    match a.kind.bytes() {
        1 => choose::<u8>(call, &shape, walk),
        2 => choose::<u16>(call, &shape, walk),
        4 => choose::<u32>(call, &shape, walk),
        8 => choose::<u64>(call, &shape, walk),
        _ => return Err(refused(1, a.kind).into()),
    }
    Ok(())
}

fn choose<T: Element>(call: &mut OperatorCall<'_, '_>, shape: &Shape, walk: Walk) {
    let (isa, is_empty) = (call.isa(), shape.contains(&0));
    call.step(shape, move |io| {
        if is_empty {
            return Ok(());
        }
        let condition = io.input::<u8>(0);
        let (values, output) = ([io.input::<T>(1), io.input::<T>(2)], io.output::<T>(0));
        let (steps, len) = (walk.steps, walk.len);
        for row in 0..walk.rows() {
            let first = walk.start(row);
            in_chunks(len, |part| {
                let first = [0, 1, 2].map(|of| first[of] + part.start * steps[of]);
                let condition = condition.slice(first[0]..condition.len());
                let values = [0, 1].map(|of| values[of].slice(first[of + 1]..values[of].len()));
                let output = output.slice(row * len + part.start..row * len + part.end);
                isa.run(Select { condition, values, steps, output });
                Ok(())
            })?;
        }
        Ok(())
    });
}

/// Positions in three operands that broadcast to one shape, row by row. Neighbouring axes that all
/// of them walk alike are one.
#[derive(Debug)]
struct Walk {
    /// Extents of the outer axes, and strides of each operand along them.
    outer: Vec<(usize, [usize; 3])>,
    /// Elements of a row, and strides along it.
    len: usize,
    steps: [usize; 3],
}

impl Walk {
    fn new(wide: &Shape, strides: &[Vec<usize>; 3]) -> Self {
        let mut axes: Vec<(usize, [usize; 3])> = Vec::new();
        for (axis, &extent) in wide.iter().enumerate().filter(|&(_, &extent)| extent != 1) {
            let own = strides.each_ref().map(|of| of[axis]);
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
    fn start(&self, row: usize) -> [usize; 3] {
        let (mut rest, mut first) = (row, [0; 3]);
        for (extent, strides) in self.outer.iter().rev() {
            let at = rest % extent;
            rest /= extent;
            first.iter_mut().zip(strides).for_each(|(first, stride)| *first += at * stride);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_all_operands_walk_alike_are_one() {
        let shape = |extents: &[usize]| Shape::new(extents.to_vec()).unwrap();
        let wide = shape(&[2, 3, 4, 5]);
        let own = [&[4, 5][..], &[2, 3, 4, 5], &[1]].map(|it| shape(it).broadcast_strides(&wide));
        let walk = Walk::new(&wide, &own);
        assert_eq!((walk.len, walk.steps, walk.rows()), (20, [1, 1, 0], 6));
        assert_eq!(walk.start(5), [0, 100, 0]);
    }
}
