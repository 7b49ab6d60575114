//! Four vectors at a time where the result is certain, else vector by vector.

use super::{EXTRA_BITS, Near, Rows};
use crate::kernels::numbers::{Kernel, Numbers};

pub(super) struct Add;

impl Kernel for Add {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<V: Numbers>(rows: &Rows) {
        // SAFETY: as the caller promises.
        unsafe {
            let done = rows.near.map_or(0, |near| certain::<V>(rows, near));
            exact::<V>(rows, done, rows.len);
        }
    }
}

/// Whole fours of vectors the near way, and those with an uncertain result the other; returns how many elements these
/// are.
///
/// # Safety
/// As for the rows.
#[inline(always)]
unsafe fn certain<V: Numbers>(rows: &Rows, near: Near) -> usize {
    let whole = rows.len / (4 * V::LANES) * (4 * V::LANES);
    let step = 1 << near.bits;
    // SAFETY: four vectors of elements are there each time.
    unsafe {
        let [a, b, offset] = [near.a, near.b, near.offset].map(|x| V::splat(x));
        let (bits, fraction, margin) =
            (V::splat(near.bits), V::splat(step - 1), V::splat(near.margin));
        let within = V::splat(step - 2 * near.margin);
        let range = V::narrow(&rows.sum);
        for at in (0..whole).step_by(4 * V::LANES) {
            let (mut values, mut furthest) = ([a; 4], V::splat(0));
            for (v, value) in values.iter_mut().enumerate() {
                let at = at + v * V::LANES;
                let x = V::bytes(rows.a.add(at), rows.flip).mul(a);
                let y = V::bytes(rows.b.add(at), rows.flip).mul(b);
                let sum = x.add(y).add(offset);
                // How far above the margin it is, as an unsigned number.
                furthest = furthest.max_unsigned(sum.and(fraction).sub(margin));
                *value = sum.shift_right(bits);
            }
            if furthest.any_reaches_unsigned(within) {
                V::run::<Exact>(&(*rows, at));
            } else {
                V::store_narrow(values, &range, rows.output.add(at));
            }
        }
    }
    whole
}

/// A block with an uncertain result: a function of its own, out of the way of the loop that is nearly always gone.
struct Exact;

impl Kernel for Exact {
    /// The rows, and where the block begins.
    type Work = (Rows, usize);

    #[inline(always)]
    unsafe fn run<V: Numbers>(&(ref rows, at): &(Rows, usize)) {
        // SAFETY: as the caller promises.
        unsafe { exact::<V>(rows, at, at + 4 * V::LANES) };
    }
}

/// As the reference, rounding by rounding.
///
/// # Safety
/// As for the rows.
#[inline(always)]
unsafe fn exact<V: Numbers>(rows: &Rows, first: usize, end: usize) {
    let whole = first + (end - first) / V::LANES * V::LANES;
    // SAFETY: scalings are as wide as a vector; elements of the rows.
    unsafe {
        let scales = Scales {
            operands: [0, 1].map(|which| V::multipliers(&rows.scalings[which], 0)),
            zero_points: rows.zero_points.map(|zero_point| V::splat(zero_point)),
            sum: V::multipliers(&rows.sum, 0),
        };
        for at in (first..whole).step_by(V::LANES) {
            let (x, y) = (V::bytes(rows.a.add(at), rows.flip), V::bytes(rows.b.add(at), rows.flip));
            scales.sum(x, y).store_bytes(rows.output.add(at), V::LANES);
        }
        let rest = end - whole;
        if rest > 0 {
            let x = V::first_bytes(rows.a.add(whole), rest, rows.flip);
            let y = V::first_bytes(rows.b.add(whole), rest, rows.flip);
            scales.sum(x, y).store_bytes(rows.output.add(whole), rest);
        }
    }
}

/// What the exact way takes.
struct Scales<V: Numbers> {
    operands: [V::Multipliers; 2],
    zero_points: [V; 2],
    sum: V::Multipliers,
}

impl<V: Numbers> Scales<V> {
    #[inline(always)]
    fn sum(&self, x: V, y: V) -> V {
        let x = x.sub(self.zero_points[0]).shift_left::<EXTRA_BITS>().scaled(&self.operands[0]);
        let y = y.sub(self.zero_points[1]).shift_left::<EXTRA_BITS>().scaled(&self.operands[1]);
        x.add(y).stored(&self.sum)
    }
}
