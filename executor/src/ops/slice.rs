//! SLICE, STRIDED_SLICE, SPLIT and TILE: parts of a tensor, and repeats of it.

use nnburst_kernels::tensor::{OpError, Shape};

use super::Op;
use super::strided::{Strided, signed};
use super::support::same_quantisation;
use crate::lowering::{Lowered, OpBuilder};

pub(super) static SLICE: Op = Op { lower: lower_slice };
pub(super) static STRIDED_SLICE: Op = Op { lower: lower_strided_slice };
pub(super) static SPLIT: Op = Op { lower: lower_split };
pub(super) static TILE: Op = Op { lower: lower_tile };

/// `size` of -1 is all that is left; an extent of 0 is fine.
///
/// Source: NNAPI `SLICE`, since HAL 1.2.
fn lower_slice(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let (begins, sizes) = (op.i32s(1)?, op.i32s(2)?);
    if begins.len() != input.shape.rank() || sizes.len() != input.shape.rank() {
        let what =
            format!("{} begins and {} sizes for {:?}", begins.len(), sizes.len(), input.shape);
        return Err(OpError::rule(what).into());
    }
    let strides = input.shape.strides();
    let (mut base, mut extents) = (0, Vec::new());
    for (axis, (&begin, &size)) in begins.iter().zip(&sizes).enumerate() {
        let extent = input.shape[axis];
        let range =
            usize::try_from(begin).ok().filter(|&begin| begin <= extent).and_then(|begin| {
                let rest = extent - begin;
                let size = if size == -1 { rest } else { usize::try_from(size).ok()? };
                (size <= rest).then_some((begin, size))
            });
        let Some((begin, size)) = range else {
            let what = format!("axis {axis} of {extent} has no {size} elements from {begin} on");
            return Err(OpError::rule(what).into());
        };
        base += begin * strides[axis];
        extents.push(size);
    }
    let shape = Shape::new(extents)?;
    op.set_output(0, shape.clone())?;
    let walk = shape.iter().zip(&strides).map(|(&extent, &stride)| (extent, signed(stride)));
    Strided::new(base, walk).emit(op, 0)
}

/// Source: NNAPI `STRIDED_SLICE`, since HAL 1.1.
fn lower_strided_slice(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let rank = input.shape.rank();
    let (begins, ends, steps) = (op.i32s(1)?, op.i32s(2)?, op.i32s(3)?);
    let (begin_mask, end_mask, shrink_mask) = (op.i32(4)?, op.i32(5)?, op.i32(6)?);
    if [&begins, &ends, &steps].iter().any(|list| list.len() != rank) {
        let what = format!(
            "{} begins, {} ends and {} strides for {:?}",
            begins.len(),
            ends.len(),
            steps.len(),
            input.shape
        );
        return Err(OpError::rule(what).into());
    }
    let strides = input.shape.strides();
    let (mut base, mut shape, mut walk) = (0isize, Vec::new(), Vec::new());
    for axis in 0..rank {
        let masked =
            |mask: i32| mask.checked_shr(u32::try_from(axis).unwrap_or(32)).unwrap_or(0) & 1 == 1;
        let range = Range {
            extent: i64::try_from(input.shape[axis]).unwrap_or(i64::MAX),
            begin: (!masked(begin_mask)).then_some(begins[axis]),
            end: (!masked(end_mask)).then_some(ends[axis]),
            step: steps[axis],
        };
        let (first, count) =
            range.resolve().map_err(|what| OpError::rule(format!("axis {axis}: {what}")))?;
        if masked(shrink_mask) {
            if steps[axis] < 0 || count != 1 {
                let what = format!(
                    "axis {axis} can't shrink: {count} elements by steps of {}",
                    steps[axis]
                );
                return Err(OpError::rule(what).into());
            }
        } else {
            shape.push(count);
        }
        if count > 0 {
            base += first * signed(strides[axis]);
        }
        // Matters where there is a second element, and is within the input then.
        let step = isize::try_from(steps[axis]).unwrap_or(0);
        walk.push((count, signed(strides[axis]).wrapping_mul(step)));
    }
    if shape.is_empty() {
        shape.push(1);
    }
    op.set_output(0, Shape::new(shape)?)?;
    Strided::new(base.unsigned_abs(), walk).emit(op, 0)
}

/// One axis of a strided slice; `None` is a masked end.
#[derive(Clone, Copy, Debug)]
struct Range {
    extent: i64,
    begin: Option<i32>,
    end: Option<i32>,
    step: i32,
}

