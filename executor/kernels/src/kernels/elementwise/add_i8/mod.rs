//! Sums of two rows of bytes, each brought to a common scale first, the sum then to the output's;
//! and squares of their differences likewise.

mod vectors;

use crate::kernels::gemm_i8::Bytes;
use crate::simd::requantise::{Channels, Scaling, offset};
use crate::simd::vector_i32::I32Simd;
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

/// The result by one multiplication for each operand, where that is certain:
/// `(a * x + b * y + offset) >> bits`, with x and y as bytes are stored, signed or not.
///
/// With real factors `A` and `B` instead of `a` and `b`, and bytes less their zero points, the sum
/// is `T`, the real result in steps of `2^-bits`, half a step of the output included. Two things
/// lead away from the reference:
///
/// - `a * x` differs from `A * x` by the rounding of `a` times a byte. `offset` takes away what
///   that is for a byte in the middle, so that 127.5 times the rounding is left, of both factors,
///   and 1/2 for `offset` itself.
/// - The reference rounds an operand to an integer twice, by at most 1/2 each time (the first of
///   them is shifted right then), and the sum of both, at most 2 away from the real one, to an
///   integer that is shifted right by `-sum.shift`. Its last rounding is that of `T` to the steps
///   of the output, but for halves below zero, which `T` has where its lower bits are 0.
///
/// `margin` is more than both together, and `offset` has it too. Where the lower bits of the sum
/// are at least `2 * margin`, no number within `margin` of `T` is across a step of the output or on
/// it. There the shifted sum is the reference's result; elsewhere the reference's way must be gone.
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
        let factors = multipliers.map(|m| real(m) * real(sum) * f64::from(1 << EXTRA_BITS));
        let zeros = bytes.map(|bytes| f64::from(bytes.zero_point));
        // The sum stays within 32 bits, and steps are shifted out of them.
        let widest = |at: usize| factors[at].abs() * zeros[at].max(255.0 - zeros[at]);
        let reach = widest(0) + widest(1) + f64::from(zero).abs() + 1.0;
        let bits = (8..=23).rev().find(|&bits| reach * 2f64.powi(bits) < 2f64.powi(31))?;
        let step = 2f64.powi(bits);
        #[expect(clippy::cast_possible_truncation, reason = "below 2^31")]
        let nearest = |x: f64| x.round() as i32;
        let [a, b] = factors.map(|factor| nearest(factor * step));
        let lost = [factors[0] * step - f64::from(a), factors[1] * step - f64::from(b)];
        let rounding = (lost[0].abs() + lost[1].abs()) * 127.5 + 0.5;
        let reference = 2.0 * real(sum).abs() + 2f64.powi(sum.shift - 1);
        let margin = nearest(rounding + reference * step) + 2;
        // Zero points are those of the unsigned reading: so much above the stored byte.
        let above = f64::from(bytes[0].flip);
        let offset = (f64::from(zero) + 0.5) * step
            - (factors[0] * (zeros[0] - above) + factors[1] * (zeros[1] - above)) * step
            + (lost[0] + lost[1]) * (127.5 - above);
        let fits = margin < 1 << (bits - 4) && offset.abs() < 2f64.powi(31);
        fits.then(|| Self { a, b, offset: nearest(offset).wrapping_add(margin), bits, margin })
    }
}

/// # Safety
/// The rows are as long as stated, the scalings as wide as a vector; the machine has the
/// instruction set.
pub type Run = unsafe fn(&AddRows);

/// Best first.
pub const VARIANTS: Variants<Run> = variants!(vectors::Add, scalar::<Sum, EXTRA_BITS>);
const SQUARES: Variants<Run> =
    variants!(vectors::Squares, scalar::<SquareOfDifference, EXTRA_BITS_OF_SQUARES>);

/// Bits that operands gain before they are scaled down, so that their sum loses little.
pub const EXTRA_BITS: i32 = 20;

/// The same of operands whose difference is squared.
pub const EXTRA_BITS_OF_SQUARES: i32 = 7;

/// What becomes of two operands at a common scale.
trait Combine {
    fn numbers(x: i32, y: i32) -> i32;
    fn vectors<V: I32Simd>(x: V, y: V) -> V;
}

struct Sum;

impl Combine for Sum {
    #[inline(always)]
    fn numbers(x: i32, y: i32) -> i32 {
        x + y
    }

    #[inline(always)]
    fn vectors<V: I32Simd>(x: V, y: V) -> V {
        x.add(y)
    }
}

struct SquareOfDifference;

impl Combine for SquareOfDifference {
    #[inline(always)]
    fn numbers(x: i32, y: i32) -> i32 {
        let difference = x.wrapping_sub(y);
        difference.wrapping_mul(difference)
    }

    #[inline(always)]
    fn vectors<V: I32Simd>(x: V, y: V) -> V {
        let difference = x.sub(y);
        difference.mul(difference)
    }
}

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

/// The squared difference of two tensors of one shape.
#[derive(Debug)]
pub struct SquaredDifference(Add);

impl SquaredDifference {
    /// As [`Add::new`], of operands with [`EXTRA_BITS_OF_SQUARES`] more bits.
    pub fn new(
        isa: Isa,
        bytes: [Bytes; 2],
        multipliers: [Multiplier; 2],
        square: Multiplier,
        zero_point: i32,
        range: (i32, i32),
    ) -> Self {
        let add = Add::new(isa, bytes, multipliers, square, zero_point, range);
        Self(Add { variant: SQUARES.best(isa), near: None, ..add })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.0.isa()
    }

    /// Computes the output's elements.
    ///
    /// # Errors
    /// An operand is shorter than the output.
    pub fn compute(&self, a: In<'_, u8>, b: In<'_, u8>, output: Out<'_, u8>) -> Result<(), String> {
        self.0.compute(a, b, output)
    }
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

/// The scalar reference, of operands with so many more bits.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar<C: Combine, const BITS: i32>(rows: &AddRows) {
    let operand = |byte: u8, which: usize| {
        let x = (i32::from(byte ^ rows.flip) - rows.zero_points[which]) << BITS;
        // SAFETY: there is a first channel.
        unsafe { rows.scalings[which].stored(x, 0) }
    };
    for at in 0..rows.len {
        // SAFETY: within the rows; there is a first channel.
        unsafe {
            let sum = C::numbers(operand(*rows.a.add(at), 0), operand(*rows.b.add(at), 1));
            *rows.output.add(at) = rows.sum.stored(sum, 0).to_le_bytes()[0];
        }
    }
}

#[cfg(test)]
mod tests;
