//! Products of float matrices: rows of patches by packed weights, bias and clamping fused.
//!
//! Weights are packed once, in panels of as many columns as a tile is wide: first the bias of the
//! columns, then their weights, one line per element of depth. Rows are read where they lie: those
//! of a 1x1 convolution are the pixels, and those of a larger window are, line by line of the
//! window, spans of the image. So there is no copy, but where lines are too short to fill
//! tiles. Panels of weights are outermost: each meets all rows of a block that fits the second
//! cache.
//!
//! Where a user asks for it, and the machine has the instruction, plain rows go through the same
//! tiles as pairs of numbers of 16 bits (bf16: a float without the lower half of its bits), summed
//! as floats: twice as many products in the same time, of which each may be off by a 256th part.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod matmul;
#[cfg(target_arch = "aarch64")]
mod neon;
mod panels;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod rows;
mod scalar;
mod tile;

use std::ops::Range;

pub use self::matmul::{Layout, Matrix, MatrixProduct, Part};
use self::panels::{Bf16Pairs, Microkernel, Panels, pack_panels};
use self::tile::TileStack;
use crate::kernels::lines::Convolution;
use crate::kernels::patches::Patches;
use crate::kernels::windows::each_region;
use crate::kernels::{Precision, pack};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::packed::Packed;
use crate::tensor::poll;
use crate::tensor::rows::Pitched;

/// Best first.
pub const VARIANTS: Variants<Microkernel> = variants! {
    Avx512: avx512::KERNEL,
    Avx2: avx2::KERNEL,
    Neon: neon::KERNEL,
    Scalar: scalar::KERNEL,
};

/// The same for [`Gemm::ordered`], best first.
pub const ORDERED: Variants<Microkernel> = variants! {
    Avx512: avx512::ORDERED,
    Avx2: avx2::ORDERED,
    Neon: neon::ORDERED,
    Scalar: scalar::ORDERED,
};

/// Bytes of rows that are worked on at a time: leaves room in an L2 of 512 KiB.
const BLOCK_BYTES: usize = 192 << 10;

/// Rows of more elements are for others to multiply, who stop within a row.
const DEEPEST: usize = 1 << 20;

/// Of lines of outputs shorter than this too much is border: images of which windows leave are
/// copied with their padding. Of 5x5 to 8x8 pixels they take 0.75 to 0.93 of the time.
const SHORT_LINE: usize = 10;

/// Lines of outputs shorter than this leave tiles half empty: their rows are copied together.
const SHORTEST_LINE: usize = 4;

/// The source of rows.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// They lie one behind the other.
    Matrix,
    /// Line by line in the image, cut at its borders.
    Windows,
    /// Line by line in a copy of the image with its padding.
    Padded,
    /// Copied together.
    Copied,
    /// Copied one behind the other as pairs of bf16.
    Rounded(unsafe fn(*const f32, usize, *mut f32)),
}

/// A step from one output pixel to a neighbour: pixels of the output, and elements of the input.
#[derive(Clone, Copy, Debug)]
struct Step {
    output: usize,
    input: usize,
}

/// Weights, packed for a variant.
#[derive(Debug)]
pub struct Gemm {
    panels: Panels,
    patches: Patches,
    source: Source,
    kernel: &'static str,
    weights: Packed,
    low: f32,
    high: f32,
}

impl Gemm {
    /// Packs `columns` rows of weights, each as long as the patches are deep, and as many biases.
    /// `None` where the slices are of other lengths.
    ///
    /// [`Precision::Bf16`] is for plain matrices where the machine has an instruction for it;
    /// others are computed with floats all the same.
    pub fn new(
        isa: Isa,
        precision: Precision,
        patches: Patches,
        weights: &[f32],
        bias: &[f32],
        (low, high): (f32, f32),
    ) -> Option<Self> {
        let pairs =
            Bf16Pairs::of(isa).filter(|_| precision == Precision::Bf16 && patches.is_matrix());
        let Some(Variant { isa, run: Bf16Pairs { kernel, round } }) = pairs else {
            let variant = VARIANTS.best(isa);
            return Self::of_floats("gemm_f32", variant, patches, weights, bias, (low, high));
        };
        let (depth, columns) = Self::extents(&patches, weights, bias)?;
        let half = depth.div_ceil(2);
        let bytes = kernel.packed_columns(columns) * (half + 1) * 4;
        let weights = Packed::new("gemm_bf16", bytes, |packed| {
            let mut rounded = vec![0.0; half * columns];
            for (from, to) in weights.chunks_exact(depth).zip(rounded.chunks_exact_mut(half)) {
                // SAFETY: a row of floats, and half as many pairs; the machine has what
                // `Bf16Pairs::of` gives.
                unsafe { round(from.as_ptr(), depth, to.as_mut_ptr()) };
            }
            let pack = pack::VARIANTS.best(isa);
            pack_panels(&kernel, pack, &rounded, bias, packed.typed_mut());
        })?;
        let panels = Panels { variant: Variant { isa, run: kernel }, columns };
        let (source, kernel) = (Source::Rounded(round), "gemm_bf16");
        Some(Self { panels, patches, source, kernel, weights, low, high })
    }

