//! Sums of products of rows of bytes, as they are: what makes results of them has numbers of its
//! own for each row.

use super::VARIANTS;
use super::kernel::{Bytes, Encoding, Results, Weights};
use super::packed::PackedWeights;
use crate::kernels::patches::Patches;
use crate::simd::Isa;
use crate::tensor::check_lengths;
use crate::tensor::rows::Pitched;

/// Weights, packed for rows of bytes.
#[derive(Debug)]
pub struct RowGemm {
    packed: PackedWeights,
    rows: Bytes,
    depth: usize,
}

/// Rows of sums are of whole vectors of any kind.
const LANES: usize = 16;

impl RowGemm {
    /// Returns whether many rows take less time here than by [`gemv_i8`](crate::kernels::gemv_i8),
    /// which widens bytes again for each few rows: on x86 without dot products of bytes.
    pub fn gains(isa: Isa) -> bool {
        let variant = VARIANTS.best(isa);
        cfg!(target_arch = "x86_64")
            && variant.isa != Isa::Scalar
            && variant.run.encoding == Encoding::Differences
    }

    /// Packs rows of signed weights, each `depth` long and for one column of the sums, for at most
    /// `most` rows of signed bytes at a time, which have this zero point; `bias` is added. `None`
    /// where they don't come out even.
    pub fn new(
        isa: Isa,
        most: usize,
        weights: &[i8],
        depth: usize,
        zero_point: i32,
        bias: &[i32],
    ) -> Option<Self> {
        let variant = VARIANTS.best(isa);
        let rows = Bytes::new(128, zero_point);
        let rows = if variant.run.signed { rows.signed() } else { rows };
        // A line for each row, of which there may be fewer at times.
        let patches = Patches {
            in_height: most,
            in_width: 1,
            out_height: most,
            out_width: 1,
            ..Patches::matrix(1, depth)
        };
        let weights = Weights { values: bytemuck::cast_slice(weights), bytes: Bytes::new(128, 0) };
        let packed = PackedWeights::new(variant, patches, rows, weights, bias)?;
        Some(Self { packed, rows, depth })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.packed.isa()
    }

    /// The most rows at a time.
    pub fn most_rows(&self) -> usize {
        self.packed.patches().lines()
    }

    /// Sums of a row: of whole vectors of columns, those that aren't there included.
    pub fn sums(&self) -> usize {
        self.packed.columns().next_multiple_of(LANES)
    }

    /// Bytes of scratch memory that [`RowGemm::compute`] takes.
    pub fn scratch_bytes(&self) -> usize {
        self.packed.scratch_bytes()
    }

    /// `sums[column] = bias + sum((x - zero point) * weight)`, wrapping, for each of `count` rows
    /// that begin `pitch` bytes apart; sums lie one row's behind the other's. Those of columns that
    /// aren't there are arbitrary.
    ///
    /// # Errors
    /// Memory is missing, or there are more rows than weights are packed for.
    pub fn compute(
        &self,
        rows: &[u8],
        pitch: usize,
        count: usize,
        sums: &mut [i32],
        scratch: &mut [u32],
    ) -> Result<(), String> {
        if count == 0 {
            return Ok(());
        }
        check_lengths(self.most_rows(), count)?;
        check_lengths(pitch, self.depth)?;
        check_lengths(rows.len(), (count - 1) * pitch + self.depth)?;
        check_lengths(sums.len(), count * self.sums())?;
        check_lengths(size_of_val(scratch), self.scratch_bytes())?;
        let image = Pitched { start: rows.as_ptr(), pitch };
        let pitch = self.sums() * size_of::<i32>();
        let output = Pitched { start: sums.as_mut_ptr().cast::<u8>(), pitch };
        // SAFETY: the lengths are what is asked for, and rows of sums are of whole vectors.
        unsafe { self.packed.run(image, self.rows, output, Results::Sums, 0..count, scratch) };
        Ok(())
    }
}
