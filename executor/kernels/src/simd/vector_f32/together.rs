//! Several vectors of floats that go the same way together, instruction by instruction.

use super::{F32Lanes, F64Simd, PowerTable};

/// Methods of each vector, by an index: a closure would be no part of the instruction set.
macro_rules! each {
    ($($name:ident($($other:ident),*);)*) => {
        $(
            #[inline(always)]
            fn $name(mut self, $($other: Self),*) -> Self {
                for at in 0..N {
                    self[at] = self[at].$name($($other[at]),*);
                }
                self
            }
        )*
    };
}

impl<V: F32Lanes, const N: usize> F32Lanes for [V; N] {
    type F64 = [V::F64; N];

    #[inline(always)]
    fn filled(self, x: f32) -> Self {
        [self[0].filled(x); N]
    }

    each! {
        add(other);
        sub(other);
        mul(other);
        div(other);
        mul_add(factor, addend);
        larger(other);
        smaller(other);
        clamp(low, high);
        round();
        power_of_two();
        scaled(n);
        negative();
        with_signs(of);
        where_negative(of, others);
        where_less(a, b, others);
    }

    #[inline(always)]
    fn split(self) -> [Self; 2] {
        let (mut n, mut rest) = (self, self);
        for at in 0..N {
            [n[at], rest[at]] = self[at].split();
        }
        [n, rest]
    }

    #[inline(always)]
    fn is_any_outside(self, low: f32, high: f32) -> bool {
        let mut is_any = false;
        for of in &self {
            is_any |= of.is_any_outside(low, high);
        }
        is_any
    }
}

impl<D: F64Simd, const N: usize> F64Simd for [D; N] {
    type F32 = [D::F32; N];

    #[inline(always)]
    fn widen(floats: Self::F32) -> Self {
        let mut wide = [D::widen(floats[0]); N];
        for at in 1..N {
            wide[at] = D::widen(floats[at]);
        }
        wide
    }

    #[inline(always)]
    fn narrow(self) -> Self::F32 {
        let mut floats = [self[0].narrow(); N];
        for at in 1..N {
            floats[at] = self[at].narrow();
        }
        floats
    }

    #[inline(always)]
    fn filled(self, x: f64) -> Self {
        [self[0].filled(x); N]
    }

    each! {
        sub(other);
        mul(other);
        mul_add(factor, addend);
    }

    #[inline(always)]
    fn powers(mut self, table: &PowerTable) -> Self {
        for of in &mut self {
            *of = of.powers(table);
        }
        self
    }
}
