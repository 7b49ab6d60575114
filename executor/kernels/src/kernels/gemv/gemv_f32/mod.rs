//! Products of few rows by a float matrix: as fast as weights come from the caches.
//!
//! With one row every weight is used once, so nothing but their stream counts. They lie in panels
//! of up to 64 columns, one line per element of depth: a single address that only goes up, which
//! the hardware prefetches best, and eight vectors of sums at a time, as many as hide the latency
//! of a multiply-add (a tile of the matrix product has two for one row, and reached a fifth of
//! this). Narrower panels, at the end, sum several lines side by side instead.
//!
//! Weights that a converter had compressed to bytes, and that were widened again, take half of the
//! memory; so do many of those that are FLOAT16 or bf16 numbers, and others as bf16, where a user
//! asks for it.

mod halves;
mod scalar;
mod steps;
mod vectors;

use std::ops::Range;

use half::f16;

use self::vectors::Lines;
use crate::kernels::{Precision, gemm};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::simd::{self, Simd};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::packed::Packed;
use crate::tensor::poll;
use crate::tensor::{In, Out};

/// The type that weights are kept in.
trait Weight: Copy {
    /// True if they count steps of their column's scale.
    const ARE_STEPS: bool;
    /// Columns of the narrowest panel.
    const NARROW: usize;

    /// Returns the place of a column's weight in a row of a panel.
    fn place(column: usize) -> usize;
}

impl Weight for f32 {
    const ARE_STEPS: bool = false;
    const NARROW: usize = 16;

    fn place(column: usize) -> usize {
        column
    }
}

impl Weight for f16 {
    const ARE_STEPS: bool = false;
    const NARROW: usize = 16;

    fn place(column: usize) -> usize {
        column
    }
}

/// The upper half of a float, all that a number of steps takes: an instruction makes it whole
/// again, where a byte takes two of which one is slow. Columns lie in pairs, sixteen apart, so that
/// a load has those of two vectors.
impl Weight for u16 {
    const ARE_STEPS: bool = true;
    const NARROW: usize = 32;

    fn place(column: usize) -> usize {
        let (pairs, at) = (column / 32 * 32, column % 32);
        pairs + at % 16 * 2 + at / 16
    }
}

/// One row by one panel.
#[derive(Clone, Copy, Debug)]
struct Panel<W> {
    /// `depth` lines as wide as the panel.
    weights: *const W,
    /// As many as the panel is wide, where weights are steps.
    scales: *const f32,
    depth: usize,
    /// `depth` elements.
    x: *const f32,
    /// The initial accumulators, one per column; may be the output.
    start: *const f32,
    output: *mut f32,
    /// Those that are there; the rest of the panel is zeros.
    columns: usize,
    low: f32,
    high: f32,
}

/// The kernels for panels of one, two and so on times the narrowest width.
///
/// # Safety
/// The machine has the instruction set; the panel is as [`Panel`] says, at any alignment.
type Runs<W> = &'static [unsafe fn(&Panel<W>)];

/// The kernels of a variant, by what weights are kept as.
#[derive(Clone, Copy, Debug)]
struct GemvKernel {
    floats: Runs<f32>,
    halves: Runs<f16>,
    steps: Runs<u16>,
}

