//! Rows of bytes by constant weights of bytes, with the dot products of the machine, or the GEMM
//! where it has none and there are many rows.

use std::ops::Range;

use nnburst_kernels::kernels::gemm_i8::RowGemm;
use nnburst_kernels::kernels::gemv_i8::{GemvBytes, ToFloats};
use nnburst_kernels::kernels::round_once_i8::RoundOnce;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, Out};

use super::arg::{Arg, ElementKind, OperatorCall};
use crate::lowering::{Io, Label, Lowered};

/// The bytes of the rows that weights are multiplied with.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBytes {
    /// The bits in which they differ from signed bytes: 0x80 for unsigned ones, else 0.
    flip: u8,
    /// Of the signed bytes.
    zero_point: i32,
}

impl RowBytes {
    /// Signed bytes whose zero point is taken off later, or is 0.
    pub(super) const SIGNED: Self = Self { flip: 0, zero_point: 0 };

    /// Unsigned bytes whose zero point is 128.
    pub(super) const UNSIGNED_HALF: Self = Self { flip: 0x80, zero_point: 0 };

    /// Those of a tensor; `None` unless it is of bytes.
    pub(super) fn of(rows: &Arg) -> Option<Self> {
        match rows.kind {
            ElementKind::I8 => Some(Self { flip: 0, zero_point: rows.zero_point }),
            ElementKind::U8 => Some(Self { flip: 0x80, zero_point: rows.zero_point - 128 }),
            _ => None,
        }
    }
}

/// What multiplies rows of bytes that were kept in whole words, one behind the other.
pub(super) trait RowKernel: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// Packs rows of signed weights; rows to multiply have this zero point, `bias` is added.
    /// `None` where they don't come out even.
    fn pack(isa: Isa, weights: &[i8], depth: usize, zero_point: i32, bias: &[i32]) -> Option<Self>;

    /// The form that was chosen.
    fn isa(&self) -> Isa;

    /// The bits in which kept bytes differ from signed ones.
    fn flip(&self) -> u8;

    /// Sums of a row: of whole vectors of units.
    fn sums(&self) -> usize;

    /// Groups of units whose sums can be computed by themselves.
    fn groups(&self) -> usize;

    /// The units of some groups: whole vectors, those that aren't there included.
    fn units_of(&self, groups: Range<usize>) -> Range<usize>;

    /// The most rows that are multiplied at a time.
    fn most_rows(&self) -> usize;

    /// Words of work memory.
    fn scratch_words(&self) -> usize;

    /// The sums of so many rows, of some groups of units.
    fn sum(
        &self,
        kept: &[i32],
        rows: usize,
        groups: Range<usize>,
        sums: &mut [i32],
        scratch: &mut [u32],
    ) -> Result<(), String>;
}

impl RowKernel for GemvBytes {
    fn pack(isa: Isa, weights: &[i8], depth: usize, zero_point: i32, bias: &[i32]) -> Option<Self> {
        Self::new(isa, weights, depth, zero_point, bias)
    }

    fn isa(&self) -> Isa {
        self.isa()
    }

    fn flip(&self) -> u8 {
        self.flip()
    }

    fn sums(&self) -> usize {
        self.sums()
    }

    fn groups(&self) -> usize {
        self.groups()
    }

    fn units_of(&self, groups: Range<usize>) -> Range<usize> {
        self.columns_of(groups)
    }

    fn most_rows(&self) -> usize {
        MOST_ROWS
    }

    fn scratch_words(&self) -> usize {
        0
    }

    fn sum(
        &self,
        kept: &[i32],
        rows: usize,
        groups: Range<usize>,
        sums: &mut [i32],
        _: &mut [u32],
    ) -> Result<(), String> {
        self.compute_some(kept, rows, groups, sums)
    }
}

/// By the GEMM all units are one group.
impl RowKernel for RowGemm {
    fn pack(isa: Isa, weights: &[i8], depth: usize, zero_point: i32, bias: &[i32]) -> Option<Self> {
        // Whole tiles, as far as the sums of all units stay in L2.
        let rows = 2 * SUMS_BYTES / (4 * bias.len()).max(1) / TILE_ROWS * TILE_ROWS;
        Self::new(isa, rows.clamp(TILE_ROWS, MOST_ROWS), weights, depth, zero_point, bias)
    }

    fn isa(&self) -> Isa {
        self.isa()
    }

    fn flip(&self) -> u8 {
        0
    }

