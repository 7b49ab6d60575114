//! Quotients by products with the reciprocal, corrected twice by what is left of the float: each
//! correction's remainder is exact, and from a quotient that is off by less than its last place the
//! second one gives what a division would, in a third of the time.

use super::{LIMIT, Row};
use crate::simd::vector_f32::F32Simd;
use crate::simd::vector_i32::I32Simd;
use crate::simd::{Kernel, Simd};

pub(super) struct Quantize;

impl Kernel for Quantize {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, row: &Row) {
        // SAFETY: as the caller promises; each arm differs in the size of results alone.
        unsafe {
            match row.size {
                1 => sized::<S, 1>(isa, row),
                _ => sized::<S, 2>(isa, row),
            }
        }
    }
}

/// # Safety
/// As for the row, whose results have so many bytes.
#[inline(always)]
unsafe fn sized<S: Simd, const SIZE: usize>(isa: S, row: &Row) {
    let of = Constants::<S>::new(isa, row);
    let whole = row.len / S::I32::LANES * S::I32::LANES;
    // SAFETY: elements of the row.
    unsafe {
        for at in (0..whole).step_by(S::I32::LANES) {
            of.vector::<SIZE>(row, at, S::I32::LANES);
        }
        if whole < row.len {
            of.vector::<SIZE>(row, whole, row.len - whole);
        }
    }
}

struct Constants<S: Simd> {
    isa: S,
    reciprocal: S::F32,
    minus_scale: S::F32,
    limits: [S::F32; 2],
    zero_point: S::I32,
    range: [S::I32; 2],
}

impl<S: Simd> Constants<S> {
    #[inline(always)]
    fn new(isa: S, row: &Row) -> Self {
        let limit = LIMIT * row.scale;
        Self {
            isa,
            reciprocal: S::F32::splat(isa, 1.0 / row.scale),
            minus_scale: S::F32::splat(isa, -row.scale),
            limits: [S::F32::splat(isa, -limit), S::F32::splat(isa, limit)],
            zero_point: S::I32::splat(isa, row.zero_point),
            range: [S::I32::splat(isa, row.range.0), S::I32::splat(isa, row.range.1)],
        }
    }

    /// `count` elements from the one `at` on, at most a vector of integers.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    unsafe fn vector<const SIZE: usize>(&self, row: &Row, at: usize, count: usize) {
        let second = if S::F32::LANES < S::I32::LANES { S::F32::LANES } else { 0 };
        // SAFETY: as the caller promises.
        unsafe {
            let rest = count.saturating_sub(second).min(S::F32::LANES);
            let first = self.steps(row, at, count.min(S::F32::LANES));
            let steps = [first, self.steps(row, at + second, rest)];
            let stored = S::I32::whole_parts(steps).add(self.zero_point);
            let stored = stored.clamp(self.range[0], self.range[1]);
            match SIZE {
                1 => stored.store_bytes(row.output.add(at), count),
                _ => stored.store_words(row.output.add(2 * at).cast(), count),
            }
        }
    }

    /// What the quotients of `count` floats are the whole parts of, once they are rounded.
    ///
    /// # Safety
    /// So many are there, at most a vector; none are read where there are none.
    #[inline(always)]
    unsafe fn steps(&self, row: &Row, at: usize, count: usize) -> S::F32 {
        let from = row.input.wrapping_add(at);
        // SAFETY: as the caller promises.
        let x = unsafe {
            match count == S::F32::LANES {
                true => S::F32::load(self.isa, from),
                false => S::F32::load_first(self.isa, from, count),
            }
        };
        let zero = x.filled(0.0);
        let x =
            x.where_less(x.negative(), x.filled(1.0), zero).clamp(self.limits[0], self.limits[1]);
        let mut quotient = x.mul(self.reciprocal);
        let rest = quotient.mul_add(self.minus_scale, x);
        quotient = rest.mul_add(self.reciprocal, quotient);
        let rest = quotient.mul_add(self.minus_scale, x);
        quotient = rest.mul_add(self.reciprocal, quotient);
        // The last float below a half: with a half itself, that would be 1.
        let half = x.filled(0.5f32.next_down());
        quotient.add(half.with_signs(quotient))
    }
}