/// Best first. Vectors times lines at a time is about eight, what hides the latency; with 32
/// registers sixteen sums and their weights fit.
const VARIANTS: Variants<GemvKernel> = variants! {
    Avx512: GemvKernel {
            floats: &[
                simd::Avx512::run::<Lines<f32, 1, 8>>,
                simd::Avx512::run::<Lines<f32, 2, 4>>,
                simd::Avx512::run::<Lines<f32, 3, 3>>,
                simd::Avx512::run::<Lines<f32, 4, 2>>,
            ],
            halves: &[
                simd::Avx512::run::<Lines<f16, 1, 8>>,
                simd::Avx512::run::<Lines<f16, 2, 4>>,
                simd::Avx512::run::<Lines<f16, 3, 3>>,
                simd::Avx512::run::<Lines<f16, 4, 2>>,
            ],
            steps: &[simd::Avx512::run::<Lines<u16, 2, 4>>, simd::Avx512::run::<Lines<u16, 4, 2>>],
        },
    Avx2: GemvKernel {
            floats: &[
                simd::Avx2::run::<Lines<f32, 2, 4>>,
                simd::Avx2::run::<Lines<f32, 4, 2>>,
                simd::Avx2::run::<Lines<f32, 6, 1>>,
                simd::Avx2::run::<Lines<f32, 8, 1>>,
            ],
            halves: &[
                simd::Avx2::run::<Lines<f16, 2, 4>>,
                simd::Avx2::run::<Lines<f16, 4, 2>>,
                simd::Avx2::run::<Lines<f16, 6, 1>>,
                simd::Avx2::run::<Lines<f16, 8, 1>>,
            ],
            steps: &[simd::Avx2::run::<Lines<u16, 4, 2>>, simd::Avx2::run::<Lines<u16, 8, 1>>],
        },
    Neon: GemvKernel {
            floats: &[
                simd::Neon::run::<Lines<f32, 4, 4>>,
                simd::Neon::run::<Lines<f32, 8, 2>>,
                simd::Neon::run::<Lines<f32, 12, 1>>,
                simd::Neon::run::<Lines<f32, 16, 1>>,
            ],
            halves: &[
                simd::Neon::run::<Lines<f16, 4, 4>>,
                simd::Neon::run::<Lines<f16, 8, 2>>,
                simd::Neon::run::<Lines<f16, 12, 1>>,
                simd::Neon::run::<Lines<f16, 16, 1>>,
            ],
            steps: &[simd::Neon::run::<Lines<u16, 8, 2>>, simd::Neon::run::<Lines<u16, 16, 1>>],
        },
    Scalar: scalar::KERNEL,
};

/// Columns of the widest panel.
const WIDE: usize = 64;

/// Bytes of weights that no cache of one core's own holds.
pub const FAR: usize = 1 << 20;

/// Lines of a panel that are gone through between two polls; sums of deeper ones go on from those
/// of the lines before.
const DEEP: usize = 1 << 16;

/// The initial accumulators of a GEMM.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// A number per column, the same for all rows.
    Bias(&'a [f32]),
    /// The contents of the output.
    Output,
}

/// Weights, packed.
#[derive(Debug)]
pub struct Gemv {
    variant: Variant<GemvKernel>,
    depth: usize,
    columns: usize,
    weights: Weights,
}

/// In place of a scale: weights are FLOAT16 numbers.
const ARE_F16: f32 = -1.0;

#[derive(Debug)]
enum Weights {
    Single(Packed),
    /// FLOAT16 numbers, where floats would come from far: half of the memory and of its traffic.
    Halves(Packed),
    /// Half of the memory, and with its traffic half of the time, where nothing is lost.
    Steps {
        steps: Packed,
        /// One per column of all panels.
        scales: Packed,
    },
}

