//! Eight numbers at a time.

use core::arch::x86_64::{
    _mm256_add_epi32, _mm256_loadu_si256, _mm256_max_epi32, _mm256_min_epi32, _mm256_set1_epi32,
    _mm256_storeu_si256,
};

use super::{RANGE, Rows, scalar};
use crate::kernels::requantise::avx2::Lanes;

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: scalings are as wide as a vector.
    let (a, b) = unsafe { (Lanes::load(&rows.scalings[0], 0), Lanes::load(&rows.scalings[1], 0)) };
    let (low, high) = (_mm256_set1_epi32(RANGE.0), _mm256_set1_epi32(RANGE.1));
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: as many numbers are there.
        unsafe {
            let x = a.stored(_mm256_loadu_si256(rows.inputs[0].add(at).cast()));
            let y = b.stored(_mm256_loadu_si256(rows.inputs[1].add(at).cast()));
            let sum = _mm256_min_epi32(_mm256_max_epi32(_mm256_add_epi32(x, y), low), high);
            _mm256_storeu_si256(rows.output.add(at).cast(), sum);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
