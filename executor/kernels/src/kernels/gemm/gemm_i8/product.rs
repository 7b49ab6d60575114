//! Products of two matrices of bytes that are known at run time alone, by dot products: the right
//! one is packed anew in each run, panel by panel.

use super::VARIANTS;
use super::kernel::{Bytes, Encoding, Microkernel, Results, Run};
use crate::kernels::gemm_f32::Layout;
use crate::kernels::pack;
use crate::kernels::plain::Loop;
use crate::simd::requantise::Scaling;
use crate::simd::{Isa, Variant};
use crate::tensor::{In, Out, check_lengths, poll};

/// Deeper products might not fit 32 bits.
const DEEPEST: usize = 1 << 15;

/// Columns of the widest panel of any variant, at most.
const MOST_COLUMNS: usize = 64;

/// Nanoseconds that a kernel takes at a time, about, where there is much to do.
const RUN_NS: usize = 1_000_000;

/// The product of `rows` by `depth` and `depth` by `columns` bytes.
#[derive(Debug)]
pub struct ByteProduct {
    variant: Variant<Microkernel>,
    pack: Variant<pack::Run>,
    rows: usize,
    depth: usize,
    columns: usize,
    /// As the variant reads them.
    left: Bytes,
    right: Bytes,
    layout: Layout,
    scaling: Scaling,
}

impl ByteProduct {
    /// Of a left matrix that lies row by row, and a right one that lies as `layout` says; `scaling`
    /// is of one column at least, and the same for all. `None` where the machine has no dot
    /// products, an extent is 0, or the depth is no multiple of 4 or too large.
    pub fn new(
        isa: Isa,
        [rows, depth, columns]: [usize; 3],
        [left, right]: [Bytes; 2],
        layout: Layout,
        scaling: impl FnOnce(usize) -> Scaling,
    ) -> Option<Self> {
        let variant = VARIANTS.best(isa);
        let kernel = &variant.run;
        let fits = kernel.encoding == Encoding::Bytes && kernel.columns <= MOST_COLUMNS;
        let is_product = rows > 0 && columns > 0 && (1..=DEEPEST).contains(&depth);
        if !fits || !is_product || !depth.is_multiple_of(4) {
            return None;
        }
        let left = if kernel.signed { left.signed() } else { left };
        let (pack, scaling) = (pack::VARIANTS.best(isa), scaling(columns));
        Some(Self { variant, pack, rows, depth, columns, left, right, layout, scaling })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Words of scratch memory that a run takes: a correction for each row, and a panel.
    pub fn scratch_len(&self) -> usize {
        self.rows + self.panel_len(self.columns.min(self.variant.run.columns))
    }

    /// A line of bias, and one for each word of the depth.
    fn panel_len(&self, columns: usize) -> usize {
        self.variant.run.width(columns) * (1 + self.depth / 4)
    }

    /// The zero point of the right matrix as signed bytes.
    fn right_zero(&self) -> i32 {
        self.right.zero_point - 128
    }

    /// Computes the product, row by row.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn compute(
        &self,
        left: In<'_, u8>,
        right: In<'_, u8>,
        output: Out<'_, u8>,
        scratch: &mut [i32],
    ) -> Result<(), String> {
        let Self { rows, depth, columns, .. } = *self;
        check_lengths(left.len(), rows * depth)?;
        check_lengths(right.len(), depth * columns)?;
        check_lengths(output.len(), rows * columns)?;
        check_lengths(scratch.len(), self.scratch_len())?;
        let (corrections, panel) = scratch.split_at_mut(rows);
        let (kernel, start) = (&self.variant.run, [0]);
        let all = Run {
            input: left.as_ptr(),
            step: depth,
            lines: 1,
            line_step: 0,
            segments: start.as_ptr(),
            segment_count: 1,
            rest_count: 0,
            words: depth / 4,
            flip: self.left.flip,
            weights: panel.as_ptr(),
            corrections: std::ptr::null(),
            output: output.as_mut_ptr(),
            stride: columns,
            rows,
            columns: 0,
            results: Results::Bytes(self.scaling.from(0)),
        };
        let factor = self.right_zero();
        if factor != 0 {
            self.in_parts(all, 1, |run, first| {
                let sums = corrections[first..].as_mut_ptr();
                // SAFETY: so many rows and sums; `best` chose what the machine has.
                unsafe { (kernel.sums)(run, depth, factor, sums) };
            });
        }
        for first in (0..columns).step_by(kernel.columns) {
            let few = kernel.columns.min(columns - first);
            if poll::work(depth * few / 8).is_err() {
                return Ok(());
            }
            let panel = &mut panel[..self.panel_len(few)];
            self.pack_panel(right, first, few, panel);
            let run = Run {
                weights: panel.as_ptr(),
                corrections: if factor == 0 { std::ptr::null() } else { corrections.as_ptr() },
                output: all.output.wrapping_add(first),
                columns: few,
                results: all.results.skip(first),
                ..all
            };
            self.in_parts(run, few, |run, _| {
                // SAFETY: the panel as packed, rows and columns within the output.
                unsafe { if run.rows == 1 { (kernel.single)(run) } else { (kernel.run)(run) } };
            });
        }
        Ok(())
    }