impl Gemv {
    /// Packs rows of weights, each `depth` long and for one column of the product. `None` where
    /// they don't come out even.
    pub fn new(isa: Isa, precision: Precision, weights: &[f32], depth: usize) -> Option<Self> {
        if depth == 0 || weights.is_empty() || !weights.len().is_multiple_of(depth) {
            return None;
        }
        let columns = weights.len() / depth;
        // Zeros where weights are floats. That is settled within the packed bytes, since a plan
        // that comes from a cache has nothing but these of the weights.
        let padded = padded::<u16>(columns);
        let mut are_upper = false;
        let scales = Packed::new("gemv_f32_scales", padded * size_of::<f32>(), |packed| {
            let scales = &mut packed.typed_mut::<f32>()[..columns];
            let are_far = size_of_val(weights) >= FAR;
            if let Some(found) = steps::scales(weights, depth) {
                scales.copy_from_slice(&found);
            } else if weights.len() >= steps::WORTH && halves::are_bf16(isa, weights) {
                scales.fill(1.0);
                are_upper = true;
            } else if precision == Precision::Bf16 {
                // Halves that stand for themselves.
                scales.fill(1.0);
            } else if are_far && halves::are_f16(isa, weights) {
                scales.fill(ARE_F16);
            }
        })?;
        let scale = scales.typed::<f32>().first().copied().unwrap_or_default();
        let weights = if scale == 0.0 {
            let bytes = self::padded::<f32>(columns) * depth * size_of::<f32>();
            Weights::Single(Packed::new("gemv_f32", bytes, |packed| {
                let to = packed.typed_mut::<f32>();
                pack(isa, to, weights, depth, |_, lines, fill| fill(lines.as_mut_ptr()));
            })?)
        } else if scale == ARE_F16 {
            let bytes = self::padded::<f16>(columns) * depth * size_of::<f16>();
            Weights::Halves(Packed::new("gemv_f32_halves", bytes, |packed| {
                let mut whole = [0.0; LINES * WIDE];
                pack(isa, packed.typed_mut::<f16>(), weights, depth, |_, lines, fill| {
                    fill(whole.as_mut_ptr());
                    isa.run(halves::Narrowed { weights: &whole, to: lines });
                });
            })?)
        } else {
            let steps =
                Packed::new("gemv_f32_steps", padded * depth * size_of::<u16>(), |packed| {
                    let mut whole = [0.0; LINES * WIDE];
                    pack(isa, packed.typed_mut::<u16>(), weights, depth, |first, lines, fill| {
                        fill(whole.as_mut_ptr());
                        if are_upper {
                            return isa.run(halves::Upper { weights: &whole, to: lines });
                        }
                        let scales = &scales.typed::<f32>()[first..columns.min(first + WIDE)];
                        let width = (columns - first).next_multiple_of(u16::NARROW).min(WIDE);
                        for (to, from) in lines.chunks_mut(width).zip(whole.chunks(width)) {
                            for (column, (&weight, &scale)) in from.iter().zip(scales).enumerate() {
                                to[u16::place(column)] = steps::upper_half(weight, scale);
                            }
                        }
                    });
                })?;
            Weights::Steps { steps, scales }
        };
        Some(Self { variant: VARIANTS.best(isa), depth, columns, weights })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Columns of the product.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// `output[row] = clamp(start + weights * xs[row])` for `rows` rows; those of the output begin
    /// `stride` elements apart.
    ///
    /// # Errors
    /// An operand is too short.
    pub fn compute(
        &self,
        xs: In<'_, f32>,
        rows: usize,
        start: Start<'_>,
        output: Out<'_, f32>,
        stride: usize,
        range: (f32, f32),
    ) -> Result<(), String> {
        self.compute_some(0..self.panels(), FewRows { xs, rows, start, output, stride, range })
    }

    /// Bytes of the packed weights.
    pub fn bytes(&self) -> usize {
        match &self.weights {
            Weights::Single(packed)
            | Weights::Halves(packed)
            | Weights::Steps { steps: packed, .. } => packed.as_slice().len(),
        }
    }

    /// Panels of columns, each of which can be computed by itself.
    pub fn panels(&self) -> usize {
        self.columns.div_ceil(WIDE)
    }

    /// As [`Gemv::compute`], of the columns of some panels alone.
    ///
    /// # Errors
    /// An operand is too short.
    pub fn compute_some(&self, some: Range<usize>, of: FewRows<'_>) -> Result<(), String> {
        let Some(last) = of.rows.checked_sub(1) else { return Ok(()) };
        crate::tensor::check_lengths(of.xs.len(), of.rows * self.depth)?;
        crate::tensor::check_lengths(of.output.len(), last * of.stride + self.columns)?;
        if let Start::Bias(bias) = of.start {
            crate::tensor::check_lengths(bias.len(), self.columns)?;
        }
        match &self.weights {
            Weights::Single(packed) => {
                self.run(self.variant.run.floats, packed, &[], some, of);
            }
            Weights::Halves(packed) => {
                self.run(self.variant.run.halves, packed, &[], some, of);
            }
            Weights::Steps { steps, scales } => {
                self.run(self.variant.run.steps, steps, scales.typed(), some, of);
            }
        }
        Ok(())
    }

    /// Lengths are checked.
    #[inline]
    fn run<W: Weight + crate::tensor::Element>(
        &self,
        runs: Runs<W>,
        weights: &Packed,
        scales: &[f32],
        some: Range<usize>,
        product: FewRows<'_>,
    ) {
        let weights = weights.typed::<W>();
        // Weights for a nanosecond, as a power of two: a division would take as long as a line.
        let per_ns = if self.variant.isa == Isa::Scalar { 0 } else { 3 };
        for (first, width) in some_panels::<W>(self.columns, some) {
            let run = runs[width / W::NARROW - 1];
            let mut panel = Panel {
                // All panels before are as wide as any, or this is the first.
                weights: weights[first * self.depth..].as_ptr(),
                scales: scales.as_ptr().wrapping_add(first),
                depth: self.depth,
                x: product.xs.as_ptr(),
                start: std::ptr::null(),
                output: product.output.as_mut_ptr().wrapping_add(first),
                columns: width.min(self.columns - first),
                low: product.range.0,
                high: product.range.1,
            };
            for _ in 0..product.rows {
                panel.start = match product.start {
                    Start::Bias(bias) => bias.as_ptr().wrapping_add(first),
                    Start::Output => panel.output.cast_const(),
                };
                if poll::work((self.depth.min(DEEP) * width) >> per_ns).is_err() {
                    return;
                }
                if self.depth <= DEEP {
                    // SAFETY: lengths as checked, the panel as packed; `best` chose what the
                    // machine has.
                    unsafe { run(&panel) };
                } else if deep(run, &panel, width, per_ns).is_err() {
                    return;
                }
                panel.x = panel.x.wrapping_add(self.depth);
                panel.output = panel.output.wrapping_add(product.stride);
            }
        }
    }
}

/// Lines of a panel some by some: sums go on in the output.
#[cold]
fn deep<W: Weight>(
    run: unsafe fn(&Panel<W>),
    whole: &Panel<W>,
    width: usize,
    per_ns: u32,
) -> Result<(), poll::Halted> {
    for from in (0..whole.depth).step_by(DEEP) {
        let (is_first, is_last) = (from == 0, whole.depth - from <= DEEP);
        let part = Panel {
            weights: whole.weights.wrapping_add(from * width),
            depth: DEEP.min(whole.depth - from),
            x: whole.x.wrapping_add(from),
            start: if is_first { whole.start } else { whole.output.cast_const() },
            low: if is_last { whole.low } else { f32::NEG_INFINITY },
            high: if is_last { whole.high } else { f32::INFINITY },
            ..*whole
        };
        poll::work((DEEP * width) >> per_ns)?;
        // SAFETY: as for the whole panel, of which this is some lines.
        unsafe { run(&part) };
    }
    Ok(())
}

/// The operands of a product, as [`Gemv::compute`] says.
#[derive(Clone, Copy, Debug)]
pub struct FewRows<'a> {
    /// So many rows, one behind the other.
    pub xs: In<'a, f32>,
    /// How many.
    pub rows: usize,
    /// What sums start with.
    pub start: Start<'a>,
    /// A row of all columns for each of them.
    pub output: Out<'a, f32>,
    /// Elements from one row of the output to the next.
    pub stride: usize,
    /// The bounds of what is stored.
    pub range: (f32, f32),
}

