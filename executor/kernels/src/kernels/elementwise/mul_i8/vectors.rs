//! Four vectors at a time, the last few elements under a mask, where the multiplier is quick, as it
//! nearly always is; else vector by vector.

use super::MulRows;
use crate::simd::requantise::Quick;
use crate::simd::requantise::RequantiseSimd;
use crate::simd::vector_i32::lanes_of;
use crate::simd::{Kernel, Simd};

pub(super) struct Mul;

impl Kernel for Mul {
    type Work = MulRows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, rows: &MulRows) {
        // SAFETY: as the caller promises; each arm differs in the steps from element to element of
        // `b` alone.
        unsafe {
            if rows.step == 1 {
                of_step::<S::I32, 1>(isa, rows);
            } else {
                of_step::<S::I32, 0>(isa, rows);
            }
        };
    }
}

/// # Safety
/// As for the rows.
#[inline(always)]
unsafe fn of_step<V: RequantiseSimd, const STEP: usize>(isa: V::Isa, rows: &MulRows) {
    // SAFETY: `b` has one element at least; there are as many channels as lanes; elements of the
    // rows.
    unsafe {
        let operands = Operands {
            flip: rows.flip,
            zero_points: rows.zero_points.map(|zero_point| V::splat(isa, zero_point)),
            all: V::splat(isa, i32::from(*rows.b ^ rows.flip) - rows.zero_points[1]),
        };
        match rows.product.quick {
            Some(Quick { negative: true }) => return quick::<V, STEP, true>(isa, rows, &operands),
            Some(Quick { negative: false }) => {
                return quick::<V, STEP, false>(isa, rows, &operands);
            }
            None => {}
        }
        let by = V::multipliers(isa, &rows.product, 0);
        for at in (0..rows.len).step_by(V::LANES) {
            let count = (rows.len - at).min(V::LANES);
            let product = operands.product::<STEP>(rows, at, count);
            product.stored(&by).store_bytes(rows.output.add(at), count);
        }
    }
}

/// # Safety
/// As for the rows; the multiplier is quick.
#[inline(always)]
unsafe fn quick<V: RequantiseSimd, const STEP: usize, const NEGATIVE: bool>(
    isa: V::Isa,
    rows: &MulRows,
    operands: &Operands<V>,
) {
    let block = 4 * V::LANES;
    let whole = rows.len / block * block;
    // SAFETY: as many channels as lanes; elements of the rows.
    unsafe {
        let (by, range) = (V::quick(isa, &rows.product, 0), V::narrow(isa, rows.product.range()));
        for at in (0..whole).step_by(block) {
            quick_block::<V, STEP, NEGATIVE>(rows, operands, &by, &range, at, block);
        }
        if whole < rows.len {
            quick_block::<V, STEP, NEGATIVE>(rows, operands, &by, &range, whole, rows.len - whole);
        }
    }
}

/// Up to four vectors from element `at` on.
///
/// # Safety
/// As for the rows, which have `count` elements there.
#[inline(always)]
unsafe fn quick_block<V: RequantiseSimd, const STEP: usize, const NEGATIVE: bool>(
    rows: &MulRows,
    operands: &Operands<V>,
    by: &V::Quick,
    range: &V::Narrow,
    at: usize,
    count: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut values = [operands.all; 4];
        for (v, value) in values.iter_mut().enumerate() {
            let count = lanes_of(v, count, V::LANES);
            let product = operands.product::<STEP>(rows, at + v * V::LANES, count);
            *value = product.rounded::<NEGATIVE>(by);
        }
        V::store_narrow(values, range, rows.output.add(at), count);
    }
}

/// The constants that turn bytes into differences from their zero points.
struct Operands<V> {
    flip: u8,
    zero_points: [V; 2],
    /// The first of `b`, which may serve all.
    all: V,
}

impl<V: RequantiseSimd> Operands<V> {
    /// The products of `count` elements from `at` on, at most a vector.
    ///
    /// # Safety
    /// So many elements are there.
    #[inline(always)]
    unsafe fn product<const STEP: usize>(&self, rows: &MulRows, at: usize, count: usize) -> V {
        let [a, b] = self.zero_points;
        // SAFETY: as the caller promises; none are read where there are none.
        unsafe {
            let x = V::first_bytes(a.isa(), rows.a.wrapping_add(at), count, self.flip).sub(a);
            let y = match STEP {
                0 => self.all,
                _ => V::first_bytes(a.isa(), rows.b.wrapping_add(at), count, self.flip).sub(b),
            };
            x.mul(y)
        }
    }
}
