//! Four rows at a time, each in the vectors of sixteen lanes. What is left behind the last sixteen
//! elements of a row stays in registers.

use super::super::four_rows::{LANES, PARTS, RowsKernel, TOGETHER, all, filled, sums_of};
use super::super::transcendental_f32::scalar::log_of;
use super::super::transcendental_f32::vectors::{Each, NormalExp};
use super::Rows;
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

/// SOFTMAX, or its logarithms.
pub(super) struct SoftmaxVectors<const LOG: bool>;

impl<const LOG: bool> Kernel for SoftmaxVectors<LOG> {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, rows: &Rows) {
        // SAFETY: as for the work. An element is read for the last time before it is written.
        unsafe { all::<Self, S::F32>(isa, rows, rows.count) };
    }
}

impl<const LOG: bool> RowsKernel for SoftmaxVectors<LOG> {
    type Work = Rows;

    #[inline(always)]
    unsafe fn some<V: F32Simd, const N: usize>(isa: V::Isa, rows: &Rows, first: usize) {
        // SAFETY: as the caller promises.
        unsafe { some::<V, N, LOG>(isa, rows, first) };
    }
}

/// Where the vector `v` of four lies that are computed together from element `at` on: each in a row
/// of its own, or behind the one before it.
#[inline(always)]
fn place<V: F32Simd, const N: usize>(v: usize, stride: usize, at: usize) -> usize {
    if N == 1 { at + v * V::LANES } else { v * stride + at }
}

/// # Safety
/// Rows from the one `first` on are within those of the work, `N` of them: four, or one.
#[inline(always)]
unsafe fn some<V: F32Simd, const N: usize, const LOG: bool>(
    isa: V::Isa,
    rows: &Rows,
    first: usize,
) {
    let &Rows { input, output, len, stride, beta, .. } = rows;
    // SAFETY: within the rows.
    let (input, output) = unsafe { (input.add(first * stride), output.add(first * stride)) };
    let (parts, whole) = (LANES / V::LANES, len / LANES * LANES);
    // Elements of the last vectors.
    let rest = |part: usize| (len - whole).saturating_sub(part * V::LANES).min(V::LANES);
    let least = V::splat(isa, f32::NEG_INFINITY);
    let mut most = [least; TOGETHER];
    // Of one row four vectors at a time, as of four rows one.
    let (block, turns) = if N == 1 { (TOGETHER * V::LANES, 1) } else { (LANES, parts) };
    let blocks = whole / block * block;
    for at in (0..blocks).step_by(block) {
        unrolled!(4: turn < turns, {
            unrolled!(4: v < TOGETHER, {
                let at = place::<V, N>(v, stride, at + turn * V::LANES);
                // SAFETY: within the row.
                most[v] = most[v].larger(unsafe { V::load(isa, input.add(at)) });
            });
        });
    }
    if N == 1 {
        most[0] = most[0].larger(most[1]).larger(most[2].larger(most[3]));
    }
    for at in (blocks..whole).step_by(V::LANES) {
        // SAFETY: within the row.
        most[0] = most[0].larger(unsafe { V::load(isa, input.add(at)) });
    }
    let mut last = [[V::splat(isa, 0.0); PARTS]; TOGETHER];
    unrolled!(4: part < parts, {
        let count = rest(part);
        if count > 0 {
            unrolled!(4: row < N, {
                let from = input.wrapping_add(row * stride + whole + part * V::LANES);
                // SAFETY: so many elements are left of the row.
                let x = unsafe { V::load_first(isa, from, count) };
                last[row][part] = x;
                most[row] = most[row].larger(x.first_or(count, least));
            });
        }
    });
    let most = filled::<V, N>(isa, V::largest(most));
    let beta = V::splat(isa, beta);
    let zero = V::splat(isa, 0.0);
    let mut sums = [[zero; PARTS]; TOGETHER];
    for at in (0..blocks).step_by(block) {
        unrolled!(4: turn < turns, {
            let at = at + turn * V::LANES;
            let mut x = [zero; TOGETHER];
            unrolled!(4: v < TOGETHER, {
                // SAFETY: within the row.
                x[v] = unsafe { V::load(isa, input.add(place::<V, N>(v, stride, at))) };
                x[v] = x[v].sub(most[if N == 1 { 0 } else { v }]).mul(beta);
            });
            let exp = NormalExp::of(x);
            unrolled!(4: v < TOGETHER, {
                if !LOG {
                    // SAFETY: within the row.
                    unsafe { exp[v].store(output.add(place::<V, N>(v, stride, at))) };
                }
                let (row, part) = if N == 1 { (0, v % parts) } else { (v, turn) };
                sums[row][part] = sums[row][part].add(exp[v]);
            });
        });
    }
    // Of one row what is left.
    for at in (blocks..whole).step_by(LANES) {
        unrolled!(4: part < parts, {
            let at = at + part * V::LANES;
            // SAFETY: within the row.
            unsafe {
                let exp = NormalExp::of(V::load(isa, input.add(at)).sub(most[0]).mul(beta));
                if !LOG {
                    exp.store(output.add(at));
                }
                sums[0][part] = sums[0][part].add(exp);
            }
        });
    }
    unrolled!(4: part < parts, {
        let count = rest(part);
        if count > 0 {
            unrolled!(4: row < N, {
                let exp = NormalExp::of(last[row][part].sub(most[row]).mul(beta));
                if !LOG {
                    last[row][part] = exp;
                }
                sums[row][part] = sums[row][part].add(exp.first_or(count, zero));
            });
        }
    });
    let sums = sums_of::<V, N>(sums);
    // What is left to do with an exponential, or with an element.
    let of_rows = sums.map(|sum| if LOG { log_of(sum) } else { 1.0 / sum });
    let of_rows = filled::<V, N>(isa, of_rows);
    let finish = |row: usize, x: V| match LOG {
        true => x.sub(most[row]).mul(beta).sub(of_rows[row]),
        false => x.mul(of_rows[row]),
    };
    for at in (0..whole).step_by(V::LANES) {
        unrolled!(4: row < N, {
            let place = row * stride + at;
            let from = if LOG { input } else { output.cast_const() };
            // SAFETY: within the row.
            unsafe { finish(row, V::load(isa, from.add(place))).store(output.add(place)) };
        });
    }
    unrolled!(4: part < parts, {
        let count = rest(part);
        if count > 0 {
            unrolled!(4: row < N, {
                let to = output.wrapping_add(row * stride + whole + part * V::LANES);
                // SAFETY: so many elements are left of the row.
                unsafe { finish(row, last[row][part]).store_first(to, count) };
            });
        }
    });
}
