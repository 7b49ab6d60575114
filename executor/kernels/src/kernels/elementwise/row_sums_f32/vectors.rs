//! Four rows at a time, each in the vectors of sixteen lanes.

use super::{LANES, Rows};
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

/// Rows at a time.
const TOGETHER: usize = 4;

/// Vectors of sixteen lanes, at most.
const PARTS: usize = 4;

pub(super) struct Vectors;

impl Kernel for Vectors {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, &Rows { input, len, count, sums }: &Rows) {
        for first in (0..count).step_by(TOGETHER) {
            // SAFETY: within the rows. Where four are no longer left the last one is added again.
            unsafe {
                let row = [0, 1, 2, 3].map(|at| input.add((first + at).min(count - 1) * len));
                let four = four::<S::F32>(isa, row, len);
                for (at, sum) in four.into_iter().enumerate().take(count - first) {
                    sums.add(first + at).write_unaligned(sum);
                }
            }
        }
    }
}

/// # Safety
/// `len` floats are readable at each row.
#[inline(always)]
unsafe fn four<V: F32Simd>(isa: V::Isa, rows: [*const f32; 4], len: usize) -> [f32; 4] {
    let parts = LANES / V::LANES;
    let whole = len / LANES * LANES;
    let mut lanes = [[V::splat(isa, 0.0); PARTS]; TOGETHER];
    for at in (0..whole).step_by(LANES) {
        unrolled!(4: row < TOGETHER, {
            unrolled!(4: part < parts, {
                // SAFETY: within the row.
                let x = unsafe { V::load(isa, rows[row].add(at + part * V::LANES)) };
                lanes[row][part] = lanes[row][part].add(x);
            });
        });
    }
    unrolled!(4: row < TOGETHER, {
        if parts == 4 {
            lanes[row][0] = lanes[row][0].add(lanes[row][2]);
            lanes[row][1] = lanes[row][1].add(lanes[row][3]);
        }
        if parts >= 2 {
            lanes[row][0] = lanes[row][0].add(lanes[row][1]);
        }
    });
    let mut sums = V::folded([lanes[0][0], lanes[1][0], lanes[2][0], lanes[3][0]]);
    for at in whole..len {
        unrolled!(4: row < TOGETHER, {
            // SAFETY: within the row.
            sums[row] += unsafe { rows[row].add(at).read_unaligned() };
        });
    }
    sums
}
