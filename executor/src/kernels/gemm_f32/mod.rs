//! Products of float matrices: rows of patches by packed weights, bias and clamping fused.
//!
//! Weights are packed once, in panels of as many columns as a tile is wide: first the bias of the
//! columns, then their weights, one line per element of depth. Rows are interleaved block by block
//! while they are used. A block of rows is as large as fits beside a panel of weights in the second
//! cache; each panel of weights then meets all of the block's rows before the next is fetched.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use super::patches::Patches;
use super::{Form, Isa, best, pack};
use crate::io::{In, Out};
use crate::packed::Packed;

/// One tile of a product: `rows` rows of `output` from a panel of rows and a panel of weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// `depth` lines of as many elements as a tile has rows at most.
    rows_panel: *const f32,
    /// A line of bias and `depth` lines of weights.
    weights_panel: *const f32,
    depth: usize,
    output: *mut f32,
    /// Elements between rows of the output.
    stride: usize,
    rows: usize,
    columns: usize,
    low: f32,
    high: f32,
}

/// A form's tile: at most `rows` by `columns`; `half` is a panel of half the columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    rows: usize,
    columns: usize,
    /// # Safety
    /// The machine has the instruction set; panels and output are as [`Tile`] says.
    full: unsafe fn(&Tile),
    half: unsafe fn(&Tile),
}

/// Best first.
pub(crate) const FORMS: &[Form<Kernel>] = &[
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx512, run: avx512::KERNEL },
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx2, run: avx2::KERNEL },
    Form { isa: Isa::Scalar, run: scalar::KERNEL },
];

/// Bytes of interleaved rows that are worked on at a time: leaves room in a second cache of 512 KiB.
const BLOCK_BYTES: usize = 192 << 10;

/// Weights, packed for a form.
#[derive(Debug)]
pub(crate) struct Gemm {
    form: Form<Kernel>,
    pack: Form<pack::Run>,
    patches: Patches,
    columns: usize,
    weights: Packed,
    low: f32,
    high: f32,
}

impl Gemm {
    /// Packs `columns` rows of weights, each as long as the patches are deep, and as many biases.
    /// `None` where the slices are of other lengths.
    pub(crate) fn new(
        isa: Isa,
        patches: Patches,
        weights: &[f32],
        bias: &[f32],
        (low, high): (f32, f32),
    ) -> Option<Self> {
        let (form, pack) = (best(FORMS, isa), best(pack::FORMS, isa));
        let (depth, columns) = (patches.depth(), bias.len());
        if depth == 0 || columns == 0 || weights.len() != depth * columns {
            return None;
        }
        let bytes = packed_columns(&form.run, columns) * (depth + 1) * 4;
        let weights = Packed::new("gemm_f32", bytes, |packed| {
            let out = packed.typed_mut::<f32>();
            let mut at = 0;
            for first in (0..columns).step_by(form.run.columns) {
                let here = form.run.columns.min(columns - first);
                let width = form.run.width(here);
                out[at..at + here].copy_from_slice(&bias[first..first + here]);
                let lines = &mut out[at + width..at + width * (depth + 1)];
                let rows: Vec<*const u32> = weights
                    .chunks_exact(depth)
                    .skip(first)
                    .take(here)
                    .map(|row| row.as_ptr().cast())
                    .collect();
                // SAFETY: rows of `depth` weights, at most `width` of them, and as many lines of `width`.
                unsafe { (pack.run)(&rows, depth, width, lines.as_mut_ptr().cast()) };
                at += width * (depth + 1);
            }
        });
        Some(Self { form, pack, patches, columns, weights, low, high })
    }

    /// The form that was chosen.
    pub(crate) fn isa(&self) -> Isa {
        self.form.isa
    }

