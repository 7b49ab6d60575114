//! Products of 8-bit matrices: rows of patches by packed weights, bias and requantisation fused.
//!
//! Two ways to the same exact sums. With VNNI rows are unsigned and weights signed bytes, four to a word;
//! zero points are left out of the product and put right by sums: those of the weights go into the bias
//! when packing, those of the rows are taken while interleaving. Without, both sides are 16-bit
//! differences from their zero points, two to a word, and `madd` adds their products without loss.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use super::patches::Patches;
use super::requantise::{Channels, Scaling};
use super::{Form, Isa, best, pack};
use crate::io::{In, Out};
use crate::packed::Packed;

/// One tile of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// `words` lines of as many words as a tile has rows at most.
    rows_panel: *const u32,
    /// A line of bias and `words` lines of weights.
    weights_panel: *const i32,
    words: usize,
    /// Per row, what its zero point correction subtracts.
    corrections: *const i32,
    output: *mut u8,
    /// Elements between rows of the output.
    stride: usize,
    rows: usize,
    columns: usize,
    scaling: Channels,
}

/// A form's tile: at most `rows` by `columns`; `half` is a panel of half the columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    rows: usize,
    columns: usize,
    encoding: Encoding,
    /// Writes a row of the image as words, padded with zeros; gives the sum of its unsigned bytes, where
    /// the encoding needs it.
    ///
    /// # Safety
    /// The machine has the instruction set; `depth` bytes are readable, the words for them writable.
    encode: unsafe fn(row: *const u8, depth: usize, bytes: Bytes, words: *mut u32) -> i32,
    /// # Safety
    /// The machine has the instruction set; panels, corrections and output are as [`Tile`] says.
    full: unsafe fn(&Tile),
    half: unsafe fn(&Tile),
}

/// What a word of a panel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// Four bytes, rows unsigned and weights signed, as they are stored but for the sign.
    Bytes,
    /// Two 16-bit differences from the zero point.
    Differences,
}

impl Encoding {
    const fn per_word(self) -> usize {
        match self {
            Self::Bytes => 4,
            Self::Differences => 2,
        }
    }
}

/// Best first.
pub(crate) const FORMS: &[Form<Kernel>] = &[
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx512, run: avx512::KERNEL },
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx2, run: avx2::KERNEL },
    Form { isa: Isa::Scalar, run: scalar::KERNEL },
];

/// Bytes of interleaved rows that are worked on at a time.
const BLOCK_BYTES: usize = 192 << 10;

/// The most rows any form's tile has.
const MAX_ROWS: usize = 16;

/// Bytes with their zero point. `flip` is 0x80 for signed bytes: with it they are read as unsigned ones whose
/// zero point is 128 more, which stand for the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) flip: u8,
    /// Of the unsigned reading.
    pub(crate) zero_point: i32,
}

impl Bytes {
    /// Of a quantised type whose stored range starts at `-to_unsigned`.
    pub(crate) const fn new(to_unsigned: i32, zero_point: i32) -> Self {
        Self { flip: if to_unsigned == 0 { 0 } else { 0x80 }, zero_point: zero_point + to_unsigned }
    }
}

/// Weights, packed for a form.
#[derive(Debug)]
pub(crate) struct Gemm {
    form: Form<Kernel>,
    pack: Form<pack::Run>,
    patches: Patches,
    columns: usize,
    image: Bytes,
    /// What a row's sum is multiplied with to correct for the weights' zero point.
    row_factor: i32,
    weights: Packed,
    scaling: Scaling,
}

impl Gemm {
    /// Packs `bias.len()` rows of weights, each as long as the patches are deep. `None` where the slices
    /// are of other lengths.
    pub(crate) fn new(
        isa: Isa,
        patches: Patches,
        image: Bytes,
        (weights, quantised): (&[u8], Bytes),
        bias: &[i32],
        scaling: Scaling,
    ) -> Option<Self> {
        let (form, pack) = (best(FORMS, isa), best(pack::FORMS, isa));
        let (depth, columns) = (patches.depth(), bias.len());
        if depth == 0 || columns == 0 || weights.len() != depth * columns {
            return None;
        }
        let encoding = form.run.encoding;
        let words = depth.div_ceil(encoding.per_word());
        let bytes = form.run.packed_columns(columns) * (words + 1) * 4;
        let weights = Packed::new("gemm_i8", bytes, |packed| {
            let out = packed.typed_mut::<i32>();
            let (mut at, mut encoded) = (0, Vec::new());
            for first in (0..columns).step_by(form.run.columns) {
                let here = form.run.columns.min(columns - first);
                let width = form.run.width(here);
                let (line, lines) = out[at..at + width * (words + 1)].split_at_mut(width);
                let rows = weights.chunks_exact(depth).skip(first).take(here);
                encoded.clear();
                for (column, row) in rows.enumerate() {
                    line[column] = bias[first + column];
                    if encoding == Encoding::Bytes {
                        line[column] =
                            line[column].wrapping_add(correction(row, quantised, image, depth));
                    }
                    let words = row.chunks(encoding.per_word());
                    encoded.extend(
                        words.map(|word| encode(encoding, word, quantised).cast_unsigned()),
                    );
                }
                let rows: Vec<_> = encoded.chunks_exact(words).map(<[u32]>::as_ptr).collect();
                // SAFETY: rows of `words` words, at most `width` of them, and as many lines of `width`.
                unsafe { (pack.run)(&rows, words, width, lines.as_mut_ptr().cast()) };
                at += width * (words + 1);
            }
        });
        let row_factor = match encoding {
            Encoding::Bytes => quantised.zero_point - 128,
            Encoding::Differences => 0,
        };
        Some(Self { form, pack, patches, columns, image, row_factor, weights, scaling })
    }

