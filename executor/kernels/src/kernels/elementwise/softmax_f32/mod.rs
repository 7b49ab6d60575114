//! SOFTMAX of rows of floats and its logarithm, four rows at a time: the maximum and the sum over
//! the lanes of one row take as long as the functions of 64 elements.
//!
//! Every variant gives the same bits. Exponentials are summed in sixteen lanes, the upper half of
//! which is added to the lower one until one is left, and multiplied by 1 over their sum; or the
//! sum's logarithm is subtracted from their exponents.

mod scalar;
mod vectors;

use self::vectors::SoftmaxVectors;
use super::four_rows::LANES;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out, check_lengths, poll};

/// Rows, and where their results go: the same place, or one that doesn't overlap; at any alignment.
#[derive(Clone, Copy, Debug)]
struct Rows {
    input: *const f32,
    output: *mut f32,
    /// Elements of a row, at least one.
    len: usize,
    /// Elements from one row to the next.
    stride: usize,
    /// Rows.
    count: usize,
    /// The factor of an element's distance from the largest of its row.
    beta: f32,
}

/// # Safety
/// `count` rows of `len` floats, `stride` apart, are readable at the input and writable at the
/// output; the machine has the instruction set.
type Run = unsafe fn(&Rows);

/// Best first.
const VARIANTS: Variants<Run> = variants!(SoftmaxVectors<false>, scalar::softmax);

/// Those of the logarithm.
const LOG_VARIANTS: Variants<Run> = variants!(SoftmaxVectors<true>, scalar::log_softmax);

/// SOFTMAX of rows in its best variant.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    variant: Variant<Run>,
    len: usize,
    beta: f32,
}

impl Softmax {
    /// The most elements of a row: more would take too long between two reports of work.
    pub const MOST: usize = poll::CHUNK;

    /// Takes the best variant up to `isa`, for rows of `len` elements. `None` where there are none,
    /// or more than [`Softmax::MOST`].
    pub fn new(isa: Isa, len: usize, beta: f32) -> Option<Self> {
        let variant = VARIANTS.best(isa);
        (1..=Self::MOST).contains(&len).then_some(Self { variant, len, beta })
    }

    /// The same of LOG_SOFTMAX.
    pub fn log(isa: Isa, len: usize, beta: f32) -> Option<Self> {
        Some(Self { variant: LOG_VARIANTS.best(isa), ..Self::new(isa, len, beta)? })
    }

    /// The variant that was chosen.
    pub fn isa(self) -> Isa {
        self.variant.isa
    }

    /// Computes rows one behind the other.
    ///
    /// # Errors
    /// The input is shorter than the output, that is not whole rows, or the run is to end.
    pub fn compute(self, input: In<'_, f32>, output: Out<'_, f32>) -> Result<(), String> {
        let len = self.len;
        check_lengths(input.len(), output.len())?;
        check_lengths(output.len() / len * len, output.len())?;
        self.rows(input, output, output.len() / len, len)
    }

    /// Computes `count` rows that lie `stride` elements apart, each in its own place.
    ///
    /// # Errors
    /// The rows are not all there, or overlap, or the run is to end.
    pub fn compute_in_place(
        self,
        rows: Out<'_, f32>,
        count: usize,
        stride: usize,
    ) -> Result<(), String> {
        check_lengths(stride, self.len)?;
        let last = count.saturating_sub(1).saturating_mul(stride);
        check_lengths(rows.len(), if count == 0 { 0 } else { last.saturating_add(self.len) })?;
        self.rows(rows.as_in(), rows, count, stride)
    }

    /// The rows of an input and an output as long as they are.
    fn rows(
        self,
        input: In<'_, f32>,
        output: Out<'_, f32>,
        count: usize,
        stride: usize,
    ) -> Result<(), String> {
        let Self { variant, len, beta } = self;
        // As many rows as are computed between two reports of work.
        let together = (Self::MOST / (len + LANES)).max(1);
        for first in (0..count).step_by(together) {
            let count = together.min(count - first);
            poll::work(count * len * ELEMENT_NS)?;
            let part = first * stride..(first + count - 1) * stride + len;
            let (input, output) = (input.slice(part.clone()), output.slice(part));
            let (input, output) = (input.as_ptr(), output.as_mut_ptr());
            // SAFETY: lengths as checked; an input that overlaps its output is the whole of it, as
            // tensors are; `best` chose what the machine has.
            unsafe { (variant.run)(&Rows { input, output, len, stride, count, beta }) };
        }
        Ok(())
    }
}

/// Nanoseconds that an element takes at most, about.
const ELEMENT_NS: usize = 10;

#[cfg(test)]
mod tests;
