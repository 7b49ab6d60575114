//! Quantised arithmetic, bit-equal to the reference's: multipliers, roundings, activation ranges.
//!
//! The functions on fixed-point numbers (exp, logistic, tanh, reciprocal, inverse square root) are
//! in [`fixed`]. Source: the arithmetic of NNAPI's CPU path; its parts are known from gemmlowp and
//! TFLite.

pub mod fixed;

use nnburst_hal::FusedActivation;

use crate::tensor::{OpError, Tensor};

/// Towards zero, saturated to 32 bits, NaN 0: what `as i32` does, which takes vectors apart.
#[inline(always)]
pub fn truncate(x: f32) -> i32 {
    const ABOVE: f32 = 2_147_483_648.0;
    let number = if x.is_nan() { 0.0 } else { x };
    // The largest float below the limit.
    let within = number.clamp(-ABOVE, ABOVE.next_down());
    // SAFETY: a number within what 32 bits hold.
    let whole = unsafe { within.to_int_unchecked::<i32>() };
    if number >= ABOVE { i32::MAX } else { whole }
}

/// Round to nearest, halves away from zero, saturated to 32 bits.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "an integer that was a float is one again")]
pub fn round_half_away(x: f32) -> i32 {
    // Not `round`, which is a call where there is no instruction for it, and keeps loops from
    // becoming vectors.
    let whole = truncate(x);
    let rest = x - whole as f32;
    whole.saturating_add(i32::from(rest >= 0.5)).saturating_sub(i32::from(rest <= -0.5))
}

/// As [`round_half_away`] for numbers that only those within some 2^20 of 0 matter of; NaN is one
/// beyond.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "an integer that was a float is one again")]
pub fn round_small(x: f32) -> i32 {
    const LIMIT: f32 = (1 << 20) as f32;
    #[expect(clippy::manual_clamp, reason = "which leaves NaN as it is")]
    let within = x.max(-LIMIT).min(LIMIT);
    // SAFETY: within what 32 bits hold; `max` makes a number of NaN.
    let whole = unsafe { within.to_int_unchecked::<i32>() };
    let rest = within - whole as f32;
    whole + i32::from(rest >= 0.5) - i32::from(rest <= -0.5)
}

/// `x + 1/2` in single precision, cut to an integer: what is not negative to nearest, but the last
/// float below a half to 1. Beyond 2^20 on either side it is that; NaN is one of the two.
#[inline(always)]
pub fn round_up_small(x: f32) -> i32 {
    const LIMIT: f32 = (1 << 20) as f32;
    #[expect(clippy::manual_clamp, reason = "which leaves NaN as it is")]
    let within = (x + 0.5).max(-LIMIT).min(LIMIT);
    // SAFETY: within what 32 bits hold; `max` makes a number of NaN.
    unsafe { within.to_int_unchecked::<i32>() }
}

/// The rounding doubled high product: `(a * b + 2^30) >> 31`, saturated where both are `i32::MIN`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "fits but for the case handled")]
pub const fn srdhm(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    ((a as i64 * b as i64 + (1 << 30)) >> 31) as i32
}

/// Rounding division by `2^exponent`, halves away from zero. From 32 on the result is 0.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the quotient is smaller than x")]
pub const fn rdbpot(x: i32, exponent: i32) -> i32 {
    if exponent <= 0 {
        return x;
    }
    if exponent > 32 {
        return 0;
    }
    let half = 1i64 << (exponent - 1);
    let magnitude = ((x as i64).abs() + half) >> exponent;
    (if x < 0 { -magnitude } else { magnitude }) as i32
}

/// A real multiplier as a 32-bit fraction and a power of two: `m = fraction * 2^(shift - 31)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Multiplier {
    /// 0, or from 2^30 to 2^31 - 1.
    pub fraction: i32,
    /// Power of two; positive shifts left.
    pub shift: i32,
}

impl Multiplier {
    /// The nearest to `m`; 0 for what isn't positive, and for less than 2^-32.
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^31, which is handled")]
    pub fn new(m: f64) -> Self {
        if !(m > 0.0 && m.is_finite()) {
            return Self::default();
        }
        let (fraction, mut shift) = frexp(m);
        let mut fraction = (fraction * (1u64 << 31) as f64).round() as i64;
        if fraction == 1 << 31 {
            fraction >>= 1;
            shift += 1;
        }
        if shift < -31 {
            return Self::default();
        }
        // A multiplier of 2^31 and more saturates every product but 0.
        Self { fraction: fraction as i32, shift: shift.min(31) }
    }

    /// `x` times the multiplier, rounded twice as the reference does. The left shift wraps.
    #[inline(always)]
    pub const fn apply(self, x: i32) -> i32 {
        let left = if self.shift > 0 { self.shift.cast_unsigned() } else { 0 };
        rdbpot(srdhm(x.wrapping_shl(left), self.fraction), -self.shift)
    }
}

