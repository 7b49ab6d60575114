//! Products of two matrices that are known at run time alone: the right one is packed anew in each
//! run, which pays from a few rows on.

use super::panels::{Ahead, MAX_COLUMNS, Panel, Panels};
use super::tile::Tile;
use super::{BLOCK_BYTES, CLASHING, DEEPEST, VARIANTS, copied_stride};
use crate::kernels::pack;
use crate::simd::{Isa, Variant};
use crate::tensor::{In, Out, check_lengths, poll};

/// The order of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Row by row.
    RowMajor,
    /// Column by column.
    ColumnMajor,
}

/// A matrix where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Its elements, from the first one on.
    pub all: In<'a, f32>,
    /// Elements from one row to the next, or from one column where it lies column by column.
    pub stride: usize,
}

impl Matrix<'_> {
    /// Returns whether `count` lines of `len` elements are there.
    fn check(&self, count: usize, len: usize) -> Result<(), String> {
        let last = count.saturating_sub(1).saturating_mul(self.stride);
        check_lengths(self.all.len(), last.saturating_add(len))
    }
}

/// The product of `rows` by `depth` and `depth` by `columns` elements.
#[derive(Debug)]
pub struct MatrixProduct {
    panels: Panels,
    pack: Variant<pack::Run>,
    rows: usize,
    depth: usize,
    left: Layout,
    right: Layout,
}

impl MatrixProduct {
    /// `None` where an extent is 0, or rows are so deep that a product could not be stopped.
    pub fn new(
        isa: Isa,
        [rows, depth, columns]: [usize; 3],
        left: Layout,
        right: Layout,
    ) -> Option<Self> {
        if rows == 0 || depth == 0 || columns == 0 || depth > DEEPEST {
            return None;
        }
        let panels = Panels { variant: VARIANTS.best(isa), columns };
        Some(Self { panels, pack: pack::VARIANTS.best(isa), rows, depth, left, right })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.panels.variant.isa
    }

    /// Floats of scratch memory that a run takes.
    pub fn scratch_len(&self) -> usize {
        let copied = if self.copies_left(self.depth) { self.block_rows() } else { 0 };
        self.packed_len() + copied * copied_stride(self.depth)
    }

    /// Floats that the right matrix takes when it is packed.
    pub fn packed_len(&self) -> usize {
        self.panels.variant.run.packed_columns(self.panels.columns) * (self.depth + 1)
    }

    /// Floats of scratch memory for so many rows of a left matrix of this stride.
    pub fn copied_len(&self, rows: usize, stride: usize) -> usize {
        if self.copies_left(stride) { rows * copied_stride(self.depth) } else { 0 }
    }

    /// Rows of a tile: as many are computed in about the time of one.
    pub fn tile_rows(&self) -> usize {
        self.panels.variant.run.rows
    }

    /// Returns whether tiles can't read the rows of the left matrix where they lie.
    fn copies_left(&self, stride: usize) -> bool {
        self.left == Layout::ColumnMajor || stride.is_multiple_of(CLASHING)
    }

    /// Rows that are worked on at a time.
    fn block_rows(&self) -> usize {
        (BLOCK_BYTES / (self.depth * 4)).max(self.panels.variant.run.rows).min(self.rows)
    }