    /// Scratch memory of a run.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let blocks = self.block_tiles() * self.form.run.rows;
        (blocks + self.form.run.rows) * self.patches.depth() * 4
    }

    /// How many tiles' rows are interleaved at a time.
    fn block_tiles(&self) -> usize {
        let tile_bytes = self.form.run.rows * self.patches.depth() * 4;
        let tiles = self.patches.rows().div_ceil(self.form.run.rows);
        (BLOCK_BYTES / tile_bytes).clamp(1, tiles.max(1))
    }

    /// Computes all rows.
    ///
    /// # Errors
    /// Memory is missing.
    pub(crate) fn compute(
        &self,
        image: In<'_, f32>,
        output: Out<'_, f32>,
        scratch: &mut [f32],
    ) -> Result<(), String> {
        super::check_lengths(image.len(), self.patches.elements())?;
        super::check_lengths(output.len(), self.patches.rows() * self.columns)?;
        super::check_lengths(scratch.len(), self.scratch_bytes() / 4)?;
        // SAFETY: the lengths are what is asked for.
        unsafe { self.run(image.as_ptr(), output.as_mut_ptr(), scratch) };
        Ok(())
    }

    /// # Safety
    /// `image` is readable for the patches' elements and `output` writable for rows times columns, at
    /// any alignment; `scratch` is as long as [`Gemm::scratch_bytes`] says.
    unsafe fn run(&self, image: *const f32, output: *mut f32, scratch: &mut [f32]) {
        let rows = self.patches.rows();
        if rows == 0 {
            return;
        }
        let depth = self.patches.depth();
        let (panels, gathered) =
            scratch.split_at_mut(self.block_tiles() * self.form.run.rows * depth);
        // As even as can be: 49 rows in tiles of 12 are 10, 10, 10, 10, 9.
        let tiles = rows.div_ceil(self.form.run.rows);
        let first_row = |tile: usize| tile * (rows / tiles) + tile.min(rows % tiles);
        for block in (0..tiles).step_by(self.block_tiles()) {
            let end = (block + self.block_tiles()).min(tiles);
            for (tile, panel) in
                (block..end).zip(panels.chunks_exact_mut(self.form.run.rows * depth))
            {
                // SAFETY: as the caller promises; the panel is as large as a tile's rows.
                unsafe {
                    self.pack_rows(image, first_row(tile)..first_row(tile + 1), gathered, panel);
                };
            }
            // SAFETY: the block's rows are packed, and rows and columns are within the output.
            unsafe { self.block(block..end, first_row, panels, output) };
        }
    }

    /// # Safety
    /// As for `run`.
    unsafe fn pack_rows(
        &self,
        image: *const f32,
        rows: std::ops::Range<usize>,
        gathered: &mut [f32],
        panel: &mut [f32],
    ) {
        let depth = self.patches.depth();
        let mut pointers = [std::ptr::null::<u32>(); MAX_ROWS];
        let count = rows.len();
        for (pointer, row) in pointers.iter_mut().zip(rows.clone()) {
            *pointer = if self.patches.is_direct() {
                // SAFETY: the row lies within the image.
                unsafe { image.add(self.patches.direct(row)).cast() }
            } else {
                let out = &mut gathered[(row - rows.start) * depth..][..depth];
                // SAFETY: the image as promised; `out` is a row long.
                unsafe { self.patches.gather(image, row, 0.0, out.as_mut_ptr()) };
                out.as_ptr().cast()
            };
        }
        let (width, panel) = (self.form.run.rows, panel.as_mut_ptr().cast());
        // SAFETY: the rows are `depth` long, the panel `depth` lines of `width`.
        unsafe { (self.pack.run)(&pointers[..count], depth, width, panel) };
    }

    /// All columns of a block of rows.
    ///
    /// # Safety
    /// As for `run`; the panels of the tiles are packed.
    unsafe fn block(
        &self,
        tiles: std::ops::Range<usize>,
        first_row: impl Fn(usize) -> usize,
        panels: &[f32],
        output: *mut f32,
    ) {
        let (depth, kernel) = (self.patches.depth(), &self.form.run);
        let mut weights = self.weights.typed::<f32>();
        for column in (0..self.columns).step_by(kernel.columns) {
            let columns = kernel.columns.min(self.columns - column);
            let width = kernel.width(columns);
            let run = if width == kernel.columns { kernel.full } else { kernel.half };
            for (tile, panel) in tiles.clone().zip(panels.chunks_exact(kernel.rows * depth)) {
                let (row, end) = (first_row(tile), first_row(tile + 1));
                // SAFETY: the tile is within the output.
                let output = unsafe { output.add(row * self.columns + column) };
                let tile = Tile {
                    rows_panel: panel.as_ptr(),
                    weights_panel: weights.as_ptr(),
                    depth,
                    output,
                    stride: self.columns,
                    rows: end - row,
                    columns,
                    low: self.low,
                    high: self.high,
                };
                // SAFETY: panels as packed for this form; `best` chose what the machine has.
                unsafe { run(&tile) };
            }
            weights = &weights[width * (depth + 1)..];
        }
    }
}

impl Kernel {
    /// Columns of the panel that holds `columns`.
    const fn width(&self, columns: usize) -> usize {
        if columns * 2 <= self.columns { self.columns / 2 } else { self.columns }
    }
}

fn packed_columns(kernel: &Kernel, columns: usize) -> usize {
    columns / kernel.columns * kernel.columns
        + match columns % kernel.columns {
            0 => 0,
            rest => kernel.width(rest),
        }
}

/// The most rows any form's tile has.
const MAX_ROWS: usize = 16;

#[cfg(test)]
mod tests;
