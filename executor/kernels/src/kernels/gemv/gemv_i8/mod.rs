//! Products of rows of bytes by a matrix of signed bytes, exact sums in 32 bits: the gates of
//! quantised cells, where weights are used once per step, or for the inputs of many steps at once.
//!
//! Weights lie in panels of 16 columns, four elements of depth side by side for each column, as the
//! dot-product instruction of 8-bit numbers wants them. That of x86 multiplies unsigned by signed
//! bytes, so the row is shifted up by 128 for it and what that adds is taken off ahead.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod dots;
mod floats;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod panels;
mod scalar;

pub use self::floats::ToFloats;
use std::ops::Range;

use self::kernel::{COLUMNS, DEPTH, GemvKernel, Panels};
use crate::kernels::round_once_i8::RoundOnce;
use crate::kernels::round_once_i8::vectors::MOST_CHANNELS;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::packed::Packed;
use crate::tensor::{In, Out, poll};

/// Best first.
const VARIANTS: Variants<GemvKernel> = variants! {
    Avx512Vbmi: amx::KERNEL,
    Avx512: avx512::KERNEL,
    AvxVnni: avx_vnni::KERNEL,
    Avx2: avx2::KERNEL,
    NeonDot: neon_dot::KERNEL,
    Neon: neon::KERNEL,
    Scalar: scalar::KERNEL,
};

/// Nanoseconds of what is done at once, about.
const PART_NS: usize = 500_000;

/// A multiple of the rows that any variant sums side by side.
const TOGETHER: usize = 4;

/// Weights, packed.
#[derive(Debug)]
pub struct GemvBytes {
    variant: Variant<GemvKernel>,
    depth: usize,
    weights: Packed,
    /// The initial accumulators, in whole panels.
    start: Vec<i32>,
    /// Nanoseconds of a row by a panel, about.
    panel_ns: usize,
}

impl GemvBytes {
    /// Packs rows of weights, each `depth` long and for one column of the product; rows to multiply
    /// have this zero point, `bias` is added. `None` where they don't come out even.
    pub fn new(
        isa: Isa,
        weights: &[i8],
        depth: usize,
        zero_point: i32,
        bias: &[i32],
    ) -> Option<Self> {
        if depth == 0 || bias.is_empty() || weights.len() != depth * bias.len() {
            return None;
        }
        let (panels, words) = (bias.len().div_ceil(COLUMNS), depth.div_ceil(DEPTH));
        let line = COLUMNS * DEPTH;
        let variant = VARIANTS.best(isa);
        let packed = Packed::new("gemv_i8", panels * words * line, |packed| {
            let out = packed.typed_mut::<i8>();
            for (column, row) in poll::each(weights.chunks_exact(depth).enumerate(), depth) {
                let panel = column / COLUMNS;
                let group = panel / variant.run.side * variant.run.side;
                let together = variant.run.side.min(panels - group);
                let first = group * words * line + (panel - group) * line;
                let first = first + column % COLUMNS * DEPTH;
                for (k, &weight) in row.iter().enumerate() {
                    out[first + k / DEPTH * together * line + k % DEPTH] = weight;
                }
            }
        })?;
        let shift = i32::from(variant.run.shift());
        let mut start = vec![0i32; panels * COLUMNS];
        for ((start, row), bias) in start.iter_mut().zip(weights.chunks_exact(depth)).zip(bias) {
            let sum = row.iter().fold(0i32, |sum, &weight| sum.wrapping_add(weight.into()));
            *start = bias.wrapping_sub(sum.wrapping_mul(zero_point.wrapping_add(shift)));
        }
        let per_ns = if variant.isa == Isa::Scalar { 1 } else { 16 };
        let panel_ns = depth * COLUMNS / per_ns + 1;
        Some(Self { variant, depth, weights: packed, start, panel_ns })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Returns whether the other gives the same for every row.
    pub fn is_same(&self, other: &Self) -> bool {
        // Weights that are the same are kept once.
        std::ptr::eq(self.weights.as_slice(), other.weights.as_slice())
            && self.depth == other.depth
            && self.variant.isa == other.variant.isa
            && self.start == other.start
    }

    /// The bits in which kept bytes differ from those of the row.
    pub fn flip(&self) -> u8 {
        self.variant.run.shift()
    }

    /// Words that a row is kept in.
    pub fn words(&self) -> usize {
        self.depth.div_ceil(DEPTH)
    }

    /// Sums of a row: of whole vectors of columns, those that aren't there included.
    pub fn sums(&self) -> usize {
        self.start.len()
    }

    /// Keeps a row as [`GemvBytes::compute`] takes it.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn keep(&self, x: In<'_, i8>, row: &mut [i32]) -> Result<(), String> {
        crate::tensor::check_lengths(x.len(), self.depth)?;
        crate::tensor::check_lengths(row.len(), self.words())?;
        let row = &mut row[..self.words()];
        if let Some(last) = row.last_mut() {
            *last = 0;
        }
        x.copy_to(&mut bytemuck::cast_slice_mut(row)[..self.depth]);
        if !self.variant.run.signed {
            // By 128; what stands behind the row meets zeros.
            row.iter_mut().for_each(|word| *word ^= i32::from_ne_bytes([0x80; DEPTH]));
        }
        Ok(())
    }

