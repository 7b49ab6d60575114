//! Sixty-four elements at a time where the result is certain, else sixteen.

use core::arch::x86_64::{
    __m128i, _mm_loadu_si128, _mm_set1_epi8, _mm_storeu_si128, _mm_xor_si128, _mm512_add_epi32,
    _mm512_and_si512, _mm512_cmpge_epu32_mask, _mm512_cvtepi32_epi8, _mm512_cvtepu8_epi32,
    _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_slli_epi32,
    _mm512_srav_epi32, _mm512_storeu_si512, _mm512_sub_epi32,
};

use super::{EXTRA_BITS, Near, Rows, scalar};
use crate::kernels::requantise::avx512::{Lanes, Narrow, differences};

const LANES: usize = 16;
const BITS: u32 = EXTRA_BITS.unsigned_abs();

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: as the caller promises.
    unsafe { rows.near.map_or_else(|| exact(rows), |near| certain(rows, near)) };
}

/// Sixty-four elements at a time the near way, and where one of them is uncertain the other.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn certain(rows: &Rows, near: Near) {
    let [a, b, offset] = [near.a, near.b, near.offset].map(|x| _mm512_set1_epi32(x));
    let (bits, fraction) = (_mm512_set1_epi32(near.bits), _mm512_set1_epi32((1 << near.bits) - 1));
    let margin = _mm512_set1_epi32(near.margin);
    let within = _mm512_set1_epi32((1 << near.bits) - 2 * near.margin);
    let narrow = Narrow::new(&rows.sum);
    let flip = _mm_set1_epi8(rows.flip.cast_signed());
    // SAFETY: sixteen elements are there.
    let operand = |from: *const u8| unsafe {
        _mm512_cvtepu8_epi32(_mm_xor_si128(_mm_loadu_si128(from.cast()), flip))
    };
    let whole = rows.len / 64 * 64;
    for at in (0..whole).step_by(64) {
        let (mut values, mut uncertain) = ([_mm512_setzero_si512(); 4], 0);
        unrolled!(4: v < 4, {
            let at = at + v * LANES;
            let x = _mm512_mullo_epi32(operand(rows.a.wrapping_add(at)), a);
            let y = _mm512_mullo_epi32(operand(rows.b.wrapping_add(at)), b);
            let sum = _mm512_add_epi32(_mm512_add_epi32(x, y), offset);
            // How far above the margin it is, as an unsigned number.
            let above = _mm512_sub_epi32(_mm512_and_si512(sum, fraction), margin);
            uncertain |= _mm512_cmpge_epu32_mask(above, within);
            values[v] = _mm512_srav_epi32(sum, bits);
        });
        if uncertain == 0 {
            // SAFETY: sixty-four elements are there.
            unsafe { _mm512_storeu_si512(rows.output.add(at).cast(), narrow.bytes(values)) };
        } else {
            // SAFETY: part of the rows.
            unsafe { exact(&rows.part(at, 64)) };
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { exact(&rows.part(whole, rows.len - whole)) };
}

/// As the reference, rounding by rounding.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn exact(rows: &Rows) {
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
            let x = differences(rows.a.add(at), u16::MAX, rows.flip, rows.zero_points[0]);
            let y = differences(rows.b.add(at), u16::MAX, rows.flip, rows.zero_points[1]);
            let x = a.scaled(_mm512_slli_epi32::<BITS>(x));
            let y = b.scaled(_mm512_slli_epi32::<BITS>(y));
            let bytes: __m128i = _mm512_cvtepi32_epi8(sum.stored(_mm512_add_epi32(x, y)));
            _mm_storeu_si128(rows.output.add(at).cast(), bytes);
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
