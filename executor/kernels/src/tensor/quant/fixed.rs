//! Functions on fixed-point numbers of 32 and 16 bits, after gemmlowp's, bit for bit.
//!
//! A number in format `m` has `m` integer bits, a sign, and fraction bits for the rest. The product
//! of formats `a` and `b` has format `a + b`. One in format 0 is the largest integer.

use super::{rdbpot, srdhm};

/// The integer a fixed-point number is made of.
pub trait Fixed: Copy + PartialOrd + Into<i32> {
    /// Bits, sign included.
    const BITS: i32;
    /// From a wider number that fits.
    fn wrap(x: i32) -> Self;
    /// The rounding doubled high product.
    fn mul(self, other: Self) -> Self;
    /// Sum; saturating for 16 bits where `last`, else wrapping.
    fn add(self, other: Self, last: bool) -> Self;
    /// A real constant, given with 31 fraction bits.
    fn constant(raw: i32) -> Self;
}

impl Fixed for i32 {
    const BITS: Self = 32;
    #[inline(always)]
    fn wrap(x: i32) -> Self {
        x
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        srdhm(self, other)
    }
    #[inline(always)]
    fn add(self, other: Self, _last: bool) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn constant(raw: i32) -> Self {
        raw
    }
}

impl Fixed for i16 {
    const BITS: i32 = 16;
    #[expect(clippy::cast_possible_truncation, reason = "wrapping is meant")]
    fn wrap(x: i32) -> Self {
        x as Self
    }
    fn mul(self, other: Self) -> Self {
        srdhm16(self, other)
    }
    fn add(self, other: Self, last: bool) -> Self {
        if last { self.saturating_add(other) } else { self.wrapping_add(other) }
    }
    fn constant(raw: i32) -> Self {
        Self::wrap(rdbpot(raw, 16))
    }
}

/// The rounding doubled high product of 16 bits: `(a * b + 2^14) >> 15`, saturated.
#[expect(clippy::cast_possible_truncation, reason = "fits but for the case handled")]
pub const fn srdhm16(a: i16, b: i16) -> i16 {
    if a == i16::MIN && b == i16::MIN {
        return i16::MAX;
    }
    ((a as i32 * b as i32 + (1 << 14)) >> 15) as i16
}

/// `x * 2^exponent`, saturated to `T`; rounding, halves away from zero, where the exponent is
/// negative.
#[inline(always)]
pub fn scale_by_power<T: Fixed>(x: T, exponent: i32) -> T {
    if exponent <= 0 {
        return T::wrap(rdbpot(x.into(), -exponent));
    }
    let limit = (1i64 << (T::BITS - 1 - exponent)) - 1;
    let wide = i64::from(x.into());
    if wide > limit {
        largest()
    } else if wide < -limit {
        T::wrap(i32::MIN >> (32 - T::BITS))
    } else {
        let shifted: i32 = x.into() << exponent;
        T::wrap(shifted)
    }
}

/// One in format 0.
#[inline(always)]
fn largest<T: Fixed>() -> T {
    T::wrap(i32::MAX >> (32 - T::BITS))
}

/// One in format `m`.
#[inline(always)]
fn one<T: Fixed>(m: i32) -> T {
    if m == 0 { largest() } else { T::wrap(1 << (T::BITS - 1 - m)) }
}

/// `exp(a)` for `a` in `[-1/4, 0)`, both in format 0.
fn exp_small<T: Fixed>(a: T) -> T {
    let x = a.add(T::wrap(1 << (T::BITS - 4)), false);
    let x2 = x.mul(x);
    let x3 = x2.mul(x);
    let x4 = x2.mul(x2);
    let third = T::constant(715_827_883);
    let k = T::constant(1_895_147_668);
    let inner = T::wrap(rdbpot(x4.into(), 2)).add(x3, false).mul(third).add(x2, false);
    let t = T::wrap(rdbpot(inner.into(), 1));
    k.add(k.mul(x.add(t, false)), true)
}

/// `exp(a)` in format 0, for `a <= 0` in format `m`.
pub fn exp_negative<T: Fixed>(a: T, m: i32) -> T {
    const FACTORS: [i32; 7] =
        [1_672_461_947, 1_302_514_674, 790_015_084, 290_630_308, 39_332_535, 720_401, 242];
    let raw: i32 = a.into();
    if raw == 0 {
        return one(0);
    }
    let quarter = 1i32 << (T::BITS - 1 - m - 2);
    let rest = (raw & (quarter - 1)) - quarter;
    let mut y = exp_small(scale_by_power(T::wrap(rest), m));
    let quarters = rest.wrapping_sub(raw);
    for (power, &factor) in (-2..).zip(&FACTORS) {
        if power < m && quarters & (1 << (T::BITS - 1 - m + power)) != 0 {
            y = y.mul(T::constant(factor));
        }
    }
    if m > 5 && i64::from(raw) < -(32i64 << (T::BITS - 1 - m)) {
        return T::wrap(0);
    }
    y
}

