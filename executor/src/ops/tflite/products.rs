//! Rows of bytes by constant weights of bytes, with the dot products of the machine.

use nnburst_kernels::kernels::gemv_i8::{GemvBytes, ToFloats};
use nnburst_kernels::kernels::round_once_i8::RoundOnce;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, Out};

use super::arg::{Arg, ElementKind, OperatorCall};
use crate::lowering::Lowered;

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

/// Weights that are packed for rows of bytes.
#[derive(Debug)]
pub(super) struct ByteProducts {
    packed: GemvBytes,
    rows: RowBytes,
    depth: usize,
    /// The zero point of the weights as signed bytes.
    weights_zero: i32,
    /// For each unit the sum of its weights.
    sums: Vec<i32>,
}

/// Bytes of rows that are multiplied at a time, about: they stay in L1 beside a panel of weights.
const ROWS_BYTES: usize = 16 << 10;

/// The most rows that are multiplied at a time.
pub(super) const MOST_ROWS: usize = 64;

impl ByteProducts {
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
        let Some(packed) = GemvBytes::new(call.isa(), values, depth, rows.zero_point, bias) else {
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

    /// Bytes from one kept row to the next.
    pub(super) fn row_stride(&self) -> usize {
        4 * self.packed.words()
    }

    /// Sums from one row's to the next's.
    pub(super) fn sum_stride(&self) -> usize {
        self.packed.sums()
    }

    /// The bits in which kept bytes differ from signed ones.
    pub(super) fn flip(&self) -> u8 {
        self.packed.flip()
    }

    /// The rows that are best multiplied at a time.
    pub(super) fn rows_at_a_time(&self) -> usize {
        (ROWS_BYTES / self.row_stride().max(1)).clamp(1, MOST_ROWS)
    }

    /// Bytes of work memory for so many rows and their sums.
    pub(super) fn scratch_bytes(&self, rows: usize) -> usize {
        rows * (self.row_stride() + 4 * self.sum_stride())
    }

    /// Work memory for so many rows as the rows' and that of their sums.
    pub(super) fn split<'s>(
        &self,
        scratch: &'s mut [u8],
        rows: usize,
    ) -> (&'s mut [u8], &'s mut [i32]) {
        let (kept, sums) = scratch.split_at_mut(rows * self.row_stride());
        (kept, bytemuck::cast_slice_mut(&mut sums[..4 * rows * self.sum_stride()]))
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

    /// The sums of so many kept rows, each with its bias.
    pub(super) fn compute(&self, kept: &[u8], rows: usize, sums: &mut [i32]) -> Result<(), String> {
        let stride = self.sum_stride();
        let words = bytemuck::cast_slice(&kept[..rows * self.row_stride()]);
        self.packed.compute(words, rows, &mut sums[..rows * stride])?;
        if self.weights_zero != 0 {
            let rows = kept.chunks_exact(self.row_stride()).zip(sums.chunks_exact_mut(stride));
            for (row, sums) in rows {
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
}
