//! Elements taken from regular places: transposes, slices, tiles, shuffles and block moves are all
//! one loop over the output whose steps in the input are fixed for each axis.

use nnburst_kernels::kernels::plain::copy_pieces;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::rows::Apart;
use nnburst_kernels::tensor::{Element, In, Out, poll};

use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::support::{by_width, compiled, plain};

/// The source of each element of an output: `base + sum(position[axis] * strides[axis])`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    /// Of the output, or of any finer split of it; neighbours that can be one are one.
    extents: Vec<usize>,
    /// In the input; negative where an axis is walked backwards, 0 where it repeats.
    strides: Vec<isize>,
    base: usize,
}

impl Strided {
    /// `axes` are `(extent, stride)`, outermost first. Every position must lie within the input.
    pub(super) fn new(base: usize, axes: impl IntoIterator<Item = (usize, isize)>) -> Self {
        let mut this = Self { extents: Vec::new(), strides: Vec::new(), base };
        for (extent, stride) in axes {
            this.push(extent, stride);
        }
        this
    }

    /// Adds an axis inside the others. Where the axis outside steps over exactly this one, the two
    /// are one.
    fn push(&mut self, extent: usize, stride: isize) {
        if extent == 1 {
            return;
        }
        let whole = isize::try_from(extent).ok().and_then(|extent| extent.checked_mul(stride));
        if let (Some(outer), Some(outer_stride)) =
            (self.extents.last_mut(), self.strides.last_mut())
            && Some(*outer_stride) == whole
        {
            *outer *= extent;
            *outer_stride = stride;
            return;
        }
        self.extents.push(extent);
        self.strides.push(stride);
    }

    /// Adds the step that moves input 0 to `output`, unless that can be a view of it.
    pub(super) fn emit(self, op: &mut OpBuilder<'_>, output: usize) -> Lowered {
        let kind = op.input_kind(0)?;
        let is_one_piece = matches!(self.strides[..], [] | [1]);
        if is_one_piece
            && let Some(element) = kind.element_bytes()
            && op.view(output, self.base * element)?
        {
            return Ok(());
        }
        let rows = self.rows(kind.element_bytes().unwrap_or(1));
        by_width!(kind, emit_move(op, self, output))?;
        if let Some((start, apart)) = rows {
            op.take_rows(output, start, apart);
        }
        Ok(())
    }

    /// Where the first byte lies and how rows do, if all of it is rows. Single elements are not:
    /// who reads them one by one takes longer than copying and computing do (MUL of 128 floats 0.35
    /// us for 0.19).
    fn rows(&self, element: usize) -> Option<(usize, Apart)> {
        let (&[_, row], &[pitch, 1]) = (&self.extents[..], &self.strides[..]) else { return None };
        let pitch = pitch.try_into().ok().filter(|&pitch: &usize| pitch > row)?;
        Some((self.base * element, Apart { row: row * element, pitch: pitch * element }))
    }

    /// Moves the elements.
    pub(super) fn run<T: Element>(&self, isa: Isa, input: In<'_, T>, output: Out<'_, T>) {
        let Some((&inner, outer)) = self.extents.split_last() else {
            output.set(0, input.get(self.base));
            return;
        };
        let step = self.strides[outer.len()];
        let rows = (0..outer.iter().product()).map(|row| {
            let (mut rest, mut from) = (row, self.base.cast_signed());
            for axis in (0..outer.len()).rev() {
                from += (rest % outer[axis]).cast_signed() * self.strides[axis];
                rest /= outer[axis];
            }
            (from, row * inner)
        });
        if step == 1 {
            let bytes = size_of::<T>();
            let pieces = rows.map(|(from, to)| (from.cast_unsigned() * bytes, to * bytes));
            return copy_pieces(isa, input.bytes(), output.bytes(), inner * bytes, pieces);
        }
        for (from, to) in rows {
            let target = output.slice(to..to + inner);
            for start in (0..inner).step_by(poll::CHUNK) {
                let end = inner.min(start + poll::CHUNK);
                if poll::work(ROW_NS + (end - start) * ELEMENT_NS).is_err() {
                    return;
                }
                for at in start..end {
                    target.set(at, input.get((from + at.cast_signed() * step).cast_unsigned()));
                }
            }
        }
    }
}

/// What finding a row takes at most, and moving an element from memory that is far away.
const ROW_NS: usize = 8;
const ELEMENT_NS: usize = 4;

fn emit_move<T: Element>(op: &mut OpBuilder<'_>, strided: Strided, output: usize) -> Lowered {
    let (shape, isa) = (op.output(output)?.shape, op.isa());
    let label = match strided.strides.last() {
        // A single element or rows of them, else elements one by one.
        None | Some(1) => compiled(isa, "strided_copy", &shape, 0),
        _ => plain("strided_copy", &shape, 0),
    };
    op.emit(label, move |io: Io<'_>| {
        if !shape.contains(&0) {
            strided.run(isa, io.input::<T>(0), io.output::<T>(output));
        }
        Ok(())
    });
    Ok(())
}

/// An extent or stride as a signed step; shapes keep both far below the limit.
pub(super) fn signed(stride: usize) -> isize {
    stride.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_follow_each_other_become_one() {
        let rows = Strided::new(0, [(2, 12), (3, 4), (1, 99), (4, 1)]);
        assert_eq!(rows, Strided { extents: vec![24], strides: vec![1], base: 0 });
        let transposed = Strided::new(0, [(4, 1), (3, 4)]);
        assert_eq!(transposed.extents, [4, 3]);
    }

    #[test]
    fn backwards_and_repeated() {
        let input = [1u8, 2, 3];
        let mut output = [0; 6];
        Strided::new(2, [(2, 0), (3, -1)]).run(Isa::best(), In::of(&input), Out::of(&mut output));
        assert_eq!(output, [3, 2, 1, 3, 2, 1]);
    }
}