    /// Computes the product, row by row.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute(
        &self,
        left: In<'_, f32>,
        right: In<'_, f32>,
        output: Out<'_, f32>,
        scratch: &mut [f32],
    ) -> Result<(), String> {
        self.compute_from(left, right, None, output, scratch)
    }

    /// Computes the product with sums that begin with the bias of their column.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute_biased(
        &self,
        left: In<'_, f32>,
        right: In<'_, f32>,
        bias: In<'_, f32>,
        output: Out<'_, f32>,
        scratch: &mut [f32],
    ) -> Result<(), String> {
        check_lengths(bias.len(), self.panels.columns)?;
        self.compute_from(left, right, Some(bias), output, scratch)
    }

    fn compute_from(
        &self,
        left: In<'_, f32>,
        right: In<'_, f32>,
        bias: Option<In<'_, f32>>,
        output: Out<'_, f32>,
        scratch: &mut [f32],
    ) -> Result<(), String> {
        let (rows, depth, columns) = (self.rows, self.depth, self.panels.columns);
        check_lengths(left.len(), rows * depth)?;
        check_lengths(output.len(), rows * columns)?;
        check_lengths(scratch.len(), self.scratch_len())?;
        let (packed, copied) = scratch.split_at_mut(self.packed_len());
        let stride = |layout: Layout, row: usize, column: usize| match layout {
            Layout::RowMajor => row,
            Layout::ColumnMajor => column,
        };
        let right = Matrix { all: right, stride: stride(self.right, columns, depth) };
        self.pack_from(right, bias, packed, |_| Ok(()))?;
        let left_stride = stride(self.left, depth, rows);
        let block = self.block_rows();
        for first in (0..rows).step_by(block) {
            let start = first * stride(self.left, depth, 1);
            let left = Matrix { all: left.slice(start..left.len()), stride: left_stride };
            let to = output.slice(first * columns..output.len());
            self.compute_rows(left, packed, block.min(rows - first), to, columns, copied)?;
        }
        Ok(())
    }

    /// Packs a right matrix for [`MatrixProduct::compute_rows`].
    ///
    /// # Errors
    /// Memory is missing.
    pub fn pack(&self, right: Matrix<'_>, packed: &mut [f32]) -> Result<(), String> {
        self.pack_from(right, None, packed, |_| Ok(()))
    }

    /// Packs the elements of a right matrix that `map` makes of those that lie there, in whatever
    /// order they are given to it.
    ///
    /// # Errors
    /// Memory is missing, or the first of `map`.
    pub fn pack_mapped(
        &self,
        right: Matrix<'_>,
        packed: &mut [f32],
        map: impl FnMut(&mut [f32]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.pack_from(right, None, packed, map)
    }

    fn pack_from(
        &self,
        right: Matrix<'_>,
        bias: Option<In<'_, f32>>,
        packed: &mut [f32],
        mut map: impl FnMut(&mut [f32]) -> Result<(), String>,
    ) -> Result<(), String> {
        match self.right {
            Layout::RowMajor => right.check(self.depth, self.panels.columns)?,
            Layout::ColumnMajor => right.check(self.panels.columns, self.depth)?,
        }
        check_lengths(packed.len(), self.packed_len())?;
        let mut mapped = Ok(());
        let each = |lines: &mut [f32]| {
            if mapped.is_ok() {
                mapped = map(lines);
            }
        };
        // SAFETY: the lengths are what is asked for.
        unsafe { self.pack_right(right, bias, packed, each) };
        mapped
    }

    /// Computes `rows` rows from the first one of `left` on, those of the output `stride` elements
    /// apart. `copied` has [`MatrixProduct::copied_len`] elements.
    ///
    /// # Errors
    /// Memory is missing, or rows of the output overlap.
    pub fn compute_rows(
        &self,
        left: Matrix<'_>,
        packed: &[f32],
        rows: usize,
        output: Out<'_, f32>,
        stride: usize,
        copied: &mut [f32],
    ) -> Result<(), String> {
        let (depth, columns) = (self.depth, self.panels.columns);
        match self.left {
            Layout::RowMajor => left.check(rows, depth)?,
            Layout::ColumnMajor => left.check(depth, rows)?,
        }
        check_lengths(stride, columns)?;
        Matrix { all: output.as_in(), stride }.check(rows, columns)?;
        check_lengths(packed.len(), self.packed_len())?;
        check_lengths(copied.len(), self.copied_len(rows, left.stride))?;
        let (input, row_stride) = if self.copies_left(left.stride) {
            // SAFETY: the rows are there, and there is room for them.
            unsafe { self.copy_left(left, rows, copied) };
            (copied.as_ptr(), copied_stride(depth))
        } else {
            (left.all.as_ptr(), left.stride)
        };
        let output = output.as_mut_ptr();
        let segments = (1, 1);
        let whole =
            Tile { input, row_stride, segments, len: depth, output, stride, rows, ..Tile::EMPTY };
        self.panels.each(packed.as_ptr(), depth, |panel| {
            let cut = self.panels.cut(panel, depth, rows);
            // SAFETY: the rows are there, and panels as packed.
            unsafe { self.panels.tiles(panel, &whole, &cut, 0, &mut Ahead::none()) };
        });
        Ok(())
    }

    /// Packs the right matrix: of each panel a line of bias, or of zeros, then `depth` lines, which
    /// `each` is given while they are near.
    ///
    /// # Safety
    /// The matrix is as large as stated, and so is the memory.
    unsafe fn pack_right(
        &self,
        right: Matrix<'_>,
        own_bias: Option<In<'_, f32>>,
        packed: &mut [f32],
        mut each: impl FnMut(&mut [f32]),
    ) {
        let (Matrix { all: right, stride }, depth) = (right, self.depth);
        let mut rest = packed;
        self.panels.each(
            std::ptr::null(),
            depth,
            |&Panel { width, first, columns: few, .. }| {
                let width = width.columns;
                let all = std::mem::take(&mut rest);
                let (panel, behind) = all.split_at_mut(width * (depth + 1));
                rest = behind;
                if poll::work(depth * few / 2).is_err() {
                    return;
                }
                let (bias, lines) = panel.split_at_mut(width);
                bias.fill(0.0);
                if let Some(own) = own_bias {
                    own.slice(first..first + few).copy_to(&mut bias[..few]);
                }
                match self.right {
                    Layout::RowMajor => {
                        let from = right.slice(first..right.len());
                        match (few == width, width) {
                            (true, 32) => copy_lines::<32>(from, stride, lines),
                            (true, 16) => copy_lines::<16>(from, stride, lines),
                            _ => {
                                for (k, line) in lines.chunks_exact_mut(width).enumerate() {
                                    from.slice(k * stride..k * stride + few).copy_to(line);
                                    line[few..].fill(0.0);
                                }
                            }
                        }
                    }
                    Layout::ColumnMajor => {
                        if few < width {
                            lines.fill(0.0);
                        }
                        let mut rows = [std::ptr::null(); MAX_COLUMNS];
                        for (at, row) in rows[..few].iter_mut().enumerate() {
                            *row = right.as_ptr().wrapping_add((first + at) * stride).cast();
                        }
                        // SAFETY: rows of `depth` elements, at most `width`, and as many lines.
                        unsafe {
                            (self.pack.run)(&rows[..few], depth, width, lines.as_mut_ptr().cast());
                        };
                    }
                }
                each(lines);
            },
        );
    }

    /// Copies rows of the left matrix one behind the other.
    ///
    /// # Safety
    /// The rows are among those of the matrix, and the memory has room for them.
    unsafe fn copy_left(&self, left: Matrix<'_>, rows: usize, to: &mut [f32]) {
        let (depth, stride) = (self.depth, copied_stride(self.depth));
        if self.left == Layout::RowMajor {
            for (row, to) in (0..rows).zip(to.chunks_exact_mut(stride)) {
                left.all.slice(row * left.stride..row * left.stride + depth).copy_to(to);
            }
            return;
        }
        for start in (0..depth).step_by(MAX_COLUMNS) {
            let count = MAX_COLUMNS.min(depth - start);
            if poll::work(count * rows / 2).is_err() {
                return;
            }
            let mut lines = [std::ptr::null(); MAX_COLUMNS];
            for (at, line) in lines[..count].iter_mut().enumerate() {
                *line = left.all.as_ptr().wrapping_add((start + at) * left.stride).cast();
            }
            let to = to.as_mut_ptr().wrapping_add(start);
            // SAFETY: each line of the transposed matrix has as many elements as there are rows;
            // what is written lies within rows of `stride`.
            unsafe { (self.pack.run)(&lines[..count], rows, stride, to.cast()) };
        }
    }
}

