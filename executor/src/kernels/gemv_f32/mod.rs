//! Products of few rows by a float matrix: as fast as weights come from the caches.
//!
//! With one row every weight is used once, so nothing but their stream counts. They lie in panels of up to
//! 64 columns, one line per element of depth: a single address that only goes up, which the hardware
//! prefetches best, and eight vectors of sums at a time, as many as hide the latency of a multiply-add
//! (a tile of the matrix product has two for one row, and reached a fifth of this). Narrower panels, at the
//! end, sum several lines side by side instead.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use super::{Form, Isa, best};
use crate::io::{In, Out};
use crate::packed::Packed;

/// One row by one panel.
#[derive(Clone, Copy, Debug)]
struct Panel {
    /// `depth` lines as wide as the panel.
    weights: *const f32,
    depth: usize,
    /// `depth` elements.
    x: *const f32,
    /// What sums start with, one per column; may be the output.
    start: *const f32,
    output: *mut f32,
    /// Those that are there; the rest of the panel is zeros.
    columns: usize,
    low: f32,
    high: f32,
}

/// The kernels for panels of one to four times [`NARROW`] columns.
///
/// # Safety
/// The machine has the instruction set; the panel is as [`Panel`] says, at any alignment.
type Run = unsafe fn(&Panel);

/// Best first.
const FORMS: &[Form<[Run; 4]>] = &[
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx512, run: avx512::PANELS },
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx2, run: avx2::PANELS },
    #[cfg(target_arch = "aarch64")]
    Form { isa: Isa::Neon, run: neon::PANELS },
    Form { isa: Isa::Scalar, run: scalar::PANELS },
];

/// The narrowest panel.
const NARROW: usize = 16;
/// The widest.
const WIDE: usize = 4 * NARROW;

/// What the sums of a product start with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// A number per column, the same for all rows.
    Bias(&'a [f32]),
    /// What the output holds.
    Output,
}

/// Weights, packed.
#[derive(Debug)]
pub(crate) struct Gemv {
    form: Form<[Run; 4]>,
    depth: usize,
    columns: usize,
    weights: Packed,
}

impl Gemv {
    /// Packs rows of weights, each `depth` long and for one column of the product. `None` where they don't
    /// come out even.
    pub(crate) fn new(isa: Isa, weights: &[f32], depth: usize) -> Option<Self> {
        if depth == 0 || weights.is_empty() || !weights.len().is_multiple_of(depth) {
            return None;
        }
        let columns = weights.len() / depth;
        let width: usize = panels(columns).map(|(_, width)| width).sum();
        let weights = Packed::new("gemv_f32", width * depth * size_of::<f32>(), |packed| {
            let mut rest = packed.typed_mut::<f32>();
            for (first, width) in panels(columns) {
                let (panel, behind) = std::mem::take(&mut rest).split_at_mut(width * depth);
                rest = behind;
                let rows = weights.chunks_exact(depth).skip(first).take(width);
                for (column, row) in rows.enumerate() {
                    let lines = panel[column..].iter_mut().step_by(width);
                    lines.zip(row).for_each(|(out, &weight)| *out = weight);
                }
            }
        });
        Some(Self { form: best(FORMS, isa), depth, columns, weights })
    }

    /// The form that was chosen.
    pub(crate) fn isa(&self) -> Isa {
        self.form.isa
    }

    /// Columns of the product.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// `output[row] = clamp(start + weights * xs[row])` for `rows` rows; those of the output begin `stride`
    /// elements apart.
    ///
    /// # Errors
    /// An operand is too short.
    pub(crate) fn compute(
        &self,
        xs: In<'_, f32>,
        rows: usize,
        start: Start<'_>,
        output: Out<'_, f32>,
        stride: usize,
        (low, high): (f32, f32),
    ) -> Result<(), String> {
        let Some(last) = rows.checked_sub(1) else { return Ok(()) };
        super::check_lengths(xs.len(), rows * self.depth)?;
        super::check_lengths(output.len(), last * stride + self.columns)?;
        if let Start::Bias(bias) = start {
            super::check_lengths(bias.len(), self.columns)?;
        }
        let mut weights = self.weights.typed::<f32>();
        for (first, width) in panels(self.columns) {
            let run = self.form.run[width / NARROW - 1];
            for row in 0..rows {
                let output = output.as_mut_ptr().wrapping_add(row * stride + first);
                let panel = Panel {
                    weights: weights.as_ptr(),
                    depth: self.depth,
                    x: xs.as_ptr().wrapping_add(row * self.depth),
                    start: match start {
                        Start::Bias(bias) => bias.as_ptr().wrapping_add(first),
                        Start::Output => output.cast_const(),
                    },
                    output,
                    columns: width.min(self.columns - first),
                    low,
                    high,
                };
                // SAFETY: lengths as checked, the panel as packed; `best` chose what the machine has.
                unsafe { run(&panel) };
            }
            weights = &weights[width * self.depth..];
        }
        Ok(())
    }
}

/// First column and width of each panel.
fn panels(columns: usize) -> impl Iterator<Item = (usize, usize)> {
    let width = move |first: usize| (columns - first).next_multiple_of(NARROW).min(WIDE);
    (0..columns).step_by(WIDE).map(move |first| (first, width(first)))
}

#[cfg(test)]
mod tests;