impl Range {
    /// First position and number of elements.
    fn resolve(self) -> Result<(isize, usize), String> {
        let step = i64::from(self.step);
        if step == 0 {
            return Err("a stride of 0".to_owned());
        }
        let (first, last) = if step > 0 { (0, self.extent) } else { (self.extent - 1, -1) };
        let begin = self.begin.map_or(first, |x| self.clamp(x));
        let end = self.end.map_or(last, |x| self.clamp(x));
        let distance = end - begin;
        let count = if (distance > 0) == (step > 0) && distance != 0 {
            // Rounded up.
            (distance.abs() + step.abs() - 1) / step.abs()
        } else {
            0
        };
        let first = isize::try_from(begin).map_err(|error| error.to_string())?;
        Ok((first, usize::try_from(count).unwrap_or(0)))
    }

    /// A position, possibly counted from the end, brought within what the direction allows.
    fn clamp(self, x: i32) -> i64 {
        let (x, extent) = (i64::from(x), self.extent);
        let positive = if x < 0 { x + extent } else { x };
        if self.step > 0 { positive.clamp(0, extent) } else { positive.clamp(-1, extent - 1) }
    }
}

/// Source: NNAPI `SPLIT`, since HAL 1.2.
fn lower_split(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    let axis = input.shape.axis(op.i32(1)?)?;
    let parts = op.extent(2, 1)?;
    let (outer, extent, inner) = input.shape.around(axis);
    if extent % parts != 0 || parts != op.output_count() {
        let what = format!(
            "{extent} along axis {axis} in {parts} parts for {} outputs",
            op.output_count()
        );
        return Err(OpError::rule(what).into());
    }
    let part = extent / parts;
    let mut extents = input.shape.to_vec();
    extents[axis] = part;
    let shape = Shape::new(extents)?;
    for output in 0..parts {
        same_quantisation(&input, &op.output(output)?)?;
        op.set_output(output, shape.clone())?;
    }
    for output in 0..parts {
        let walk = [(outer, signed(extent * inner)), (part * inner, 1)];
        Strided::new(output * part * inner, walk).emit(op, output)?;
    }
    Ok(())
}

/// Source: NNAPI `TILE`, since HAL 1.2.
fn lower_tile(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let multiples = op.i32s(1)?;
    if multiples.len() != input.shape.rank() {
        let what = format!("{} multiples for {:?}", multiples.len(), input.shape);
        return Err(OpError::input(1, what).into());
    }
    let strides = input.shape.strides();
    let (mut extents, mut walk) = (Vec::new(), Vec::new());
    for (axis, &multiple) in multiples.iter().enumerate() {
        let extent = input.shape[axis];
        let repeats = usize::try_from(multiple).ok().filter(|&repeats| repeats > 0);
        let wide =
            repeats.and_then(|repeats| repeats.checked_mul(extent).map(|wide| (repeats, wide)));
        let Some((repeats, wide)) = wide else {
            return Err(
                OpError::input(1, format!("{multiple} times {extent} along axis {axis}")).into()
            );
        };
        extents.push(wide);
        walk.extend([(repeats, 0), (extent, signed(strides[axis]))]);
    }
    op.set_output(0, Shape::new(extents)?)?;
    Strided::new(0, walk).emit(op, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_resolve_as_the_reference_does() {
        struct Case {
            what: &'static str,
            begin: Option<i32>,
            end: Option<i32>,
            step: i32,
            want: (isize, usize),
        }
        let cases = [
            Case { what: "inside", begin: Some(1), end: Some(3), step: 1, want: (1, 2) },
            Case { what: "from the end", begin: Some(-3), end: Some(-1), step: 1, want: (1, 2) },
            Case { what: "far outside", begin: Some(-9), end: Some(9), step: 1, want: (0, 4) },
            Case {
                what: "begin past the end",
                begin: Some(4),
                end: Some(9),
                step: 1,
                want: (4, 0),
            },
            Case { what: "rounded up", begin: Some(0), end: Some(4), step: 3, want: (0, 2) },
            Case { what: "backwards", begin: Some(9), end: Some(-9), step: -1, want: (3, 4) },
            Case { what: "to 0 excludes it", begin: Some(3), end: Some(0), step: -1, want: (3, 3) },
            Case { what: "masked backwards", begin: None, end: None, step: -2, want: (3, 2) },
            Case { what: "wrong way", begin: Some(3), end: Some(1), step: 1, want: (3, 0) },
        ];
        for Case { what, begin, end, step, want } in cases {
            let range = Range { extent: 4, begin, end, step };
            assert_eq!(range.resolve(), Ok(want), "{what}");
        }
        assert!(Range { extent: 4, begin: None, end: None, step: 0 }.resolve().is_err());
    }
}
