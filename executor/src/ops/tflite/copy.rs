//! Rearranging: tensors as strided views of others, for elements of any width.

use nnburst_kernels::tensor::{In, Out, poll};

/// The least that an axis of a copy must say: how often, and how far from one to the next on both
/// sides, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) count: usize,
    pub(super) from: isize,
    pub(super) to: isize,
}

/// A copy of elements that lie regularly on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    axes: Vec<Axis>,
    from: usize,
    to: usize,
    /// Bytes of an element; of several that lie side by side where axes were merged.
    width: usize,
}

/// Axes of a copy, at most: those of a tensor, and one more for each that is cut.
const MAX_AXES: usize = 32;

impl Copy {
    /// The copy along these axes, outermost first, from element `from` on to element `to` on.
    pub(super) fn new(axes: &[Axis], from: usize, to: usize, width: usize) -> Self {
        let mut merged: Vec<Axis> = Vec::new();
        for &axis in axes.iter().filter(|axis| axis.count != 1) {
            match merged.last_mut() {
                Some(outer)
                    if outer.from == times(axis.from, axis.count)
                        && outer.to == times(axis.to, axis.count) =>
                {
                    *outer = Axis { count: outer.count * axis.count, ..axis };
                }
                _ => merged.push(axis),
            }
        }
        Self { axes: merged, from, to, width }
    }

    /// Copies the bytes of the input's elements into the output's.
    pub(super) fn run(&self, input: In<'_, u8>, output: Out<'_, u8>) -> Result<(), String> {
        if self.axes.iter().any(|axis| axis.count == 0) {
            return Ok(());
        }
        let whole = Axis { count: 1, from: 1, to: 1 };
        let (inner, outer) = self.axes.split_last().unwrap_or((&whole, &[]));
        let mut at = [0; MAX_AXES];
        let at = at.get_mut(..outer.len()).ok_or("a copy along too many axes")?;
        let (mut from, mut to) = (self.from.cast_signed(), self.to.cast_signed());
        loop {
            poll::work(8 + inner.count)?;
            self.line(*inner, from, to, input, output);
            // The next position of the outer axes, like an odometer.
            let mut turned = false;
            for (axis, at) in outer.iter().zip(at.iter_mut()).rev() {
                *at += 1;
                from += axis.from;
                to += axis.to;
                if *at < axis.count {
                    turned = true;
                    break;
                }
                *at = 0;
                from -= times(axis.from, axis.count);
                to -= times(axis.to, axis.count);
            }
            if !turned {
                return Ok(());
            }
        }
    }

    fn line(&self, axis: Axis, from: isize, to: isize, input: In<'_, u8>, output: Out<'_, u8>) {
        let width = self.width.cast_signed();
        let place = |element: isize| usize::try_from(element * width).unwrap_or(usize::MAX / 2);
        if axis.from == 1 && axis.to == 1 {
            let len = axis.count * self.width;
            let (from, to) = (place(from), place(to));
            output.slice(to..to + len).copy_from(input.slice(from..from + len));
            return;
        }
        let each = |copy: &dyn Fn(usize, usize)| {
            let (mut from, mut to) = (from, to);
            for _ in 0..axis.count {
                copy(place(from), place(to));
                from += axis.from;
                to += axis.to;
            }
        };
        match self.width {
            1 => each(&|from, to| output.set(to, input.get(from))),
            2 => each(&|from, to| output.set_block(to, input.block::<2>(from))),
            4 => each(&|from, to| output.set_block(to, input.block::<4>(from))),
            _ => each(&|from, to| output.set_block(to, input.block::<8>(from))),
        }
    }
}

fn times(stride: isize, count: usize) -> isize {
    stride.saturating_mul(count.cast_signed())
}

/// Row-major strides as signed numbers.
pub(super) fn strides(extents: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = times(strides[axis], extents[axis].max(1));
    }
    strides
}

/// The axes of a copy between two lists of strides.
pub(super) fn axes(extents: &[usize], from: &[isize], to: &[isize]) -> Vec<Axis> {
    let pairs = from.iter().zip(to);
    extents.iter().zip(pairs).map(|(&count, (&from, &to))| Axis { count, from, to }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(copy: &Copy, input: &[u8], len: usize) -> Vec<u8> {
        let mut output = vec![255; len];
        copy.run(In::of(input), Out::of(&mut output)).unwrap();
        output
    }

    #[test]
    fn axes_that_continue_each_other_are_one() {
        let dense = strides(&[2, 3, 4]);
        let copy = Copy::new(&axes(&[2, 3, 4], &dense, &dense), 0, 0, 1);
        assert_eq!(copy.axes, [Axis { count: 24, from: 1, to: 1 }]);
        let bytes: Vec<u8> = (0..24).collect();
        assert_eq!(copied(&copy, &bytes, 24), bytes);
    }

    #[test]
    fn transposes_reverses_and_repeats() {
        let bytes: Vec<u8> = (0..12).collect();
        let transposed = Copy::new(&axes(&[3, 2], &[1, 3], &[2, 1]), 0, 0, 2);
        assert_eq!(copied(&transposed, &bytes, 12), [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
        let reversed = Copy::new(&axes(&[3], &[-1], &[1]), 2, 0, 4);
        assert_eq!(copied(&reversed, &bytes, 12), [8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3]);
        let repeated = Copy::new(&axes(&[2, 3], &[0, 1], &[3, 1]), 0, 0, 1);
        assert_eq!(copied(&repeated, &bytes[..3], 6), [0, 1, 2, 0, 1, 2]);
        let nothing = Copy::new(&axes(&[0, 3], &[3, 1], &[3, 1]), 0, 0, 1);
        assert_eq!(copied(&nothing, &[], 2), [255, 255]);
    }
}