/// About `2 / (1 + a)` in format 2, for `a` in `(0, 1)` of format 0.
#[inline(always)]
fn reciprocal<T: Fixed>(a: T) -> T {
    let half_sum = (i64::from(a.into()) + i64::from(largest::<T>().into()) + 1) >> 1;
    let h = T::wrap(i32::try_from(half_sum).unwrap_or(i32::MAX));
    let mut x = T::constant(1_515_870_810).add(h.mul(T::constant(-1_010_580_540)), false);
    for _ in 0..3 {
        let minus: i32 = h.mul(x).into();
        let error = one::<T>(2).add(T::wrap(minus.wrapping_neg()), false);
        x = x.add(scale_by_power(x.mul(error), 2), false);
    }
    x
}

/// `1 / (1 + a)`, both in format 0, for `a` in `(0, 1)`.
#[inline(always)]
pub fn one_over_one_plus<T: Fixed>(a: T) -> T {
    scale_by_power(reciprocal(a), 1)
}

/// `(1 - a) / (1 + a)`, both in format 0, for `a` in `(0, 1)`.
fn one_minus_over_one_plus<T: Fixed>(a: T) -> T {
    let minus_one: i32 = one::<T>(2).into();
    scale_by_power(reciprocal(a).add(T::wrap(-minus_one), false), 2)
}

/// The logistic function in format 0, of `a` in format `m`.
pub fn logistic<T: Fixed>(a: T, m: i32) -> T {
    let raw: i32 = a.into();
    if raw == 0 {
        return T::wrap(1 << (T::BITS - 2));
    }
    let p =
        one_over_one_plus(exp_negative(T::wrap(if raw > 0 { raw.wrapping_neg() } else { raw }), m));
    if raw > 0 {
        return p;
    }
    let (all, part): (i32, i32) = (one::<T>(0).into(), p.into());
    T::wrap(all - part)
}

/// The hyperbolic tangent in format 0, of `a` in format `m`.
pub fn tanh<T: Fixed>(a: T, m: i32) -> T {
    let raw: i32 = a.into();
    if raw == 0 {
        return a;
    }
    let negative = if raw > 0 { raw.wrapping_neg() } else { raw };
    // Read in the next format the same bits are twice the number.
    let t = one_minus_over_one_plus(exp_negative(T::wrap(negative), m + 1));
    let t_raw: i32 = t.into();
    if raw > 0 { t } else { T::wrap(-t_raw) }
}

/// The natural logarithm, in format `to`, of a number in format `from` that is not below 1.
///
/// The number is `2^k` times a rest near `2^(-1/4)`, which a quotient of polynomials takes.
#[inline(always)]
pub fn log_from_one(x: i32, from: i32, to: i32) -> i32 {
    const LOG_2: i32 = 1_488_522_236;
    const ROOT_OF_ROOT_OF_HALF: i32 = 1_805_811_301;
    const ROOT_OF_HALF: i32 = 1_518_500_250;
    const QUARTER: i32 = 1 << 29;
    let leading = |x: i32| x.leading_zeros().cast_signed();
    // A bit more before the point keeps the powers of two from saturating.
    let wide = to + 1;
    let quarter = rdbpot(QUARTER, wide);
    let power = |bits: i32| scale_by_power(bits, 31 - wide);
    let headroom = leading(x);
    let rest = scale_by_power(srdhm(scale_by_power(x, headroom - 1), ROOT_OF_HALF), 1);
    let power_of_rest = power(from - headroom).saturating_add(quarter);
    let other_headroom = leading(srdhm(x, ROOT_OF_HALF)) - 1;
    let other = scale_by_power(x, other_headroom);
    let power_of_other = power(from - other_headroom).saturating_sub(quarter);
    let rest = rest.min(other);
    let power = power_of_rest.max(power_of_other);

    let sum = i64::from(rest) + i64::from(ROOT_OF_ROOT_OF_HALF);
    let p = i32::try_from((sum + if sum >= 0 { 1 } else { -1 }) / 2).unwrap_or(i32::MAX);
    let q = rest.wrapping_sub(ROOT_OF_ROOT_OF_HALF);
    let q = q.wrapping_add(q);
    let square = srdhm(q, q);
    let above = srdhm(q, rest).wrapping_add(srdhm(srdhm(q, square), 117_049_297));
    let below = 1_057_819_769i32.wrapping_add(q).wrapping_add(srdhm(127_690_142, square));
    let below = srdhm(p, below).wrapping_add(srdhm(638_450_708, q));
    let quotient = srdhm(rdbpot(above, wide), one_over_one_plus(below));
    scale_by_power(srdhm(power, LOG_2).wrapping_add(quotient), wide - to)
}

