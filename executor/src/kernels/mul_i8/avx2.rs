//! Eight elements at a time.

use core::arch::x86_64::{
    __m256i, _mm_loadl_epi64, _mm_set1_epi8, _mm_xor_si128, _mm256_cvtepu8_epi32,
    _mm256_mullo_epi32, _mm256_set1_epi32, _mm256_sub_epi32,
};

use super::{Rows, scalar};
use crate::kernels::requantise::avx2::{Lanes, store};

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) unsafe fn mul(rows: &Rows) {
    // SAFETY: there are eight channels.
    let lanes = unsafe { Lanes::load(&rows.product, 0) };
    let [a, b] = rows.zero_points;
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: eight elements are there, or one of `b`.
        unsafe {
            let x = operand(rows.a.add(at), rows.flip, a);
            let y = match rows.step {
                0 => _mm256_set1_epi32(i32::from(*rows.b ^ rows.flip) - b),
                _ => operand(rows.b.add(at), rows.flip, b),
            };
            store(rows.output.add(at), LANES, lanes.stored(_mm256_mullo_epi32(x, y)));
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}

/// # Safety
/// Eight bytes are there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn operand(from: *const u8, flip: u8, zero_point: i32) -> __m256i {
    // SAFETY: as the caller promises.
    let bytes = unsafe { _mm_loadl_epi64(from.cast()) };
    let x = _mm256_cvtepu8_epi32(_mm_xor_si128(bytes, _mm_set1_epi8(flip.cast_signed())));
    _mm256_sub_epi32(x, _mm256_set1_epi32(zero_point))
}
