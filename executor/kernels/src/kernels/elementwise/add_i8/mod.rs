//! Sums of two rows of bytes, each brought to a common scale first, the sum then to the output's.

mod vectors;

use crate::kernels::gemm_i8::Bytes;
use crate::simd::requantise::{Channels, Scaling, offset};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::quant::Multiplier;
use crate::tensor::{In, Out};

/// Rows of `len` bytes.
#[derive(Clone, Copy, Debug)]
pub struct AddRows {
    a: *const u8,
    b: *const u8,
    output: *mut u8,
    len: usize,
    /// `0x80` where the bytes are signed; zero points are those of the unsigned reading.
    flip: u8,
    zero_points: [i32; 2],
    scalings: [Channels; 2],
    sum: Channels,
    near: Option<Near>,
}

/// The result to within `margin`, by one multiplication for each operand:
/// `(a * x + b * y + offset) >> bits`, where x and y are bytes read as unsigned ones.
///
/// The reference rounds six times. All that may add up to a small part of a step, so that the
/// result is certain unless it lies next to where rounding changes, which is rare; only then the
/// reference's way must be gone.
#[derive(Clone, Copy, Debug)]
struct Near {
    a: i32,
    b: i32,
    offset: i32,
    bits: i32,
    margin: i32,
}

impl Near {
    /// `None` where scales are so unlike that 32 bits leave no margin.
    fn new(
        bytes: [Bytes; 2],
        multipliers: [Multiplier; 2],
        sum: Multiplier,
        zero: i32,
    ) -> Option<Self> {
        let real = |m: Multiplier| f64::from(m.fraction) * 2f64.powi(m.shift - 31);
        let [a, b] = multipliers.map(|m| real(m) * real(sum) * f64::from(1 << EXTRA_BITS));
        // Both operands and the zero point stay within 31 bits.
        let reach = 255.0 * (a.abs() + b.abs()) + 512.0;
        let bits = (8..=20).rev().find(|&bits| reach * 2f64.powi(bits) < f64::from(1 << 30))?;
        let step = 2f64.powi(bits);
        #[expect(clippy::cast_possible_truncation, reason = "below 2^30")]
        let nearest = |x: f64| (x * step).round() as i32;
        let (a, b) = (nearest(a), nearest(b));
        // Of each factor half a unit times a byte; of each operand two roundings to integers
        // at most, as those of the sum; and what the sum's own first rounding is worth after the
        // shift.
        let error = 255.0 / step + 2.0 * real(sum).abs() + 2f64.powi(sum.shift);
        let margin = nearest(error) + 2;
        let away = |factor: i32, bytes: Bytes| factor.wrapping_mul(bytes.zero_point);
        let offset = ((2 * zero + 1) << (bits - 1))
            .wrapping_sub(away(a, bytes[0]))
            .wrapping_sub(away(b, bytes[1]));
        (margin < 1 << (bits - 4)).then_some(Self { a, b, offset, bits, margin })
    }
}

/// # Safety
/// The rows are as long as stated, the scalings as wide as a vector; the machine has the
/// instruction set.
pub type Run = unsafe fn(&AddRows);

/// Best first.
pub const VARIANTS: Variants<Run> = variants!(vectors::Add, scalar);

/// Bits that operands gain before they are scaled down, so that their sum loses little.
pub const EXTRA_BITS: i32 = 20;

/// The sum of two tensors of one shape.
#[derive(Debug)]
pub struct Add {
    variant: Variant<Run>,
    flip: u8,
    zero_points: [i32; 2],
    scalings: [Scaling; 2],
    sum: Scaling,
    near: Option<Near>,
}

impl Add {
    /// Multipliers are for operands with [`EXTRA_BITS`] more bits and shift right alone; a negative
    /// fraction subtracts.
    pub fn new(
        isa: Isa,
        bytes: [Bytes; 2],
        multipliers: [Multiplier; 2],
        sum: Multiplier,
        zero_point: i32,
        range: (i32, i32),
    ) -> Self {
        // With what makes the result unsigned.
        let near = Near::new(bytes, multipliers, sum, zero_point + offset(range.0));
        Self {
            near,
            variant: VARIANTS.best(isa),
            flip: bytes[0].flip,
            zero_points: bytes.map(|bytes| bytes.zero_point),
            scalings: multipliers.map(|m| Scaling::new(&[m], 64, 0, i32::MIN, i32::MAX)),
            sum: Scaling::new(&[sum], 64, zero_point, range.0, range.1),
        }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Computes the output's elements.
    ///
    /// # Errors
    /// An operand is shorter than the output.
    pub fn compute(&self, a: In<'_, u8>, b: In<'_, u8>, output: Out<'_, u8>) -> Result<(), String> {
        crate::tensor::check_lengths(a.len().min(b.len()), output.len())?;
        let rows = AddRows {
            a: a.as_ptr(),
            b: b.as_ptr(),
            output: output.as_mut_ptr(),
            len: output.len(),
            flip: self.flip,
            zero_points: self.zero_points,
            scalings: [self.scalings[0].from(0), self.scalings[1].from(0)],
            sum: self.sum.from(0),
            near: self.near,
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
unsafe fn scalar(rows: &AddRows) {
    let operand = |byte: u8, which: usize| {
        let x = (i32::from(byte ^ rows.flip) - rows.zero_points[which]) << EXTRA_BITS;
        // SAFETY: there is a first channel.
        unsafe { rows.scalings[which].stored(x, 0) }
    };
    for at in 0..rows.len {
        // SAFETY: within the rows; there is a first channel.
        unsafe {
            let sum = operand(*rows.a.add(at), 0) + operand(*rows.b.add(at), 1);
            *rows.output.add(at) = rows.sum.stored(sum, 0).to_le_bytes()[0];
        }
    }
}

#[cfg(test)]
mod tests;