    fn sums(&self) -> usize {
        self.sums()
    }

    fn groups(&self) -> usize {
        1
    }

    fn units_of(&self, groups: Range<usize>) -> Range<usize> {
        groups.start * self.sums()..groups.end * self.sums()
    }

    fn most_rows(&self) -> usize {
        self.most_rows()
    }

    fn scratch_words(&self) -> usize {
        self.scratch_bytes().div_ceil(4)
    }

    fn sum(
        &self,
        kept: &[i32],
        rows: usize,
        _: Range<usize>,
        sums: &mut [i32],
        scratch: &mut [u32],
    ) -> Result<(), String> {
        let pitch = size_of_val(kept) / rows.max(1);
        self.compute(bytemuck::cast_slice(kept), pitch, rows, sums, scratch)
    }
}

/// Weights that are packed for rows of bytes.
#[derive(Debug)]
pub(super) struct ByteProducts<K = GemvBytes> {
    packed: K,
    rows: RowBytes,
    depth: usize,
    /// The zero point of the weights as signed bytes.
    weights_zero: i32,
    /// For each unit the sum of its weights.
    sums: Vec<i32>,
}

/// Bytes of rows that are multiplied at a time, about: they stay in L2 beside weights, which come
/// once for all of them.
const ROWS_BYTES: usize = 128 << 10;

/// The most rows that are multiplied at a time.
const MOST_ROWS: usize = 64;

/// The rows of the GEMM's tiles, and of two of the smaller ones.
const TILE_ROWS: usize = 12;

/// Bytes of sums that are made at a time, about: they stay in L1 or L2 until results are made of
/// them.
const SUMS_BYTES: usize = 64 << 10;

