//! Four rows at a time.

use super::super::four_rows::{Itself, TOGETHER, sums};
use super::Rows;
use crate::simd::{Kernel, Simd};

pub(super) struct RowSumVectors;

impl Kernel for RowSumVectors {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, &Rows { input, len, count, sums: to }: &Rows) {
        for first in (0..count).step_by(TOGETHER) {
            // SAFETY: within the rows. Where four are no longer left the last one is added again.
            unsafe {
                let row = [0, 1, 2, 3].map(|at| input.add((first + at).min(count - 1) * len));
                let four = sums::<S::F32, Itself, TOGETHER>(isa, row, len, [0.0; TOGETHER]);
                for (at, sum) in four.into_iter().enumerate().take(count - first) {
                    to.add(first + at).write_unaligned(sum);
                }
            }
        }
    }
}