    /// Calls `each` for as many rows of a run at a time as take a millisecond or so, and with the
    /// first of them.
    fn in_parts(&self, run: Run, columns: usize, mut each: impl FnMut(&Run, usize)) {
        let row_ns = (self.depth * columns / 16).max(1);
        let most = (RUN_NS / row_ns).max(1);
        for first in (0..run.rows).step_by(most) {
            let rows = most.min(run.rows - first);
            if poll::work(row_ns * rows).is_err() {
                return;
            }
            each(&run.part(first, rows), first);
        }
    }

    /// Packs some columns from the one `first` on, with what makes up for zero points.
    fn pack_panel(&self, right: In<'_, u8>, first: usize, few: usize, panel: &mut [i32]) {
        let width = self.variant.run.width(few);
        let (bias, lines) = panel.split_at_mut(width);
        if few < width {
            lines.fill(0);
        }
        match self.layout {
            Layout::RowMajor => {
                let stride = self.columns;
                let right = right.slice(first..right.len());
                self.variant.isa.run(Interleave { right, stride, few, width, lines });
            }
            Layout::ColumnMajor => {
                let mut columns = [std::ptr::null(); MOST_COLUMNS];
                for (at, column) in columns[..few].iter_mut().enumerate() {
                    *column = right.as_ptr().wrapping_add((first + at) * self.depth).cast();
                }
                let words = self.depth / 4;
                // SAFETY: columns of so many words, at most `width`, and as many lines; they are
                // read at any alignment.
                unsafe {
                    (self.pack.run)(&columns[..few], words, width, lines.as_mut_ptr().cast());
                }
            }
        }
        let flip = i32::from_le_bytes([self.right.flip ^ 0x80; 4]);
        let depth = i32::try_from(self.depth).unwrap_or(i32::MAX);
        let (zero, away) = (self.left.zero_point, depth.wrapping_mul(self.right_zero()));
        self.variant.isa.run(Corrected { bias, lines, flip, zero, away });
    }
}

/// Four rows of bytes at a time as words, one for each column.
struct Interleave<'a> {
    right: In<'a, u8>,
    stride: usize,
    few: usize,
    width: usize,
    lines: &'a mut [i32],
}

impl Loop for Interleave<'_> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 16;
        let Self { right, stride, few, width, lines } = self;
        for (word, line) in lines.chunks_exact_mut(width).enumerate() {
            let start = |row: usize| (4 * word + row) * stride;
            let whole = few / BLOCK * BLOCK;
            for at in (0..whole).step_by(BLOCK) {
                let rows = [0, 1, 2, 3].map(|row| right.block::<BLOCK>(start(row) + at));
                for lane in 0..BLOCK {
                    line[at + lane] = i32::from_le_bytes(rows.map(|row| row[lane]));
                }
            }
            for (at, to) in line.iter_mut().enumerate().take(few).skip(whole) {
                *to = i32::from_le_bytes([0, 1, 2, 3].map(|row| right.get(start(row) + at)));
            }
        }
    }
}

