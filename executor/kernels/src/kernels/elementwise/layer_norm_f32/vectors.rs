//! Four rows at a time: what a row's lanes have in common takes as long to find as a row of 64
//! elements to read. Each row is read three times, from L1.

use std::marker::PhantomData;

use super::super::four_rows::{Itself, RowsKernel, Square, TOGETHER, all, filled, sums};
use super::Rows;
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

/// The result of an element, by the mean of its row and 1 over the deviation.
pub(super) trait Expression {
    /// Of the elements of a vector.
    fn of<V: F32Simd>(x: V, row: [V; 2], factor: V, shift: V) -> V;

    /// Of one element, with the same bits.
    fn of_one(x: f32, row: [f32; 2], factor: f32, shift: f32) -> f32;
}

/// [`LayerNormOrder::Moved`](super::LayerNormOrder::Moved).
pub(super) struct Moved;

impl Expression for Moved {
    #[inline(always)]
    fn of<V: F32Simd>(x: V, [mean, inverse]: [V; 2], factor: V, shift: V) -> V {
        let factor = inverse.mul(factor);
        x.mul(factor).add(shift.sub(mean.mul(factor)))
    }

    #[inline(always)]
    fn of_one(x: f32, [mean, inverse]: [f32; 2], factor: f32, shift: f32) -> f32 {
        let factor = inverse * factor;
        x * factor + (shift - mean * factor)
    }
}

/// [`LayerNormOrder::Distance`](super::LayerNormOrder::Distance).
pub(super) struct Distance;

impl Expression for Distance {
    #[inline(always)]
    fn of<V: F32Simd>(x: V, [mean, inverse]: [V; 2], factor: V, shift: V) -> V {
        x.sub(mean).mul(inverse).mul(factor).add(shift)
    }

    #[inline(always)]
    fn of_one(x: f32, [mean, inverse]: [f32; 2], factor: f32, shift: f32) -> f32 {
        ((x - mean) * inverse) * factor + shift
    }
}

pub(super) struct LayerNormVectors<E>(PhantomData<E>);

impl<E: Expression> Kernel for LayerNormVectors<E> {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, rows: &Rows) {
        // SAFETY: as for the work. What is read of some rows is read before any of them is written.
        unsafe { all::<Self, S::F32>(isa, rows, rows.count) };
    }
}

impl<E: Expression> RowsKernel for LayerNormVectors<E> {
    type Work = Rows;

    #[inline(always)]
    unsafe fn some<V: F32Simd, const N: usize>(isa: V::Isa, rows: &Rows, first: usize) {
        // SAFETY: as the caller promises.
        unsafe { some::<E, V, N>(isa, rows, first) };
    }
}

/// # Safety
/// Rows from the one `first` on are within those of the work, `N` of them, at most four.
#[inline(always)]
unsafe fn some<E: Expression, V: F32Simd, const N: usize>(isa: V::Isa, rows: &Rows, first: usize) {
    let &Rows { input, output, factors, shifts, len, .. } = rows;
    let from = [0, 1, 2, 3].map(|row| input.wrapping_add((first + row) * len));
    // SAFETY: within the rows.
    let means = unsafe { sums::<V, Itself, N>(isa, from, len, [0.0; TOGETHER]) };
    let means = means.map(|sum| rows.mean(sum));
    // SAFETY: within the rows.
    let squares = unsafe { sums::<V, Square, N>(isa, from, len, means) };
    let inverses = filled::<V, N>(isa, squares.map(|sum| rows.inverse(sum)));
    let means = filled::<V, N>(isa, means);
    let to = output.wrapping_add(first * len);
    let whole = len / V::LANES * V::LANES;
    for at in (0..whole).step_by(V::LANES) {
        // SAFETY: within the rows, and a factor and a shift for each column.
        unsafe {
            let (factor, shift) = (V::load(isa, factors.add(at)), V::load(isa, shifts.add(at)));
            unrolled!(4: row < N, {
                let x = V::load(isa, from[row].add(at));
                let y = E::of(x, [means[row], inverses[row]], factor, shift);
                y.store(to.add(row * len + at));
            });
        }
    }
    let rest = len - whole;
    if rest > 0 {
        // SAFETY: so many are left of each row.
        unsafe {
            let factor = V::load_first(isa, factors.add(whole), rest);
            let shift = V::load_first(isa, shifts.add(whole), rest);
            unrolled!(4: row < N, {
                let x = V::load_first(isa, from[row].add(whole), rest);
                let y = E::of(x, [means[row], inverses[row]], factor, shift);
                y.store_first(to.add(row * len + whole), rest);
            });
        }
    }
}
