//! Accumulators as stored bytes, all by one multiplier and rounded twice, as of products of two
//! tensors that are known at run time alone.

use crate::simd::requantise::{Channels, Quick, RequantiseSimd, Scaling};
use crate::simd::vector_i32::I32Simd;
use crate::simd::{Isa, Kernel, Simd, Variant, Variants, variants};
use crate::tensor::quant::Multiplier;
use crate::tensor::{Out, check_lengths};

/// Accumulators come in multiples of this, those behind the last byte included.
pub const PADDING: usize = 64;

/// A row of `len` accumulators.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Readable up to the next multiple of [`PADDING`].
    sums: *const i32,
    output: *mut u8,
    len: usize,
    scaling: Channels,
}

/// # Safety
/// The row is as long as stated, the scaling as wide as a vector; the machine has the instruction
/// set.
type Run = unsafe fn(&Row);

/// Best first.
const VARIANTS: Variants<Run> = variants!(Twice, scalar);

/// The scale of accumulators, and what is stored.
#[derive(Debug)]
pub struct RoundTwice {
    variant: Variant<Run>,
    scaling: Scaling,
}

impl RoundTwice {
    /// The range is of signed bytes where it has numbers below 0, else of unsigned ones.
    pub fn new(isa: Isa, multiplier: Multiplier, zero_point: i32, range: (i32, i32)) -> Self {
        // As many channels as the widest vectors have lanes.
        let scaling = Scaling::new(&[multiplier], PADDING, zero_point, range.0, range.1);
        Self { variant: VARIANTS.best(isa), scaling }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Bytes of accumulators, of which there are as many and those up to the next multiple of
    /// [`PADDING`].
    ///
    /// # Errors
    /// There are more or fewer.
    pub fn compute(&self, sums: &[i32], output: Out<'_, u8>) -> Result<(), String> {
        check_lengths(sums.len(), output.len().next_multiple_of(PADDING))?;
        let (sums, len) = (sums.as_ptr(), output.len());
        let row = Row { sums, output: output.as_mut_ptr(), len, scaling: self.scaling.from(0) };
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
        // SAFETY: within the row; there is a first channel.
        unsafe {
            let stored = row.scaling.stored(*row.sums.add(at), 0);
            *row.output.add(at) = stored.to_le_bytes()[0];
        }
    }
}

/// Four vectors at a time where the multiplier is quick, as it nearly always is.
struct Twice;

impl Kernel for Twice {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, row: &Row) {
        // SAFETY: as the caller promises; there are as many channels as lanes.
        unsafe {
            match row.scaling.quick {
                Some(Quick { negative: true }) => return quick::<S::I32, true>(isa, row),
                Some(Quick { negative: false }) => return quick::<S::I32, false>(isa, row),
                None => {}
            }
            let by = S::I32::multipliers(isa, &row.scaling, 0);
            for at in (0..row.len).step_by(S::I32::LANES) {
                let count = (row.len - at).min(S::I32::LANES);
                let sums = S::I32::load(isa, row.sums.add(at));
                sums.stored(&by).store_bytes(row.output.add(at), count);
            }
        }
    }
}

/// # Safety
/// As for the row; the multiplier is quick.
#[inline(always)]
unsafe fn quick<V: RequantiseSimd, const NEGATIVE: bool>(isa: V::Isa, row: &Row) {
    const { assert!(PADDING.is_multiple_of(4 * V::LANES), "vectors would read behind rows") };
    // SAFETY: as many channels as lanes; whole blocks of sums are readable.
    unsafe {
        let (by, range) = (V::quick(isa, &row.scaling, 0), V::narrow(isa, row.scaling.range()));
        for at in (0..row.len).step_by(4 * V::LANES) {
            let mut values = [V::splat(isa, 0); 4];
            for (v, value) in values.iter_mut().enumerate() {
                let sums = V::load(isa, row.sums.add(at + v * V::LANES));
                *value = sums.rounded::<NEGATIVE>(&by);
            }
            let count = (row.len - at).min(4 * V::LANES);
            V::store_narrow(values, &range, row.output.add(at), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_rounds_as_the_multiplier() {
        let sum = |at: i32| match at % 7 {
            0 => at,
            1 => -at,
            2 => i32::MAX - at,
            3 => i32::MIN + at,
            _ => at.wrapping_mul(-1_640_531_535) >> (at % 24),
        };
        for (scale, zero_point, range) in [
            (0.004, 3, (-128, 127)),
            (0.5, 128, (0, 255)),
            (1e-5, 0, (0, 255)),
            (3.7, -128, (-128, 127)),
            (0.03, -5, (-20, 90)),
        ] {
            let multiplier = Multiplier::new(scale);
            for variant in VARIANTS.all() {
                let rounding = RoundTwice::new(variant.isa, multiplier, zero_point, range);
                for len in (0..=130).chain([1000]) {
                    let padded = i32::try_from(len).unwrap().unsigned_abs().next_multiple_of(64);
                    let sums: Vec<i32> = (0..padded.cast_signed()).map(sum).collect();
                    let mut got = vec![77; len + 1];
                    rounding.compute(&sums, Out::of(&mut got).slice(0..len)).unwrap();
                    for (&got, &sum) in got.iter().zip(&sums[..len]) {
                        let want = multiplier.apply(sum).saturating_add(zero_point);
                        let want = want.clamp(range.0, range.1).to_le_bytes()[0];
                        assert_eq!(got, want, "{sum} by {scale}, {:?}", variant.isa);
                    }
                    assert_eq!(got[len], 77);
                }
            }
            assert!(
                RoundTwice::new(Isa::best(), multiplier, zero_point, range)
                    .compute(&[0; 63], Out::of(&mut [0; 63]))
                    .is_err()
            );
        }
    }
}
