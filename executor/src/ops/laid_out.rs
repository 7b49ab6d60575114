//! Two tensors that broadcast to one shape, and their results, as they lie in memory: rows that lie
//! apart are an axis like others.

use nnburst_kernels::tensor::poll;
use nnburst_kernels::tensor::rows::{Piece, Rows};

use super::broadcast::{Broadcast, LINE_NS, each_chunk_of_rows};

/// Axes of a walk, at most.
const AXES: usize = 8;

/// The elements of a row of a tensor, and from one to the next: see [`Rows`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    row: usize,
    pitch: usize,
}

impl Layout {
    pub(super) const ONE_PIECE: Self = Self { row: usize::MAX, pitch: usize::MAX };

    /// Of rows of bytes or of elements, which have `size` of them each.
    #[inline(always)]
    pub(super) fn of<P: Piece>(rows: Rows<P>, size: usize) -> Self {
        match rows.is_one_piece() {
            true => Self::ONE_PIECE,
            false => Self { row: rows.row_len() / size, pitch: rows.row_stride() / size },
        }
    }

    #[inline(always)]
    pub(super) fn is_one_piece(self) -> bool {
        self.row == self.pitch
    }
}

/// A walk over two operands and their results. Along the last axis elements lie one behind the
/// other, or one serves all.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaidOut {
    rank: usize,
    extents: [usize; AXES],
    /// Elements from one to the next along each axis: of both operands and the results.
    strides: [[usize; AXES]; 3],
}

/// Rows one behind the other of two operands and their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaidOutRows {
    /// The places of the first elements.
    pub(super) from: [usize; 3],
    pub(super) count: usize,
    /// Elements of a row.
    pub(super) len: usize,
    /// From one element to the next.
    pub(super) steps: [usize; 3],
    /// From one row to the next.
    pub(super) strides: [usize; 3],
}

impl LaidOut {
    /// `None` where an axis goes through a part of a row and on in the next, or there are too many.
    pub(super) fn new(of: &Broadcast, layouts: [Layout; 3]) -> Option<Self> {
        let (&len, outer) = of.extents.split_last()?;
        let last = outer.len();
        if last + 2 > AXES {
            return None;
        }
        let mut this = Self { rank: 0, extents: [1; AXES], strides: [[0; AXES]; 3] };
        let mut own = of.extents.iter().product::<usize>();
        for (axis, &extent) in outer.iter().enumerate() {
            own = own.checked_div(extent)?;
            this.push(extent, [of.strides[0][axis], of.strides[1][axis], own]);
        }
        let steps = [of.strides[0][last], of.strides[1][last], 1];
        let rows = layouts.iter().zip(steps).filter(|(_, step)| *step > 0).map(|(it, _)| it.row);
        let row = rows.min().unwrap_or(len).min(len);
        if row == 0 || len % row != 0 {
            return None;
        }
        this.push(len / row, steps.map(|step| step * row));
        this.push(row, steps);
        let is_placed = this.strides.iter_mut().zip(layouts).all(|(strides, layout)| {
            layout.is_one_piece() || place(&this.extents[..this.rank], strides, layout)
        });
        is_placed.then_some(this)
    }

    fn push(&mut self, extent: usize, strides: [usize; 3]) {
        if extent != 1 {
            self.extents[self.rank] = extent;
            self.strides.iter_mut().zip(strides).for_each(|(of, stride)| of[self.rank] = stride);
            self.rank += 1;
        }
    }

    /// Elements along the last axis.
    pub(super) fn row_len(&self) -> usize {
        self.rank.checked_sub(1).map_or(1, |last| self.extents[last])
    }

    /// Calls `each` with all rows along the last two axes, as many at a time as are computed
    /// between two reports of work.
    ///
    /// # Errors
    /// The first that `each` gives, or the run is to end.
    #[inline(always)]
    pub(super) fn each_matrix(
        &self,
        mut each: impl FnMut(LaidOutRows) -> Result<(), String>,
    ) -> Result<(), String> {
        // An axis of one element for each that is missing.
        let axis = |behind: usize| self.rank.checked_sub(behind);
        let extent = |axis: Option<usize>| axis.map_or(1, |axis| self.extents[axis]);
        let strides =
            |axis: Option<usize>, none| self.strides.map(|of| axis.map_or(none, |axis| of[axis]));
        let (rows, len) = (extent(axis(2)), extent(axis(1)));
        let (row_strides, steps) = (strides(axis(2), 0), strides(axis(1), 1));
        let outer = axis(2).unwrap_or(0);
        let (mut at, mut from) = ([0; AXES], [0; 3]);
        let (mut unreported, work) = (0, rows.saturating_mul(len + LINE_NS));
        loop {
            if work <= poll::CHUNK {
                unreported += work;
                if unreported > poll::CHUNK {
                    poll::work(std::mem::take(&mut unreported))?;
                }
                each(LaidOutRows { from, count: rows, len, steps, strides: row_strides })?;
            } else {
                each_chunk_of_rows(rows, len, |some| {
                    let first = [0, 1, 2].map(|of| from[of] + some.start * row_strides[of]);
                    let (count, strides) = (some.len(), row_strides);
                    each(LaidOutRows { from: first, count, len, steps, strides })
                })?;
            }
            // On to the next, by the innermost axis that has one.
            let mut axis = outer;
            loop {
                let Some(next) = axis.checked_sub(1) else { return Ok(()) };
                axis = next;
                at[axis] += 1;
                (0..3).for_each(|of| from[of] += self.strides[of][axis]);
                if at[axis] < self.extents[axis] {
                    break;
                }
                at[axis] = 0;
                (0..3).for_each(|of| from[of] -= self.extents[axis] * self.strides[of][axis]);
            }
        }
    }

