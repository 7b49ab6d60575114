//! Eight at a time; the last few one by one.

use core::arch::x86_64::{
    __m256, _mm256_add_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
    _mm256_set1_ps, _mm256_storeu_ps, _mm256_sub_ps,
};

use super::{Kernels, Rows, scalar};

const LANES: usize = 8;

/// Rows of an arithmetic, with the steps from element to element.
macro_rules! kernels {
    ($name:ident, $each:ident) => {
        pub(super) const $name: Kernels = {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn run<const A: usize, const B: usize>(rows: &Rows) {
                let whole = rows.len / LANES * LANES;
                for at in (0..whole).step_by(LANES) {
                    // SAFETY: eight elements are there.
                    unsafe {
                        let (a, b) = (load::<A>(rows.a, at), load::<B>(rows.b, at));
                        // NaN stays: of an unordered pair these return the second operand.
                        let y = _mm256_max_ps(_mm256_set1_ps(rows.low), $each(a, b));
                        let y = _mm256_min_ps(_mm256_set1_ps(rows.high), y);
                        _mm256_storeu_ps(rows.output.add(at), y);
                    }
                }
                let (a, b) = (rows.a.wrapping_add(whole * A), rows.b.wrapping_add(whole * B));
                let output = rows.output.wrapping_add(whole);
                let rest = Rows { a, b, output, len: rows.len - whole, ..*rows };
                // SAFETY: the rest of the rows, with the same steps.
                unsafe {
                    scalar::$name[if A == 0 {
                        1
                    } else if B == 0 {
                        2
                    } else {
                        0
                    }](&rest)
                };
            }
            [run::<1, 1>, run::<0, 1>, run::<1, 0>]
        };
    };
}

kernels!(ADD, _mm256_add_ps);
kernels!(SUB, _mm256_sub_ps);
kernels!(MUL, _mm256_mul_ps);

/// # Safety
/// Eight elements are there, or one number where the step is 0.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn load<const STEP: usize>(from: *const f32, at: usize) -> __m256 {
    // SAFETY: as the caller promises.
    unsafe {
        if STEP == 0 {
            _mm256_set1_ps(from.read_unaligned())
        } else {
            _mm256_loadu_ps(from.add(at))
        }
    }
}
