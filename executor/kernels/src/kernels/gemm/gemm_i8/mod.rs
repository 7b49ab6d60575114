//! Products of 8-bit matrices: windows of an image by packed weights, bias and requantisation
//! fused.
//!
//! ```text
//!   image ──in place, where a window is one pixel of whole words──┐
//!     └─ lines copied with their padding, a few at a time ────────┴─► windows ─► tiles ─► bytes
//! ```
//!
//! Nothing is gathered into rows: a window is a few segments of memory (one per line of the filter)
//! and its neighbour lies a fixed distance further, so a tile broadcasts words right from the
//! image.
//!
//! Two ways to the same exact sums. With dot products windows are bytes (unsigned for VNNI, signed
//! for `sdot`) and weights signed bytes, four to a word; zero points are left out of the product
//! and put right by sums: those of the weights go into the bias when packing, those of the windows
//! are taken ahead of the product. Without, both sides are 16-bit differences from their zero
//! points, two to a word, whose products are added without loss.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod bands;
mod kernel;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;
mod packing;
mod pairs;
mod scalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tile;

use std::ops::Range;

use crate::kernels::lines::Convolution;
use crate::kernels::patches::Patches;
use crate::simd::requantise::Scaling;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::packed::Packed;
use crate::tensor::poll;
use crate::tensor::rows::Pitched;
use bands::Bands;
pub(crate) use kernel::Encoding;
use kernel::Run;
pub use kernel::{Bytes, Microkernel, Weights};
use packing::{PanelLines, Unpacked};
use pairs::Pairs;

/// Best first.
pub const VARIANTS: Variants<Microkernel> = variants! {
    Avx512: avx512::KERNEL,
    Avx2: avx2::KERNEL,
    NeonDot: neon_dot::KERNEL,
    Neon: neon::KERNEL,
    Scalar: scalar::KERNEL,
};

/// Nanoseconds that a kernel takes at a time, about, where there is much to do.
const RUN_NS: usize = 2_000_000;

/// Windows of more elements are for others to multiply, who stop within a window.
const DEEPEST: usize = 1 << 21;

/// Weights, packed for a variant, and how windows lie.
#[derive(Debug)]
pub struct Gemm {
    variant: Variant<Microkernel>,
    bands: Bands,
    columns: usize,
    image: Bytes,
    /// The factor of a window's sum that corrects for the weights' zero point.
    factor: i32,
    lines: PanelLines,
    /// Of each panel, the starts of a window's segments and of its rests.
    segments: Vec<Vec<usize>>,
    weights: Packed,
    scaling: Scaling,
}

impl Gemm {
    /// Packs `bias.len()` rows of weights, each as long as the patches are deep. `None` where the
    /// slices are of other lengths.
    pub fn new(
        isa: Isa,
        patches: Patches,
        image: Bytes,
        weights: Weights<'_>,
        bias: &[i32],
        scaling: Scaling,
    ) -> Option<Self> {
        let Weights { values: weights, bytes: quantised } = weights;
        let variant = VARIANTS.best(isa);
        let (depth, columns) = (patches.depth(), bias.len());
        let fits = depth > 0 && columns > 0 && weights.len() == depth * columns;
        // A window by a panel is not cut.
        if !fits || depth > DEEPEST {
            return None;
        }
        let image = if variant.run.signed { image.signed() } else { image };
        let rows = Unpacked { weights, quantised, bias, image, depth };
        if let Some(Pairs { patches, weights, bias }) = Pairs::new(&variant.run, &patches, &rows) {
            let rows = Unpacked { weights: &weights, bias: &bias, depth: patches.depth(), ..rows };
            let scaling = scaling.rearranged(bias.len(), |lane| lane % columns);
            return Self::packed(variant, patches, &rows, scaling);
        }
        Self::packed(variant, patches, &rows, scaling)
    }

