//! Packed weights by the windows of an image: lines of it that fit the caches, one panel of columns
//! after the other.

use std::ops::Range;

use super::bands::Bands;
use super::kernel::{Bytes, Encoding, Microkernel, Results, Run, Weights};
use super::packing::{self, PanelLines, Unpacked};
use super::pairs::Pairs;
use crate::kernels::patches::Patches;
use crate::simd::{Isa, Variant};
use crate::tensor::packed::Packed;
use crate::tensor::poll;
use crate::tensor::rows::Pitched;

/// Nanoseconds that a kernel takes at a time, about, where there is much to do.
const RUN_NS: usize = 2_000_000;

/// Windows of more elements are for others to multiply, who stop within a window.
const DEEPEST: usize = 1 << 21;

/// Weights, packed for a variant, and how windows lie.
#[derive(Debug)]
pub(super) struct PackedWeights {
    variant: Variant<Microkernel>,
    bands: Bands,
    columns: usize,
    /// The factor of a window's sum that corrects for the weights' zero point.
    factor: i32,
    lines: PanelLines,
    /// Of each panel, the starts of a window's segments and of its rests.
    segments: Vec<Vec<usize>>,
    weights: Packed,
}

impl PackedWeights {
    /// Packs `bias.len()` rows of weights, each as long as the patches are deep. Two neighbouring
    /// windows may become one, with twice as many columns: those of the first, then those of the
    /// second. `None` where the slices are of other lengths.
    pub(super) fn new(
        variant: Variant<Microkernel>,
        patches: Patches,
        image: Bytes,
        weights: Weights<'_>,
        bias: &[i32],
    ) -> Option<Self> {
        let Weights { values: weights, bytes: quantised } = weights;
        let depth = patches.depth();
        let fits = depth > 0 && !bias.is_empty() && weights.len() == depth * bias.len();
        // A window by a panel is not cut.
        if !fits || depth > DEEPEST {
            return None;
        }
        let rows = Unpacked { weights, quantised, bias, image, depth };
        if let Some(Pairs { patches, weights, bias }) = Pairs::new(&variant.run, &patches, &rows) {
            let rows = Unpacked { weights: &weights, bias: &bias, depth: patches.depth(), ..rows };
            return Self::packed(variant, patches, &rows);
        }
        Self::packed(variant, patches, &rows)
    }

    fn packed(
        variant: Variant<Microkernel>,
        patches: Patches,
        rows: &Unpacked<'_>,
    ) -> Option<Self> {
        let (kernel, columns) = (&variant.run, rows.bias.len());
        let bands = Bands::of_windows(patches, kernel.encoding);
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
        Some(Self { variant, bands, columns, factor, lines, segments, weights })
    }

    /// The variant that weights are packed for.
    pub(super) fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// How the variant takes its words.
    pub(super) fn kernel(&self) -> &Microkernel {
        &self.variant.run
    }

    /// The placement of windows, each of two where they were made one.
    pub(super) fn patches(&self) -> &Patches {
        &self.bands.patches
    }

    /// Columns of the product, twice as many where two windows were made one.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of scratch memory that [`PackedWeights::run`] takes.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.bands.scratch_bytes()
    }

    /// Bytes of packed weights.
    pub(super) fn weight_bytes(&self) -> usize {
        self.weights.as_slice().len()
    }

    /// Computes some lines of windows, band by band. The image's bytes are of the quantisation that
    /// weights were packed for, unless `results` make up for another zero point.
    ///
    /// # Safety
    /// `image` and `output`, whose rows are bytes apart, are where their first elements would be;
    /// what these lines need of them is readable and writable, as the numbers of `results` are for
    /// whole panels. `scratch` is as long as [`PackedWeights::scratch_bytes`] says.
    pub(super) unsafe fn run(
        &self,
        image: Pitched<*const u8>,
        bytes: Bytes,
        output: Pitched<*mut u8>,
        results: Results,
        lines: Range<usize>,
        scratch: &mut [u32],
    ) {
        let mut line = lines.start;
        while line < lines.end {
            let end = self.bands.end(line).min(lines.end);
            // SAFETY: as the caller promises.
            unsafe { self.band(image, bytes, output, results, line..end, scratch) };
            line = end;
        }
    }

    /// Lines of one batch that fit the scratch memory.
    ///
    /// # Safety
    /// As for [`PackedWeights::run`].
    unsafe fn band(
        &self,
        image: Pitched<*const u8>,
        bytes: Bytes,
        output: Pitched<*mut u8>,
        results: Results,
        lines: Range<usize>,
        scratch: &mut [u32],
    ) {
        let (kernel, bands) = (&self.variant.run, &self.bands);
        let (corrections, copy) = scratch.split_at_mut(bands.rows_of_band());
        let corrections: &mut [i32] = bytemuck::cast_slice_mut(corrections);
        // SAFETY: the image as promised; the copy is as large as a band.
        let input =
            unsafe { bands.input(kernel.encode, image, bytes, lines.start, lines.len(), copy) };
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
            flip: if bands.in_place { bytes.flip } else { 0 },
            weights: std::ptr::null(),
            corrections: std::ptr::null(),
            output: output.row(lines.start * width),
            stride: output.pitch,
            rows,
            columns: 0,
            results,
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
                output: all.output.wrapping_add(column * results.element()),
                columns,
                results: results.skip(column),
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
                each(&line.part(first, rows), at * run.rows + first);
            }
            if at + 1 < run.lines {
                line = line.next_line();
            }
        }
    }
}
