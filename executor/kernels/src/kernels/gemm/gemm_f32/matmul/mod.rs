//! Products of two matrices that are known at run time alone: the right one is packed anew in each
//! run, which pays from a few rows on.

mod packing;

use super::panels::{Ahead, Panel, Panels};
use super::tile::TileStack;
use super::{BLOCK_BYTES, CLASHING, DEEPEST, VARIANTS, copied_stride};
use crate::kernels::pack;
use crate::simd::{Isa, Variant};
use crate::tensor::{In, Out, check_lengths};

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

/// Rows of a left matrix, and where their products go.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// From the first row on.
    pub left: Matrix<'a>,
    /// From the first product on.
    pub output: Out<'a, f32>,
    /// Elements from one row of the output to the next.
    pub stride: usize,
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

    /// Floats that a panel of the right matrix takes when it is packed.
    pub fn panel_len(&self) -> usize {
        let kernel = &self.panels.variant.run;
        kernel.width(self.panels.columns).columns * (self.depth + 1)
    }

    /// Floats of scratch memory for so many rows of a left matrix of this stride.
    pub fn copied_len(&self, rows: usize, stride: usize) -> usize {
        if self.copies_left(stride) { rows * copied_stride(self.depth) } else { 0 }
    }

    /// Rows of a tile: as many are computed in about the time of one.
    pub fn tile_rows(&self) -> usize {
        self.panels.variant.run.rows()
    }

    /// Returns whether tiles can't read the rows of the left matrix where they lie.
    fn copies_left(&self, stride: usize) -> bool {
        self.left == Layout::ColumnMajor || stride.is_multiple_of(CLASHING)
    }

    /// Rows that are worked on at a time.
    fn block_rows(&self) -> usize {
        (BLOCK_BYTES / (self.depth * 4)).max(self.panels.variant.run.rows()).min(self.rows)
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
            let output = output.slice(first * columns..output.len());
            let part = Part { left, output, stride: columns };
            self.compute_rows(part, packed, block.min(rows - first), copied)?;
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
        self.check_right(right)?;
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

    fn check_right(&self, right: Matrix<'_>) -> Result<(), String> {
        match self.right {
            Layout::RowMajor => right.check(self.depth, self.panels.columns),
            Layout::ColumnMajor => right.check(self.panels.columns, self.depth),
        }
    }

    /// Checks `rows` rows of a part, and that those of its output don't overlap.
    fn check_part(&self, part: &Part<'_>, rows: usize) -> Result<(), String> {
        let (depth, columns) = (self.depth, self.panels.columns);
        match self.left {
            Layout::RowMajor => part.left.check(rows, depth)?,
            Layout::ColumnMajor => part.left.check(depth, rows)?,
        }
        check_lengths(part.stride, columns)?;
        Matrix { all: part.output.as_in(), stride: part.stride }.check(rows, columns)
    }

    /// The rows of a part, for all of its panels.
    fn whole(&self, part: &Part<'_>, copied: &[f32]) -> TileStack {
        let (depth, left) = (self.depth, part.left);
        let (input, row_stride) = if self.copies_left(left.stride) {
            (copied.as_ptr(), copied_stride(depth))
        } else {
            (left.all.as_ptr(), left.stride)
        };
        let (output, stride) = (part.output.as_mut_ptr(), part.stride);
        TileStack {
            input,
            row_stride,
            segments: (1, 1),
            len: depth,
            output,
            stride,
            ..TileStack::NONE
        }
    }

    /// Computes `rows` rows by a packed right matrix. `copied` has [`MatrixProduct::copied_len`]
    /// elements.
    ///
    /// # Errors
    /// Memory is missing, or rows of the output overlap.
    pub fn compute_rows(
        &self,
        part: Part<'_>,
        packed: &[f32],
        rows: usize,
        copied: &mut [f32],
    ) -> Result<(), String> {
        self.check_part(&part, rows)?;
        check_lengths(packed.len(), self.packed_len())?;
        check_lengths(copied.len(), self.copied_len(rows, part.left.stride))?;
        // SAFETY: the rows are there, and there is room for them.
        unsafe { self.copy_part(&part, rows, copied) };
        let whole = self.whole(&part, copied);
        self.panels.each(packed.as_ptr(), self.depth, |panel| {
            let cut = self.panels.cut(panel, self.depth, rows);
            // SAFETY: the rows are there, and panels as packed.
            unsafe { self.panels.tiles(panel, &whole, &cut, 0, &mut Ahead::none()) };
        });
        Ok(())
    }

    /// Computes `rows` rows of each of `count` parts by the elements that `map` makes of those of a
    /// right matrix, packed panel by panel: for rows that are too few to pay for packing it to
    /// memory. The left matrices have one stride; `panel` has [`MatrixProduct::panel_len`]
    /// elements, `copied` [`MatrixProduct::copied_len`] for each part.
    ///
    /// # Errors
    /// Memory is missing, rows of an output overlap, or the first of `map`.
    pub fn compute_parts<'a>(
        &self,
        right: Matrix<'_>,
        mut map: impl FnMut(&mut [f32]) -> Result<(), String>,
        [count, rows]: [usize; 2],
        part: impl Fn(usize) -> Part<'a>,
        panel: &mut [f32],
        copied: &mut [f32],
    ) -> Result<(), String> {
        self.check_right(right)?;
        check_lengths(panel.len(), self.panel_len())?;
        let stride = part(0).left.stride;
        let share = self.copied_len(rows, stride);
        check_lengths(copied.len(), count * share)?;
        for at in 0..count {
            let part = part(at);
            self.check_part(&part, rows)?;
            if part.left.stride != stride {
                return Err(format!("part {at} has rows {} apart, not {stride}", part.left.stride));
            }
            // SAFETY: the rows are there, and there is room for them.
            unsafe { self.copy_part(&part, rows, &mut copied[at * share..(at + 1) * share]) };
        }
        let mut ended = Ok(());
        self.panels.each(std::ptr::null(), self.depth, |of_columns| {
            if ended.is_err() {
                return;
            }
            let to = &mut panel[..of_columns.width.columns * (self.depth + 1)];
            // SAFETY: the matrix is as large as stated, and so is the panel.
            if !unsafe { self.pack_panel(right, None, of_columns, to) } {
                return;
            }
            ended = map(&mut to[of_columns.width.columns..]);
            if ended.is_err() {
                return;
            }
            let packed = Panel { lines: to.as_ptr(), ..*of_columns };
            let cut = self.panels.cut(&packed, self.depth, rows);
            for at in 0..count {
                let whole = self.whole(&part(at), &copied[at * share..]);
                // SAFETY: the rows are there, and the panel as packed.
                unsafe { self.panels.tiles(&packed, &whole, &cut, 0, &mut Ahead::none()) };
            }
        });
        ended
    }
}

#[cfg(test)]
mod tests;
