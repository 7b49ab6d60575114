//! Several vectors at a time, then vector by vector; the last few elements are part of one.

use std::marker::PhantomData;

use super::{
    ERF, ERF_RANGE, EXP_M1, EXP_RANGE, FLOAT_TO_INTEGER, GELU_TANH, LARGE_ANGLE, LEAST,
    LEAST_NORMAL_EXP, LN_2, LOG_1P, LOG2_E, LOG2_E_32, PI, POWER_OF_REST, POWERS, Row,
    SIGMOID_BY_TABLE, SIN, SUBNORMAL, TO_INTEGER,
};
use crate::simd::vector_f32::{F32Lanes, F32Simd, F64Simd};
use crate::simd::{Kernel, Simd};

/// A function of each lane.
pub(in super::super) trait Each {
    /// The numbers that [`Self::of`] is for, 1 among them; others are rare.
    const RANGE: Option<(f32, f32)> = None;

    fn of<V: F32Lanes>(x: V) -> V;

    /// The function of numbers some of which are rare.
    #[inline(always)]
    fn of_rare<V: F32Simd>(x: V) -> V {
        Self::of(x)
    }
}

/// Vectors whose functions are computed together.
const TOGETHER: usize = 4;

/// Rows of a function.
pub(super) struct FunctionRows<E>(PhantomData<E>);

impl<E: Each> Kernel for FunctionRows<E> {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, &Row { input, output, len }: &Row) {
        let lanes = S::F32::LANES;
        let whole = len / (TOGETHER * lanes) * (TOGETHER * lanes);
        // SAFETY: whole blocks are within the row, and of each vector behind them the elements that
        // are left.
        unsafe {
            for at in (0..whole).step_by(TOGETHER * lanes) {
                let mut x = [S::F32::splat(isa, 0.0); TOGETHER];
                unrolled!(4: v < TOGETHER, {
                    x[v] = S::F32::load(isa, input.add(at + v * lanes));
                });
                let y = if has_rare::<E, _>(x) { of_rare::<E, _>(x) } else { E::of(x) };
                unrolled!(4: v < TOGETHER, { y[v].store(output.add(at + v * lanes)) });
            }
            for at in (whole..len).step_by(lanes) {
                let rest = (len - at).min(lanes);
                let x = S::F32::load_first(isa, input.add(at), rest);
                let has_rare = has_rare::<E, _>(x.first_or(rest, x.filled(1.0)));
                let y = if has_rare { E::of_rare(x) } else { E::of(x) };
                y.store_first(output.add(at), rest);
            }
        }
    }
}

/// Returns whether a lane has a rare number.
#[inline(always)]
fn has_rare<E: Each, V: F32Lanes>(x: V) -> bool {
    match E::RANGE {
        Some((low, high)) => x.is_any_outside(low, high),
        None => false,
    }
}

/// One vector after the other: a loop takes little code.
#[inline(always)]
fn of_rare<E: Each, V: F32Simd>(mut x: [V; TOGETHER]) -> [V; TOGETHER] {
    for of in &mut x {
        *of = E::of_rare(*of);
    }
    x
}

pub(super) struct Sigmoid;

impl Each for Sigmoid {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        // The exponential of the negative side never overflows.
        let below = x.negative();
        let (n, q) = parts_of_negative(below);
        let e = q.add(x.filled(1.0)).scaled(n);
        let e = x.filled(0.0).where_less(below, x.filled(LEAST_NORMAL_EXP), e);
        let r = x.filled(1.0).div(x.filled(1.0).add(e));
        // For negative x it is e / (1 + e); a NaN has gone through `e`.
        r.mul(e).where_negative(x, r)
    }
}

pub(super) struct SigmoidByTable;

impl Each for SigmoidByTable {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let (below, above) = SIGMOID_BY_TABLE;
        let (below, above, zero) = (x.filled(below), x.filled(above), x.filled(0.0));
        let e = exp_by_table(x.where_less(x, below, zero.sub(x)));
        let e = zero.where_less(above, x, e);
        let one = x.filled(1.0);
        e.where_less(x, below, one.div(one.add(e)))
    }
}

