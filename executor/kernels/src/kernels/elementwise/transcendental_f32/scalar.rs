//! Plain Rust, in the same order as the vector variants and with the same multiply-adds: all
//! variants give the same bits, so that graphs that go on with integers do too.

use super::{EXP_M1, EXP_RANGE, LN_2, LOG2_E, Row};

pub(super) unsafe fn sigmoid(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, sigmoid_of) };
}

pub(super) unsafe fn tanh(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, tanh_of) };
}

pub(super) unsafe fn exp(row: &Row) {
    // SAFETY: as the caller promises.
    unsafe { map(row, exp_of) };
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
    let e = exp_of(-x.abs());
    let r = 1.0 / (1.0 + e);
    if x.is_sign_negative() { r * e } else { r }
}

fn tanh_of(x: f32) -> f32 {
    let (n, q) = parts(-2.0 * x.abs());
    // exp(-2|x|) - 1, and its quotient with exp(-2|x|) + 1.
    let power = power_of_two(n.max(-115));
    let m = power.mul_add(q, power - 1.0);
    (m / (m + 2.0)).abs().copysign(x)
}

fn exp_of(x: f32) -> f32 {
    let (n, q) = parts(x);
    // In two factors, since 2^n may be above or below what one float holds.
    (q + 1.0) * power_of_two(n >> 1) * power_of_two(n - (n >> 1))
}

/// `exp(x)` is `2^n * (1 + q)`.
fn parts(x: f32) -> (i32, f32) {
    // NaN stays.
    let x = crate::tensor::quant::clamp_real(x, EXP_RANGE.0, EXP_RANGE.1);
    let n = (x * LOG2_E).round_ties_even();
    let r = (-n).mul_add(LN_2[1], (-n).mul_add(LN_2[0], x));
    let inner = EXP_M1[..4].iter().rev().fold(EXP_M1[4], |p, &c| p.mul_add(r, c));
    #[expect(clippy::cast_possible_truncation, reason = "within 150 of 0; NaN gives 0")]
    let power = n as i32;
    (power, (r * r).mul_add(inner, r))
}

/// `2^n` for normal numbers.
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23).cast_unsigned())
}
