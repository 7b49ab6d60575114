//! Plain Rust, in the same order as the vector variants and with the same multiply-adds: all
//! variants give the same bits, so that graphs that go on with integers do too.

use super::{
    ERF, ERF_RANGE, EXP_M1, EXP_RANGE, FLOAT_TO_INTEGER, GELU_TANH, LARGE_ANGLE, LEAST_NORMAL_EXP,
    LN_2, LOG_1P, LOG2_E, LOG2_E_32, PI, POWER_OF_REST, POWERS, Row, SIGMOID_BY_TABLE, SIN,
    SUBNORMAL, TO_INTEGER,
};
use crate::simd::HALF_ROOT;

pub(super) unsafe fn sigmoid(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, sigmoid_of) };
}

pub(super) unsafe fn sigmoid_by_table(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, sigmoid_by_table_of) };
}

pub(super) unsafe fn tanh(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, tanh_of) };
}

pub(super) unsafe fn exp(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, exp_of) };
}

pub(super) unsafe fn elu(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, elu_of) };
}

pub(super) unsafe fn gelu(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, gelu_of) };
}

pub(super) unsafe fn gelu_by_tanh(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, gelu_by_tanh_of) };
}

pub(super) unsafe fn log(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, log_of) };
}

pub(super) unsafe fn sin(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, sin_of) };
}

/// # Safety
/// As for [`super::Run`].
unsafe fn map(&Row { input, output, len }: &Row, each: impl Fn(f32) -> f32) {
    for at in 0..len {
        // SAFETY: within both.
        unsafe { output.add(at).write_unaligned(each(input.add(at).read_unaligned())) };
    }
}

fn sigmoid_of(x: f32) -> f32 {
    // The exponential of the negative side never overflows.
    let e = normal_exp_of(-x.abs());
    let r = 1.0 / (1.0 + e);
    if x.is_sign_negative() { r * e } else { r }
}

fn sigmoid_by_table_of(x: f32) -> f32 {
    let (below, above) = SIGMOID_BY_TABLE;
    if x < below {
        exp_by_table(x)
    } else if x > above {
        1.0
    } else {
        1.0 / (1.0 + exp_by_table(-x))
    }
}

fn tanh_of(x: f32) -> f32 {
    let (n, q) = parts(-2.0 * x.abs());
    // exp(-2|x|) - 1, and its quotient with exp(-2|x|) + 1.
    let power = power_of_two(n.max(-115));
    let m = power.mul_add(q, power - 1.0);
    (m / (m + 2.0)).abs().copysign(x)
}

/// `exp(x)` as a share of something larger: 0 where it is no normal number.
pub(in super::super) fn normal_exp_of(x: f32) -> f32 {
    if x < LEAST_NORMAL_EXP { 0.0 } else { exp_of(x) }
}

fn exp_of(x: f32) -> f32 {
    let (n, q) = parts(x);
    // In two factors, since 2^n may be above or below what one float holds.
    (q + 1.0) * power_of_two(n >> 1) * power_of_two(n - (n >> 1))
}

fn elu_of(x: f32) -> f32 {
    if !x.is_sign_negative() {
        return x;
    }
    let (n, q) = parts(x);
    let power = power_of_two(n.max(-126));
    power.mul_add(q, power - 1.0)
}

fn gelu_of(x: f32) -> f32 {
    let near = crate::tensor::quant::clamp_real(x, -ERF_RANGE, ERF_RANGE);
    let square = near * near;
    let [p, q] = ERF.map(|of| of[..5].iter().rev().fold(of[5], |sum, &c| sum.mul_add(square, c)));
    let erf = crate::tensor::quant::clamp_real(near * p / q, -1.0, 1.0);
    let half = x * 0.5;
    half.mul_add(erf, half)
}

fn gelu_by_tanh_of(x: f32) -> f32 {
    let inner = (x * x * x).mul_add(GELU_TANH[1], x) * GELU_TANH[0];
    x * 0.5 * (tanh_of(inner) + 1.0)
}

pub(in super::super) fn log_of(x: f32) -> f32 {
    if x.is_nan() || x < 0.0 {
        return f32::NAN;
    }
    if x == 0.0 {
        return f32::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    let (x, less) = if x < f32::MIN_POSITIVE { (x * SUBNORMAL[0], SUBNORMAL[1]) } else { (x, 0.0) };
    let bits = x.to_bits().cast_signed();
    let n = (bits - HALF_ROOT) >> 23;
    let f = f32::from_bits((bits - (n << 23)).cast_unsigned()) - 1.0;
    #[expect(clippy::cast_precision_loss, reason = "within 150 of 0")]
    let n = n as f32 - less;
    let inner = LOG_1P[..7].iter().rev().fold(LOG_1P[7], |p, &c| p.mul_add(f, c));
    let square = f * f;
    let tail = n.mul_add(LN_2[1], square * f * inner);
    n.mul_add(LN_2[0], f + square.mul_add(-0.5, tail))
}

fn sin_of(x: f32) -> f32 {
    if x.abs() >= LARGE_ANGLE {
        return x.sin();
    }
    let n = (x * std::f32::consts::FRAC_1_PI).round_ties_even();
    // 1 or -1 of an odd number, 0 of an even one.
    let odd = (n * 0.5).round_ties_even().mul_add(-2.0, n);
    let r = PI.iter().fold(x, |r, &part| n.mul_add(-part, r)) * (odd * odd).mul_add(-2.0, 1.0);
    let square = r * r;
    let p = SIN[..3].iter().rev().fold(SIN[3], |p, &c| p.mul_add(square, c));
    (r * square).mul_add(p, r)
}

/// `exp(x)` is `2^n * (1 + q)`.
fn parts(x: f32) -> (i32, f32) {
    // NaN stays.
    let x = crate::tensor::quant::clamp_real(x, EXP_RANGE.0, EXP_RANGE.1);
    let n = x.mul_add(LOG2_E, FLOAT_TO_INTEGER) - FLOAT_TO_INTEGER;
    let r = (-n).mul_add(LN_2[1], (-n).mul_add(LN_2[0], x));
    let inner = EXP_M1[..4].iter().rev().fold(EXP_M1[4], |p, &c| p.mul_add(r, c));
    #[expect(clippy::cast_possible_truncation, reason = "within 150 of 0; NaN gives 0")]
    let power = n as i32;
    (power, (r * r).mul_add(inner, r))
}

/// `exp(x)` with the bits of the C library's.
fn exp_by_table(x: f32) -> f32 {
    let x = f64::from(crate::tensor::quant::clamp_real(x, EXP_RANGE.0, EXP_RANGE.1));
    let n = x.mul_add(LOG2_E_32, TO_INTEGER);
    let r = x.mul_add(LOG2_E_32, TO_INTEGER - n);
    let [c, b, a] = POWER_OF_REST;
    let p = r.mul_add(a, b).mul_add(r, c).mul_add(r, 1.0);
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
    let power = (p * POWERS.at(n.to_bits())) as f32;
    power
}

/// `2^n` for normal numbers.
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23).cast_unsigned())
}