pub(super) struct Tanh;

impl Each for Tanh {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let (n, q) = parts_of_negative(x.filled(2.0).mul(x.negative()));
        // exp(-2|x|) - 1, and its quotient with exp(-2|x|) + 1. Long before the power is too small
        // for a normal number the result is 1.
        let power = n.power_of_two();
        let m = power.mul_add(q, power.sub(x.filled(1.0)));
        m.div(m.add(x.filled(2.0))).with_signs(x)
    }
}

pub(super) struct Exp;

impl Each for Exp {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let (n, q) = parts(x);
        q.add(x.filled(1.0)).scaled(n)
    }
}

/// `exp(x)` as a share of something larger: 0 where it is no normal number.
pub(in super::super) struct NormalExp;

impl Each for NormalExp {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let least = x.filled(LEAST_NORMAL_EXP);
        let (n, q) = parts_within(x.clamp(least, x.filled(EXP_RANGE.1)));
        x.filled(0.0).where_less(x, least, q.add(x.filled(1.0)).scaled(n))
    }
}

pub(super) struct Elu;

impl Each for Elu {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        // Where the power is too small for a normal number the result is -1.
        let (n, q) = parts_of_negative(x.negative());
        let power = n.power_of_two();
        power.mul_add(q, power.sub(x.filled(1.0))).where_negative(x, x)
    }
}

pub(super) struct Gelu;

impl Each for Gelu {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let near = x.clamp(x.filled(-ERF_RANGE), x.filled(ERF_RANGE));
        let square = near.mul(near);
        let (mut p, mut q) = (x.filled(ERF[0][5]), x.filled(ERF[1][5]));
        for at in [4, 3, 2, 1, 0] {
            p = p.mul_add(square, x.filled(ERF[0][at]));
            q = q.mul_add(square, x.filled(ERF[1][at]));
        }
        let erf = near.mul(p).div(q).clamp(x.filled(-1.0), x.filled(1.0));
        let half = x.mul(x.filled(0.5));
        half.mul_add(erf, half)
    }
}

pub(super) struct GeluByTanh;

impl Each for GeluByTanh {
    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let cube = x.mul(x).mul(x);
        let inner = cube.mul_add(x.filled(GELU_TANH[1]), x).mul(x.filled(GELU_TANH[0]));
        x.mul(x.filled(0.5)).mul(Tanh::of(inner).add(x.filled(1.0)))
    }
}

pub(super) struct Log;

impl Each for Log {
    const RANGE: Option<(f32, f32)> = Some((f32::MIN_POSITIVE, f32::MAX));

    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let [n, m] = x.split();
        log_of_parts(n, m)
    }

    #[inline(always)]
    fn of_rare<V: F32Simd>(x: V) -> V {
        let zero = x.filled(0.0);
        let is_subnormal = x.sub(x.filled(f32::MIN_POSITIVE));
        let normal = x.mul(x.filled(SUBNORMAL[0])).where_negative(is_subnormal, x);
        let less = x.filled(SUBNORMAL[1]).where_negative(is_subnormal, zero);
        let [n, m] = normal.split();
        let log = log_of_parts(n.sub(less), m);
        let log = x.where_negative(x.filled(f32::MAX).sub(x), log);
        let log = x.filled(f32::NAN).where_negative(x, log);
        // Less than the least positive number is 0 alone, of either sign.
        let above_zero = normal.negative().add(x.filled(LEAST));
        let log = log.where_negative(above_zero, x.filled(f32::NEG_INFINITY));
        // The sum with what is 0 of all but a NaN, whose sign chose anything above.
        log.add(x.clamp(zero, zero))
    }
}

/// The logarithm of `2^n * m`.
#[inline(always)]
fn log_of_parts<V: F32Lanes>(n: V, m: V) -> V {
    let f = m.sub(m.filled(1.0));
    let mut p = m.filled(LOG_1P[7]);
    for c in [LOG_1P[6], LOG_1P[5], LOG_1P[4], LOG_1P[3], LOG_1P[2], LOG_1P[1], LOG_1P[0]] {
        p = p.mul_add(f, m.filled(c));
    }
    let square = f.mul(f);
    let tail = n.mul_add(m.filled(LN_2[1]), square.mul(f).mul(p));
    let sum = f.add(square.mul_add(m.filled(-0.5), tail));
    n.mul_add(m.filled(LN_2[0]), sum)
}

