//! Elements taken from regular places: transposes, slices, tiles, shuffles and block moves are all
//! one loop over the output whose steps in the input are fixed for each axis.

use nnburst_kernels::kernels::block_permutation::{BlockPermutation, MOST_BYTES};
use nnburst_kernels::kernels::pieces::Grid;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::simd::turn::{SIDE, WORDS, WordSquares, turned, turned_words};
use nnburst_kernels::tensor::rows::Apart;
use nnburst_kernels::tensor::{Element, In, Out, poll};

use crate::lowering::part::StepPart;
use crate::lowering::walk::Walk;
use crate::lowering::{Io, Label, Lowered, OpBuilder};
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
        let element = kind.element_bytes().unwrap_or(1);
        let rows = self.rows(element);
        let walk = self.walk().filter(|_| element == size_of::<f32>() && output == 0);
        by_width!(kind, emit_move(op, self, output))?;
        match (rows, walk) {
            (Some((start, apart)), _) => op.take_rows(output, start, apart),
            (None, Some(walk)) => op.part(StepPart::Move(Box::new(walk))),
            (None, None) => {}
        }
        Ok(())
    }

    /// The same for passes, where no axis is walked backwards.
    pub(super) fn walk(&self) -> Option<Walk> {
        let strides = self.strides.iter().map(|&stride| usize::try_from(stride).ok());
        let strides = strides.collect::<Option<Vec<_>>>()?;
        Walk::new(self.base, self.extents.iter().copied().zip(strides))
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
        if let (Some((&rows, outer)), Ok(distance)) = (outer.split_last(), usize::try_from(step))
            && self.strides[outer.len()] == 1
        {
            let each = self.starts(outer);
            let large = WordSquares::new(isa)
                .filter(|large| size_of::<T>() == 4 && rows.min(inner) >= large.side());
            isa.run(Turns { input, output, each, rows, columns: inner, distance, large });
            return;
        }
        if step == 1 {
            return self.copy_rows(isa, input.bytes(), output.bytes(), size_of::<T>());
        }
        let rows = self.starts(outer).enumerate().map(|(row, from)| (from, row * inner));
        for (from, to) in rows {
            let target = output.slice(to..to + inner);
            for start in (0..inner).step_by(poll::CHUNK) {
                let end = inner.min(start + poll::CHUNK);
                if poll::work(ROW_NS + (end - start) * ELEMENT_NS).is_err() {
                    return;
                }
                if step == -1 {
                    let first = (from - signed(end - 1)).cast_unsigned();
                    let row = input.slice(first..first + end - start);
                    isa.run(Backwards { row, output: target.slice(start..end) });
                    continue;
                }
                if step == 2 {
                    let first = from.cast_unsigned() + 2 * start;
                    let pairs = input.slice(first..first + 2 * (end - start) - 1);
                    isa.run(EverySecond { pairs, output: target.slice(start..end) });
                    continue;
                }
                for at in start..end {
                    target.set(at, input.get((from + at.cast_signed() * step).cast_unsigned()));
                }
            }
        }
    }

    /// The innermost axes as a permutation of small blocks of the input, and how many these axes
    /// are. `None` where there is none, or where what moves together is no less than a register.
    fn small_blocks(&self, isa: Isa, size: usize) -> Option<(BlockPermutation, usize)> {
        const REGISTER: usize = 16;
        let (&inner, &step) = (self.extents.last()?, self.strides.last()?);
        if step == 1 && inner * size >= REGISTER {
            return None;
        }
        let (mut axes, mut found) = (Vec::new(), None);
        for (&extent, &stride) in self.extents.iter().zip(&self.strides).rev() {
            axes.push((stride, extent));
            let elements: usize = axes.iter().map(|axis| axis.1).product();
            if elements.checked_mul(size).is_none_or(|bytes| bytes > MOST_BYTES) {
                break;
            }
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            // Each axis steps over exactly those inside of it.
            let mut inside = 1;
            let is_block = sorted.iter().all(|&(stride, extent)| {
                let is_next = stride == signed(inside);
                inside *= extent;
                is_next
            });
            if is_block && axes.len() > 1 {
                found = Some(axes.len());
            }
        }
        let count = found?;
        let axes = &axes[..count];
        let mut places = vec![0];
        for &(stride, extent) in axes.iter().rev() {
            let step =
                |&place: &usize| (0..extent).map(move |at| place + at * stride.unsigned_abs());
            places = places.iter().flat_map(step).collect();
        }
        let blocks = BlockPermutation::new(isa, size, &places)?;
        // One element after the other, a block takes longer than by squares.
        let has_squares = count == 2 && axes[1].0 == 1 && axes[0].1.min(axes[1].1) >= WORDS;
        (blocks.isa() != Isa::Scalar || !has_squares).then_some((blocks, count))
    }

    /// Moves small blocks, those that follow one another in both tensors in one call.
    fn permute(
        &self,
        (blocks, axes): &(BlockPermutation, usize),
        input: In<'_, u8>,
        output: Out<'_, u8>,
        size: usize,
    ) -> Result<(), String> {
        let (mut outer, inner) = self.extents.split_at(self.extents.len() - axes);
        let mut elements: usize = inner.iter().product();
        if let Some((&extent, rest)) = outer.split_last()
            && self.strides[rest.len()] == signed(elements)
        {
            (outer, elements) = (rest, elements * extent);
        }
        let bytes = elements * size;
        for (at, from) in self.starts(outer).enumerate() {
            let from = from.cast_unsigned() * size;
            let (input, to) = (input.slice(from..from + bytes), at * bytes);
            blocks.compute(input, output.slice(to..to + bytes))?;
        }
        Ok(())
    }

    /// Copies rows of elements of `size` bytes that lie one behind the other.
    fn copy_rows(&self, isa: Isa, input: In<'_, u8>, output: Out<'_, u8>, size: usize) {
        let Some((&inner, outer)) = self.extents.split_last() else { return };
        let (far, near) = outer.split_at(outer.len().saturating_sub(2));
        let along = |back: usize| match near.len().checked_sub(back) {
            Some(at) => (near[at], self.strides[far.len() + at] * signed(size)),
            None => (1, 0),
        };
        let grid = Grid { len: inner * size, rows: along(2), columns: along(1) };
        let whole = grid.rows.0 * grid.columns.0 * grid.len;
        for (at, from) in self.starts(far).enumerate() {
            grid.copy(isa, input, from * signed(size), output, at * whole);
        }
    }

    /// The place in the input of every position along the outer axes. Of the last two of them no
    /// position takes a division, which lasts as long as moving a short row.
    fn starts<'a>(&'a self, outer: &'a [usize]) -> impl Iterator<Item = isize> + use<'a> {
        let (far, near) = outer.split_at(outer.len().saturating_sub(2));
        let along = |back: usize| match near.len().checked_sub(back) {
            Some(at) => (near[at].cast_signed(), self.strides[far.len() + at]),
            None => (1, 0),
        };
        let (rows, columns) = (along(2), along(1));
        (0..far.iter().product()).flat_map(move |position| {
            let (mut rest, mut from) = (position, self.base.cast_signed());
            for axis in (0..far.len()).rev() {
                from += (rest % far[axis]).cast_signed() * self.strides[axis];
                rest /= far[axis];
            }
            (0..rows.0).flat_map(move |row| {
                let from = from + row * rows.1;
                (0..columns.0).map(move |column| from + column * columns.1)
            })
        })
    }
}

