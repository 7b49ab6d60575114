//! Sixteen numbers at a time.

use core::arch::x86_64::{
    _mm512_add_epi32, _mm512_loadu_si512, _mm512_max_epi32, _mm512_min_epi32, _mm512_set1_epi32,
    _mm512_storeu_si512,
};

use super::{RANGE, Rows, scalar};
use crate::kernels::requantise::avx512::Lanes;

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: scalings are as wide as a vector.
    let (a, b) = unsafe { (Lanes::load(&rows.scalings[0], 0), Lanes::load(&rows.scalings[1], 0)) };
    let (low, high) = (_mm512_set1_epi32(RANGE.0), _mm512_set1_epi32(RANGE.1));
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: as many numbers are there.
        unsafe {
            let x = a.stored(_mm512_loadu_si512(rows.inputs[0].add(at).cast()));
            let y = b.stored(_mm512_loadu_si512(rows.inputs[1].add(at).cast()));
            let sum = _mm512_min_epi32(_mm512_max_epi32(_mm512_add_epi32(x, y), low), high);
            _mm512_storeu_si512(rows.output.add(at).cast(), sum);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