    /// The same in single precision, with sums in the order of a plain loop: from 0 on product by
    /// product along the depth, each rounded before it is added, and the bias last.
    ///
    /// Every variant gives the same bits. `None` as above, and where weights are no numbers: those
    /// beyond the image would not count as zeros.
    pub fn ordered(
        isa: Isa,
        patches: Patches,
        weights: &[f32],
        bias: &[f32],
        range: (f32, f32),
    ) -> Option<Self> {
        let variant = ORDERED.best(isa);
        let gemm = Self::of_floats("gemm_ordered_f32", variant, patches, weights, bias, range)?;
        gemm.is_finite().then_some(gemm)
    }

    fn of_floats(
        kernel: &'static str,
        variant: Variant<Microkernel>,
        patches: Patches,
        weights: &[f32],
        bias: &[f32],
        (low, high): (f32, f32),
    ) -> Option<Self> {
        let (depth, columns) = Self::extents(&patches, weights, bias)?;
        let bytes = variant.run.packed_columns(columns) * (depth + 1) * 4;
        let weights = Packed::new(kernel, bytes, |packed| {
            let pack = pack::VARIANTS.best(variant.isa);
            pack_panels(&variant.run, pack, weights, bias, packed.typed_mut());
        })?;
        let (panels, source) = (Panels { variant, columns }, Source::of(&patches));
        Some(Self { panels, patches, source, kernel, weights, low, high })
    }

    /// Depth and columns of a product; `None` where lengths differ.
    fn extents(patches: &Patches, weights: &[f32], bias: &[f32]) -> Option<(usize, usize)> {
        let (depth, columns) = (patches.depth(), bias.len());
        let fits = depth > 0 && columns > 0 && weights.len() == depth * columns;
        // A row by a panel is not cut.
        (fits && depth <= DEEPEST).then_some((depth, columns))
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.panels.variant.isa
    }

    /// Returns whether all weights and biases are numbers, as they are packed: a model from a cache
    /// lacks the constants of which they were made. For single precision.
    pub fn is_finite(&self) -> bool {
        self.weights.typed::<f32>().iter().all(|weight| weight.is_finite())
    }

