//! Rows of bytes by constant weights of signed bytes, with the dot products of the machine; and the
//! rounding on either side of them.

use nnburst_kernels::kernels::gemv_i8::GemvBytes;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::In;

use super::arg::{Arg, ElementKind, OperatorCall};
use super::math::{f32_of, f64_of, round_f64, round_i32};

/// Weights that are packed for rows of signed bytes.
#[derive(Debug)]
pub(super) struct ByteProducts {
    packed: GemvBytes,
    /// For each unit the sum of its weights.
    sums: Vec<i32>,
}

impl ByteProducts {
    /// Packs an input's weights, rows of `depth`, if they are constant signed bytes around zero;
    /// `bias` is what each unit starts with, of rows with this zero point.
    pub(super) fn new(
        call: &OperatorCall<'_, '_>,
        input: usize,
        weights: &Arg,
        depth: usize,
        zero_point: i32,
        bias: &[i32],
    ) -> Option<Self> {
        if weights.kind != ElementKind::I8 || weights.zero_point != 0 {
            return None;
        }
        let bytes = call.constant(input)?;
        let values = bytes.typed::<i8>();
        let packed = GemvBytes::new(call.isa(), values, depth, zero_point, bias)?;
        let sum = |row: &[i8]| row.iter().map(|&weight| i32::from(weight)).sum();
        Some(Self { packed, sums: values.chunks_exact(depth).map(sum).collect() })
    }

    /// Words of 32 bits that a product takes: the row and its sums.
    pub(super) fn words(&self) -> usize {
        self.packed.words() + self.packed.sums()
    }

    /// The form that was chosen.
    pub(super) fn isa(&self) -> Isa {
        self.packed.isa()
    }

    /// For each unit the sum of its weights.
    pub(super) fn sums_of_weights(&self) -> &[i32] {
        &self.sums
    }

    /// The sums of a row, in `words` of work memory.
    pub(super) fn compute<'w>(
        &self,
        row: In<'_, i8>,
        words: &'w mut [i32],
    ) -> Result<&'w mut [i32], String> {
        let (kept, sums) = words.split_at_mut(self.packed.words());
        let sums = &mut sums[..self.packed.sums()];
        self.packed.keep(row, kept)?;
        self.packed.compute(&kept[..self.packed.words()], 1, sums)?;
        Ok(&mut sums[..self.sums.len()])
    }
}

/// Sums become results: rounded once, in double precision.
#[derive(Debug)]
pub(super) struct RoundOnce<'a> {
    pub(super) sums: &'a mut [i32],
    pub(super) scales: &'a [f64],
    pub(super) zero_point: i32,
    pub(super) range: (i32, i32),
}

impl Loop for RoundOnce<'_> {
    #[inline(always)]
    fn run(self) {
        let (min, max) = self.range;
        for (sum, &scale) in self.sums.iter_mut().zip(self.scales) {
            let scaled = round_f64(f64_of(i64::from(*sum)) * scale);
            *sum = scaled.saturating_add(self.zero_point).clamp(min, max);
        }
    }
}

/// Floats become bytes: `x * inverse + zero_point`, rounded, within the range.
pub(super) struct Quantise<'a> {
    pub(super) from: In<'a, f32>,
    pub(super) inverse: f32,
    pub(super) zero_point: i32,
    pub(super) range: (i32, i32),
    pub(super) to: &'a mut [i16],
}

impl Loop for Quantise<'_> {
    #[inline(always)]
    fn run(self) {
        /// The elements that are copied at a time.
        const BLOCK: usize = 64;
        let (min, max) = self.range;
        let mut block = [0.0f32; BLOCK];
        for (at, to) in self.to.chunks_mut(BLOCK).enumerate() {
            let from = self.from.slice(at * BLOCK..at * BLOCK + to.len());
            from.copy_to(&mut block[..to.len()]);
            for (to, &x) in to.iter_mut().zip(&block) {
                let stored = round_i32(f32_of(self.zero_point) + x * self.inverse).clamp(min, max);
                *to = i16::try_from(stored).unwrap_or(0);
            }
        }
    }
}
