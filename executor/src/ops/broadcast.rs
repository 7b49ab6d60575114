//! Two tensors that broadcast to one shape: the walk over both, compiled once for all types.

use nnburst_kernels::kernels::plain::zip;
use nnburst_kernels::kernels::repeated_rows::{self, RepeatedRows};
use nnburst_kernels::kernels::short_rows::{self, EachRow, ShortRows};
use nnburst_kernels::kernels::spans::{Along, Spans};
use nnburst_kernels::tensor::rows::Rows;
use nnburst_kernels::tensor::{Element, In, Out, Shape, poll};

use super::laid_out::{LaidOut, Layout};
use super::repeated_block::RepeatedBlock;
use crate::lowering::walk::Walk;
use crate::lowering::{Label, OpBuilder};

/// Positions in two operands that broadcast to one shape, in row-major order of that shape.
/// Neighbouring axes that both operands walk alike are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Broadcast {
    pub(super) extents: Vec<usize>,
    pub(super) strides: [Vec<usize>; 2],
}

/// A span of results: where it starts in the output and in both operands, how long it is, and
/// whether each operand moves along (1) or repeats one element (0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BroadcastSpan {
    pub(crate) at: usize,
    pub(crate) from: [usize; 2],
    pub(crate) len: usize,
    pub(crate) steps: [usize; 2],
}

/// Calls `each` with as many rows of `len` elements as are computed between two reports of work.
///
/// # Errors
/// The first that `each` gives, or the run is to end.
pub(crate) fn each_chunk_of_rows(
    rows: usize,
    len: usize,
    mut each: impl FnMut(std::ops::Range<usize>) -> Result<(), String>,
) -> Result<(), String> {
    let most = (poll::CHUNK / (len + LINE_NS)).max(1);
    for start in (0..rows).step_by(most) {
        let end = rows.min(start + most);
        poll::work((end - start) * (len + LINE_NS))?;
        each(start..end)?;
    }
    Ok(())
}

/// Elements of a row that takes less time than finding it does several times, at most.
const SHORT: usize = 512;

/// Rows beside the same one below which each of them takes less time by itself.
const MANY_ROWS: usize = 16;

/// Elements of a row that is computed in one piece.
const LONG: usize = poll::CHUNK;

impl Broadcast {
    pub(crate) fn new(wide: &Shape, a: &Shape, b: &Shape) -> Self {
        let mut this = Self::default();
        let strides = [a.broadcast_strides(wide), b.broadcast_strides(wide)];
        for (axis, &extent) in wide.iter().enumerate() {
            this.push(extent, [strides[0][axis], strides[1][axis]]);
        }
        this
    }

    /// Adds an axis inside the others.
    pub(super) fn push(&mut self, extent: usize, strides: [usize; 2]) {
        if extent == 1 {
            return;
        }
        if let (Some(outer), [Some(a), Some(b)]) =
            (self.extents.last_mut(), self.strides.each_mut().map(|of| of.last_mut()))
            && [*a, *b] == strides.map(|stride| stride * extent)
        {
            *outer *= extent;
            [*a, *b] = strides;
            return;
        }
        self.extents.push(extent);
        self.strides.iter_mut().zip(strides).for_each(|(of, stride)| of.push(stride));
    }

    /// The place in each operand of each element of the result.
    pub(super) fn walks(&self) -> Option<[Walk; 2]> {
        let walk = |strides: &[usize]| {
            Walk::new(0, self.extents.iter().copied().zip(strides.iter().copied()))
        };
        let [a, b] = &self.strides;
        Some([walk(a)?, walk(b)?])
    }

    /// Returns the span where all is one.
    #[inline(always)]
    fn only_span(&self) -> Option<BroadcastSpan> {
        let span = |len, steps| BroadcastSpan { at: 0, from: [0, 0], len, steps };
        match (&self.extents[..], self.strides.each_ref().map(Vec::as_slice)) {
            ([], _) => Some(span(1, [0, 0])),
            (&[len], [&[a], &[b]]) => Some(span(len, [a, b])),
            _ => None,
        }
    }

    /// Calls `each` for every span.
    #[inline(always)]
    pub(crate) fn each_line(
        &self,
        mut each: impl FnMut(BroadcastSpan) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some((&len, outer)) = self.extents.split_last() else {
            return each(BroadcastSpan { at: 0, from: [0, 0], len: 1, steps: [0, 0] });
        };
        let rows: usize = outer.iter().product();
        let last = outer.len();
        let steps = [self.strides[0][last], self.strides[1][last]];
        for row in 0..rows {
            each(BroadcastSpan { at: row * len, from: self.start(row), len, steps })?;
        }
        Ok(())
    }

