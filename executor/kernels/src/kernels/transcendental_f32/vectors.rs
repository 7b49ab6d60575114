//! Vector by vector; the last few elements are part of one.

use std::marker::PhantomData;

use super::{EXP_M1, EXP_RANGE, LN_2, LOG2_E, Row};
use crate::simd::floats::{Floats, Kernel};

/// A function of each lane.
pub(super) trait Each {
    fn of<V: Floats>(x: V) -> V;
}

/// Rows of a function.
pub(super) struct Rows<E>(PhantomData<E>);

impl<E: Each> Kernel for Rows<E> {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<V: Floats>(&Row { input, output, len }: &Row) {
        let whole = len / V::LANES * V::LANES;
        // SAFETY: whole vectors are within the row, and of the last one the elements that are left.
        unsafe {
            for at in (0..whole).step_by(V::LANES) {
                E::of(V::load(input.add(at))).store(output.add(at));
            }
            let rest = len - whole;
            if rest > 0 {
                E::of(V::load_first(input.add(whole), rest)).store_first(output.add(whole), rest);
            }
        }
    }
}

pub(super) struct Sigmoid;

impl Each for Sigmoid {
    #[inline(always)]
    fn of<V: Floats>(x: V) -> V {
        // The exponential of the negative side never overflows.
        let e = Exp::of(x.negative());
        let r = all::<V>(1.0).div(all::<V>(1.0).add(e));
        // For negative x it is e / (1 + e); a NaN has gone through `e`.
        r.mul(e).where_negative(x, r)
    }
}

pub(super) struct Tanh;

impl Each for Tanh {
    #[inline(always)]
    fn of<V: Floats>(x: V) -> V {
        let (n, q) = parts(all::<V>(2.0).mul(x.negative()));
        // exp(-2|x|) - 1, and its quotient with exp(-2|x|) + 1. Long before the power is too small
        // for a normal number the result is 1.
        let power = n.power_of_two();
        let m = power.mul_add(q, power.sub(all(1.0)));
        m.div(m.add(all(2.0))).with_signs(x)
    }
}

pub(super) struct Exp;

impl Each for Exp {
    #[inline(always)]
    fn of<V: Floats>(x: V) -> V {
        let (n, q) = parts(x);
        q.add(all(1.0)).scaled(n)
    }
}

/// `exp(x)` is `2^n * (1 + q)`.
#[inline(always)]
fn parts<V: Floats>(x: V) -> (V, V) {
    let x = x.clamp(all(EXP_RANGE.0), all(EXP_RANGE.1));
    let n = x.mul(all(LOG2_E)).round();
    let r = n.mul_add(all(-LN_2[0]), x);
    let r = n.mul_add(all(-LN_2[1]), r);
    let mut p = all::<V>(EXP_M1[4]);
    for c in [EXP_M1[3], EXP_M1[2], EXP_M1[1], EXP_M1[0]] {
        p = p.mul_add(r, all(c));
    }
    (n, r.mul(r).mul_add(p, r))
}

/// One number in all lanes.
#[inline(always)]
fn all<V: Floats>(x: f32) -> V {
    // SAFETY: whoever calls computes with vectors already, which are proof of the instruction set.
    unsafe { V::splat(x) }
}
