//! Sixteen at a time; the last few under a mask.

use core::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_sub_ps,
};

use super::{Kernels, Rows};

const LANES: usize = 16;

/// Rows of an arithmetic, with the steps from element to element.
macro_rules! kernels {
    ($name:ident, $each:ident) => {
        pub(super) const $name: Kernels = {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn run<const A: usize, const B: usize>(rows: &Rows) {
                for at in (0..rows.len).step_by(LANES) {
                    let lanes = (rows.len - at).min(LANES);
                    let mask = u16::try_from((1u32 << lanes) - 1).unwrap_or(u16::MAX);
                    // SAFETY: the mask keeps all three within the rows.
                    unsafe {
                        let a = load::<A>(rows.a, at, mask);
                        let b = load::<B>(rows.b, at, mask);
                        // NaN stays: of an unordered pair these return the second operand.
                        let y = _mm512_max_ps(_mm512_set1_ps(rows.low), $each(a, b));
                        let y = _mm512_min_ps(_mm512_set1_ps(rows.high), y);
                        _mm512_mask_storeu_ps(rows.output.add(at), mask, y);
                    }
                }
            }
            [run::<1, 1>, run::<0, 1>, run::<1, 0>]
        };
    };
}

kernels!(ADD, _mm512_add_ps);
kernels!(SUB, _mm512_sub_ps);
kernels!(MUL, _mm512_mul_ps);

/// # Safety
/// The lanes of the mask are there, or one number where the step is 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn load<const STEP: usize>(from: *const f32, at: usize, mask: u16) -> __m512 {
    // SAFETY: as the caller promises.
    unsafe {
        if STEP == 0 {
            _mm512_set1_ps(from.read_unaligned())
        } else {
            _mm512_maskz_loadu_ps(mask, from.add(at))
        }
    }
}