/// Every second element, the first and the last included.
struct EverySecond<'a, T> {
    pairs: In<'a, T>,
    output: Out<'a, T>,
}

impl<T: Element> Loop for EverySecond<'_, T> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 16;
        let Self { pairs, output } = self;
        // The element behind the last one may not be there.
        let whole = output.len().saturating_sub(1) / BLOCK * BLOCK;
        for at in (0..whole).step_by(BLOCK) {
            let halves = [pairs.block::<BLOCK>(2 * at), pairs.block::<BLOCK>(2 * at + BLOCK)];
            let second = |k: usize| halves[2 * k / BLOCK][2 * k % BLOCK];
            output.set_block::<BLOCK>(at, std::array::from_fn(second));
        }
        (whole..output.len()).for_each(|at| output.set(at, pairs.get(2 * at)));
    }
}

/// A row from its last element to its first.
struct Backwards<'a, T> {
    row: In<'a, T>,
    output: Out<'a, T>,
}

impl<T: Element> Loop for Backwards<'_, T> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 16;
        let Self { row, output } = self;
        let len = output.len();
        if len < BLOCK {
            return (0..len).for_each(|at| output.set(at, row.get(len - 1 - at)));
        }
        for at in (0..len).step_by(BLOCK) {
            // Rather a whole block that lies over the one before.
            let at = at.min(len - BLOCK);
            let block = row.block::<BLOCK>(len - BLOCK - at);
            output.set_block::<BLOCK>(at, std::array::from_fn(|k| block[BLOCK - 1 - k]));
        }
    }
}

