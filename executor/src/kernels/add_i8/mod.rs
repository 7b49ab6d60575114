//! Sums of two rows of bytes, each brought to a common scale first, the sum then to the output's.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use super::gemm_i8::Bytes;
use super::requantise::{Channels, Scaling};
use super::{Form, Isa, best};
use crate::io::{In, Out};
use crate::quant::Multiplier;

/// Rows of `len` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    a: *const u8,
    b: *const u8,
    output: *mut u8,
    len: usize,
    /// `0x80` where the bytes are signed; zero points are those of the unsigned reading.
    flip: u8,
    zero_points: [i32; 2],
    scalings: [Channels; 2],
    sum: Channels,
}

/// # Safety
/// The rows are as long as stated, the scalings as wide as a vector; the machine has the instruction set.
pub(crate) type Run = unsafe fn(&Rows);

/// Best first.
pub(crate) const FORMS: &[Form<Run>] = &[
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx512, run: avx512::add },
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx2, run: avx2::add },
    #[cfg(target_arch = "aarch64")]
    Form { isa: Isa::Neon, run: neon::add },
    Form { isa: Isa::Scalar, run: scalar::add },
];

/// Bits that operands gain before they are scaled down, so that their sum loses little.
pub(crate) const EXTRA_BITS: i32 = 20;

/// The sum of two tensors of one shape.
#[derive(Debug)]
pub(crate) struct Add {
    form: Form<Run>,
    flip: u8,
    zero_points: [i32; 2],
    scalings: [Scaling; 2],
    sum: Scaling,
}

impl Add {
    /// Multipliers are for operands with [`EXTRA_BITS`] more bits and shift right alone; a negative fraction
    /// subtracts.
    pub(crate) fn new(
        isa: Isa,
        bytes: [Bytes; 2],
        multipliers: [Multiplier; 2],
        sum: Multiplier,
        zero_point: i32,
        range: (i32, i32),
    ) -> Self {
        let all = (i32::MIN, i32::MAX);
        Self {
            form: best(FORMS, isa),
            flip: bytes[0].flip,
            zero_points: bytes.map(|bytes| bytes.zero_point),
            scalings: multipliers.map(|m| Scaling::new(&[m], 64, 0, all)),
            sum: Scaling::new(&[sum], 64, zero_point, range),
        }
    }

    /// The form that was chosen.
    pub(crate) fn isa(&self) -> Isa {
        self.form.isa
    }

    /// Computes the output's elements.
    ///
    /// # Errors
    /// An operand is shorter than the output.
    pub(crate) fn compute(
        &self,
        a: In<'_, u8>,
        b: In<'_, u8>,
        output: Out<'_, u8>,
    ) -> Result<(), String> {
        super::check_lengths(a.len().min(b.len()), output.len())?;
        let rows = Rows {
            a: a.as_ptr(),
            b: b.as_ptr(),
            output: output.as_mut_ptr(),
            len: output.len(),
            flip: self.flip,
            zero_points: self.zero_points,
            scalings: [self.scalings[0].from(0), self.scalings[1].from(0)],
            sum: self.sum.from(0),
        };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.form.run)(&rows) };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
