//! Eight elements at a time.

use core::arch::x86_64::{
    __m256i, _mm_loadl_epi64, _mm_set1_epi8, _mm_xor_si128, _mm256_add_epi32, _mm256_cvtepu8_epi32,
    _mm256_set1_epi32, _mm256_slli_epi32, _mm256_storeu_si256, _mm256_sub_epi32,
};

use super::{Rows, scalar};
use crate::kernels::requantise::avx2::Lanes;

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: scalings are as wide as a vector.
    let (a, b, sum) = unsafe {
        (
            Lanes::load(&rows.scalings[0], 0),
            Lanes::load(&rows.scalings[1], 0),
            Lanes::load(&rows.sum, 0),
        )
    };
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let mut values = [0i32; LANES];
        // SAFETY: eight elements are there, and eight numbers of our own.
        unsafe {
            let x = a.scaled(operand(rows.a.add(at), rows.flip, rows.zero_points[0]));
            let y = b.scaled(operand(rows.b.add(at), rows.flip, rows.zero_points[1]));
            let stored = sum.stored(_mm256_add_epi32(x, y));
            _mm256_storeu_si256(values.as_mut_ptr().cast(), stored);
        }
        for (lane, value) in values.iter().enumerate() {
            // SAFETY: an element that is there.
            unsafe { *rows.output.add(at + lane) = value.to_le_bytes()[0] };
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
    _mm256_slli_epi32::<20>(_mm256_sub_epi32(x, _mm256_set1_epi32(zero_point)))
}
