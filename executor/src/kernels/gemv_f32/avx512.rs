//! Panels of one to four vectors; one broadcast per line.

use core::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use super::{Panel, Run};

/// Vectors times lines at a time is about eight: what hides the latency.
pub(super) const PANELS: [Run; 4] = [panel::<1, 8>, panel::<2, 4>, panel::<3, 3>, panel::<4, 2>];

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn panel<const VECTORS: usize, const LINES: usize>(panel: &Panel) {
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; LINES];
    let (mut x, mut w) = (panel.x, panel.weights);
    for _ in 0..panel.depth / LINES {
        for sums in &mut sums {
            // SAFETY: this line and its element are there.
            unsafe { line(sums, x, w) };
            (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * LANES));
        }
    }
    for sums in sums.iter_mut().take(panel.depth % LINES) {
        // SAFETY: as above.
        unsafe { line(sums, x, w) };
        (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * LANES));
    }
    for vector in 0..VECTORS {
        let sum =
            sums.iter().fold(_mm512_setzero_ps(), |all, sums| _mm512_add_ps(all, sums[vector]));
        // SAFETY: the mask keeps within the columns.
        unsafe { store(panel, vector * LANES, sum) };
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn line<const VECTORS: usize>(sums: &mut [__m512; VECTORS], x: *const f32, w: *const f32) {
    // SAFETY: the element, as the caller promises.
    let x = _mm512_set1_ps(unsafe { x.read_unaligned() });
    for (vector, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the line, as the caller promises.
        *sum = _mm512_fmadd_ps(x, unsafe { _mm512_loadu_ps(w.add(vector * LANES)) }, *sum);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn store(panel: &Panel, column: usize, sum: __m512) {
    let lanes = panel.columns.saturating_sub(column).min(LANES);
    let mask = u16::try_from((1u32 << lanes) - 1).unwrap_or(u16::MAX);
    // SAFETY: lanes beyond the columns are masked out.
    unsafe {
        let start = _mm512_maskz_loadu_ps(mask, panel.start.wrapping_add(column));
        // NaN stays: of an unordered pair these return the second operand.
        let y = _mm512_max_ps(_mm512_set1_ps(panel.low), _mm512_add_ps(sum, start));
        let y = _mm512_min_ps(_mm512_set1_ps(panel.high), y);
        _mm512_mask_storeu_ps(panel.output.wrapping_add(column), mask, y);
    }
}
