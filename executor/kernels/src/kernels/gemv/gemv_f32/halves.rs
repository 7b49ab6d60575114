//! Weights that are whole as half a float each: what a converter had compressed to FLOAT16, or what
//! was trained as bf16.
//!
//! Nobody says so, since constants are widened before they come here, but the numbers show it. Of
//! others the first few do not.

use half::f16;

use crate::kernels::plain::Loop;
use crate::simd::Isa;
use crate::tensor::poll;

/// The bits of the least normal FLOAT16 number, and of the largest one, as floats.
const LEAST_NORMAL: u32 = 0x3880_0000;
const LARGEST: u32 = 0x477f_e000;

/// Returns whether all weights are FLOAT16 numbers.
pub(super) fn are_f16(isa: Isa, weights: &[f32]) -> bool {
    of_all(isa, weights, |weight| {
        let most = weight.to_bits() & 0x7fff_ffff;
        let (digits, shift) = subnormal(most);
        let is_whole = (digits >> shift) << shift == digits;
        let is_other = most & 0x1fff != 0 || most > LARGEST;
        if most < LEAST_NORMAL { most != 0 && !is_whole } else { is_other }
    })
}

/// Returns whether all weights are bf16 numbers: the lower half of each is zeros.
pub(super) fn are_bf16(isa: Isa, weights: &[f32]) -> bool {
    of_all(isa, weights, |weight| weight.to_bits() & 0xffff != 0)
}

/// Returns whether no weight is another number.
fn of_all(isa: Isa, weights: &[f32], is_other: impl Fn(f32) -> bool) -> bool {
    poll::each(weights.chunks(LOOKED_AT), LOOKED_AT).all(|weights| {
        let mut is_any_other = false;
        isa.run(Look { weights, is_other: &is_other, is_any_other: &mut is_any_other });
        !is_any_other
    })
}

/// Weights that are looked at together: of others nearly all are told by the first of them.
const LOOKED_AT: usize = 1024;

struct Look<'a, F> {
    weights: &'a [f32],
    is_other: &'a F,
    is_any_other: &'a mut bool,
}

impl<F: Fn(f32) -> bool> Loop for Look<'_, F> {
    #[inline(always)]
    fn run(self) {
        // Without an end in the middle, so that it has vectors.
        let mut others = 0;
        for &weight in self.weights {
            others |= u32::from((self.is_other)(weight));
        }
        *self.is_any_other = others != 0;
    }
}

/// The digits of a float, and by how many of them a subnormal FLOAT16 number has fewer. Of 0 none
/// are left.
#[inline(always)]
fn subnormal(most: u32) -> (u32, u32) {
    let shift = 126_u32.saturating_sub(most >> 23).min(31);
    (most & 0x7f_ffff | 0x80_0000, shift)
}

/// FLOAT16 numbers that were widened, as they were.
pub(super) struct Narrowed<'a> {
    pub(super) weights: &'a [f32],
    pub(super) to: &'a mut [f16],
}

impl Loop for Narrowed<'_> {
    #[inline(always)]
    fn run(self) {
        for (half, &weight) in self.to.iter_mut().zip(self.weights) {
            *half = narrowed(weight);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a half")]
#[inline(always)]
fn narrowed(weight: f32) -> f16 {
    let (bits, most) = (weight.to_bits(), weight.to_bits() & 0x7fff_ffff);
    let normal = (most.wrapping_sub(LEAST_NORMAL) >> 13).wrapping_add(1 << 10);
    let (digits, shift) = subnormal(most);
    let half = if most < LEAST_NORMAL { digits >> shift } else { normal };
    f16::from_bits((bits >> 16 & 0x8000 | half) as u16)
}

/// The upper halves of weights that have no others, in pairs as steps lie in: of thirty-two columns
/// the second sixteen between the first.
pub(super) struct Upper<'a> {
    pub(super) weights: &'a [f32],
    pub(super) to: &'a mut [u16],
}

impl Loop for Upper<'_> {
    #[inline(always)]
    fn run(self) {
        let (to, weights) = (self.to.as_chunks_mut::<32>().0, self.weights.as_chunks::<32>().0);
        for (to, weights) in to.iter_mut().zip(weights) {
            for at in 0..16 {
                to[2 * at] = upper(weights[at]);
                to[2 * at + 1] = upper(weights[at + 16]);
            }
        }
    }
}

#[inline(always)]
fn upper(weight: f32) -> u16 {
    (weight.to_bits() >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_of_half_the_bits_are_found_and_come_back() {
        let finite = (0..=u16::MAX).map(f16::from_bits).filter(|half| half.is_finite());
        let weights: Vec<f32> = finite.clone().map(f16::to_f32_const).collect();
        assert!(are_f16(Isa::best(), &weights));
        for (half, weight) in finite.zip(weights) {
            assert_eq!(narrowed(weight).to_bits(), half.to_bits(), "{weight}");
        }
        let upper: Vec<f32> =
            (0..=u16::MAX).map(|bits| half::bf16::from_bits(bits).to_f32()).collect();
        assert!(are_bf16(Isa::best(), &upper) && !are_f16(Isa::best(), &upper));
    }

    #[test]
    fn others_are_told_wherever_they_are() {
        let bad = [0.1, 65_536.0, 65_519.0, 2.0_f32.powi(-25), 1.5 * 2.0_f32.powi(-24), 1e-40];
        for (at, bad) in bad.into_iter().chain([f32::NAN, f32::INFINITY]).enumerate() {
            let mut weights = vec![0.5; 700];
            weights[at * 87] = bad;
            assert!(!are_f16(Isa::best(), &weights), "{bad}");
        }
        let mut weights = vec![1.5; 300];
        weights[299] = f32::from_bits(0x3f80_0001);
        assert!(!are_bf16(Isa::best(), &weights));
        assert!(are_bf16(Isa::best(), &[]) && are_f16(Isa::best(), &[]));
    }
}