/// A [`Multiplier`] as loops take it that compilers make vectors of: without branches.
#[derive(Clone, Copy, Debug)]
pub struct BranchlessMultiplier {
    fraction: i32,
    left: u32,
    /// Below 32.
    right: u32,
}

impl From<Multiplier> for BranchlessMultiplier {
    fn from(m: Multiplier) -> Self {
        let right = m.shift.min(0).unsigned_abs();
        // Shifted further than 31 bits, nothing is left of any number.
        let fraction = if right > 31 { 0 } else { m.fraction };
        Self { fraction, left: m.shift.max(0).unsigned_abs(), right: right.min(31) }
    }
}

impl BranchlessMultiplier {
    /// As [`Multiplier::apply`].
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a fraction is above the one exception")]
    pub const fn apply(self, x: i32) -> i32 {
        let x = x.wrapping_shl(self.left);
        let high = ((x as i64 * self.fraction as i64 + (1 << 30)) >> 31) as i32;
        // What is shifted out rounds up from a half on, below zero from more than a half on.
        let mask = (1u32.wrapping_shl(self.right)).wrapping_sub(1).cast_signed();
        let most = (mask >> 1) + (high < 0) as i32;
        (high >> self.right) + (high & mask > most) as i32
    }
}

/// `m = fraction * 2^exponent` with the fraction in `[0.5, 1)`, for positive finite `m`.
fn frexp(m: f64) -> (f64, i32) {
    // Subnormal numbers gain 64 places so that the exponent field means what it says.
    let (m, extra) = if m < f64::MIN_POSITIVE { (m * (1u128 << 64) as f64, 64) } else { (m, 0) };
    let bits = m.to_bits();
    let field = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    let fraction = f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52));
    (fraction, field - 1022 - extra)
}

/// The multiplier of a convolution-like operation: `s_in * s_weights / s_out`, the product in
/// `f32`.
pub fn product_multiplier(input: f32, weights: f32, output: f32) -> Multiplier {
    Multiplier::new(f64::from(input * weights) / f64::from(output))
}

/// As [`product_multiplier`], for weights with a scale per channel: the product in `f64`.
///
/// Decided as TFLite does it. Android's CPU path rounds this product to `f32` as well, which moves
/// about one result in 100,000 by a step; models with such weights come from TFLite's converter,
/// and are expected to give TFLite's bytes.
pub fn channel_multiplier(input: f32, weights: f32, output: f32) -> Multiplier {
    Multiplier::new(f64::from(input) * f64::from(weights) / f64::from(output))
}

/// The bias of a quantised product must have the scale of the accumulator.
///
/// # Errors
/// It differs by more than a millionth.
pub fn check_bias_scale(input: f32, weights: f32, bias: f32) -> Result<(), OpError> {
    let product = input * weights;
    if (product - bias).abs() > 1e-6 * product.min(bias) {
        let what = format!("scale {bias} is not that of the products, {product}");
        return Err(OpError::input(2, what));
    }
    Ok(())
}

/// The range a fused activation leaves of stored values `min..=max`.
pub fn activation_range(
    activation: FusedActivation,
    scale: f32,
    zero_point: i32,
    min: i32,
    max: i32,
) -> (i32, i32) {
    let stored = |real: f32| zero_point.saturating_add(round_half_away(real / scale));
    match activation {
        FusedActivation::None => (min, max),
        FusedActivation::Relu => (min.max(stored(0.0)), max),
        FusedActivation::Relu1 => (min.max(stored(-1.0)), max.min(stored(1.0))),
        FusedActivation::Relu6 => (min.max(stored(0.0)), max.min(stored(6.0))),
    }
}

/// As [`activation_range`], for an output.
///
/// # Errors
/// The output is of no quantised type.
pub fn output_range(activation: FusedActivation, output: &Tensor) -> Result<(i32, i32), OpError> {
    let (min, max) = crate::tensor::quantised_range(output.kind)
        .ok_or_else(|| OpError::output(0, format!("{} is not quantised", output.kind)))?;
    Ok(activation_range(activation, output.scale, output.zero_point, min, max))
}

/// The range a fused activation leaves of real numbers.
pub const fn real_activation_range(activation: FusedActivation) -> (f32, f32) {
    match activation {
        FusedActivation::None => (f32::NEG_INFINITY, f32::INFINITY),
        FusedActivation::Relu => (0.0, f32::INFINITY),
        FusedActivation::Relu1 => (-1.0, 1.0),
        FusedActivation::Relu6 => (0.0, 6.0),
    }
}