    /// The form that was chosen.
    pub(crate) fn isa(&self) -> Isa {
        self.form.isa
    }

    fn words(&self) -> usize {
        self.patches.depth().div_ceil(self.form.run.encoding.per_word())
    }

    /// Scratch memory of a run: panels of a block, the block's corrections, gathered rows, one row of bytes.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let rows = self.form.run.rows;
        let block = self.block_tiles() * rows;
        (block * (self.words() + 1) + rows * self.words() + self.patches.depth().div_ceil(4)) * 4
    }

    /// How many tiles' rows are interleaved at a time.
    fn block_tiles(&self) -> usize {
        let tile_bytes = self.form.run.rows * self.words() * 4;
        let tiles = self.patches.rows().div_ceil(self.form.run.rows);
        (BLOCK_BYTES / tile_bytes).clamp(1, tiles.max(1))
    }

    /// Computes all rows.
    ///
    /// # Errors
    /// Memory is missing.
    pub(crate) fn compute(
        &self,
        image: In<'_, u8>,
        output: Out<'_, u8>,
        scratch: &mut [u32],
    ) -> Result<(), String> {
        super::check_lengths(image.len(), self.patches.elements())?;
        super::check_lengths(output.len(), self.patches.rows() * self.columns)?;
        super::check_lengths(scratch.len(), self.scratch_bytes() / 4)?;
        // SAFETY: the lengths are what is asked for.
        unsafe { self.run(image.as_ptr(), output.as_mut_ptr(), scratch) };
        Ok(())
    }

    /// # Safety
    /// `image` is readable for the patches' elements and `output` writable for rows times columns;
    /// `scratch` is as long as [`Gemm::scratch_bytes`] says.
    unsafe fn run(&self, image: *const u8, output: *mut u8, scratch: &mut [u32]) {
        let rows = self.patches.rows();
        if rows == 0 {
            return;
        }
        let (words, tile_rows) = (self.words(), self.form.run.rows);
        let block_rows = self.block_tiles() * tile_rows;
        let (panels, rest) = scratch.split_at_mut(block_rows * words);
        let (corrections, rest) = rest.split_at_mut(block_rows);
        let (gathered, bytes) = rest.split_at_mut(tile_rows * words);
        let corrections: &mut [i32] = bytemuck::cast_slice_mut(corrections);
        let tiles = rows.div_ceil(tile_rows);
        let first_row = |tile: usize| tile * (rows / tiles) + tile.min(rows % tiles);
        for block in (0..tiles).step_by(self.block_tiles()) {
            let end = (block + self.block_tiles()).min(tiles);
            let memory = panels
                .chunks_exact_mut(tile_rows * words)
                .zip(corrections.chunks_exact_mut(tile_rows));
            for (tile, (panel, corrections)) in (block..end).zip(memory) {
                let rows = first_row(tile)..first_row(tile + 1);
                let bytes = bytemuck::cast_slice_mut(bytes);
                // SAFETY: as the caller promises; panel and corrections are as large as a tile's rows.
                unsafe { self.pack_rows(image, rows, gathered, bytes, corrections, panel) };
            }
            // SAFETY: the block's rows are packed, and rows and columns are within the output.
            unsafe { self.block(block..end, first_row, panels, corrections, output) };
        }
    }

    /// # Safety
    /// As for `run`.
    unsafe fn pack_rows(
        &self,
        image: *const u8,
        rows: std::ops::Range<usize>,
        gathered: &mut [u32],
        bytes: &mut [u8],
        corrections: &mut [i32],
        panel: &mut [u32],
    ) {
        let (words, depth) = (self.words(), self.patches.depth());
        debug_assert!(bytes.len() >= depth && gathered.len() >= rows.len() * words);
        let mut pointers = [std::ptr::null::<u32>(); MAX_ROWS];
        let count = rows.len();
        // The byte that stands for 0, as it is stored.
        let zero = self.image.zero_point.to_le_bytes()[0] ^ self.image.flip;
        for (at, row) in rows.enumerate() {
            let line = &mut gathered[at * words..(at + 1) * words];
            // SAFETY: the image as promised; `bytes` is a row long, `line` the words for it.
            let sum = unsafe {
                let from = if self.patches.is_direct() {
                    image.add(self.patches.direct(row))
                } else {
                    self.patches.gather(image, row, zero, bytes.as_mut_ptr());
                    bytes.as_ptr()
                };
                (self.form.run.encode)(from, depth, self.image, line.as_mut_ptr())
            };
            corrections[at] = sum.wrapping_mul(self.row_factor);
            pointers[at] = line.as_ptr();
        }
        let (width, panel) = (self.form.run.rows, panel.as_mut_ptr());
        // SAFETY: the rows are `words` long, the panel `words` lines of `width`.
        unsafe { (self.pack.run)(&pointers[..count], words, width, panel) };
    }

    /// All columns of a block of rows.
    ///
    /// # Safety
    /// As for `run`; the panels of the tiles are packed.
    unsafe fn block(
        &self,
        tiles: std::ops::Range<usize>,
        first_row: impl Fn(usize) -> usize,
        panels: &[u32],
        corrections: &[i32],
        output: *mut u8,
    ) {
        let (words, kernel) = (self.words(), &self.form.run);
        let mut weights = self.weights.typed::<i32>();
        for column in (0..self.columns).step_by(kernel.columns) {
            let columns = kernel.columns.min(self.columns - column);
            let width = kernel.width(columns);
            let run = if width == kernel.columns { kernel.full } else { kernel.half };
            let memory =
                panels.chunks_exact(kernel.rows * words).zip(corrections.chunks_exact(kernel.rows));
            for (tile, (panel, corrections)) in tiles.clone().zip(memory) {
                let (row, end) = (first_row(tile), first_row(tile + 1));
                // SAFETY: the tile is within the output.
                let output = unsafe { output.add(row * self.columns + column) };
                let tile = Tile {
                    rows_panel: panel.as_ptr(),
                    weights_panel: weights.as_ptr(),
                    words,
                    corrections: corrections.as_ptr(),
                    output,
                    stride: self.columns,
                    rows: end - row,
                    columns,
                    scaling: self.scaling.from(column),
                };
                // SAFETY: panels as packed for this form; `best` chose what the machine has.
                unsafe { run(&tile) };
            }
            weights = &weights[width * (words + 1)..];
        }
    }
}

