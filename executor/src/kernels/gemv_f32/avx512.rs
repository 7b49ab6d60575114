//! Panels of one to four vectors; one broadcast per line.

use core::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_and_si512, _mm512_castsi512_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps,
    _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_slli_epi32,
};

use super::{Kernel, Panel, Weight};

/// Vectors times lines at a time is about eight: what hides the latency.
pub(super) const KERNEL: Kernel = Kernel {
    floats: &[panel::<f32, 1, 8>, panel::<f32, 2, 4>, panel::<f32, 3, 3>, panel::<f32, 4, 2>],
    steps: &[panel::<u16, 2, 4>, panel::<u16, 4, 2>],
};

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn panel<W: Load, const VECTORS: usize, const LINES: usize>(panel: &Panel<W>) {
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

/// The weights of a line.
trait Load: Weight {
    /// # Safety
    /// They are there; the machine has the instruction set.
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [__m512; VECTORS];
}

impl Load for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [__m512; VECTORS] {
        let mut line = [_mm512_setzero_ps(); VECTORS];
        for (vector, weights) in line.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            *weights = unsafe { _mm512_loadu_ps(from.add(vector * LANES)) };
        }
        line
    }
}

impl Load for u16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [__m512; VECTORS] {
        let mut line = [_mm512_setzero_ps(); VECTORS];
        for (at, two) in line.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            let pairs = unsafe { _mm512_loadu_si512(from.add(at * 2 * LANES).cast()) };
            let upper = _mm512_and_si512(pairs, _mm512_set1_epi32(!0xffff));
            *two = [_mm512_slli_epi32::<16>(pairs), upper].map(|v| _mm512_castsi512_ps(v));
        }
        line
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn line<W: Load, const VECTORS: usize>(
    sums: &mut [__m512; VECTORS],
    x: *const f32,
    w: *const W,
) {
    // SAFETY: the element, as the caller promises.
    let x = _mm512_set1_ps(unsafe { x.read_unaligned() });
    // SAFETY: the line, as the caller promises.
    let weights = unsafe { W::load::<VECTORS>(w) };
    for (sum, weights) in sums.iter_mut().zip(weights) {
        *sum = _mm512_fmadd_ps(x, weights, *sum);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn store<W: Weight>(panel: &Panel<W>, column: usize, sum: __m512) {
    let sum = if W::ARE_STEPS {
        // SAFETY: a scale for every column of the panel.
        _mm512_mul_ps(sum, unsafe { _mm512_loadu_ps(panel.scales.wrapping_add(column)) })
    } else {
        sum
    };
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
