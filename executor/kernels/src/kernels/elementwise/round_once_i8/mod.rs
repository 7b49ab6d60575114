//! Accumulators of 8-bit products as stored bytes: multiplied by scales in double precision and
//! rounded once, halves away from zero, as TFLite's dense layers do with XNNPACK.
//!
//! Single precision does for nearly all of them: within 256, as far as bytes are apart, a product
//! errs by less than 5e-5, which matters where it is as near to a half alone. A vector that has
//! such a product is computed again.

pub(crate) mod vectors;

use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{Out, check_lengths};

/// Distances from an integer beyond which the other one may be the nearest: a sum, its scale and
/// their product are rounded to 24 bits each.
const UNSURE: f32 = 0.499_95;

/// Accumulators come in multiples of this, those behind the last channel included.
pub(crate) const PADDING: usize = 16;

/// A row of `len` bytes, and what makes them of accumulators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    exact: *const f64,
    /// The same in single precision, readable up to the next multiple of [`PADDING`].
    near: *const f32,
    output: *mut u8,
    pub(crate) len: usize,
    zero_point: i32,
    range: (i32, i32),
}

impl Row {
    /// The channels from `first` on, of which there are as many.
    pub(crate) fn behind(&self, first: usize) -> Self {
        Self {
            exact: self.exact.wrapping_add(first),
            near: self.near.wrapping_add(first),
            output: self.output.wrapping_add(first),
            len: self.len - first,
            ..*self
        }
    }
}

/// A row and its accumulators, which are readable up to the next multiple of [`PADDING`].
#[derive(Clone, Copy, Debug)]
struct Sums {
    row: Row,
    sums: *const i32,
}

/// # Safety
/// The rows are as long as stated; the machine has the instruction set.
type Run = unsafe fn(&Sums);

/// Best first.
const VARIANTS: Variants<Run> = variants!(vectors::Near, scalar);

/// The scale of each channel's accumulators, and what is stored.
#[derive(Debug)]
pub struct RoundOnce {
    variant: Variant<Run>,
    exact: Vec<f64>,
    near: Vec<f32>,
    zero_point: i32,
    range: (i32, i32),
}

impl RoundOnce {
    /// For a channel of each scale. The range is of signed bytes where it has numbers below 0, else
    /// of unsigned ones; the zero point is one of such bytes.
    pub fn new(isa: Isa, scales: Vec<f64>, zero_point: i32, range: (i32, i32)) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the nearest float")]
        let mut near: Vec<_> = scales.iter().map(|&scale| scale as f32).collect();
        near.resize(scales.len().next_multiple_of(PADDING), 0.0);
        Self { variant: VARIANTS.best(isa), exact: scales, near, zero_point, range }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Bytes of a row: `sums[channel] * scale[channel]`, rounded, plus the zero point, within the
    /// range. There is an accumulator for each channel and for those up to the next multiple of 16.
    ///
    /// # Errors
    /// The row or the output has another length.
    pub fn compute(&self, sums: &[i32], output: Out<'_, u8>) -> Result<(), String> {
        let len = self.exact.len();
        check_lengths(output.len(), len)?;
        self.compute_some(0, sums, output.slice(0..len))
    }

    /// As [`RoundOnce::compute`], of as many channels as the output has, from `first` on, which is
    /// a multiple of 16.
    ///
    /// # Errors
    /// There are no such channels, or too few accumulators.
    pub fn compute_some(
        &self,
        first: usize,
        sums: &[i32],
        output: Out<'_, u8>,
    ) -> Result<(), String> {
        let len = output.len();
        check_lengths(self.exact.len(), first.saturating_add(len))?;
        check_lengths(sums.len(), len.next_multiple_of(PADDING))?;
        if !first.is_multiple_of(PADDING) {
            return Err(format!("channels from {first} on"));
        }
        let row = Row { output: output.as_mut_ptr(), len, ..self.all().behind(first) };
        let row = Sums { row, sums: sums.as_ptr() };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&row) };
        Ok(())
    }

    /// Where bytes are made of sums that are in registers.
    pub(crate) fn row(&self, output: Out<'_, u8>) -> Result<Row, String> {
        check_lengths(output.len(), self.exact.len())?;
        Ok(Row { output: output.as_mut_ptr(), ..self.all() })
    }

    /// All channels, and no output.
    fn all(&self) -> Row {
        Row {
            exact: self.exact.as_ptr(),
            near: self.near.as_ptr(),
            output: std::ptr::null_mut(),
            len: self.exact.len(),
            zero_point: self.zero_point,
            range: self.range,
        }
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(of: &Sums) {
    // SAFETY: all channels of the row.
    unsafe { exact(&of.row, 0, std::slice::from_raw_parts(of.sums, of.row.len)) };
}

/// Bytes from channel `first` on, in double precision.
///
/// # Safety
/// As for [`Run`]; the row has as many.
#[inline(always)]
unsafe fn exact(row: &Row, first: usize, sums: &[i32]) {
    let (low, high) = row.range;
    for (at, &sum) in sums.iter().enumerate() {
        // SAFETY: a channel of the row.
        unsafe {
            let real = f64::from(sum) * *row.exact.add(first + at);
            #[expect(clippy::cast_possible_truncation, reason = "saturating, and NaN is 0")]
            let rounded = real.round() as i32;
            let stored = rounded.saturating_add(row.zero_point).clamp(low, high);
            *row.output.add(first + at) = stored.to_le_bytes()[0];
        }
    }
}

#[cfg(test)]
mod tests;
