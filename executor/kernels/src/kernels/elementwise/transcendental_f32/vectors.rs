//! Vector by vector; the last few elements are part of one.

use std::marker::PhantomData;

use super::{
    EXP_M1, EXP_RANGE, GELU_TANH, LARGE_ANGLE, LEAST, LEAST_NORMAL_EXP, LN_2, LOG_1P, LOG2_E,
    LOG2_E_32, PI, POWER_OF_REST, POWERS, Row, SIGMOID_BY_TABLE, SIN, SUBNORMAL, TAIL, TAIL_T,
    TO_INTEGER,
};
use crate::simd::vector_f32::{F32Simd, F64Simd};
use crate::simd::{Kernel, Simd};

/// A function of each lane.
pub(in super::super) trait Each {
    /// From this size on numbers are computed one by one.
    const LARGE: f32 = f32::INFINITY;

    fn of<V: F32Simd>(x: V) -> V;

    /// The function of a large number.
    fn of_large(x: f32) -> f32 {
        x
    }
}

/// Rows of a function.
pub(super) struct FunctionRows<E>(PhantomData<E>);

impl<E: Each> Kernel for FunctionRows<E> {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, &Row { input, output, len }: &Row) {
        let whole = len / S::F32::LANES * S::F32::LANES;
        // SAFETY: whole vectors are within the row, and of the last one the elements that are left.
        unsafe {
            for at in (0..whole).step_by(S::F32::LANES) {
                let x = S::F32::load(isa, input.add(at));
                E::of(x).store(output.add(at));
                large::<E, S::F32>(x, output.add(at), S::F32::LANES);
            }
            let rest = len - whole;
            if rest > 0 {
                let x = S::F32::load_first(isa, input.add(whole), rest);
                E::of(x).store_first(output.add(whole), rest);
                large::<E, S::F32>(x, output.add(whole), rest);
            }
        }
    }
}

/// Computes the large ones of the first `count` lanes.
///
/// # Safety
/// As many floats are writable.
#[inline(always)]
unsafe fn large<E: Each, V: F32Simd>(x: V, output: *mut f32, count: usize) {
    if E::LARGE < f32::INFINITY && x.negative().is_any_less(x.filled(-E::LARGE.next_down())) {
        let mut lanes = [0.0; 16];
        // SAFETY: a vector has no more lanes; the caller promises the rest.
        unsafe {
            x.store(lanes.as_mut_ptr());
            for (at, &x) in lanes.iter().enumerate().take(count) {
                if x.abs() >= E::LARGE {
                    output.add(at).write_unaligned(E::of_large(x));
                }
            }
        }
    }
}

pub(super) struct Sigmoid;

impl Each for Sigmoid {
    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
        // The exponential of the negative side never overflows.
        let e = NormalExp::of(x.negative());
        let r = x.filled(1.0).div(x.filled(1.0).add(e));
        // For negative x it is e / (1 + e); a NaN has gone through `e`.
        r.mul(e).where_negative(x, r)
    }
}

pub(super) struct SigmoidByTable;

impl Each for SigmoidByTable {
    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
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
    fn of<V: F32Simd>(x: V) -> V {
        let (n, q) = parts(x.filled(2.0).mul(x.negative()));
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
    fn of<V: F32Simd>(x: V) -> V {
        let (n, q) = parts(x);
        q.add(x.filled(1.0)).scaled(n)
    }
}

/// `exp(x)` as a share of something larger: 0 where it is no normal number.
pub(in super::super) struct NormalExp;

impl Each for NormalExp {
    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
        let least = x.filled(LEAST_NORMAL_EXP);
        let (n, q) = parts_from(x, LEAST_NORMAL_EXP);
        x.filled(0.0).where_less(x, least, q.add(x.filled(1.0)).scaled(n))
    }
}

pub(super) struct Elu;

impl Each for Elu {
    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
        // Where the power is too small for a normal number the result is -1.
        let (n, q) = parts(x.negative());
        let power = n.power_of_two();
        power.mul_add(q, power.sub(x.filled(1.0))).where_negative(x, x)
    }
}

