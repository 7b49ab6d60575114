//! Packing of the right matrix, and copies of rows that tiles can't read where they lie.

use super::{Layout, Matrix, MatrixProduct, Part};
use crate::kernels::gemm_f32::copied_stride;
use crate::kernels::gemm_f32::panels::{MAX_COLUMNS, Panel};
use crate::tensor::{In, poll};

impl MatrixProduct {
    /// Packs the right matrix: of each panel a line of bias, or of zeros, then `depth` lines, which
    /// `each` is given while they are near.
    ///
    /// # Safety
    /// The matrix is as large as stated, and so is the memory.
    pub(super) unsafe fn pack_right(
        &self,
        right: Matrix<'_>,
        own_bias: Option<In<'_, f32>>,
        packed: &mut [f32],
        mut each: impl FnMut(&mut [f32]),
    ) {
        let mut rest = packed;
        self.panels.each(std::ptr::null(), self.depth, |panel| {
            let all = std::mem::take(&mut rest);
            let (to, behind) = all.split_at_mut(panel.width.columns * (self.depth + 1));
            rest = behind;
            // SAFETY: as the caller promises.
            if unsafe { self.pack_panel(right, own_bias, panel, to) } {
                each(&mut to[panel.width.columns..]);
            }
        });
    }

    /// Packs one panel. Returns whether it did, and the run is not to end.
    ///
    /// # Safety
    /// The matrix is as large as stated, and so is the memory.
    pub(super) unsafe fn pack_panel(
        &self,
        right: Matrix<'_>,
        own_bias: Option<In<'_, f32>>,
        &Panel { width, first, columns: few, .. }: &Panel,
        panel: &mut [f32],
    ) -> bool {
        let (Matrix { all: right, stride }, depth) = (right, self.depth);
        let width = width.columns;
        if poll::work(depth * few / 2).is_err() {
            return false;
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
                unsafe { (self.pack.run)(&rows[..few], depth, width, lines.as_mut_ptr().cast()) };
            }
        }
        true
    }

    /// Copies the rows of a part one behind the other, where tiles can't read them where they lie.
    ///
    /// # Safety
    /// The rows are there, and there is room for them.
    pub(super) unsafe fn copy_part(&self, part: &Part<'_>, rows: usize, copied: &mut [f32]) {
        if self.copies_left(part.left.stride) {
            // SAFETY: as the caller promises.
            unsafe { self.copy_left(part.left, rows, copied) };
        }
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
