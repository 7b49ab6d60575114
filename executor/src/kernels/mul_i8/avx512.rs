//! Sixty-four elements at a time, the last few sixteen at a time and under a mask.

use core::arch::x86_64::{
    __m512i, _mm512_mask_cvtepi32_storeu_epi8, _mm512_mullo_epi32, _mm512_set1_epi32,
    _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::Rows;
use crate::kernels::requantise::avx512::{Lanes, Narrow, differences, rounded};

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn mul(rows: &Rows) {
    // SAFETY: as the caller promises.
    unsafe { if rows.step == 1 { run::<1>(rows) } else { run::<0>(rows) } };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run<const STEP: usize>(rows: &Rows) {
    let narrow = Narrow::new(&rows.product);
    let whole = rows.len / 64 * 64;
    for at in (0..whole).step_by(64) {
        let mut values = [[_mm512_setzero_si512()]; 4];
        unrolled!(4: v < 4, {
            // SAFETY: sixteen elements are there.
            values[v] = [unsafe { product::<STEP>(rows, at + v * LANES, u16::MAX) }];
        });
        // SAFETY: there are sixteen channels, and room for sixty-four elements.
        unsafe {
            let values = rounded(&rows.product, values).map(|[value]| value);
            _mm512_storeu_si512(rows.output.add(at).cast(), narrow.bytes(values));
        }
    }
    // SAFETY: there are sixteen channels.
    let lanes = unsafe { Lanes::load(&rows.product, 0) };
    for at in (whole..rows.len).step_by(LANES) {
        let mask = u16::try_from((1u32 << (rows.len - at).min(LANES)) - 1).unwrap_or(u16::MAX);
        // SAFETY: the mask keeps to the elements that are there.
        unsafe {
            let stored = lanes.stored(product::<STEP>(rows, at, mask));
            _mm512_mask_cvtepi32_storeu_epi8(rows.output.add(at).cast(), mask, stored);
        }
    }
}

/// # Safety
/// The elements of the mask are there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn product<const STEP: usize>(rows: &Rows, at: usize, mask: u16) -> __m512i {
    let [a, b] = rows.zero_points;
    // SAFETY: as the caller promises; `b` has one element at least.
    unsafe {
        let x = differences(rows.a.add(at), mask, rows.flip, a);
        let y = match STEP {
            0 => _mm512_set1_epi32(i32::from(*rows.b ^ rows.flip) - b),
            _ => differences(rows.b.add(at), mask, rows.flip, b),
        };
        _mm512_mullo_epi32(x, y)
    }
}