impl<K: RowKernel> ByteProducts<K> {
    /// Packs an input's weights, rows of `depth`, if they are constant bytes; `bias` is what each
    /// unit starts with.
    pub(super) fn new(
        call: &mut OperatorCall<'_, '_>,
        input: usize,
        weights: &Arg,
        depth: usize,
        rows: RowBytes,
        bias: Option<&[i32]>,
    ) -> Lowered<Option<Self>> {
        let Some(bytes) = call.constant(input) else { return Ok(None) };
        let (flip, weights_zero) = match weights.kind {
            ElementKind::I8 => (0, weights.zero_point),
            ElementKind::U8 => (0x80, weights.zero_point - 128),
            _ => return Ok(None),
        };
        let values: std::borrow::Cow<'_, [i8]> = match flip {
            0 => bytes.typed::<i8>().into(),
            _ => bytes.as_slice().iter().map(|byte| (byte ^ flip).cast_signed()).collect(),
        };
        let packed = Self::packed(call, &values, depth, rows, bias)?;
        Ok(packed.map(|packed| Self { weights_zero, ..packed }))
    }

    /// Packs rows of signed bytes of `depth`, whose zero point is 0.
    pub(super) fn packed(
        call: &mut OperatorCall<'_, '_>,
        values: &[i8],
        depth: usize,
        rows: RowBytes,
        bias: Option<&[i32]>,
    ) -> Lowered<Option<Self>> {
        let units = values.len().checked_div(depth).unwrap_or(0);
        // The sums of weights, the bias, and what each unit starts with.
        call.claim(12 * units)?;
        let zeros = if bias.is_none() { vec![0; units] } else { Vec::new() };
        let bias = bias.unwrap_or(&zeros);
        let Some(packed) = K::pack(call.isa(), values, depth, rows.zero_point, bias) else {
            return Ok(None);
        };
        let sum = |row: &[i8]| row.iter().map(|&weight| i32::from(weight)).sum();
        let sums = values.chunks_exact(depth).map(sum).collect();
        Ok(Some(Self { packed, rows, depth, weights_zero: 0, sums }))
    }

    /// The form that was chosen.
    pub(super) fn isa(&self) -> Isa {
        self.packed.isa()
    }

    /// For each unit the sum of its weights.
    pub(super) fn sums_of_weights(&self) -> &[i32] {
        &self.sums
    }

    /// The zero point of the weights as signed bytes.
    pub(super) fn weights_zero(&self) -> i32 {
        self.weights_zero
    }

    /// Bytes from one kept row to the next: whole words.
    pub(super) fn row_stride(&self) -> usize {
        self.depth.next_multiple_of(4)
    }

    /// Sums from one row's to the next's.
    pub(super) fn sum_stride(&self) -> usize {
        self.packed.sums()
    }

    /// The bits in which kept bytes differ from signed ones.
    pub(super) fn flip(&self) -> u8 {
        self.packed.flip()
    }

    /// Keeps a row as [`Self::compute`] takes it.
    pub(super) fn keep(&self, row: In<'_, u8>, kept: &mut [u8]) {
        let kept = &mut kept[..self.depth];
        row.copy_to(kept);
        let flip = self.flip() ^ self.rows.flip;
        if flip != 0 {
            kept.iter_mut().for_each(|byte| *byte ^= flip);
        }
    }

    /// The sums of so many kept rows by some groups of units.
    fn compute_some(
        &self,
        kept: &[u8],
        rows: usize,
        groups: Range<usize>,
        sums: &mut [i32],
        scratch: &mut [u32],
    ) -> Result<(), String> {
        let kept = &kept[..rows * self.row_stride()];
        let stride = self.packed.units_of(groups.clone()).len();
        self.packed.sum(bytemuck::cast_slice(kept), rows, groups, sums, scratch)?;
        if self.weights_zero != 0 {
            for (row, sums) in
                kept.chunks_exact(self.row_stride()).zip(sums.chunks_exact_mut(stride.max(1)))
            {
                let signed = |byte: &u8| i32::from((byte ^ self.flip()).cast_signed());
                let sum: i32 = row[..self.depth].iter().map(signed).sum();
                let depth = i32::try_from(self.depth).unwrap_or(i32::MAX);
                let sum = sum.wrapping_sub(depth.wrapping_mul(self.rows.zero_point));
                let off = sum.wrapping_mul(self.weights_zero);
                sums.iter_mut().for_each(|sum| *sum = sum.wrapping_sub(off));
            }
        }
        Ok(())
    }

    /// Adds a step for so many rows, in bands of some rows by some units. `keep` keeps a row as
    /// [`Self::compute`] takes it, by whichever bands need it; what it finds out is given to
    /// `finish` again, with units of the row and their sums, and others up to a whole vector.
    pub(super) fn emit<F: Copy>(
        self,
        call: &mut OperatorCall<'_, '_>,
        label: Label,
        rows: usize,
        keep: impl Fn(&Self, &Io<'_>, usize, &mut [u8]) -> F + Send + Sync + 'static,
        finish: impl Fn(&Io<'_>, F, usize, Range<usize>, &[i32]) -> Result<(), String>
        + Send
        + Sync
        + 'static,
    ) {
        let cut = Cut::of(&self, rows, call.threads());
        let kept = cut.rows * self.row_stride();
        let scratch = kept + 4 * (cut.rows * cut.units + self.packed.scratch_words());
        let bands = cut.blocks * cut.bands;
        call.emit_overlapping_bands(label, scratch, bands, move |mut io, bands| {
            let inputs = io.inputs_and_outputs();
            let (kept, rest) = io.scratch_slice::<u8>().split_at_mut(kept);
            let (sums, rest) = rest.split_at_mut(4 * cut.rows * cut.units);
            let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
            let rest: &mut [u32] = bytemuck::cast_slice_mut(rest);
            let mut found = [None; MOST_ROWS];
            for (block, groups) in cut.parts(bands) {
                let rows = cut.rows_of(block);
                let each = kept.chunks_exact_mut(self.row_stride()).zip(&mut found);
                for (row, (kept, found)) in rows.clone().zip(each) {
                    *found = Some(keep(&self, &inputs, row, kept));
                }
                for first in groups.clone().step_by(cut.together) {
                    let some = first..groups.end.min(first + cut.together);
                    let units = self.packed.units_of(some.clone());
                    self.compute_some(kept, rows.len(), some, sums, rest)?;
                    let each = sums.chunks_exact(units.len().max(1));
                    for (row, (sums, found)) in rows.clone().zip(each.zip(&found)) {
                        let units = units.start..units.end.min(self.sums.len());
                        if let Some(found) = *found {
                            finish(&inputs, found, row, units, sums)?;
                        }
                    }
                }
            }
            Ok(())
        });
    }
}

/// One row at a time.
impl ByteProducts {
    /// Bytes of work memory for one row and its sums.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.row_stride() + 4 * self.sum_stride()
    }

    /// Work memory for one row as the row's and that of its sums.
    pub(super) fn split<'s>(&self, scratch: &'s mut [u8]) -> (&'s mut [u8], &'s mut [i32]) {
        let (kept, sums) = scratch.split_at_mut(self.row_stride());
        (kept, bytemuck::cast_slice_mut(&mut sums[..4 * self.sum_stride()]))
    }

    /// Returns whether a row can be read where it lies.
    pub(super) fn reads_in_place(&self) -> bool {
        self.weights_zero == 0 && self.packed.reads_in_place()
    }

    /// The bytes of a row that is read where it lies; `sums` is work memory.
    pub(super) fn compute_rounded(
        &self,
        row: In<'_, u8>,
        rounding: &RoundOnce,
        sums: &mut [i32],
        output: Out<'_, u8>,
    ) -> Result<(), String> {
        self.packed.compute_rounded(row, self.rows.flip, rounding, sums, output)
    }

    /// Floats of the sums of a kept row; `sums` is work memory. Weights have the zero point 0.
    pub(super) fn compute_floats(
        &self,
        kept: &[u8],
        to_floats: &ToFloats<'_>,
        sums: &mut [i32],
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        let words = bytemuck::cast_slice(&kept[..self.row_stride()]);
        self.packed.compute_floats(words, to_floats, sums, output)
    }

    /// The sums of a kept row, each with its bias.
    pub(super) fn compute(&self, kept: &[u8], sums: &mut [i32]) -> Result<(), String> {
        self.compute_some(kept, 1, 0..self.packed.groups(), sums, &mut [])
    }
}

