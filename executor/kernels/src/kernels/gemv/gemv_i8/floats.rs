//! Sums that become floats before they leave registers: those of a row that was quantised on the
//! fly, by 8-bit weights.

use super::GemvBytes;
use super::kernel::{COLUMNS, Panels};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::panels::{DotSums, Finish, Lines};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::simd::{Simd, dot::Dot, vector_f32::F32Lanes, vector_f32::F32Simd, vector_i32::I32Simd};
use crate::tensor::{In, Out, check_lengths, poll};

/// What makes floats of sums: `(sum - zero point * weights) * (scale * own scale) + bias`, each
/// operation rounded, within the range; NaN is kept.
#[derive(Clone, Copy, Debug)]
pub struct ToFloats<'a> {
    /// Of each column its weights' scale; as many as there are [`GemvBytes::sums`].
    pub scales: &'a [f32],
    /// Of each column the sum of its weights, likewise.
    pub sums_of_weights: &'a [i32],
    /// The row's scale.
    pub scale: f32,
    /// The row's zero point.
    pub zero_point: i32,
    /// A number for each column of the product.
    pub bias: In<'a, f32>,
    /// The bounds of what is stored.
    pub range: (f32, f32),
}

/// [`ToFloats`] with its lengths checked, and where the floats go.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatRow {
    scales: *const f32,
    sums_of_weights: *const i32,
    scale: f32,
    zero_point: i32,
    bias: *const f32,
    range: (f32, f32),
    output: *mut f32,
    /// Columns of the product; they end in the last panel.
    columns: usize,
}

impl GemvBytes {
    /// As [`GemvBytes::compute`] of one row that was kept, and floats of its sums, for which `sums`
    /// is work memory.
    ///
    /// # Errors
    /// Memory is missing, or the output doesn't end in the last panel.
    pub fn compute_floats(
        &self,
        kept: &[i32],
        of: &ToFloats<'_>,
        sums: &mut [i32],
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        let columns = output.len();
        if columns.div_ceil(COLUMNS) != self.panels() {
            return Err(format!("{columns} results of {} sums", self.sums()));
        }
        check_lengths(of.scales.len().min(of.sums_of_weights.len()), self.sums())?;
        check_lengths(of.bias.len(), columns)?;
        let row = FloatRow {
            scales: of.scales.as_ptr(),
            sums_of_weights: of.sums_of_weights.as_ptr(),
            scale: of.scale,
            zero_point: of.zero_point,
            bias: of.bias.as_ptr(),
            range: of.range,
            output: output.as_mut_ptr(),
            columns,
        };
        let work_ns = self.panel_ns * self.panels();
        match self.variant.run.floats {
            Some(run) if work_ns <= super::PART_NS => {
                check_lengths(kept.len(), self.words())?;
                check_lengths(sums.len(), self.sums())?;
                poll::work(work_ns)?;
                let panels = self.all(kept.as_ptr().cast(), 0, 1, sums.as_mut_ptr());
                // SAFETY: lengths as checked, weights as packed; `best` chose what the machine has.
                unsafe { run(&panels, &row) };
            }
            _ => {
                self.compute(kept, 1, sums)?;
                // SAFETY: a sum for each column, and lengths as checked.
                unsafe { row.store_all(sums.as_ptr()) };
            }
        }
        Ok(())
    }
}

impl FloatRow {
    /// The scalar reference.
    ///
    /// # Safety
    /// As many sums as columns, and all else as [`ToFloats`] says.
    #[expect(clippy::cast_precision_loss, reason = "as vectors convert sums")]
    unsafe fn store_all(&self, sums: *const i32) {
        let (low, high) = self.range;
        for at in 0..self.columns {
            // SAFETY: as the caller promises.
            unsafe {
                let off = self.zero_point.wrapping_mul(*self.sums_of_weights.add(at));
                let number = (*sums.add(at)).wrapping_sub(off) as f32;
                let bias = self.bias.add(at).read_unaligned();
                let x = number * (self.scale * *self.scales.add(at)) + bias;
                let x = if x < low { low } else { x };
                self.output.add(at).write_unaligned(if x > high { high } else { x });
            }
        }
    }
}

/// What all vectors of a row have in common.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) struct Floats<'a, V: I32Simd> {
    row: &'a FloatRow,
    zero_point: V,
    scale: <V::Isa as Simd>::F32,
    low: <V::Isa as Simd>::F32,
    high: <V::Isa as Simd>::F32,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<'a, V: I32Simd> Floats<'a, V> {
    #[inline(always)]
    pub(super) fn new(isa: V::Isa, row: &'a FloatRow) -> Self {
        let zero_point = V::splat(isa, row.zero_point);
        let scale = <V::Isa as Simd>::F32::splat(isa, row.scale);
        let (low, high) = (scale.filled(row.range.0), scale.filled(row.range.1));
        Self { row, zero_point, scale, low, high }
    }

    /// Vectors of panels, `count` columns from column `first` on.
    ///
    /// # Safety
    /// As for [`Finish::finish`]; there are so many columns.
    #[inline(always)]
    unsafe fn panels<D: Dot<Sums = V>, const COUNT: usize, const VECTORS: usize>(
        &self,
        start: *const i32,
        first: usize,
        sums: [DotSums<D, VECTORS>; COUNT],
        count: usize,
    ) {
        let row = self.row;
        let lanes = <V::Isa as Simd>::F32::LANES;
        for (panel, sums) in sums.into_iter().enumerate() {
            for (vector, sums) in sums.vectors().into_iter().enumerate() {
                let from = panel * COLUMNS + vector * V::LANES;
                let at = first + from;
                // SAFETY: as the caller promises; scales and sums of weights are there for whole
                // panels, of the others as many as are stored.
                unsafe {
                    let sums = sums.add(V::load(self.zero_point.isa(), start.add(at)));
                    let weights = V::load(sums.isa(), row.sums_of_weights.add(at));
                    let numbers = sums.sub(weights.mul(self.zero_point));
                    unrolled!(2: part < V::LANES / lanes, {
                        let at = at + part * lanes;
                        let left = count.saturating_sub(from + part * lanes);
                        let own = F32Simd::load(sums.isa(), row.scales.add(at));
                        let x = numbers.floats(part).mul(self.scale.mul(own));
                        let (bias, to) = (row.bias.wrapping_add(at), row.output.wrapping_add(at));
                        if left >= lanes {
                            let x = x.add(F32Simd::load(sums.isa(), bias));
                            x.clamp(self.low, self.high).store(to);
                        } else {
                            let x = x.add(F32Simd::load_first(sums.isa(), bias, left));
                            x.clamp(self.low, self.high).store_first(to, left);
                        }
                    });
                }
            }
        }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<D: Dot, const VECTORS: usize> Finish<DotSums<D, VECTORS>> for Floats<'_, D::Sums> {
    #[inline(always)]
    unsafe fn finish<const COUNT: usize>(
        &self,
        _: D,
        all: &Panels,
        lines: &Lines,
        _: usize,
        sums: [DotSums<D, VECTORS>; COUNT],
    ) {
        let first = lines.panel() * COLUMNS;
        let columns = self.row.columns - first;
        // SAFETY: as the caller promises. The length of all but the last is known to the compiler.
        unsafe {
            if columns >= COUNT * COLUMNS {
                self.panels(all.start, first, sums, COUNT * COLUMNS);
            } else {
                self.panels(all.start, first, sums, columns);
            }
        }
    }
}
