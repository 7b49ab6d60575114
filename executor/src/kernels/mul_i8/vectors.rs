//! Four vectors at a time where the multiplier is quick, as it nearly always is; what is left vector by vector.

use super::Rows;
use crate::kernels::numbers::{Kernel, Numbers};
use crate::kernels::requantise::Quick;

pub(super) struct Mul;

impl Kernel for Mul {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<V: Numbers>(rows: &Rows) {
        // SAFETY: as the caller promises; each arm differs in the steps from element to element of `b` alone.
        unsafe { if rows.step == 1 { of_step::<V, 1>(rows) } else { of_step::<V, 0>(rows) } };
    }
}

/// # Safety
/// As for the rows.
#[inline(always)]
unsafe fn of_step<V: Numbers, const STEP: usize>(rows: &Rows) {
    // SAFETY: `b` has one element at least; there are as many channels as lanes; elements of the rows.
    unsafe {
        let operands = Operands {
            flip: rows.flip,
            zero_points: rows.zero_points.map(|zero_point| V::splat(zero_point)),
            all: V::splat(i32::from(*rows.b ^ rows.flip) - rows.zero_points[1]),
        };
        let done = match rows.product.quick {
            Some(Quick { negative: true }) => quick::<V, STEP, true>(rows, &operands),
            Some(Quick { negative: false }) => quick::<V, STEP, false>(rows, &operands),
            None => 0,
        };
        let by = V::multipliers(&rows.product, 0);
        for at in (done..rows.len).step_by(V::LANES) {
            let count = (rows.len - at).min(V::LANES);
            let x = operands.first(rows.a.add(at), count, 0);
            let y = match STEP {
                0 => operands.all,
                _ => operands.first(rows.b.add(at), count, 1),
            };
            x.mul(y).stored(&by).store_bytes(rows.output.add(at), count);
        }
    }
}

/// Whole fours of vectors; returns how many elements these are.
///
/// # Safety
/// As for the rows.
#[inline(always)]
unsafe fn quick<V: Numbers, const STEP: usize, const NEGATIVE: bool>(
    rows: &Rows,
    operands: &Operands<V>,
) -> usize {
    let whole = rows.len / (4 * V::LANES) * (4 * V::LANES);
    // SAFETY: as many channels as lanes; four vectors of elements are there each time.
    unsafe {
        let (by, range) = (V::quick(&rows.product, 0), V::narrow(&rows.product));
        for at in (0..whole).step_by(4 * V::LANES) {
            let mut values = [operands.all; 4];
            for (v, value) in values.iter_mut().enumerate() {
                let at = at + v * V::LANES;
                let x = operands.whole(rows.a.add(at), 0);
                let y = match STEP {
                    0 => operands.all,
                    _ => operands.whole(rows.b.add(at), 1),
                };
                *value = x.mul(y).rounded::<NEGATIVE>(&by);
            }
            V::store_narrow(values, &range, rows.output.add(at));
        }
    }
    whole
}

/// How bytes become differences from their zero points.
struct Operands<V> {
    flip: u8,
    zero_points: [V; 2],
    /// The first of `b`, which may serve all.
    all: V,
}

impl<V: Numbers> Operands<V> {
    /// # Safety
    /// A vector of elements is there.
    #[inline(always)]
    unsafe fn whole(&self, from: *const u8, which: usize) -> V {
        // SAFETY: as the caller promises.
        unsafe { V::bytes(from, self.flip) }.sub(self.zero_points[which])
    }

    /// # Safety
    /// So many elements are there, at most a vector.
    #[inline(always)]
    unsafe fn first(&self, from: *const u8, count: usize, which: usize) -> V {
        // SAFETY: as the caller promises.
        unsafe { V::first_bytes(from, count, self.flip) }.sub(self.zero_points[which])
    }
}