impl Kernel {
    /// Columns of the panel that holds `columns`.
    const fn width(&self, columns: usize) -> usize {
        if columns * 2 <= self.columns { self.columns / 2 } else { self.columns }
    }

    const fn packed_columns(&self, columns: usize) -> usize {
        columns / self.columns * self.columns
            + match columns % self.columns {
                0 => 0,
                rest => self.width(rest),
            }
    }
}

/// What the product of bytes as stored lacks of that of differences, but for the part that depends on rows:
/// `-zp_image * sum(w) + depth * zp_image * zp_weights`.
fn correction(row: &[u8], weights: Bytes, image: Bytes, depth: usize) -> i32 {
    let zero_point = weights.zero_point - 128;
    let sum = row.iter().fold(0i32, |sum, &w| sum.wrapping_add(i32::from(signed(w, weights))));
    let depth = i32::try_from(depth).unwrap_or(i32::MAX);
    image.zero_point.wrapping_mul(depth.wrapping_mul(zero_point).wrapping_sub(sum))
}

/// A weight read as signed, its zero point being 128 less than that of the unsigned reading.
const fn signed(weight: u8, bytes: Bytes) -> i8 {
    (weight ^ bytes.flip ^ 0x80).cast_signed()
}

/// One word of weights.
fn encode(encoding: Encoding, word: &[u8], bytes: Bytes) -> i32 {
    match encoding {
        Encoding::Bytes => {
            let mut four = [0u8; 4];
            four.iter_mut().zip(word).for_each(|(b, &w)| *b = signed(w, bytes).cast_unsigned());
            i32::from_le_bytes(four)
        }
        Encoding::Differences => {
            let mut two = [0u16; 2];
            two.iter_mut().zip(word).for_each(|(d, &w)| *d = difference(w, bytes).cast_unsigned());
            (u32::from(two[0]) | u32::from(two[1]) << 16).cast_signed()
        }
    }
}

/// How far a byte is from its zero point.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "within -255 to 255")]
fn difference(byte: u8, bytes: Bytes) -> i16 {
    (i32::from(byte ^ bytes.flip) - bytes.zero_point) as i16
}

#[cfg(test)]
mod tests;
