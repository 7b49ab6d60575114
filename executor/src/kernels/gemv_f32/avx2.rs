//! Panels of two to eight vectors; one broadcast per line.

use core::arch::x86_64::{
    __m256, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps,
    _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::{Panel, Run};

/// Vectors times lines at a time is about eight: what hides the latency.
pub(super) const PANELS: [Run; 4] = [panel::<2, 4>, panel::<4, 2>, panel::<6, 1>, panel::<8, 1>];

const LANES: usize = 8;

#[target_feature(enable = "avx2,fma")]
unsafe fn panel<const VECTORS: usize, const LINES: usize>(panel: &Panel) {
    let mut sums = [[_mm256_setzero_ps(); VECTORS]; LINES];
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
            sums.iter().fold(_mm256_setzero_ps(), |all, sums| _mm256_add_ps(all, sums[vector]));
        // SAFETY: as the caller promises.
        unsafe { store(panel, vector * LANES, sum) };
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn line<const VECTORS: usize>(sums: &mut [__m256; VECTORS], x: *const f32, w: *const f32) {
    // SAFETY: the element, as the caller promises.
    let x = _mm256_set1_ps(unsafe { x.read_unaligned() });
    for (vector, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the line, as the caller promises.
        *sum = _mm256_fmadd_ps(x, unsafe { _mm256_loadu_ps(w.add(vector * LANES)) }, *sum);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store(panel: &Panel, column: usize, sum: __m256) {
    let lanes = panel.columns.saturating_sub(column).min(LANES);
    let (from, to) = (panel.start.wrapping_add(column), panel.output.wrapping_add(column));
    if lanes == LANES {
        // SAFETY: eight columns are there.
        unsafe { _mm256_storeu_ps(to, finish(panel, sum, _mm256_loadu_ps(from))) };
        return;
    }
    let mut values = [0.0f32; LANES];
    // SAFETY: fewer than eight columns, and eight floats of our own.
    unsafe {
        let (last, bytes) = (values.as_mut_ptr(), lanes * size_of::<f32>());
        last.cast::<u8>().copy_from_nonoverlapping(from.cast(), bytes);
        _mm256_storeu_ps(last, finish(panel, sum, _mm256_loadu_ps(last)));
        last.cast::<u8>().copy_to_nonoverlapping(to.cast(), bytes);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn finish(panel: &Panel, sum: __m256, start: __m256) -> __m256 {
    // NaN stays: of an unordered pair these return the second operand.
    let y = _mm256_max_ps(_mm256_set1_ps(panel.low), _mm256_add_ps(sum, start));
    _mm256_min_ps(_mm256_set1_ps(panel.high), y)
}