    /// `sums[column] = bias + sum((x - zero point) * weight)`, wrapping, for each of `rows` that
    /// were kept one behind the other; so lie their sums.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute(&self, kept: &[i32], rows: usize, sums: &mut [i32]) -> Result<(), String> {
        self.compute_some(kept, rows, 0..self.groups(), sums)
    }

    /// Groups of columns whose sums can be computed by themselves.
    pub fn groups(&self) -> usize {
        self.panels().div_ceil(self.variant.run.side)
    }

    /// The columns of some groups: whole vectors, those that aren't there included.
    pub fn columns_of(&self, groups: Range<usize>) -> Range<usize> {
        let column = |group: usize| (group * self.variant.run.side * COLUMNS).min(self.sums());
        column(groups.start)..column(groups.end)
    }

    /// As [`GemvBytes::compute`], the sums of some groups of columns alone.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute_some(
        &self,
        kept: &[i32],
        rows: usize,
        groups: Range<usize>,
        sums: &mut [i32],
    ) -> Result<(), String> {
        crate::tensor::check_lengths(kept.len(), rows * self.words())?;
        // SAFETY: there are so many words.
        unsafe { self.run(kept.as_ptr().cast(), 0, rows, self.columns_of(groups), sums) }
    }

    /// Returns whether a row can be read where it lies: it has whole words.
    pub fn reads_in_place(&self) -> bool {
        self.depth.is_multiple_of(DEPTH)
    }

    /// As [`GemvBytes::compute`] for one row that lies anywhere. Its bytes are the signed ones that
    /// come out when the bits of `flip` are flipped.
    ///
    /// # Errors
    /// Memory is missing, or the row is not to be read in place.
    pub fn compute_in_place(
        &self,
        x: In<'_, u8>,
        flip: u8,
        sums: &mut [i32],
    ) -> Result<(), String> {
        crate::tensor::check_lengths(x.len(), self.words() * DEPTH)?;
        // SAFETY: there are so many words.
        unsafe { self.run(x.as_ptr().cast(), flip ^ self.flip(), 1, 0..self.sums(), sums) }
    }

    /// As [`GemvBytes::compute_in_place`] and [`RoundOnce::compute`], with `sums` for work memory.
    ///
    /// # Errors
    /// As for these.
    pub fn compute_rounded(
        &self,
        x: In<'_, u8>,
        flip: u8,
        rounding: &RoundOnce,
        sums: &mut [i32],
        output: Out<'_, u8>,
    ) -> Result<(), String> {
        let (panels, row) = (self.panels(), rounding.row(output)?);
        let ends_in_last = row.len <= MOST_CHANNELS && row.len.div_ceil(COLUMNS) == panels;
        let work_ns = self.panel_ns * panels;
        match self.variant.run.rounded {
            Some(run) if ends_in_last && work_ns <= PART_NS => {
                crate::tensor::check_lengths(x.len(), self.words() * DEPTH)?;
                crate::tensor::check_lengths(sums.len(), self.sums())?;
                poll::work(work_ns)?;
                let flip = flip ^ self.flip();
                let panels = self.all(x.as_ptr().cast(), flip, 1, sums.as_mut_ptr());
                // SAFETY: lengths as checked, weights as packed; `best` chose what the machine has.
                unsafe { run(&panels, &row) };
                Ok(())
            }
            _ => {
                self.compute_in_place(x, flip, sums)?;
                rounding.compute(sums, output)
            }
        }
    }

    fn panels(&self) -> usize {
        self.start.len() / COLUMNS
    }

    fn all(&self, row: *const u32, flip: u8, rows: usize, sums: *mut i32) -> Panels {
        Panels {
            weights: self.weights.typed::<i8>().as_ptr(),
            row,
            flip,
            rows,
            words: self.words(),
            start: self.start.as_ptr(),
            sums,
            row_sums: self.sums(),
            panels: self.panels(),
        }
    }

    /// The sums of groups of columns.
    ///
    /// # Safety
    /// The words of so many rows are readable.
    #[inline]
    unsafe fn run(
        &self,
        row: *const u32,
        flip: u8,
        rows: usize,
        columns: Range<usize>,
        sums: &mut [i32],
    ) -> Result<(), String> {
        let row_sums = columns.len();
        crate::tensor::check_lengths(sums.len(), rows * row_sums)?;
        let sums = sums.as_mut_ptr();
        let all = self.all(row, flip, rows, sums).behind(columns.start / COLUMNS);
        let all = Panels { rows, sums, row_sums, panels: row_sums / COLUMNS, ..all };
        let GemvKernel { run, single, .. } = self.variant.run;
        let work_ns = self.panel_ns * all.panels * rows;
        if work_ns > PART_NS {
            // SAFETY: as the caller promises, and lengths as checked.
            return unsafe { self.some_by_some(&all) };
        }
        poll::work(work_ns)?;
        // SAFETY: lengths as checked, weights as packed; `best` chose what the machine has.
        unsafe { if rows == 1 { single(&all) } else { run(&all) } };
        Ok(())
    }

    /// Some panels after the other, each by all rows or by as many as take a while: weights that
    /// don't fit the caches come from far once.
    ///
    /// # Safety
    /// There are such panels.
    #[cold]
    unsafe fn some_by_some(&self, all: &Panels) -> Result<(), String> {
        let GemvKernel { run, single, side, .. } = self.variant.run;
        let row_ns = self.panel_ns * side;
        let rows = (PART_NS / row_ns).max(1).next_multiple_of(TOGETHER).min(all.rows);
        let panels = (PART_NS / (row_ns * rows)).max(1) * side;
        for first in (0..all.panels).step_by(panels) {
            let panels = panels.min(all.panels - first);
            for row in (0..all.rows).step_by(rows) {
                let rows = rows.min(all.rows - row);
                poll::work(self.panel_ns * panels * rows)?;
                let part = Panels {
                    row: all.row.wrapping_add(row * all.words),
                    rows,
                    sums: all.sums.wrapping_add(row * all.row_sums + first * COLUMNS),
                    panels,
                    ..all.behind(first)
                };
                // SAFETY: as the caller promises; `best` chose what the machine has.
                unsafe { if rows == 1 { single(&part) } else { run(&part) } };
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