    /// Calls `each` with where each row along the last axis lies.
    ///
    /// # Errors
    /// As for [`LaidOut::each_matrix`].
    #[inline(always)]
    pub(super) fn each_row(
        &self,
        mut each: impl FnMut([usize; 3], usize, [usize; 3]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.each_matrix(|LaidOutRows { from, count, len, steps, strides }| {
            let mut from = from;
            for _ in 0..count {
                each(from, len, steps)?;
                (0..3).for_each(|of| from[of] += strides[of]);
            }
            Ok(())
        })
    }
}

/// Strides in memory out of those of a tensor in one piece; `false` where its rows give none.
fn place(extents: &[usize], strides: &mut [usize; AXES], Layout { row, pitch }: Layout) -> bool {
    // The last element of a row that is met.
    let mut last = 0;
    for (&extent, stride) in extents.iter().zip(strides) {
        if stride.is_multiple_of(row) {
            *stride = *stride / row * pitch;
        } else {
            last += extent.saturating_sub(1) * *stride;
        }
    }
    last < row
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::tensor::rows::Apart;
    use nnburst_kernels::tensor::{In, Shape};

    use super::*;

    /// Every element of two operands and their results lies where its rows say.
    #[test]
    fn elements_lie_where_rows_say() {
        let shape = |extents: &[usize]| Shape::new(extents.to_vec()).unwrap();
        let bytes = vec![0u8; 1 << 14];
        let rows = |row: usize| match row {
            0 => Rows::from(In::of(&bytes[..])),
            _ => Rows::new(In::of(&bytes[..]), Apart { row, pitch: 2 * row + 3 }, 1),
        };
        let mut found = 0;
        for (a, b) in [
            (&[3, 4, 2, 8][..], &[4, 1, 8][..]),
            (&[3, 4, 2, 8], &[3, 4, 2, 8]),
            (&[3, 4, 8], &[8]),
            (&[3, 4, 8], &[3, 4, 1]),
            (&[3, 4, 8], &[1]),
            (&[24], &[24]),
            (&[1], &[1]),
        ] {
            let (a, b) = (shape(a), shape(b));
            let wide = a.broadcast(&b).unwrap();
            let broadcast = Broadcast::new(&wide, &a, &b);
            let strides = [&a, &b, &wide].map(|of| of.broadcast_strides(&wide));
            for kinds in 0..125 {
                let rows =
                    [kinds % 5, kinds / 5 % 5, kinds / 25].map(|at| rows([0, 2, 8, 16, 3][at]));
                let layouts = rows.map(|rows| Layout::of(rows, 1));
                let Some(laid_out) = LaidOut::new(&broadcast, layouts) else { continue };
                found += 1;
                let mut got = Vec::new();
                let each = |from: [usize; 3], len, steps: [usize; 3]| {
                    got.extend((0..len).map(|at| [0, 1, 2].map(|of| from[of] + at * steps[of])));
                    Ok(())
                };
                laid_out.each_row(each).unwrap();
                let want = (0..wide.elements()).map(|at| {
                    [0, 1, 2].map(|of| {
                        let (mut rest, mut from) = (at, 0);
                        for (extent, stride) in wide.iter().zip(&strides[of]).rev() {
                            from += rest % extent * stride;
                            rest /= extent;
                        }
                        rows[of].place(from)
                    })
                });
                assert_eq!(got, want.collect::<Vec<_>>(), "{a:?} and {b:?}: {layouts:?}");
            }
        }
        assert!(found > 200, "{found} of them");
    }

    #[test]
    fn a_row_that_is_cut_elsewhere_is_no_axis() {
        let shape = Shape::new([4, 6]).unwrap();
        let broadcast = Broadcast::new(&shape, &shape, &shape);
        let bytes = [0u8; 100];
        let apart = Rows::new(In::of(&bytes), Apart { row: 4, pitch: 9 }, 1);
        let one_piece = Layout::of(Rows::from(In::of(&bytes)), 1);
        let layouts = [Layout::of(apart, 1), one_piece, one_piece];
        assert_eq!(LaidOut::new(&broadcast, layouts).map(|it| it.row_len()), Some(4));
        let broadcast = Broadcast::new(&shape, &shape, &Shape::new([6]).unwrap());
        assert!(LaidOut::new(&broadcast, layouts).is_none(), "rows of 6 in rows of 4");
    }
}