/// `x` within `low..=high`; NaN stays NaN, in every variant of every kernel.
#[inline(always)]
pub fn clamp_real(x: f32, low: f32, high: f32) -> f32 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// From one quantisation to another, as MAXIMUM, MINIMUM and SELECT do:
/// `((q - zp_in) * s_in) / s_out + zp_out` in `f64`, the first product in `f32`; clamped, then
/// rounded.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the range before")]
pub fn requantise(q: i32, from: (f32, i32), to: (f32, i32), min: i32, max: i32) -> i32 {
    #[expect(clippy::cast_precision_loss, reason = "stored values have 16 bits")]
    let real = (q - from.1) as f32 * from.0;
    let stored = f64::from(real) / f64::from(to.0) + f64::from(to.1);
    stored.clamp(f64::from(min), f64::from(max)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_cut_as_casts_do_it_and_rounded_alike() {
        let near = |x: f32| [x.next_down(), x, x.next_up()];
        let halves = (-600i16..600).map(|n| f32::from(n) * 0.5);
        for x in
            halves.chain([0.49999997, 1e9, 2_147_483_648.0, 1e30, f32::INFINITY]).flat_map(near)
        {
            for x in [x, -x] {
                #[expect(clippy::cast_possible_truncation, reason = "what is held against")]
                let (cut, rounded) = (x as i32, f64::from(x).round() as i32);
                assert_eq!((truncate(x), round_half_away(x)), (cut, rounded), "{x}");
                assert_eq!(round_small(x), rounded.clamp(-1 << 20, 1 << 20), "{x}");
            }
        }
        assert_eq!(truncate(f32::NAN), 0);
    }

    #[test]
    fn halves_go_up_in_single_precision() {
        for (x, want) in [(0.0, 0), (0.25, 0), (0.5, 1), (1.5, 2), (2.499_999, 2), (254.6, 255)] {
            assert_eq!(round_up_small(x), want, "{x}");
        }
        assert_eq!(round_up_small(0.5f32.next_down()), 1, "a sum of more digits than it has");
        assert_eq!(round_up_small(f32::INFINITY), 1 << 20);
    }

    #[test]
    fn multipliers_without_branches_give_the_same() {
        let numbers = [0, 1, 2, 3, 5, 1000, 123_456_789, 1 << 30, i32::MAX];
        for shift in (-40..=8).chain([-31, -32]) {
            for fraction in [0, 1 << 30, 1_503_238_553, i32::MAX] {
                for fraction in [fraction, -fraction] {
                    let m = Multiplier { fraction, shift };
                    for x in numbers.into_iter().flat_map(|x| [x, -x, -x - 1]) {
                        assert_eq!(
                            BranchlessMultiplier::from(m).apply(x),
                            m.apply(x),
                            "{m:?}, {x}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn multipliers() {
        let cases = [
            (0.75, 1_610_612_736, 0),
            (0.0003, 1_319_413_953, -11),
            (1.999_999_999_9, 1_073_741_824, 2),
            (1.0 / 256.0, 1_073_741_824, -7),
            (1.0, 1_073_741_824, 1),
            (1e-10, 0, 0),
            (0.0, 0, 0),
            (f64::MIN_POSITIVE / 8.0, 0, 0),
        ];
        for (m, fraction, shift) in cases {
            assert_eq!(Multiplier::new(m), Multiplier { fraction, shift }, "{m}");
        }
    }

    #[test]
    fn roundings() {
        for (a, b, want) in [
            (1, 1 << 30, 1),
            (-1, 1 << 30, 0),
            (-3, 1 << 30, -1),
            (3, 1 << 30, 2),
            (123_456_789, 987_654_321, 56_779_306),
            (-123_456_789, 987_654_321, -56_779_306),
            (i32::MIN, i32::MIN, i32::MAX),
        ] {
            assert_eq!(srdhm(a, b), want, "{a} * {b}");
        }
        for (x, exponent, want) in [
            (5, 1, 3),
            (-5, 1, -3),
            (-6, 2, -2),
            (6, 2, 2),
            (7, 3, 1),
            (-1000, 7, -8),
            (9, 0, 9),
            (i32::MAX, 31, 1),
            (i32::MIN, 32, -1),
            (i32::MAX, 33, 0),
        ] {
            assert_eq!(rdbpot(x, exponent), want, "{x} / 2^{exponent}");
        }
        for (x, fraction, shift, want) in [
            (1000, 1_518_500_250, -3, 88),
            (-1000, 1_518_500_250, -3, -88),
            (77, 1_717_986_918, 2, 246),
            (-77, 1_717_986_918, 2, -246),
            (123_456, 1_288_490_189, -9, 145),
        ] {
            assert_eq!(Multiplier { fraction, shift }.apply(x), want, "{x}");
        }
    }

    #[test]
    fn ranges() {
        use FusedActivation::{None, Relu, Relu1, Relu6};
        let range = |activation| activation_range(activation, 0.35, 120, 0, 255);
        assert_eq!(
            [None, Relu, Relu1, Relu6].map(range),
            [(0, 255), (120, 255), (117, 123), (120, 137)]
        );
    }
}
