//! Four vectors at a time, the last few elements under a mask, where the result is certain; else
//! vector by vector.

use super::{AddRows, Combine, EXTRA_BITS, EXTRA_BITS_OF_SQUARES, Near, SquareOfDifference, Sum};
use crate::simd::requantise::RequantiseSimd;
use crate::simd::vector_i32::lanes_of;
use crate::simd::{Kernel, Simd};

pub(super) struct Add;

impl Kernel for Add {
    type Work = AddRows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, rows: &AddRows) {
        // SAFETY: as the caller promises.
        unsafe {
            match rows.near {
                Some(near) if rows.flip == 0 => {
                    Certain::<S::I32>::new(isa, rows, near).all::<false>(rows);
                }
                Some(near) => Certain::<S::I32>::new(isa, rows, near).all::<true>(rows),
                None => exact::<S::I32, Sum, EXTRA_BITS>(isa, rows, 0, rows.len),
            }
        }
    }
}

/// Squares of differences, rounding by rounding.
pub(super) struct Squares;

impl Kernel for Squares {
    type Work = AddRows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, rows: &AddRows) {
        // SAFETY: as the caller promises.
        unsafe {
            exact::<S::I32, SquareOfDifference, EXTRA_BITS_OF_SQUARES>(isa, rows, 0, rows.len);
        }
    }
}

/// The constants of the approximate path.
struct Certain<V: RequantiseSimd> {
    a: V,
    b: V,
    offset: V,
    bits: V,
    /// All bits below a step of the output.
    fraction: V,
    /// So many of them missing, a result is uncertain.
    limit: V,
    range: V::Narrow,
}

impl<V: RequantiseSimd> Certain<V> {
    #[inline(always)]
    fn new(isa: V::Isa, rows: &AddRows, near: Near) -> Self {
        let step = 1 << near.bits;
        Self {
            a: V::splat(isa, near.a),
            b: V::splat(isa, near.b),
            offset: V::splat(isa, near.offset),
            bits: V::splat(isa, near.bits),
            fraction: V::splat(isa, step - 1),
            limit: V::splat(isa, step - 2 * near.margin),
            range: V::narrow(isa, rows.sum.range()),
        }
    }

    /// # Safety
    /// As for the rows.
    #[inline(always)]
    unsafe fn all<const SIGNED: bool>(&self, rows: &AddRows) {
        let block = 4 * V::LANES;
        let whole = rows.len / block * block;
        // SAFETY: elements of the rows.
        unsafe {
            for at in (0..whole).step_by(block) {
                self.block::<SIGNED>(rows, at, block);
            }
            if whole < rows.len {
                self.block::<SIGNED>(rows, whole, rows.len - whole);
            }
        }
    }

    /// Up to four vectors from element `at` on; the exact way if a result is uncertain.
    ///
    /// # Safety
    /// As for the rows, which have `count` elements there.
    #[inline(always)]
    unsafe fn block<const SIGNED: bool>(&self, rows: &AddRows, at: usize, count: usize) {
        // SAFETY: as the caller promises; none are read where there are none.
        unsafe {
            let (mut values, mut furthest) = ([self.a; 4], self.a.filled(0));
            for (v, value) in values.iter_mut().enumerate() {
                let (at, lanes) = (at + v * V::LANES, lanes_of(v, count, V::LANES));
                let x = self.bytes::<SIGNED>(rows.a.wrapping_add(at), lanes).mul(self.a);
                let y = self.bytes::<SIGNED>(rows.b.wrapping_add(at), lanes).mul(self.b);
                let sum = x.add(y).add(self.offset);
                furthest = furthest.max_unsigned(sum.missing(self.fraction).first(lanes));
                *value = sum.shift_right(self.bits);
            }
            if furthest.any_reaches_unsigned(self.limit) {
                V::Isa::run::<Exact>(&(*rows, at, at + count));
            } else {
                V::store_narrow(values, &self.range, rows.output.add(at), count);
            }
        }
    }

    /// The first `count` bytes as they are stored, at most a vector.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn bytes<const SIGNED: bool>(&self, from: *const u8, count: usize) -> V {
        // SAFETY: as the caller promises.
        unsafe {
            match SIGNED {
                true => V::first_signed_bytes(self.a.isa(), from, count),
                false => V::first_bytes(self.a.isa(), from, count, 0),
            }
        }
    }
}

/// A block with an uncertain result: a function of its own, out of the way of the loop that is
/// nearly always gone.
struct Exact;

impl Kernel for Exact {
    /// The rows, and where the block begins and ends.
    type Work = (AddRows, usize, usize);

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, &(ref rows, first, end): &(AddRows, usize, usize)) {
        // SAFETY: as the caller promises.
        unsafe { exact::<S::I32, Sum, EXTRA_BITS>(isa, rows, first, end) };
    }
}

/// As the reference, rounding by rounding, of operands with so many more bits.
///
/// # Safety
/// As for the rows.
#[inline(always)]
unsafe fn exact<V: RequantiseSimd, C: Combine, const BITS: i32>(
    isa: V::Isa,
    rows: &AddRows,
    first: usize,
    end: usize,
) {
    let whole = first + (end - first) / V::LANES * V::LANES;
    // SAFETY: scalings are as wide as a vector; elements of the rows.
    unsafe {
        let scales = Scales {
            operands: [0, 1].map(|which| V::multipliers(isa, &rows.scalings[which], 0)),
            zero_points: rows.zero_points.map(|zero_point| V::splat(isa, zero_point)),
            sum: V::multipliers(isa, &rows.sum, 0),
        };
        for at in (first..whole).step_by(V::LANES) {
            let (x, y) = (
                V::bytes(isa, rows.a.add(at), rows.flip),
                V::bytes(isa, rows.b.add(at), rows.flip),
            );
            scales.combined::<C, BITS>(x, y).store_bytes(rows.output.add(at), V::LANES);
        }
        let rest = end - whole;
        if rest > 0 {
            let x = V::first_bytes(isa, rows.a.add(whole), rest, rows.flip);
            let y = V::first_bytes(isa, rows.b.add(whole), rest, rows.flip);
            scales.combined::<C, BITS>(x, y).store_bytes(rows.output.add(whole), rest);
        }
    }
}

/// The constants of the exact path.
struct Scales<V: RequantiseSimd> {
    operands: [V::Multipliers; 2],
    zero_points: [V; 2],
    sum: V::Multipliers,
}

impl<V: RequantiseSimd> Scales<V> {
    #[inline(always)]
    fn combined<C: Combine, const BITS: i32>(&self, x: V, y: V) -> V {
        let x = x.sub(self.zero_points[0]).shift_left::<BITS>();
        let y = y.sub(self.zero_points[1]).shift_left::<BITS>();
        C::vectors(x.scaled(&self.operands[0]), y.scaled(&self.operands[1])).stored(&self.sum)
    }
}
