//! Panels of weights: how wide a variant's are, and how they are packed.

use super::tile::{Heights, TileStack};
use crate::kernels::pack;
use crate::simd::{Avx512Bf16, Isa, Variant};
use crate::tensor::poll;

/// A variant's tiles.
#[derive(Clone, Copy, Debug)]
pub struct Microkernel {
    /// Widths of panels, ascending.
    pub(super) widths: &'static [Width],
}

/// Tiles of one width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    pub(super) columns: usize,
    /// Most rows of a tile.
    pub(super) rows: usize,
    /// # Safety
    /// The machine has the instruction set; the segments of the rows are readable, panels as
    /// [`TileStack`] says, output writable.
    pub(super) run: unsafe fn(&TileStack),
}

impl Microkernel {
    /// Columns of a full panel.
    pub(super) fn columns(&self) -> usize {
        self.widths.last().map_or(1, |width| width.columns)
    }

    /// Most rows of a full panel's tiles.
    pub(super) fn rows(&self) -> usize {
        self.widths.last().map_or(1, |width| width.rows)
    }

    /// The narrowest panel for so many columns.
    pub(super) fn width(&self, columns: usize) -> Width {
        let fits = |width: &&Width| width.columns >= columns;
        *self.widths.iter().find(fits).unwrap_or(&self.widths[self.widths.len() - 1])
    }

    /// Columns of all panels.
    pub(super) fn packed_columns(&self, columns: usize) -> usize {
        let rest = columns % self.columns();
        columns - rest + if rest == 0 { 0 } else { self.width(rest).columns }
    }
}

/// Nanoseconds that a tile takes at most, about, where rows are so deep that few make one; and as
/// many as are reported at a time.
const TILE_NS: usize = 2_000_000;
const REPORT_NS: usize = 20_000;

/// The panels of a product: its columns, as many at a time as a variant's tiles are wide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panels {
    pub(super) variant: Variant<Microkernel>,
    /// Columns of the product.
    pub(super) columns: usize,
}

impl Panels {
    /// Calls `each` with every panel, the packed lines of which start at `lines`: of each a line of
    /// bias and `depth` lines of weights.
    pub(super) fn each(&self, mut lines: *const f32, depth: usize, mut each: impl FnMut(&Panel)) {
        let kernel = &self.variant.run;
        for first in (0..self.columns).step_by(kernel.columns()) {
            let columns = kernel.columns().min(self.columns - first);
            let width = kernel.width(columns);
            each(&Panel { lines, width, first, columns });
            lines = lines.wrapping_add(width.columns * (depth + 1));
        }
    }

    /// Multiplications of a nanosecond, where they are slow.
    fn per_ns(&self) -> usize {
        if self.variant.isa == Isa::Scalar { 1 } else { 16 }
    }

    /// How tiles of so many rows are cut, for rows of `depth` elements.
    #[inline]
    pub(super) fn cut(&self, panel: &Panel, depth: usize, rows: usize) -> Cut {
        // Of the deepest rows fewer: a tile takes a millisecond or so at the most.
        let depth = depth.max(1);
        let row_ns = (depth * panel.columns / self.per_ns()).max(1);
        let heights = Heights::of(rows, panel.width.rows.min(TILE_NS / row_ns).max(1));
        // Tiles are reported together while they are small: a report for each would take a
        // hundredth of their time.
        let reported = (REPORT_NS / (row_ns * panel.width.rows)).max(1);
        let reported_ns = row_ns * heights.highest();
        Cut { depth, heights, reported, reported_ns }
    }

    /// Takes tiles of any number of rows, cut as said, with a panel, the first `skipped` floats of
    /// weights left out, and asks for what is `ahead` meanwhile.
    ///
    /// # Safety
    /// Their rows are readable, their outputs writable.
    #[inline]
    pub(super) unsafe fn tiles(
        &self,
        panel: &Panel,
        whole: &TileStack,
        cut: &Cut,
        skipped: usize,
        ahead: &mut Ahead,
    ) {
        let step = ahead.step(panel.width.columns, cut.heights.highest());
        let (mut tile, mut row) = (0, 0);
        while tile < cut.heights.tiles {
            let heights = cut.heights.part(tile, cut.reported.min(cut.heights.tiles - tile));
            if poll::work(cut.reported_ns * heights.tiles).is_err() {
                return;
            }
            let tiles = TileStack {
                // What is at hand costs nothing; what is no memory would be looked for each time.
                ahead: if step == 0 { panel.lines } else { ahead.next },
                ahead_step: step,
                input: whole.input.wrapping_add(row * whole.row_stride),
                bias: panel.lines,
                weights: panel.lines.wrapping_add(panel.width.columns + skipped),
                output: whole.output.wrapping_add(row * whole.stride + panel.first),
                heights,
                columns: panel.columns,
                ..*whole
            };
            // SAFETY: as the caller promises; `best` chose what the machine has.
            unsafe { (panel.width.run)(&tiles) };
            ahead.next = ahead.next.wrapping_byte_add(heights.tiles * cut.depth * step);
            tile += heights.tiles;
            row += heights.rows();
        }
    }
}