/// Lines of a panel that are packed at a time: what is written stays in L1.
const LINES: usize = 64;

/// Panel by panel, transposed; `keep` gets the first column and some lines of a panel, and what
/// writes as many floats.
fn pack<W: Weight>(
    isa: Isa,
    mut to: &mut [W],
    weights: &[f32],
    depth: usize,
    mut keep: impl FnMut(usize, &mut [W], &dyn Fn(*mut f32)),
) {
    let interleave = gemm::pack::VARIANTS.best(isa).run;
    for (first, width) in panels::<W>(weights.len() / depth) {
        let (panel, behind) = std::mem::take(&mut to).split_at_mut(width * depth);
        to = behind;
        let rows = weights.chunks_exact(depth).skip(first).take(width);
        for (at, lines) in panel.chunks_mut(LINES * width).enumerate() {
            let words = lines.len() / width;
            let mut pointers = [std::ptr::null::<u32>(); WIDE];
            let places = pointers.iter_mut().zip(rows.clone());
            places.for_each(|(pointer, row)| *pointer = row[at * LINES..].as_ptr().cast());
            if poll::work(lines.len()).is_err() {
                return;
            }
            let pointers = &pointers[..rows.len()];
            keep(first, lines, &|floats| {
                // SAFETY: each row goes on for as many words, and there is room for so many lines
                // as wide as the panel; `best` chose what the machine has.
                unsafe { interleave(pointers, words, width, floats.cast()) };
            });
        }
    }
}

/// First column and width of each panel.
fn panels<W: Weight>(columns: usize) -> impl Iterator<Item = (usize, usize)> {
    some_panels::<W>(columns, 0..columns.div_ceil(WIDE))
}

/// The same of some of them, as far as they are there.
#[inline]
fn some_panels<W: Weight>(
    columns: usize,
    some: Range<usize>,
) -> impl Iterator<Item = (usize, usize)> {
    let width = move |first: usize| (columns - first).next_multiple_of(W::NARROW).min(WIDE);
    let some = some.start..some.end.min(columns.div_ceil(WIDE));
    some.map(|panel| panel * WIDE).map(move |first| (first, width(first)))
}

/// Columns of all panels.
fn padded<W: Weight>(columns: usize) -> usize {
    panels::<W>(columns).map(|(_, width)| width).sum()
}

#[cfg(test)]
mod tests;
