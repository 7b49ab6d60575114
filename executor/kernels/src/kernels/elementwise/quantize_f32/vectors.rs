//! Quotients by products with the reciprocal, corrected twice by what is left of the float: each
//! correction's remainder is exact, and from a quotient that is off by less than its last place the
//! second one gives what a division would, in a third of the time.
//!
//! Of bytes four vectors at a time go without: as parts of a step the products alone tell what a
//! quotient is rounded to, but where one is about a half.

use super::{LIMIT, Row};
use crate::simd::requantise::{RequantiseSimd, offset};
use crate::simd::vector_f32::{F32Lanes, F32Simd};
use crate::simd::vector_i32::I32Simd;
use crate::simd::{Kernel, Simd};

/// Parts of a step that products are computed in: so many bits.
const PART_BITS: u8 = 13;
const PARTS: i32 = 1 << PART_BITS;

/// Steps on either side that products are computed for: no zero point brings more into the range of
/// a byte. What is beyond counts as about a half.
const FAR: f32 = 256.5;

/// Parts on either side of a half that products don't decide. They are off by less than one and a
/// half: of 256 steps one part in 2^23 for the reciprocal and as much for the product, and what
/// is cut off of the last part.
const UNSURE: i32 = 2;

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
    let mut begin = 0;
    // SAFETY: elements of the row.
    unsafe {
        if SIZE == 1 {
            let parts = Parts::<S>::new(isa, row);
            let four = 4 * S::I32::LANES;
            while row.len - begin >= four {
                if !parts.four(row, begin) {
                    for at in (begin..begin + four).step_by(S::I32::LANES) {
                        of.vector::<SIZE>(row, at, S::I32::LANES);
                    }
                }
                begin += four;
            }
        }
        for at in (begin..whole).step_by(S::I32::LANES) {
            of.vector::<SIZE>(row, at, S::I32::LANES);
        }
        if whole < row.len {
            of.vector::<SIZE>(row, whole, row.len - whole);
        }
    }
}

/// What makes bytes of floats by products.
struct Parts<S: Simd> {
    isa: S,
    factor: S::F32,
    limits: [S::F32; 2],
    /// A half, and the zero point as of unsigned bytes.
    addend: S::I32,
    bits: S::I32,
    unsure: S::I32,
    near: S::I32,
    range: <S::I32 as RequantiseSimd>::Narrow,
}

impl<S: Simd> Parts<S> {
    #[inline(always)]
    fn new(isa: S, row: &Row) -> Self {
        let far = FAR * f32::from(1u16 << PART_BITS);
        let (low, high) = row.range;
        let zero_point = row.zero_point + offset(low);
        Self {
            isa,
            factor: S::F32::splat(isa, f32::from(1u16 << PART_BITS) / row.scale),
            limits: [S::F32::splat(isa, -far), S::F32::splat(isa, far)],
            addend: S::I32::splat(isa, PARTS / 2 + zero_point * PARTS),
            bits: S::I32::splat(isa, i32::from(PART_BITS)),
            unsure: S::I32::splat(isa, UNSURE),
            // The bits of the parts of a step, but for those that are within.
            near: S::I32::splat(isa, (PARTS - 1) & !(2 * UNSURE - 1)),
            range: S::I32::narrow(isa, (low, high)),
        }
    }

    /// Stores four vectors of integers from the float `at` on, unless a quotient is about a half or
    /// no number: returns whether it has.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    unsafe fn four(&self, row: &Row, at: usize) -> bool {
        let mut four = [self.addend; 4];
        let mut most = self.unsure;
        for (nth, stored) in four.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            let parts = unsafe { self.parts(row.input.add(at + nth * S::I32::LANES)) };
            let sum = parts.add(self.addend);
            most = most.max_unsigned(sum.add(self.unsure).missing(self.near));
            *stored = sum.shift_right(self.bits);
        }
        if most.any_reaches_unsigned(self.near) {
            return false;
        }
        // SAFETY: as the caller promises.
        unsafe { S::I32::store_narrow(four, &self.range, row.output.add(at), 4 * S::I32::LANES) };
        true
    }

    /// The quotients of a vector of integers, in parts of a step.
    ///
    /// # Safety
    /// So many floats are there.
    #[inline(always)]
    unsafe fn parts(&self, from: *const f32) -> S::I32 {
        let mut floats = [self.factor; 2];
        unrolled!(2: nth < S::I32::LANES / S::F32::LANES, {
            // SAFETY: as the caller promises.
            let x = unsafe { S::F32::load(self.isa, from.add(nth * S::F32::LANES)) };
            // What is no number becomes a limit, or 0 parts where the machine makes that of it.
            floats[nth] = x.mul(self.factor).larger(self.limits[0]).smaller(self.limits[1]);
        });
        S::I32::whole_parts(floats)
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
