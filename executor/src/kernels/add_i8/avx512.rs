//! Sixteen elements at a time.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_loadu_si128, _mm_set1_epi8, _mm_storeu_si128, _mm_xor_si128,
    _mm512_add_epi32, _mm512_cvtepi32_epi8, _mm512_cvtepu8_epi32, _mm512_set1_epi32,
    _mm512_slli_epi32, _mm512_sub_epi32,
};

use super::{Rows, scalar};
use crate::kernels::requantise::avx512::Lanes;

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
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
        // SAFETY: sixteen elements are there.
        unsafe {
            let x = a.scaled(operand(rows.a.add(at), rows.flip, rows.zero_points[0]));
            let y = b.scaled(operand(rows.b.add(at), rows.flip, rows.zero_points[1]));
            let bytes: __m128i = _mm512_cvtepi32_epi8(sum.stored(_mm512_add_epi32(x, y)));
            _mm_storeu_si128(rows.output.add(at).cast(), bytes);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}

/// # Safety
/// Sixteen bytes are there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn operand(from: *const u8, flip: u8, zero_point: i32) -> __m512i {
    // SAFETY: as the caller promises.
    let bytes = unsafe { _mm_loadu_si128(from.cast()) };
    let x = _mm512_cvtepu8_epi32(_mm_xor_si128(bytes, _mm_set1_epi8(flip.cast_signed())));
    _mm512_slli_epi32::<20>(_mm512_sub_epi32(x, _mm512_set1_epi32(zero_point)))
}