    /// Name of the kernel.
    pub fn kernel(&self) -> &'static str {
        self.kernel
    }

    /// Elements of a row as tiles take it.
    fn tile_depth(&self) -> usize {
        match self.source {
            Source::Rounded(_) => self.patches.depth().div_ceil(2),
            _ => self.patches.depth(),
        }
    }

    /// Rows that are worked on at a time.
    fn block_rows(&self) -> usize {
        let rows = self.patches.rows().max(1);
        let most = (BLOCK_BYTES / (self.patches.depth() * 4)).max(self.panels.variant.run.rows());
        // As even as can be.
        rows.div_ceil(rows.div_ceil(most))
    }

    /// All columns of rows, the first of which is that of `input`.
    ///
    /// # Safety
    /// As for [`Convolution::run`].
    unsafe fn matrix(
        &self,
        input: Pitched<*const f32>,
        rows: Range<usize>,
        output: Pitched<*mut f32>,
    ) {
        let depth = self.tile_depth();
        let whole = TileStack {
            input: input.start,
            row_stride: input.pitch,
            segments: (1, 1),
            len: depth,
            output: output.row(rows.start),
            ..self.no_tiles(output.pitch)
        };
        self.panels.each(self.weights.typed::<f32>().as_ptr(), depth, |panel| {
            let ahead = &mut panel.ahead(depth, rows.len());
            let cut = self.panels.cut(panel, depth, rows.len());
            // SAFETY: the rows are there, and panels as packed.
            unsafe { self.panels.tiles(panel, &whole, &cut, 0, ahead) };
        });
    }

    /// All columns of some lines of outputs.
    ///
    /// # Safety
    /// As for [`Convolution::run`].
    unsafe fn windows(
        &self,
        image: Pitched<*const f32>,
        lines: Range<usize>,
        output: Pitched<*mut f32>,
    ) {
        let p = &self.patches;
        let lines_of_weights = self.weights.typed::<f32>().as_ptr();
        self.panels.each(lines_of_weights, self.tile_depth(), |panel| {
            let (line, tap) = (p.filter_w * p.channels * panel.width.columns, p.channels);
            let ahead = &mut panel.ahead(self.tile_depth(), lines.len() * p.out_width);
            each_region(p, lines.clone(), |region| {
                // Neighbouring taps of a line are one span, if they are neighbours in memory.
                let (columns, len) = match p.dilation_w {
                    1 if image.pitch == tap => (1, region.columns.len() * tap),
                    _ => (region.columns.len(), tap),
                };
                let skipped =
                    region.lines.start * line + region.columns.start * tap * panel.width.columns;
                // Rows of tiles go along the longer side: of the border at the left or right each
                // line has one pixel, and a tile of one row waits for every product.
                let across =
                    Step { output: 1, input: Patches::columns_apart(p.stride_w, image.pitch) };
                let down =
                    Step { output: p.out_width, input: p.lines_apart(p.stride_h, image.pitch) };
                let (count, rows, next, along) = match region.width >= region.height {
                    true => (region.height, region.width, down, across),
                    false => (region.width, region.height, across, down),
                };
                let depth = region.lines.len() * columns * len;
                let cut = self.panels.cut(panel, depth, rows);
                for at in 0..count {
                    let whole = TileStack {
                        input: image.row(region.input).wrapping_add(at * next.input),
                        row_stride: along.input,
                        segments: (region.lines.len(), columns),
                        input_steps: (
                            p.lines_apart(p.dilation_h, image.pitch),
                            Patches::columns_apart(p.dilation_w, image.pitch),
                        ),
                        weights_steps: (line, tap * panel.width.columns),
                        len,
                        output: output.row(region.output + at * next.output),
                        ..self.no_tiles(along.output * output.pitch)
                    };
                    // SAFETY: regions keep to the image, and panels are as packed.
                    unsafe { self.panels.tiles(panel, &whole, &cut, skipped, ahead) };
                }
            });
        });
    }

    /// All columns of some lines of a batch's outputs, the first of which is `first_line`, from an
    /// image with its padding.
    ///
    /// # Safety
    /// As for [`Convolution::run`], of what [`Patches::copy_padded`] made.
    unsafe fn padded(
        &self,
        padded: *const f32,
        first_line: usize,
        lines: usize,
        output: Pitched<*mut f32>,
    ) {
        let p = &self.patches;
        let pitch = p.padded_width() * p.channels;
        let (columns, len) = match p.dilation_w {
            1 => (1, p.filter_w * p.channels),
            _ => (p.filter_w, p.channels),
        };
        let depth = self.tile_depth();
        self.panels.each(self.weights.typed::<f32>().as_ptr(), depth, |panel| {
            let tap = p.channels * panel.width.columns;
            let ahead = &mut panel.ahead(depth, lines * p.out_width);
            let cut = self.panels.cut(panel, depth, p.out_width);
            for line in 0..lines {
                let whole = TileStack {
                    input: padded.wrapping_add(line * p.stride_h * pitch),
                    row_stride: Patches::columns_apart(p.stride_w, p.channels),
                    segments: (p.filter_h, columns),
                    input_steps: (p.dilation_h * pitch, p.dilation_w * p.channels),
                    weights_steps: (p.filter_w * tap, tap),
                    len,
                    output: output.row((first_line + line) * p.out_width),
                    ..self.no_tiles(output.pitch)
                };
                // SAFETY: no window leaves the copy, and panels are as packed.
                unsafe { self.panels.tiles(panel, &whole, &cut, 0, ahead) };
            }
        });
    }

    fn no_tiles(&self, stride: usize) -> TileStack {
        TileStack { low: self.low, high: self.high, stride, ..TileStack::NONE }
    }
}

impl Convolution for Gemm {
    type Element = f32;
    type Scratch = f32;

    const DEPTHWISE: bool = false;

    fn patches(&self) -> &Patches {
        &self.patches
    }

    fn channels(&self) -> usize {
        self.panels.columns
    }

    fn scratch_bytes(&self) -> usize {
        match self.source {
            Source::Copied | Source::Rounded(_) => {
                self.block_rows() * copied_stride(self.tile_depth()) * 4
            }
            Source::Padded => self.patches.padded_elements(padded_lines(&self.patches)) * 4,
            _ => 0,
        }
    }