/// Words of bytes become signed ones, and what each column starts with makes up for the zero
/// points of both matrices.
struct Corrected<'a> {
    bias: &'a mut [i32],
    lines: &'a mut [i32],
    /// The bits in which words differ from those of signed bytes.
    flip: i32,
    /// The left zero point, and the right one as often as the depth is.
    zero: i32,
    away: i32,
}

impl Loop for Corrected<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { bias, lines, flip, zero, away } = self;
        bias.fill(0);
        for line in lines.chunks_exact_mut(bias.len()) {
            for (sum, word) in bias.iter_mut().zip(line) {
                *word ^= flip;
                *sum +=
                    (*word << 24 >> 24) + (*word << 16 >> 24) + (*word << 8 >> 24) + (*word >> 24);
            }
        }
        bias.iter_mut().for_each(|sum| *sum = zero.wrapping_mul(away.wrapping_sub(*sum)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::quant::Multiplier;

    /// Both layouts, both signs, zero points of all kinds, and extents beside those of tiles.
    #[test]
    fn every_variant_multiplies_matrices_of_bytes() {
        let byte = |seed: usize| (seed.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0];
        let multiplier = Multiplier::new(0.003);
        for [rows, depth, columns] in
            [[1, 4, 1], [2, 12, 7], [13, 64, 33], [64, 64, 64], [5, 8, 130], [40, 260, 65]]
        {
            let left: Vec<u8> = (0..rows * depth).map(byte).collect();
            let right: Vec<u8> = (0..depth * columns).map(|at| byte(at + 77)).collect();
            for (to_unsigned, zeros) in
                [(128, [0, 0]), (128, [-7, 19]), (0, [128, 128]), (0, [3, 250]), (128, [-128, 127])]
            {
                let quantised = zeros.map(|zero| Bytes::new(to_unsigned, zero));
                let range = if to_unsigned == 0 { (0, 255) } else { (-128, 127) };
                let zero = if to_unsigned == 0 { 120 } else { -8 };
                for (layout, variant) in [Layout::RowMajor, Layout::ColumnMajor]
                    .iter()
                    .flat_map(|&layout| VARIANTS.all().map(move |variant| (layout, variant)))
                {
                    let scaling =
                        |columns| Scaling::new(&[multiplier], columns, zero, range.0, range.1);
                    let extents = [rows, depth, columns];
                    let product =
                        ByteProduct::new(variant.isa, extents, quantised, layout, scaling);
                    let Some(product) = product else {
                        assert_eq!(variant.run.encoding, Encoding::Differences);
                        continue;
                    };
                    let place = |k: usize, column: usize| match layout {
                        Layout::RowMajor => k * columns + column,
                        Layout::ColumnMajor => column * depth + k,
                    };
                    let mut got = vec![0; rows * columns];
                    let mut scratch = vec![-1; product.scratch_len()];
                    let (a, b) = (In::of(&left[..]), In::of(&right[..]));
                    product.compute(a, b, Out::of(&mut got), &mut scratch).unwrap();
                    for (at, &got) in got.iter().enumerate() {
                        let (row, column) = (at / columns, at % columns);
                        let sum: i32 = (0..depth)
                            .map(|k| {
                                quantised[0].from_zero(left[row * depth + k])
                                    * quantised[1].from_zero(right[place(k, column)])
                            })
                            .sum();
                        let want = (multiplier.apply(sum) + zero).clamp(range.0, range.1);
                        let what = format!("{:?} {extents:?} {zeros:?} {layout:?}", variant.isa);
                        assert_eq!(got, want.to_le_bytes()[0], "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let bytes = [Bytes::new(128, 0); 2];
        let scaling = |columns| Scaling::new(&[Multiplier::new(0.5)], columns, 0, -128, 127);
        let new = |extents| {
            ByteProduct::new(Isa::best(), extents, bytes, Layout::ColumnMajor, scaling).is_some()
        };
        for extents in [[0, 4, 1], [1, 0, 1], [1, 4, 0], [1, 6, 1], [1, DEEPEST + 4, 1]] {
            assert!(!new(extents), "{extents:?}");
        }
    }
}
