//! The product of a row of signed bytes and a matrix of 4-bit integers that have a scale for each
//! block of a row of theirs, as language models have them: exact sums of each block, added up as
//! floats.
//!
//! Weights lie in panels of 16 columns. A line has four bytes for each column, of which the lower
//! halves are the weights of four elements of depth and the upper halves those of the next four.
//! They are stored 8 above what they are, so that no half has a sign to extend: sums begin with
//! what that adds, which is the same for all columns.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod panels;
mod scalar;

use self::kernel::{BlockPanels, BlocksKernel, COLUMNS, DEPTH, LINE};
use crate::kernels::plain::Loop;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::packed::Packed;
use crate::tensor::{check_lengths, poll};

/// Best first.
const VARIANTS: Variants<BlocksKernel> = variants! {
    Avx512: avx512::KERNEL,
    Avx2: avx2::KERNEL,
    NeonDot: neon_dot::KERNEL,
    Neon: neon::KERNEL,
    Scalar: scalar::KERNEL,
};

/// Nanoseconds of what is done at once, about.
const PART_NS: usize = 500_000;

/// Sums of longer blocks might not be exact in all variants.
const LONGEST: usize = 1 << 14;

/// What weights are stored above what they are.
const SHIFT: i8 = 8;

/// Weights of 4 bits and the scales of their blocks, packed.
#[derive(Debug)]
pub struct GemvBlocks {
    variant: Variant<BlocksKernel>,
    columns: usize,
    block: usize,
    blocks: usize,
    /// For each group of panels block by block its lines, then the columns' scales.
    weights: Packed,
}

impl GemvBlocks {
    /// Packs rows of weights, one for each column of the product, each in blocks of `block` that
    /// have a scale each. `None` where they don't come out even, blocks are no multiples of 8 up to
    /// 2^14, or a weight is not within -8 to 7.
    pub fn new(
        isa: Isa,
        weights: &[i8],
        block: usize,
        blocks: usize,
        scales: &[f32],
    ) -> Option<Self> {
        let depth = block.checked_mul(blocks)?;
        let columns = weights.len().checked_div(depth)?;
        let fits =
            block.is_multiple_of(DEPTH) && block <= LONGEST && columns * depth == weights.len();
        if !fits || columns == 0 || scales.len() != columns * blocks {
            return None;
        }
        if !weights.iter().all(|&weight| (-SHIFT..SHIFT).contains(&weight)) {
            return None;
        }
        let variant = VARIANTS.best(isa);
        let (panels, lines) = (columns.div_ceil(COLUMNS), block / DEPTH);
        // Sixteen times the weights where there is one column.
        let bytes = panels.checked_mul(blocks)?.checked_mul((lines + 1) * LINE)?;
        let weights = Packed::new("gemv_blocks_i4", bytes, |packed| {
            let out = packed.typed_mut::<u8>();
            let rows = weights.chunks_exact(depth).zip(scales.chunks_exact(blocks));
            for (column, (row, scales)) in poll::each(rows.enumerate(), depth) {
                let panel = column / COLUMNS;
                let group = panel / variant.run.side * variant.run.side;
                let together = variant.run.side.min(panels - group);
                let first = group * blocks * (lines + 1) + panel - group;
                let place = |line: usize| {
                    (first + line * together) * LINE + column % COLUMNS * size_of::<f32>()
                };
                let each = row.chunks_exact(block).zip(scales);
                for (at, (weights, scale)) in each.enumerate() {
                    let line = at * (lines + 1);
                    for (at, eight) in weights.chunks_exact(DEPTH).enumerate() {
                        let (low, high) = eight.split_at(DEPTH / 2);
                        let bytes = &mut out[place(line + at)..][..DEPTH / 2];
                        for (byte, (low, high)) in bytes.iter_mut().zip(low.iter().zip(high)) {
                            let half = |weight: i8| (weight + SHIFT).cast_unsigned();
                            *byte = half(*low) | half(*high) << 4;
                        }
                    }
                    out[place(line + lines)..][..size_of::<f32>()]
                        .copy_from_slice(&scale.to_ne_bytes());
                }
            }
        })?;
        Some(Self { variant, columns, block, blocks, weights })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// The number of blocks of a row.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Totals of a row: of whole vectors of columns, those that aren't there included.
    pub fn totals(&self) -> usize {
        self.columns.next_multiple_of(COLUMNS)
    }

    /// `totals[column]`, added up from 0 on block by block: `scale * sum(x * weight)`, the exact
    /// sum as a float times the block's scale. The row is of signed bytes; `starts` is scratch
    /// memory for each of its blocks.
    ///
    /// # Errors
    /// A slice is too short, or the run was ended.
    pub fn compute(
        &self,
        row: &[i8],
        starts: &mut [i32],
        totals: &mut [f32],
    ) -> Result<(), String> {
        check_lengths(row.len(), self.block * self.blocks)?;
        check_lengths(starts.len(), self.blocks)?;
        check_lengths(totals.len(), self.totals())?;
        let (kernel, lines) = (&self.variant.run, self.block / DEPTH);
        self.variant.isa.run(Starts { row, block: self.block, starts });
        let per_ns = if self.variant.isa == Isa::Scalar { 1 } else { 16 };
        let group = self.block * self.blocks * COLUMNS * kernel.side / per_ns + 1;
        let (panels, most) = (self.totals() / COLUMNS, (PART_NS / group).max(1) * kernel.side);
        for first in (0..panels).step_by(most) {
            let part = BlockPanels {
                weights: self.weights.as_slice()[first * self.blocks * (lines + 1) * LINE..]
                    .as_ptr(),
                row: row.as_ptr().cast(),
                starts: starts.as_ptr(),
                totals: totals[first * COLUMNS..].as_mut_ptr(),
                panels: most.min(panels - first),
                blocks: self.blocks,
                lines,
            };
            poll::work(group * part.panels.div_ceil(kernel.side))?;
            // SAFETY: lengths as checked, weights as packed; `best` chose what the machine has.
            unsafe { (kernel.run)(&part) };
        }
        Ok(())
    }
}

/// What the sums of each block begin with.
struct Starts<'a> {
    row: &'a [i8],
    block: usize,
    starts: &'a mut [i32],
}

impl Loop for Starts<'_> {
    #[inline(always)]
    fn run(self) {
        for (start, block) in self.starts.iter_mut().zip(self.row.chunks_exact(self.block)) {
            let mut sums = [0i32; DEPTH];
            for eight in block.as_chunks::<DEPTH>().0 {
                for (sum, &x) in sums.iter_mut().zip(eight) {
                    *sum = sum.wrapping_add(x.into());
                }
            }
            let sum = sums.into_iter().fold(0, i32::wrapping_add);
            *start = sum.wrapping_mul(-i32::from(SHIFT));
        }
    }
}

#[cfg(test)]
mod tests;
