//! Floats become stored values: the quotient by a scale, rounded with halves away from zero, and a
//! zero point. NaN becomes the zero point.

mod vectors;

use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::quant::round_small;
use crate::tensor::{In, Out, check_lengths};

/// Quotients beyond it on either side are it: no zero point brings them back into a range.
const LIMIT: f32 = (1 << 20) as f32;

/// Scales for which no product or remainder of a quotient that matters is subnormal or infinite.
const SCALES: std::ops::Range<f32> = 1e-18..1e18;

/// A row of floats, and one of as many results of one byte or two.
#[derive(Clone, Copy, Debug)]
struct Row {
    input: *const f32,
    output: *mut u8,
    len: usize,
    /// Bytes of a result.
    size: usize,
    scale: f32,
    zero_point: i32,
    range: (i32, i32),
}

/// # Safety
/// The rows are as long as stated; the machine has the instruction set.
type Run = unsafe fn(&Row);

/// Best first.
const VARIANTS: Variants<Run> = variants!(vectors::Quantize, scalar);

/// How floats are stored.
#[derive(Debug)]
pub struct Quantizer {
    variant: Variant<Run>,
    scale: f32,
    zero_point: i32,
    range: (i32, i32),
}

impl Quantizer {
    /// By this scale, with the zero point within the range of what is stored.
    pub fn new(isa: Isa, scale: f32, zero_point: i32, range: (i32, i32)) -> Self {
        let isa = if SCALES.contains(&scale) { isa } else { Isa::Scalar };
        let zero_point = zero_point.clamp(range.0, range.1);
        Self { variant: VARIANTS.best(isa), scale, zero_point, range }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Stores a row of floats as so many integers of 8 or 16 bits, by `size` in bytes.
    ///
    /// # Errors
    /// The rows are not as long as each other, or integers have another size.
    pub fn compute(
        &self,
        input: In<'_, f32>,
        output: Out<'_, u8>,
        size: usize,
    ) -> Result<(), String> {
        if !matches!(size, 1 | 2) {
            return Err(format!("integers of {size} bytes"));
        }
        check_lengths(output.len(), input.len() * size)?;
        let row = Row {
            input: input.as_ptr(),
            output: output.as_mut_ptr(),
            len: input.len(),
            size,
            scale: self.scale,
            zero_point: self.zero_point,
            range: self.range,
        };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&row) };
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(row: &Row) {
    for at in 0..row.len {
        // SAFETY: within the rows.
        unsafe {
            let steps = row.input.add(at).read_unaligned() / row.scale;
            let steps = round_small(if steps.is_nan() { 0.0 } else { steps });
            let stored = (row.zero_point + steps).clamp(row.range.0, row.range.1).to_le_bytes();
            row.output.add(at * row.size).copy_from(stored.as_ptr(), row.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantized(quantizer: &Quantizer, floats: &[f32], size: usize) -> Vec<u8> {
        let mut stored = vec![0; floats.len() * size];
        quantizer.compute(In::of(floats), Out::of(&mut stored), size).unwrap();
        stored
    }

    #[test]
    fn every_variant_divides_and_rounds_alike() {
        let mut bits = 1u32;
        let mut any = || {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bits
        };
        let ranges = [(-128, 127, 1), (0, 255, 1), (-32_768, 32_767, 2)];
        for round in 0..600 {
            let (low, high, size) = ranges[round % ranges.len()];
            // Any mantissas, few bits of them, or nearly all ones.
            let mantissa =
                [any() & 0x7f_ffff, any() & 0xff, 0x7f_ffff ^ (any() & 0xff)][round / 3 % 3];
            let exponent = [0x3c00_0000, 0x3f80_0000, 0x2d00_0000][round / 9 % 3];
            let scale = f32::from_bits(exponent | mantissa);
            let zero_point = low + i32::try_from(any() % 256).unwrap();
            // About halves of steps, and anything.
            let floats: Vec<f32> = (0..1 + any() % 300)
                .map(|at| match at % 4 {
                    0 if round % 2 == 0 => f32::from_bits(any()),
                    // Hardly any is about a half.
                    _ if round % 2 == 1 => {
                        let [low, high, ..] = any().to_le_bytes();
                        f32::from(i16::from_le_bytes([low, high])) / 31.3 * scale
                    }
                    step => {
                        let [low, high, ..] = any().to_le_bytes();
                        let near = (f32::from(i16::from_le_bytes([low, high])) + 0.5) * scale;
                        [near.next_down(), near, near.next_up()][step as usize - 1]
                    }
                })
                .chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX])
                .collect();
            let of = |isa| Quantizer::new(isa, scale, zero_point, (low, high));
            let want = quantized(&of(Isa::Scalar), &floats, size);
            for variant in VARIANTS.all() {
                let got = quantized(&of(variant.isa), &floats, size);
                assert_eq!(got, want, "{:?}, scale {scale:e}", variant.isa);
            }
        }
    }

    #[test]
    fn halves_go_away_from_zero_and_nan_to_the_zero_point() {
        for isa in Isa::all() {
            let quantizer = Quantizer::new(isa, 0.5, 3, (-128, 127));
            let stored = quantized(&quantizer, &[0.25, -0.25, 0.2, f32::NAN, 1e9, -1e30], 1);
            assert_eq!(stored, [4, 2, 3, 3, 127, 128], "{isa:?}");
            let tiny = Quantizer::new(isa, 1e-40, 0, (0, 255));
            assert_eq!(quantized(&tiny, &[1e-40, 2.5e-40], 1), [1, 3], "{isa:?}");
            assert!(quantizer.compute(In::of(&[0.0; 2]), Out::of(&mut [0; 1]), 1).is_err());
            assert!(quantizer.compute(In::of(&[0.0]), Out::of(&mut [0; 8]), 4).is_err());
        }
    }
}