/// `1 / sqrt(v)` as a fraction of 31 bits and a shift that is never positive; for `v` of at most 1
/// the largest fraction.
pub fn inverse_sqrt(v: i32) -> (i32, i32) {
    if v <= 1 {
        return (i32::MAX, 0);
    }
    let (mut v, mut right) = (v, 11);
    while v >= 1 << 29 {
        v /= 4;
        right += 1;
    }
    let pairs = (v.leading_zeros().cast_signed() - 1) / 2 - 1;
    right -= pairs;
    v <<= 2 * pairs;
    let a = v >> 1;
    let half = rdbpot(a, 1);
    let one_and_half = (1 << 28) + (1 << 27);
    let mut x: i32 = 1 << 28;
    for _ in 0..5 {
        let cube = scale_by_power(srdhm(srdhm(x, x), x), 6);
        x = scale_by_power(srdhm(one_and_half, x).wrapping_sub(srdhm(half, cube)), 3);
    }
    let mut fraction = srdhm(x, 1_518_500_250);
    if right < 0 {
        fraction = fraction.wrapping_shl(right.unsigned_abs());
        right = 0;
    }
    (fraction, -right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_of_32_bits() {
        for (a, want) in [
            (0, 2_147_483_647),
            (-1, 2_147_483_124),
            (-(1 << 26), 790_015_308),
            (-(1 << 25), 1_302_515_042),
            (-5 * (1 << 26), 14_469_635),
            (-31 * (1 << 26), 0),
        ] {
            assert_eq!(exp_negative::<i32>(a, 5), want, "{a}");
        }
    }

    #[test]
    fn logistic_and_tanh_of_32_bits() {
        for (a, want) in [
            (0, 1_073_741_824),
            (1 << 27, 1_569_936_226),
            (-(1 << 27), 577_547_421),
            (3 << 27, 2_045_637_336),
            (-9 * (1 << 26), 23_594_281),
        ] {
            assert_eq!(logistic::<i32>(a, 4), want, "{a}");
        }
        for (a, want) in [
            (1 << 27, 1_635_510_876),
            (-(1 << 27), -1_635_510_876),
            (3 << 27, 2_136_863_820),
            (-9 * (1 << 24), -1_737_960_716),
        ] {
            assert_eq!(tanh::<i32>(a, 4), want, "{a}");
        }
    }

    #[test]
    fn logistic_and_tanh_of_16_bits() {
        for (a, want) in
            [(0, 16384), (4096, 23952), (-4096, 8815), (12345, 31236), (-32768, 11), (32767, 32756)]
        {
            assert_eq!(logistic::<i16>(a, 3), want, "{a}");
        }
        for (a, m, want) in [
            (4096, 3, 24964),
            (-4096, 3, -24964),
            (12345, 3, 32616),
            (-32768, 3, -32767),
            (32767, 3, 32767),
            (16384, 0, 15136),
            (2048, 4, 24964),
            (-2048, 4, -24964),
        ] {
            assert_eq!(tanh::<i16>(a, m), want, "{a} in format {m}");
        }
    }

    #[test]
    fn inverse_square_roots() {
        for (v, want) in [
            (0, (2_147_483_647, 0)),
            (1, (2_147_483_647, 0)),
            (2, (1_518_498_372, 0)),
            (3, (1_239_850_284, 0)),
            (100, (214_748_363, 0)),
            (12345, (309_246_148, -4)),
            (1 << 29, (379_624_593, -12)),
            (i32::MAX, (189_812_531, -12)),
        ] {
            assert_eq!(inverse_sqrt(v), want, "{v}");
        }
    }

    /// Against the real logarithm; a unit of the last place is 2^-26.
    #[test]
    fn logarithms_of_what_is_not_below_one() {
        let one = 1i32 << 19;
        let steps = (0..2000).map(|at| one + at * 1_063_021);
        for x in steps.chain([one, one + 1, i32::MAX]) {
            let real = (f64::from(x) / f64::from(one)).ln();
            let found = f64::from(log_from_one(x, 12, 5)) / f64::from(1 << 26);
            assert!((found - real).abs() < 1e-6, "{x}: {found} for {real}");
        }
        assert_eq!(log_from_one(one, 12, 5), 0);
    }
}