/// Matrices that are transposed: `rows` by `columns` of the output, one behind the other. Of the
/// input each column is one piece, and starts `distance` behind the one before it.
struct Turns<'a, T, I> {
    input: In<'a, T>,
    output: Out<'a, T>,
    /// Where each matrix starts in the input.
    each: I,
    rows: usize,
    columns: usize,
    distance: usize,
    /// How squares of words are turned that are larger than [`WORDS`].
    large: Option<WordSquares>,
}

/// Rows and columns that are transposed at a time.
const TILE: usize = 8;

/// Columns of few rows, and rows of few columns, that are moved at a time.
const NARROW: usize = 16;

/// Words so far apart, or a multiple of that, share few places of L1.
const SAME_PLACE: usize = 256;

/// Lines of the cache that L1 holds beside others until more of each is written.
const FEW_LINES: usize = 256;

impl<T: Element, I: Iterator<Item = isize>> Loop for Turns<'_, T, I> {
    #[inline(always)]
    fn run(mut self) {
        let mut to = 0;
        while let Some(from) = self.each.next() {
            let from = from.cast_unsigned();
            if self.narrow(from, to) {
                to += self.rows * self.columns;
                continue;
            }
            if size_of::<T>() == 1 && self.rows >= SIDE && self.columns >= SIDE {
                let moved = match self.rows > FEW_LINES {
                    true => self.squares::<4>(from, to),
                    false => self.squares::<1>(from, to),
                };
                if moved.is_err() {
                    return;
                }
                to += self.rows * self.columns;
                continue;
            }
            if let Some(large) = self.large {
                if self.large_squares(large, from, to).is_err() {
                    return;
                }
                to += self.rows * self.columns;
                continue;
            }
            if size_of::<T>() == 4 && self.rows >= WORDS && self.columns >= WORDS {
                let is_far = self.columns.is_multiple_of(SAME_PLACE) || self.rows > FEW_LINES;
                let moved = match is_far {
                    true => self.squares_of_words::<4>(from, to),
                    false => self.squares_of_words::<1>(from, to),
                };
                if moved.is_err() {
                    return;
                }
                to += self.rows * self.columns;
                continue;
            }
            let mut column = 0;
            while column < self.columns {
                let wide = self.columns - column;
                let moved = match wide {
                    TILE.. => self.columns_at::<TILE>(from, to, column),
                    4.. => self.columns_at::<4>(from, to, column),
                    2.. => self.columns_at::<2>(from, to, column),
                    _ => self.columns_at::<1>(from, to, column),
                };
                if moved.is_err() {
                    return;
                }
                column += 1 << wide.min(TILE).ilog2();
            }
            to += self.rows * self.columns;
        }
    }

    #[inline(always)]
    fn run_scalar(mut self) {
        let mut to = 0;
        while let Some(from) = self.each.next() {
            for column in 0..self.columns {
                if self.columns_at::<1>(from.cast_unsigned(), to, column).is_err() {
                    return;
                }
            }
            to += self.rows * self.columns;
        }
    }
}