pub(super) struct Gelu;

impl Each for Gelu {
    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
        let one = x.filled(1.0);
        let t = one.div(x.negative().mul_add(x.filled(-TAIL_T), one));
        let mut q = x.filled(TAIL[7]);
        for c in [TAIL[6], TAIL[5], TAIL[4], TAIL[3], TAIL[2], TAIL[1], TAIL[0]] {
            q = q.mul_add(t, x.filled(c));
        }
        // The tail beyond |x|, and what is left of the whole.
        let tail = t.mul(q).mul(NormalExp::of(x.mul(x).mul(x.filled(-0.5))));
        x.mul(tail.where_negative(x, one.sub(tail)))
    }
}

pub(super) struct GeluByTanh;

impl Each for GeluByTanh {
    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
        let cube = x.mul(x).mul(x);
        let inner = cube.mul_add(x.filled(GELU_TANH[1]), x).mul(x.filled(GELU_TANH[0]));
        x.mul(x.filled(0.5)).mul(Tanh::of(inner).add(x.filled(1.0)))
    }
}

pub(super) struct Log;

impl Each for Log {
    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
        let zero = x.filled(0.0);
        let is_subnormal = x.sub(x.filled(f32::MIN_POSITIVE));
        let normal = x.mul(x.filled(SUBNORMAL[0])).where_negative(is_subnormal, x);
        let less = x.filled(SUBNORMAL[1]).where_negative(is_subnormal, zero);
        let [n, m] = normal.split();
        let (n, f) = (n.sub(less), m.sub(x.filled(1.0)));
        let mut p = x.filled(LOG_1P[7]);
        for c in [LOG_1P[6], LOG_1P[5], LOG_1P[4], LOG_1P[3], LOG_1P[2], LOG_1P[1], LOG_1P[0]] {
            p = p.mul_add(f, x.filled(c));
        }
        let square = f.mul(f);
        let tail = n.mul_add(x.filled(LN_2[1]), square.mul(f).mul(p));
        let sum = f.add(square.mul_add(x.filled(-0.5), tail));
        let log = n.mul_add(x.filled(LN_2[0]), sum);
        let log = x.where_negative(x.filled(f32::MAX).sub(x), log);
        let log = x.filled(f32::NAN).where_negative(x, log);
        // Less than the least positive number is 0 alone, of either sign.
        let above_zero = normal.negative().add(x.filled(LEAST));
        let log = log.where_negative(above_zero, x.filled(f32::NEG_INFINITY));
        // The sum with what is 0 of all but a NaN, whose sign chose anything above.
        log.add(x.clamp(zero, zero))
    }
}

pub(super) struct Sin;

impl Each for Sin {
    const LARGE: f32 = LARGE_ANGLE;

    #[inline(always)]
    fn of<V: F32Simd>(x: V) -> V {
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

    fn of_large(x: f32) -> f32 {
        x.sin()
    }
}

/// `exp(x)` with the bits of the C library's, of what is not above its range.
#[inline(always)]
fn exp_by_table<V: F32Simd>(x: V) -> V {
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
fn parts<V: F32Simd>(x: V) -> (V, V) {
    parts_from(x, EXP_RANGE.0)
}

/// Likewise; what is below `least` counts as that.
#[inline(always)]
fn parts_from<V: F32Simd>(x: V, least: f32) -> (V, V) {
    let x = x.clamp(x.filled(least), x.filled(EXP_RANGE.1));
    let n = x.mul(x.filled(LOG2_E)).round();
    let r = n.mul_add(x.filled(-LN_2[0]), x);
    let r = n.mul_add(x.filled(-LN_2[1]), r);
    let mut p = x.filled(EXP_M1[4]);
    for c in [EXP_M1[3], EXP_M1[2], EXP_M1[1], EXP_M1[0]] {
        p = p.mul_add(r, x.filled(c));
    }
    (n, r.mul(r).mul_add(p, r))
}