/// Tiles of about as many rows each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Elements of a row.
    depth: usize,
    heights: Heights,
    /// How many tiles are reported at a time, and what one takes.
    reported: usize,
    reported_ns: usize,
}

/// A panel of weights.
pub(super) struct Panel {
    /// A line of bias, then the weights.
    pub(super) lines: *const f32,
    pub(super) width: Width,
    /// The columns it is for.
    pub(super) first: usize,
    pub(super) columns: usize,
}

impl Panel {
    /// What lies behind the panel, for as many rows of tiles as it meets.
    pub(super) fn ahead(&self, depth: usize, rows: usize) -> Ahead {
        let next = self.lines.wrapping_add(self.width.columns * (depth + 1));
        Ahead { next, rows: if rows <= Ahead::MOST_ROWS { rows } else { 0 } }
    }
}

/// The weights behind a panel, which its tiles ask for a little at a time: weights of a network
/// come from L3, and the first tile of each panel waited for them. GEMMs of 128 to 196 rows
/// took 5 to 13 % longer. All of them at once would keep other loads from being sent.
pub(super) struct Ahead {
    next: *const f32,
    /// Rows of all tiles that a panel meets; 0 where so many do that nobody minds the wait.
    rows: usize,
}

impl Ahead {
    /// More rows than this take a byte of each line of weights or less.
    const MOST_ROWS: usize = 2048;

    /// Nothing: weights that are near already.
    pub(super) fn none() -> Self {
        Self { next: std::ptr::null(), rows: 0 }
    }

    /// Bytes that a tile of `rows` rows goes on by for each line of as many columns.
    fn step(&self, columns: usize, rows: usize) -> usize {
        match self.rows {
            0 => 0,
            // A cache line at the most: there is one request for each line of weights.
            all => (columns * size_of::<f32>() * rows).div_ceil(all).min(64),
        }
    }
}

/// Panel by panel: the bias, then the weights, transposed.
pub(super) fn pack_panels(
    kernel: &Microkernel,
    pack: Variant<pack::Run>,
    weights: &[f32],
    bias: &[f32],
    mut out: &mut [f32],
) {
    let depth = weights.len() / bias.len();
    let panels = bias.chunks(kernel.columns());
    for (bias, weights) in panels.zip(weights.chunks(kernel.columns() * depth)) {
        if poll::work(depth.saturating_mul(bias.len()) / 2).is_err() {
            return;
        }
        let width = kernel.width(bias.len()).columns;
        let (panel, rest) = out.split_at_mut(width * (depth + 1));
        let (line, lines) = panel.split_at_mut(width);
        line[..bias.len()].copy_from_slice(bias);
        let mut rows = [std::ptr::null(); MAX_COLUMNS];
        for (pointer, row) in rows.iter_mut().zip(weights.chunks_exact(depth)) {
            *pointer = row.as_ptr().cast();
        }
        // SAFETY: rows of `depth` weights, at most `width` of them, and as many lines of `width`.
        unsafe { (pack.run)(&rows[..bias.len()], depth, width, lines.as_mut_ptr().cast()) };
        out = rest;
    }
}

/// Columns of the widest panel of any variant.
pub(super) const MAX_COLUMNS: usize = 32;

/// Tiles whose elements are pairs of bf16, in the place of floats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bf16Pairs {
    pub(super) kernel: Microkernel,
    /// Rounds so many floats to pairs, half as many; a missing last one is 0.
    ///
    /// # Safety
    /// The machine has the instruction set; that much is readable and writable.
    pub(super) round: unsafe fn(from: *const f32, len: usize, to: *mut f32),
}

impl Bf16Pairs {
    /// Those of the best instruction set up to `isa`. There is no scalar variant: it would
    /// take several times as long as floats, for less exact results.
    pub(super) fn of(isa: Isa) -> Option<Variant<Self>> {
        match (isa, Avx512Bf16::detect()?) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512(_) | Isa::Avx512Vbmi(_), bf16) => {
                let isa = Isa::Avx512(bf16.avx512());
                Some(Variant { isa, run: super::avx512_bf16::PAIRS })
            }
            _ => None,
        }
    }
}