pub(super) struct Sin;

impl Each for Sin {
    const RANGE: Option<(f32, f32)> = Some((-LARGE_ANGLE.next_down(), LARGE_ANGLE.next_down()));

    #[inline(always)]
    fn of<V: F32Lanes>(x: V) -> V {
        let n = x.mul(x.filled(std::f32::consts::FRAC_1_PI)).round();
        // 1 or -1 of odd numbers, 0 of even ones.
        let odd = n.mul(x.filled(0.5)).round().mul_add(x.filled(-2.0), n);
        let mut r = x;
        for part in PI {
            r = n.mul_add(x.filled(-part), r);
        }
        let r = r.mul(odd.mul(odd).mul_add(x.filled(-2.0), x.filled(1.0)));
        let square = r.mul(r);
        let mut p = x.filled(SIN[3]);
        for c in [SIN[2], SIN[1], SIN[0]] {
            p = p.mul_add(square, x.filled(c));
        }
        r.mul(square).mul_add(p, r)
    }

    #[inline(always)]
    fn of_rare<V: F32Simd>(x: V) -> V {
        let (mut angles, mut sines) = ([0.0; 16], [0.0; 16]);
        // SAFETY: a vector has no more lanes.
        unsafe {
            x.store(angles.as_mut_ptr());
            Self::of(x).store(sines.as_mut_ptr());
            one_by_one(&angles, &mut sines);
            V::load(x.isa(), sines.as_ptr())
        }
    }
}

/// The sines of large angles, out of the way of all others.
#[inline(never)]
fn one_by_one(angles: &[f32; 16], sines: &mut [f32; 16]) {
    for (angle, sine) in angles.iter().zip(sines).filter(|(angle, _)| angle.abs() >= LARGE_ANGLE) {
        *sine = angle.sin();
    }
}

/// `exp(x)` with the bits of the C library's, of what is not above its range.
#[inline(always)]
fn exp_by_table<V: F32Lanes>(x: V) -> V {
    let x = V::F64::widen(x.filled(EXP_RANGE.0).larger(x));
    let (parts, to_integer) = (x.filled(LOG2_E_32), x.filled(TO_INTEGER));
    let n = x.mul_add(parts, to_integer);
    let r = x.mul_add(parts, to_integer.sub(n));
    let [c, b, a] = POWER_OF_REST;
    let p = r.mul_add(x.filled(a), x.filled(b)).mul_add(r, x.filled(c));
    p.mul_add(r, x.filled(1.0)).mul(n.powers(&POWERS)).narrow()
}

/// `exp(x)` is `2^n * (1 + q)`.
#[inline(always)]
fn parts<V: F32Lanes>(x: V) -> (V, V) {
    parts_within(x.clamp(x.filled(EXP_RANGE.0), x.filled(EXP_RANGE.1)))
}

/// Likewise of numbers that are not above 0. Those whose power is no normal number, which takes
/// long to make, count as the last one whose power is.
#[inline(always)]
fn parts_of_negative<V: F32Lanes>(x: V) -> (V, V) {
    parts_within(x.filled(LEAST_NORMAL_EXP).larger(x))
}

/// Likewise of numbers whose powers are within the range of floats.
#[inline(always)]
fn parts_within<V: F32Lanes>(x: V) -> (V, V) {
    let to_integer = x.filled(FLOAT_TO_INTEGER);
    let n = x.mul_add(x.filled(LOG2_E), to_integer).sub(to_integer);
    let r = n.mul_add(x.filled(-LN_2[0]), x);
    let r = n.mul_add(x.filled(-LN_2[1]), r);
    let mut p = x.filled(EXP_M1[4]);
    for c in [EXP_M1[3], EXP_M1[2], EXP_M1[1], EXP_M1[0]] {
        p = p.mul_add(r, x.filled(c));
    }
    (n, r.mul(r).mul_add(p, r))
}