    fn packed(
        variant: Variant<Microkernel>,
        patches: Patches,
        rows: &Unpacked<'_>,
        scaling: Scaling,
    ) -> Option<Self> {
        let (image, columns) = (rows.image, rows.bias.len());
        let bands = Bands::new(patches, variant.run.encoding);
        let kernel = &variant.run;
        let lines = PanelLines::new(kernel.encoding, rows.quantised, bands.words());
        let size = kernel.width(columns) * lines.count() * 4;
        let weights = Packed::new("gemm_i8 segments and rests", size, |packed| {
            packing::pack(kernel, &bands, rows, lines, packed.typed_mut());
        })?;
        let (mut segments, mut is_split, mut packed) = (Vec::new(), true, weights.typed::<i32>());
        for first in (0..columns).step_by(kernel.columns) {
            let width = kernel.width(kernel.columns.min(columns - first));
            let (panel, others) = packed.split_at(width * lines.count());
            packed = others;
            let rests = lines.rests(panel, width);
            is_split &= rests.is_some();
            let start =
                |word| bands.segments[word / bands.segment_words] + word % bands.segment_words * 4;
            segments.push(
                bands
                    .segments
                    .iter()
                    .copied()
                    .chain(rests.into_iter().flatten().map(start))
                    .collect(),
            );
        }
        let factor = match kernel.encoding {
            Encoding::Bytes if !is_split => rows.quantised.zero_point - 128,
            _ => 0,
        };
        Some(Self { variant, bands, columns, image, factor, lines, segments, weights, scaling })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Lines of one batch that fit the scratch memory.
    ///
    /// # Safety
    /// `image` is readable for the patches' elements and `output` writable for rows times columns;
    /// `scratch` is as long as [`Convolution::scratch_bytes`] says.
    unsafe fn band(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        scratch: &mut [u32],
        lines: Range<usize>,
    ) {
        let (kernel, bands) = (&self.variant.run, &self.bands);
        let (corrections, copy) = scratch.split_at_mut(bands.rows_of_band());
        let corrections: &mut [i32] = bytemuck::cast_slice_mut(corrections);
        // SAFETY: the image as promised; the copy is as large as a band.
        let input = unsafe {
            bands.input(kernel.encode, image, self.image, lines.start, lines.len(), copy)
        };
        let (runs, rows, line_step) = bands.runs(lines.len(), image.pitch);
        // Lines of one window are one line.
        let (runs, rows, step) = match rows {
            1 => (1, runs, line_step),
            _ => (runs, rows, bands.step(image.pitch)),
        };
        let width = bands.patches.out_width;
        let all = Run {
            input,
            step,
            lines: runs,
            line_step,
            segments: bands.segments.as_ptr(),
            segment_count: bands.segments.len(),
            rest_count: 0,
            words: bands.segment_words,
            flip: if bands.in_place { self.image.flip } else { 0 },
            weights: std::ptr::null(),
            corrections: std::ptr::null(),
            output: output.row(lines.start * width),
            stride: output.pitch,
            rows,
            columns: 0,
            scaling: self.scaling.from(0),
        };
        if self.factor != 0 {
            let (mut line, mut sums) = (all, corrections.as_mut_ptr());
            for _ in 0..runs {
                self.in_parts(Run { lines: 1, ..line }, 1, |run, first| {
                    let sums = sums.wrapping_add(first);
                    // SAFETY: windows and sums as promised; `best` chose what the machine has.
                    unsafe { (kernel.sums)(run, bands.segment_bytes, self.factor, sums) };
                });
                (line, sums) = (line.next_line(), sums.wrapping_add(rows));
            }
        }
        let mut weights = self.weights.typed::<i32>();
        for (column, segments) in (0..self.columns).step_by(kernel.columns).zip(&self.segments) {
            let columns = kernel.columns.min(self.columns - column);
            let run = Run {
                segments: segments.as_ptr(),
                rest_count: segments.len() - all.segment_count,
                weights: weights.as_ptr(),
                corrections: match self.factor {
                    0 => all.corrections,
                    _ => corrections.as_ptr(),
                },
                output: all.output.wrapping_add(column),
                columns,
                scaling: self.scaling.from(column),
                ..all
            };
            self.in_parts(run, columns, |run, _| {
                // SAFETY: panels as packed for this variant, rows and columns within the output.
                unsafe {
                    if run.rows * run.lines == 1 { (kernel.single)(run) } else { (kernel.run)(run) }
                };
            });
            weights = &weights[kernel.width(columns) * self.lines.count()..];
        }
    }
}

impl Gemm {
    /// Calls `each` for as many rows of a run at a time as take a millisecond or so, each with so
    /// many columns; it gets the first of them, too.
    #[inline]
    fn in_parts(&self, run: Run, columns: usize, mut each: impl FnMut(&Run, usize)) {
        let per_ns = if self.variant.isa == Isa::Scalar { 1 } else { 16 };
        let row_ns = (self.bands.words() * 4 * columns / per_ns).max(1);
        let most = (RUN_NS / row_ns).max(1);
        if run.rows * run.lines <= most {
            if poll::work(row_ns * run.rows * run.lines).is_ok() {
                each(&run, 0);
            }
            return;
        }
        let mut line = run;
        for at in 0..run.lines {
            for first in (0..run.rows).step_by(most) {
                let rows = most.min(run.rows - first);
                if poll::work(row_ns * rows).is_err() {
                    return;
                }
                let corrections = match run.corrections.is_null() {
                    true => run.corrections,
                    false => line.corrections.wrapping_add(first),
                };
                let part = Run {
                    input: line.input.wrapping_add(first * run.step),
                    lines: 1,
                    output: line.output.wrapping_add(first * run.stride),
                    corrections,
                    rows,
                    ..run
                };
                each(&part, at * run.rows + first);
            }
            if at + 1 < run.lines {
                line = line.next_line();
            }
        }
    }
}

impl Convolution for Gemm {
    type Element = u8;
    type Scratch = u32;

    const DEPTHWISE: bool = false;

    fn patches(&self) -> &Patches {
        &self.bands.patches
    }

    fn channels(&self) -> usize {
        self.columns
    }

    fn scratch_bytes(&self) -> usize {
        self.bands.scratch_bytes()
    }

    fn weight_bytes(&self) -> usize {
        self.weights.as_slice().len()
    }

    /// Band by band.
    unsafe fn run(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        lines: Range<usize>,
        scratch: &mut [u32],
    ) {
        let mut line = lines.start;
        while line < lines.end {
            let end = self.bands.end(line).min(lines.end);
            // SAFETY: as the caller promises.
            unsafe { self.band(image, output, scratch, line..end) };
            line = end;
        }
    }
}

#[cfg(test)]
mod tests;
