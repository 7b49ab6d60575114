//! Products of two rows of bytes, brought to the output's scale; either may be one byte for all.

mod vectors;

use crate::kernels::gemm_i8::Bytes;
use crate::simd::requantise::{Channels, Scaling};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::quant::Multiplier;
use crate::tensor::{In, Out};

/// Rows of `len` bytes; `step` is 0 where there is one byte of `b` for all, else 1.
#[derive(Clone, Copy, Debug)]
pub struct MulRows {
    a: *const u8,
    b: *const u8,
    step: usize,
    output: *mut u8,
    len: usize,
    /// `0x80` where the bytes are signed; zero points are those of the unsigned reading.
    flip: u8,
    zero_points: [i32; 2],
    product: Channels,
}

/// # Safety
/// The rows are as long as stated, the scaling as wide as a vector; the machine has the instruction
/// set.
pub type Run = unsafe fn(&MulRows);

/// Best first.
pub const VARIANTS: Variants<Run> = variants!(vectors::Mul, scalar);

/// The product of two tensors, row by row.
#[derive(Debug)]
pub struct Mul {
    variant: Variant<Run>,
    flip: u8,
    zero_points: [i32; 2],
    product: Scaling,
}

impl Mul {
    /// Takes the best variant up to `isa`, for inputs of these zero points; results are clamped to
    /// `range`.
    pub fn new(
        isa: Isa,
        bytes: [Bytes; 2],
        multiplier: Multiplier,
        zero_point: i32,
        range: (i32, i32),
    ) -> Self {
        Self {
            variant: VARIANTS.best(isa),
            flip: bytes[0].flip,
            zero_points: bytes.map(|bytes| bytes.zero_point),
            // As many as the widest vectors have lanes.
            product: Scaling::new(&[multiplier], 64, zero_point, range.0, range.1),
        }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Computes a row. An operand of one element is repeated.
    ///
    /// # Errors
    /// An operand is neither that nor as long as the output.
    pub fn compute(&self, a: In<'_, u8>, b: In<'_, u8>, output: Out<'_, u8>) -> Result<(), String> {
        let len = output.len();
        if len == 0 {
            // Variants read the first of `b` ahead of all.
            return Ok(());
        }
        let swapped = a.len() == 1 && len > 1;
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        let [za, zb] = self.zero_points;
        crate::tensor::check_lengths(a.len(), len)?;
        let step = usize::from(b.len() != 1 || len == 1);
        crate::tensor::check_lengths(b.len(), if step == 1 { len } else { 1 })?;
        let rows = MulRows {
            a: a.as_ptr(),
            b: b.as_ptr(),
            step,
            output: output.as_mut_ptr(),
            len,
            flip: self.flip,
            zero_points: if swapped { [zb, za] } else { [za, zb] },
            product: self.product.from(0),
        };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&rows) };
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(rows: &MulRows) {
    let [a, b] = rows.zero_points;
    let real = |byte: u8, zero_point: i32| i32::from(byte ^ rows.flip) - zero_point;
    for at in 0..rows.len {
        // SAFETY: within the rows; there is a first channel.
        unsafe {
            let product = real(*rows.a.add(at), a) * real(*rows.b.add(at * rows.step), b);
            *rows.output.add(at) = rows.product.stored(product, 0).to_le_bytes()[0];
        }
    }
}

#[cfg(test)]
mod tests;