impl<T: Element, I> Turns<'_, T, I> {
    /// Moves a matrix of two to four rows that lie between each other in the input, or of as many
    /// columns; false where it is another.
    #[inline(always)]
    fn narrow(&self, from: usize, to: usize) -> bool {
        match (self.rows, self.columns) {
            (2, NARROW..) if self.distance == 2 => self.apart::<2>(from, to),
            (3, NARROW..) if self.distance == 3 => self.apart::<3>(from, to),
            (4, NARROW..) if self.distance == 4 => self.apart::<4>(from, to),
            (NARROW.., 2) => self.between::<2>(from, to),
            (NARROW.., 3) => self.between::<3>(from, to),
            (NARROW.., 4) => self.between::<4>(from, to),
            _ => return false,
        }
        true
    }

    /// Takes elements that belong to `ROWS` rows in turns apart.
    #[inline(always)]
    fn apart<const ROWS: usize>(&self, from: usize, to: usize) {
        let Self { input, output, columns, .. } = *self;
        for column in poll::each((0..columns).step_by(NARROW), NARROW * ROWS) {
            let column = column.min(columns - NARROW);
            let first = from + column * ROWS;
            let mut blocks = [[T::default(); NARROW]; ROWS];
            for (at, block) in blocks.iter_mut().enumerate() {
                *block = input.block(first + at * NARROW);
            }
            // Closures that make arrays aren't inlined into the instruction set here.
            let elements = blocks.as_flattened();
            for row in 0..ROWS {
                let mut line = [T::default(); NARROW];
                for (at, x) in line.iter_mut().enumerate() {
                    *x = elements[at * ROWS + row];
                }
                output.set_block(to + row * columns + column, line);
            }
        }
    }

    /// Puts elements of `COLUMNS` columns between each other.
    #[inline(always)]
    fn between<const COLUMNS: usize>(&self, from: usize, to: usize) {
        let Self { input, output, rows, distance, .. } = *self;
        for row in poll::each((0..rows).step_by(NARROW), NARROW * COLUMNS) {
            let row = row.min(rows - NARROW);
            let mut columns = [[T::default(); NARROW]; COLUMNS];
            for (at, column) in columns.iter_mut().enumerate() {
                *column = input.block(from + at * distance + row);
            }
            for part in 0..COLUMNS {
                let mut line = [T::default(); NARROW];
                for (at, x) in line.iter_mut().enumerate() {
                    let at = part * NARROW + at;
                    *x = columns[at % COLUMNS][at / COLUMNS];
                }
                output.set_block(to + row * COLUMNS + part * NARROW, line);
            }
        }
    }

    /// Moves a matrix of bytes by squares, of which `WIDE` lie side by side. The last ones of each
    /// row and column lie over those before them where a whole one is no longer left.
    #[inline(always)]
    fn squares<const WIDE: usize>(&self, from: usize, to: usize) -> Result<(), poll::Halted> {
        let Self { rows, columns, .. } = *self;
        for first in (0..columns).step_by(SIDE * WIDE) {
            for row in (0..rows).step_by(SIDE) {
                poll::work(SIDE * SIDE * WIDE)?;
                let row = row.min(rows - SIDE);
                for column in (first..columns.min(first + SIDE * WIDE)).step_by(SIDE) {
                    self.square([from, to], row, column.min(columns - SIDE));
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn square(&self, [from, to]: [usize; 2], row: usize, column: usize) {
        let Self { input, output, columns, distance, .. } = *self;
        let first = from + column * distance + row;
        let mut square = [[T::default(); SIDE]; SIDE];
        for (at, row) in square.iter_mut().enumerate() {
            *row = input.block(first + at * distance);
        }
        let turned: [[T; SIDE]; SIDE] = bytemuck::cast(turned(bytemuck::cast(square)));
        for (at, line) in turned.into_iter().enumerate() {
            output.set_block(to + (row + at) * columns + column, line);
        }
    }

    /// As [`Turns::squares`], of words that fill vectors.
    fn large_squares(&self, large: WordSquares, from: usize, to: usize) -> Result<(), String> {
        let Self { rows, columns, distance, .. } = *self;
        let (input, output) = (self.input.bytes().cast(), self.output.bytes().cast());
        let side = large.side();
        for column in (0..columns).step_by(side) {
            let column = column.min(columns - side);
            for row in (0..rows).step_by(side) {
                poll::work(side * side)?;
                let row = row.min(rows - side);
                let input = input.slice(from + column * distance + row..input.len());
                let output = output.slice(to + row * columns + column..output.len());
                large.turn(input, distance, output, columns)?;
            }
        }
        Ok(())
    }

    /// As [`Turns::squares`], of words: `WIDE` of them side by side, at most as many as a line of
    /// the cache holds. Where the lines of a column have one place in it, each is to be written
    /// whole before the next.
    #[inline(always)]
    fn squares_of_words<const WIDE: usize>(
        &self,
        from: usize,
        to: usize,
    ) -> Result<(), poll::Halted> {
        let Self { rows, columns, .. } = *self;
        for first in (0..columns).step_by(WORDS * WIDE) {
            for start in (0..rows).step_by(poll::CHUNK) {
                let end = rows.min(start + poll::CHUNK);
                poll::work((end - start) * WORDS * WIDE)?;
                for row in (start..end).step_by(WORDS) {
                    let row = row.min(rows - WORDS);
                    for at in 0..WIDE {
                        let column = (first + at * WORDS).min(columns - WORDS);
                        self.square_of_words([from, to], row, column);
                    }
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn square_of_words(&self, [from, to]: [usize; 2], row: usize, column: usize) {
        let Self { input, output, columns, distance, .. } = *self;
        let first = from + column * distance + row;
        let mut square = [[T::default(); WORDS]; WORDS];
        for (at, row) in square.iter_mut().enumerate() {
            *row = input.block(first + at * distance);
        }
        let turned: [[T; WORDS]; WORDS] = bytemuck::cast(turned_words(bytemuck::cast(square)));
        for (at, line) in turned.into_iter().enumerate() {
            output.set_block(to + (row + at) * columns + column, line);
        }
    }

    /// Moves `N` columns of a matrix, from the one `column` on.
    #[inline(always)]
    fn columns_at<const N: usize>(
        &self,
        from: usize,
        to: usize,
        column: usize,
    ) -> Result<(), poll::Halted> {
        let Self { input, output, rows, columns, distance, .. } = *self;
        let (from, to) = (from + column * distance, to + column);
        poll::work(ROW_NS)?;
        for first in (0..rows).step_by(poll::CHUNK) {
            let end = rows.min(first + poll::CHUNK);
            poll::work((end - first) * N)?;
            let whole = first + (end - first) / TILE * TILE;
            for row in (first..whole).step_by(TILE) {
                let mut block = [[T::default(); TILE]; N];
                for (n, column) in block.iter_mut().enumerate() {
                    *column = input.block(from + n * distance + row);
                }
                for k in 0..TILE {
                    let mut line = [T::default(); N];
                    line.iter_mut().zip(&block).for_each(|(x, column)| *x = column[k]);
                    output.set_block(to + (row + k) * columns, line);
                }
            }
            for row in whole..end {
                let mut line = [T::default(); N];
                for (n, x) in line.iter_mut().enumerate() {
                    *x = input.get(from + n * distance + row);
                }
                output.set_block(to + row * columns, line);
            }
        }
        Ok(())
    }
}

/// What finding a row takes at most, and moving an element from memory that is far away.
const ROW_NS: usize = 8;
const ELEMENT_NS: usize = 4;

/// Adds the step that moves elements of this width from input 0 to an output.
pub(super) fn emit_move<T: Element>(
    op: &mut OpBuilder<'_>,
    strided: Strided,
    output: usize,
) -> Lowered {
    let (shape, isa) = (op.output(output)?.shape, op.isa());
    if let Some(blocks) = strided.small_blocks(isa, size_of::<T>()) {
        let label = Label { form: blocks.0.isa(), ..plain("block_permutation", &shape, 0) };
        op.emit(label, move |io: Io<'_>| {
            if shape.contains(&0) {
                return Ok(());
            }
            let (from, to) = (io.input::<T>(0).bytes(), io.output::<T>(output).bytes());
            strided.permute(&blocks, from, to, size_of::<T>())
        });
        return Ok(());
    }
    let label = match strided.strides.last() {
        // A single element or rows of them, else elements one by one.
        None | Some(1) => compiled(isa, "strided_copy", &shape, 0),
        _ if strided.strides.iter().nth_back(1) == Some(&1) => {
            compiled(isa, "strided_copy", &shape, 0)
        }
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
mod tests;