/// How the products of rows are cut into bands: into blocks of rows, and each of these into groups
/// of units.
#[derive(Clone, Copy, Debug)]
struct Cut {
    all_rows: usize,
    /// Rows of a block.
    rows: usize,
    blocks: usize,
    groups: usize,
    /// Bands of a block: its groups, or one where blocks are enough for all threads, as what makes
    /// bytes of its rows is done again for each.
    bands: usize,
    /// Groups that are computed at a time, and the units of so many.
    together: usize,
    units: usize,
}

impl Cut {
    fn of<K: RowKernel>(products: &ByteProducts<K>, all_rows: usize, threads: usize) -> Self {
        let groups = products.packed.groups();
        let mut most = products.packed.most_rows().min(all_rows);
        if groups == 1 {
            // Threads have nothing but rows to share.
            most = most.min(all_rows.div_ceil(threads.max(1)).next_multiple_of(TILE_ROWS));
        }
        let rows = (ROWS_BYTES / products.row_stride().max(1)).max(1).min(most);
        let bytes = 4 * rows * products.packed.units_of(0..1).len();
        let together = (SUMS_BYTES / bytes.max(1)).clamp(1, groups.max(1));
        let units = products.packed.units_of(0..together).len();
        let blocks = all_rows.div_ceil(rows.max(1));
        let bands = if threads == 1 || blocks >= 4 * threads { 1 } else { groups };
        Self { all_rows, rows, blocks, groups, bands, together, units }
    }

    /// The rows of a block.
    fn rows_of(&self, block: usize) -> Range<usize> {
        block * self.rows..self.all_rows.min((block + 1) * self.rows)
    }

    /// The blocks that some bands are of, each with its groups.
    fn parts(self, some: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (groups, bands) = (self.groups, self.bands.max(1));
        let blocks = some.start / bands..some.end.div_ceil(bands);
        blocks.map(move |block| {
            let first = block * bands;
            let of = |band: usize| (band.clamp(first, first + bands) - first) * groups / bands;
            (block, of(some.start)..of(some.end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_parts_of_blocks() {
        let (all_rows, rows, blocks, groups) = (20, 8, 3, 5);
        let cut = Cut { all_rows, rows, blocks, groups, bands: 5, together: 2, units: 32 };
        let parts = |bands| cut.parts(bands).collect::<Vec<_>>();
        assert_eq!(parts(0..15), [(0, 0..5), (1, 0..5), (2, 0..5)]);
        assert_eq!(parts(3..4), [(0, 3..4)]);
        assert_eq!(parts(4..11), [(0, 4..5), (1, 0..5), (2, 0..1)]);
        assert_eq!(parts(5..10), [(1, 0..5)]);
        assert!(parts(5..5).is_empty());
        let whole = Cut { bands: 1, ..cut }.parts(1..3);
        assert_eq!(whole.collect::<Vec<_>>(), [(1, 0..5), (2, 0..5)]);
        assert_eq!([0, 1, 2].map(|block| cut.rows_of(block)), [0..8, 8..16, 16..20]);
    }
}