    /// Where a span starts in both operands.
    #[inline(always)]
    pub(super) fn start(&self, row: usize) -> [usize; 2] {
        let (mut rest, mut from) = (row, [0, 0]);
        for axis in (0..self.extents.len().saturating_sub(1)).rev() {
            // A division takes longer than a short span does.
            let (at, outer) = match axis {
                0 => (rest, 0),
                _ => (rest % self.extents[axis], rest / self.extents[axis]),
            };
            rest = outer;
            from[0] += at * self.strides[0][axis];
            from[1] += at * self.strides[1][axis];
        }
        from
    }

    /// Each element of the output from those of both operands, by `row`, a function of those of a
    /// row that is also computed of elements that belong to no row.
    ///
    /// # Errors
    /// The run was cancelled.
    #[inline(never)]
    fn zip_bytes(
        &self,
        [a, b]: [Rows<In<'_, u8>>; 2],
        output: Rows<Out<'_, u8>>,
        sizes: [usize; 2],
        row: &mut EachRow<'_>,
    ) -> Result<(), String> {
        let is_one_piece = a.is_one_piece() && b.is_one_piece() && output.is_one_piece();
        if let Some((&len, outer)) = self.extents.split_last()
            && is_one_piece
            && self.repeated_row(sizes[0]).is_none()
            && short_rows::fits(len, outer.iter().product())
        {
            let repeats = self.strides.each_ref().map(|of| of.last() == Some(&0));
            let starts = (0..outer.iter().product()).map(|row| self.start(row));
            let (operands, output) = ([a.all(), b.all()], output.all());
            let rows = ShortRows { operands, sizes, output, len, repeats };
            return rows.each_block(starts, row);
        }
        self.each_row_of_bytes([a, b], output, sizes, row)
    }

    /// Calls `row` with every span of two operands and the output that lies in one piece: as
    /// long each, or one element of an operand that it repeats.
    ///
    /// # Errors
    /// The first that `row` gives.
    #[inline(always)]
    pub(crate) fn each_row<T: Element, U: Element>(
        &self,
        a: Rows<In<'_, T>>,
        b: Rows<In<'_, T>>,
        output: Rows<Out<'_, U>>,
        mut row: impl FnMut(In<'_, T>, In<'_, T>, Out<'_, U>) -> Result<(), String>,
    ) -> Result<(), String> {
        // Networks of one addition take a quarter of a microsecond: a call in between is seen.
        let is_one_piece = a.is_one_piece() && b.is_one_piece() && output.is_one_piece();
        if let Some(BroadcastSpan { len, steps, .. }) = self.only_span()
            && is_one_piece
            && len <= poll::CHUNK
        {
            let [of_a, of_b] = steps.map(|step| if step == 0 { 1 } else { len });
            let (a, b) = (a.all().slice(0..of_a), b.all().slice(0..of_b));
            return row(a, b, output.all().slice(0..len));
        }
        let sizes = [size_of::<T>(), size_of::<U>()];
        self.each_row_of_bytes([a.bytes(), b.bytes()], output.bytes(), sizes, &mut |a, b, to| {
            row(a.cast(), b.cast(), to.cast())
        })
    }

    /// The walk over operands and results of floats that lie as `layouts` say, where its rows are
    /// so short that they are sooner computed together.
    #[inline(always)]
    pub(super) fn short_rows(&self, layouts: [Layout; 3]) -> Option<LaidOut> {
        let is_one_piece = layouts.iter().all(|layout| layout.is_one_piece());
        if is_one_piece && self.extents.len() < 2 {
            return None;
        }
        let laid_out = LaidOut::new(self, layouts).filter(|it| it.row_len() <= SHORT)?;
        // A row beside many others is written down several times where it is less than a vector.
        let is_less = self.extents.last().is_some_and(|&len| len < 16);
        let is_repeated = is_less && self.repeated_row(size_of::<f32>()).is_some();
        (!is_repeated).then_some(laid_out)
    }

    /// Returns whether many rows of one operand stand beside the same short row of the other, and
    /// whether that is of the first operand.
    fn repeated_row(&self, size: usize) -> Option<bool> {
        let &[.., rows, len] = &self.extents[..] else { return None };
        let strides = self.strides.each_ref().map(|of| of.as_slice());
        let [&[.., of_a, 1], &[.., of_b, 1]] = strides else { return None };
        let is_row_first = match (of_a, of_b) {
            (0, _) if of_b == len => true,
            (_, 0) if of_a == len => false,
            _ => return None,
        };
        let fits = rows >= MANY_ROWS && repeated_rows::fits(len, rows, size);
        fits.then_some(is_row_first)
    }

    /// As [`Broadcast::each_row`], where there is a [`Broadcast::repeated_row`] in one piece.
    fn each_beside_a_row(
        &self,
        is_row_first: bool,
        operands: [Rows<In<'_, u8>>; 2],
        output: Rows<Out<'_, u8>>,
        sizes: [usize; 2],
        row: &mut EachRow<'_>,
    ) -> Result<(), String> {
        let &[ref outer @ .., rows, len] = &self.extents[..] else { return Ok(()) };
        let (wide, repeated) = if is_row_first { (1, 0) } else { (0, 1) };
        for at in 0..outer.iter().product() {
            let from = self.start(at * rows);
            let start = from[repeated] * sizes[0];
            let rows = RepeatedRows {
                wide: operands[wide],
                from: from[wide],
                row: operands[repeated].all().slice(start..start + len * sizes[0]),
                is_row_first,
                sizes,
                output,
                to: at * rows * len,
                count: rows * len,
            };
            rows.each(row)?;
        }
        Ok(())
    }

    /// As [`Broadcast::each_row`], of elements of these sizes: compiled once for all types.
    #[inline(never)]
    fn each_row_of_bytes(
        &self,
        [a, b]: [Rows<In<'_, u8>>; 2],
        output: Rows<Out<'_, u8>>,
        [size, size_out]: [usize; 2],
        row: &mut EachRow<'_>,
    ) -> Result<(), String> {
        let (operands, all) = ([a.all(), b.all()], output.all());
        if let Some(is_row_first) = self.repeated_row(size)
            && [a, b][usize::from(!is_row_first)].is_one_piece()
        {
            return self.each_beside_a_row(is_row_first, [a, b], output, [size, size_out], row);
        }
        let layouts = [Layout::of(a, size), Layout::of(b, size), Layout::of(output, size_out)];
        // Rows of a single span are brought together in blocks.
        let laid_out = (self.extents.len() > 1).then(|| LaidOut::new(self, layouts)).flatten();
        if let Some(laid_out) = laid_out.filter(|it| it.row_len() <= LONG) {
            let part = |of: usize, at: usize, count: usize| {
                operands[of].slice(at * size..(at + count) * size)
            };
            return laid_out.each_row(|[of_a, of_b, to], len, steps| {
                let count = |step: usize| if step == 0 { 1 } else { len };
                let (a, b) = (part(0, of_a, count(steps[0])), part(1, of_b, count(steps[1])));
                row(a, b, all.slice(to * size_out..(to + len) * size_out))
            });
        }
        self.each_line(|BroadcastSpan { at, from, len, steps }| {
            let along = |rows, of: usize| Along { rows, from: from[of], moves: steps[of] == 1 };
            let inputs = [along(a, 0), along(b, 1)];
            let spans = Spans { len, to: at, sizes: [size, size_out] };
            spans.each(inputs, output, &mut |[a, b], to| row(a, b, to))
        })
    }
}

/// Adds a step that computes each element of output 0 from those of inputs 0 and 1, by an
/// auto-vectorised loop.
pub(crate) fn emit_zip<T: Element, U: Element>(
    op: &mut OpBuilder<'_>,
    label: Label,
    broadcast: Broadcast,
    each: impl Fn(T, T) -> U + Send + Sync + 'static,
) {
    let isa = op.isa();
    let row = move |a: In<'_, u8>, b: In<'_, u8>, output: Out<'_, u8>| {
        zip(isa, a.cast(), b.cast(), output.cast(), &each);
        Ok(())
    };
    let sizes = [size_of::<T>(), size_of::<U>()];
    emit_rows_of_bytes(op, label, broadcast, RowsOfBytes { sizes, zips: true, row: Box::new(row) });
}

/// The function of rows of bytes that a step computes.
pub(crate) struct RowsOfBytes {
    /// Bytes of an element of the inputs, and of one of the output.
    pub(crate) sizes: [usize; 2],
    /// True if it can be computed of elements that belong to no row.
    pub(crate) zips: bool,
    /// The function of a row: each input has as many elements as the output, or one.
    pub(crate) row: Box<Row>,
}

/// See [`RowsOfBytes`].
pub(crate) type Row =
    dyn Fn(In<'_, u8>, In<'_, u8>, Out<'_, u8>) -> Result<(), String> + Send + Sync;

/// Adds a step that computes rows of output 0 from those of inputs 0 and 1.
pub(crate) fn emit_rows_of_bytes(
    op: &mut OpBuilder<'_>,
    label: Label,
    broadcast: Broadcast,
    of: RowsOfBytes,
) {
    if broadcast.extents.contains(&0) {
        return op.emit(label, |_| Ok(()));
    }
    let size = of.sizes[0];
    let block = of.zips.then(|| RepeatedBlock::of(&broadcast)).flatten();
    let scratch = block.as_ref().map_or(0, |block| block.len() * size);
    op.emit_with_scratch(label, scratch, move |mut io| {
        let (inputs, output) = ([io.input_rows(0), io.input_rows(1)], io.output_rows(0));
        let row: &mut EachRow<'_> = &mut |a, b, to| (of.row)(a, b, to);
        let is_one_piece = inputs.iter().all(|it| it.is_one_piece()) && output.is_one_piece();
        if let (Some(block), true) = (&block, is_one_piece) {
            let (mut inputs, bytes) = (inputs, io.scratch_slice::<u8>());
            block.write_bytes(size, inputs[block.repeated].all(), bytes)?;
            inputs[block.repeated] = In::of(bytes).into();
            return block.beside_it().zip_bytes(inputs, output, of.sizes, row);
        }
        match of.zips {
            true => broadcast.zip_bytes(inputs, output, of.sizes, row),
            false => broadcast.each_row_of_bytes(inputs, output, of.sizes, row),
        }
    });
}

/// What finding a span of two operands takes at most, about.
pub(super) const LINE_NS: usize = 16;

#[cfg(test)]
mod tests {
    use nnburst_kernels::simd::Isa;

    use super::*;

    #[test]
    fn short_rows_give_what_their_elements_give() {
        let shape = |extents: &[usize]| Shape::new(extents.to_vec()).unwrap();
        let numbers: Vec<i32> = (0..600).map(|i| i * i % 257).collect();
        for (a, b) in [
            (&[4, 5, 12][..], &[12][..]),
            (&[4, 5, 12], &[5, 1]),
            (&[4, 1, 12], &[5, 1]),
            (&[4, 5, 12], &[4, 1, 12]),
            (&[5, 12], &[4, 1, 1]),
            (&[3, 70], &[3, 1]),
            (&[2, 3], &[3]),
            (&[3, 1, 12], &[3, 6, 12]),
            (&[2, 3, 7], &[7]),
        ] {
            let (a, b) = (shape(a), shape(b));
            let wide = a.broadcast(&b).unwrap();
            let strides = [&a, &b].map(|of| of.broadcast_strides(&wide));
            let value = |of: usize, mut at: usize| {
                let mut from = 0;
                for (extent, stride) in wide.iter().zip(&strides[of]).rev() {
                    from += at % extent * stride;
                    at /= extent;
                }
                numbers[from + of]
            };
            let each = |x: i32, y: i32| x * 3 - y;
            let want: Vec<i32> =
                (0..wide.elements()).map(|at| each(value(0, at), value(1, at))).collect();
            let mut got = vec![0; want.len()];
            let operand = |of: usize, len| Rows::from(In::of(&numbers[of..of + len]));
            let (of_a, of_b) = (operand(0, a.elements()), operand(1, b.elements()));
            let output = Rows::from(Out::of(&mut got));
            let broadcast = Broadcast::new(&wide, &a, &b);
            let row: &mut EachRow<'_> = &mut |a, b, output| {
                zip(Isa::best(), a.cast(), b.cast(), output.cast(), each);
                Ok(())
            };
            let operands = [of_a.bytes(), of_b.bytes()];
            broadcast.zip_bytes(operands, output.bytes(), [4; 2], row).unwrap();
            assert_eq!(got, want, "{a:?} and {b:?}");
        }
    }

    #[test]
    fn axes_that_both_operands_walk_alike_are_one_stretch() {
        let shape = |extents: &[usize]| Shape::new(extents.to_vec()).unwrap();
        let lines = |wide: &[usize], a: &[usize], b: &[usize]| {
            let mut lines = Vec::new();
            Broadcast::new(&shape(wide), &shape(a), &shape(b))
                .each_line(|line| {
                    lines.push(line);
                    Ok(())
                })
                .unwrap();
            lines
        };
        let whole = BroadcastSpan { at: 0, from: [0, 0], len: 24, steps: [1, 1] };
        assert_eq!(lines(&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]), [whole]);
        assert_eq!(lines(&[2, 3, 4], &[2, 3, 4], &[1]), [BroadcastSpan { steps: [1, 0], ..whole }]);
        let rows = lines(&[2, 3, 4], &[2, 3, 4], &[4]);
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[5], BroadcastSpan { at: 20, from: [20, 0], len: 4, steps: [1, 1] });
        assert_eq!(lines(&[1], &[1], &[1]), [BroadcastSpan { len: 1, steps: [0, 0], ..whole }]);
        assert_eq!(lines(&[0, 2], &[0, 2], &[2]), []);
    }
}