/// Copies lines of `WIDTH` elements, `stride` apart, one behind the other: short ones, for which a
/// call of `memcpy` each would take as long as what it copies.
fn copy_lines<const WIDTH: usize>(from: In<'_, f32>, stride: usize, to: &mut [f32]) {
    let (lines, _) = to.as_chunks_mut::<WIDTH>();
    for (at, line) in lines.iter_mut().enumerate() {
        *line = from.block(at * stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_multiplies_matrices_however_they_lie() {
        let number = |seed: usize| (seed.wrapping_mul(2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
        for [rows, depth, columns] in
            [[1, 1, 1], [3, 17, 5], [13, 64, 33], [50, 9, 70], [7, CLASHING, 9], [70, 800, 32]]
        {
            let left: Vec<f32> = (0..rows * depth).map(number).collect();
            let right: Vec<f32> = (0..depth * columns).map(|i| number(i + 7)).collect();
            let want = |row: usize, column: usize| -> f32 {
                (0..depth).map(|k| left[row * depth + k] * right[k * columns + column]).sum()
            };
            let turned = |of: &[f32], width: usize| -> Vec<f32> {
                (0..of.len())
                    .map(|at| of[at % (of.len() / width) * width + at / (of.len() / width)])
                    .collect()
            };
            for variant in VARIANTS.all() {
                for (lie_left, lie_right) in [
                    (Layout::RowMajor, Layout::RowMajor),
                    (Layout::RowMajor, Layout::ColumnMajor),
                    (Layout::ColumnMajor, Layout::RowMajor),
                ] {
                    let matrices = MatrixProduct::new(
                        variant.isa,
                        [rows, depth, columns],
                        lie_left,
                        lie_right,
                    )
                    .unwrap();
                    let as_it_lies = |of: &[f32], width: usize, lie: Layout| match lie {
                        Layout::RowMajor => of.to_vec(),
                        Layout::ColumnMajor => turned(of, width),
                    };
                    let (a, b) = (
                        as_it_lies(&left, depth, lie_left),
                        as_it_lies(&right, columns, lie_right),
                    );
                    let mut got = vec![9.0; rows * columns];
                    let mut scratch = vec![f32::NAN; matrices.scratch_len()];
                    matrices
                        .compute(In::of(&a), In::of(&b), Out::of(&mut got), &mut scratch)
                        .unwrap();
                    for (at, got) in got.into_iter().enumerate() {
                        let want = want(at / columns, at % columns);
                        let near = (got - want).abs() <= 1e-3;
                        assert!(near, "{:?} {rows}x{depth}x{columns}: {got}, {want}", variant.isa);
                    }
                }
            }
        }
    }
}