    fn weight_bytes(&self) -> usize {
        self.weights.as_slice().len()
    }

    unsafe fn run(
        &self,
        image: Pitched<*const f32>,
        output: Pitched<*mut f32>,
        lines: Range<usize>,
        scratch: &mut [f32],
    ) {
        let (depth, width) = (self.patches.depth(), self.patches.out_width);
        let rows = lines.start * width..lines.end * width;
        let block = self.block_rows();
        // SAFETY: as the caller promises; blocks and lines lie within what was asked for.
        unsafe {
            match self.source {
                Source::Matrix => {
                    for first in rows.clone().step_by(block) {
                        let rows = first..(first + block).min(rows.end);
                        let image = Pitched { start: image.row(first), ..image };
                        self.matrix(image, rows, output);
                    }
                }
                Source::Windows => {
                    let most = (BLOCK_BYTES / self.patches.input_bytes_per_line::<f32>()).max(1);
                    for first in lines.clone().step_by(most) {
                        self.windows(image, first..(first + most).min(lines.end), output);
                    }
                }
                Source::Padded => {
                    let (height, mut first) = (self.patches.out_height, lines.start);
                    let most = padded_lines(&self.patches);
                    while first < lines.end {
                        let (batch, line) = (first / height, first % height);
                        let count = (height - line).min(lines.end - first).min(most);
                        let (own, to) = (line..line + count, scratch.as_mut_ptr());
                        let isa = self.panels.variant.isa;
                        self.patches.copy_padded(isa, image, batch, own, to);
                        self.padded(to, first, count, output);
                        first += count;
                    }
                }
                Source::Copied => {
                    let stride = copied_stride(depth);
                    for first in rows.clone().step_by(block) {
                        let rows = first..(first + block).min(rows.end);
                        let mut place = self.patches.place(first);
                        let copied = scratch.chunks_exact_mut(stride).take(rows.len());
                        for to in poll::each(copied, 16 + depth) {
                            self.patches.gather_at(image, place, 0.0, to.as_mut_ptr());
                            place = self.patches.next_place(place);
                        }
                        let copies = Pitched { start: scratch.as_ptr(), pitch: stride };
                        self.matrix(copies, rows, output);
                    }
                }
                Source::Rounded(round) => {
                    let stride = copied_stride(self.tile_depth());
                    for first in rows.clone().step_by(block) {
                        let rows = first..(first + block).min(rows.end);
                        let rounded = rows.clone().zip(scratch.chunks_exact_mut(stride));
                        for (row, to) in poll::each(rounded, 16 + depth) {
                            round(image.row(row), depth, to.as_mut_ptr());
                        }
                        let copies = Pitched { start: scratch.as_ptr(), pitch: stride };
                        self.matrix(copies, rows, output);
                    }
                }
            }
        }
    }
}

impl Source {
    fn of(p: &Patches) -> Self {
        let is_matrix = p.is_matrix() && !p.depth().is_multiple_of(CLASHING);
        let is_short = p.out_width < SHORT_LINE;
        match is_matrix {
            true => Self::Matrix,
            false if p.out_width < SHORTEST_LINE || p.depth().is_multiple_of(CLASHING) => {
                Self::Copied
            }
            false if is_short && p.is_padded() && padded_lines(p) > 0 => Self::Padded,
            false => Self::Windows,
        }
    }
}

/// Lines of outputs of a batch whose part of the image is copied with its padding at a time; 0
/// where that of a single one takes too much memory.
fn padded_lines(p: &Patches) -> usize {
    let fits = |lines: usize| p.padded_elements(lines) <= PADDED_ELEMENTS;
    if fits(p.out_height) {
        return p.out_height;
    }
    let [first, second] = [1, 2].map(|lines| p.padded_elements(lines));
    match PADDED_ELEMENTS.checked_sub(first) {
        Some(rest) => 1 + rest / (second - first).max(1),
        None => 0,
    }
}

/// The most floats of an image that are copied with their padding at a time: half of L2, about.
const PADDED_ELEMENTS: usize = 48 << 10;

/// Rows so many floats apart start in the same set of L1, which holds 8 or 12 of them:
/// a tile of 12 rows would push itself out.
const CLASHING: usize = 1024;

/// Floats between rows that are copied together.
pub(in crate::kernels) fn copied_stride(depth: usize) -> usize {
    if depth.is_multiple_of(CLASHING) { depth + 16 } else { depth }
}

#[cfg(test)]
mod tests;
