//! Panels of two to eight vectors; one broadcast per line.

use core::arch::x86_64::{
    __m256, _mm256_add_ps, _mm256_and_si256, _mm256_castsi256_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_storeu_ps,
};

use super::{Kernel, Panel, Weight};

/// Vectors times lines at a time is about eight: what hides the latency.
pub(super) const KERNEL: Kernel = Kernel {
    floats: &[panel::<f32, 2, 4>, panel::<f32, 4, 2>, panel::<f32, 6, 1>, panel::<f32, 8, 1>],
    steps: &[panel::<u16, 4, 2>, panel::<u16, 8, 1>],
};

const LANES: usize = 8;

#[target_feature(enable = "avx2,fma")]
unsafe fn panel<W: Load, const VECTORS: usize, const LINES: usize>(panel: &Panel<W>) {
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

/// The weights of a line.
trait Load: Weight {
    /// # Safety
    /// They are there; the machine has the instruction set.
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [__m256; VECTORS];
}

impl Load for f32 {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [__m256; VECTORS] {
        let mut line = [_mm256_setzero_ps(); VECTORS];
        for (vector, weights) in line.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            *weights = unsafe { _mm256_loadu_ps(from.add(vector * LANES)) };
        }
        line
    }
}

impl Load for u16 {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [__m256; VECTORS] {
        let mut line = [_mm256_setzero_ps(); VECTORS];
        for (at, four) in line.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            let pairs = [0, 2].map(|half| unsafe {
                _mm256_loadu_si256(from.add((at * 4 + half) * LANES).cast())
            });
            let upper = _mm256_set1_epi32(!0xffff);
            let [first, second] = pairs.map(|v| _mm256_slli_epi32::<16>(v));
            let [third, fourth] = pairs.map(|v| _mm256_and_si256(v, upper));
            *four = [first, second, third, fourth].map(|v| _mm256_castsi256_ps(v));
        }
        line
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn line<W: Load, const VECTORS: usize>(
    sums: &mut [__m256; VECTORS],
    x: *const f32,
    w: *const W,
) {
    // SAFETY: the element, as the caller promises.
    let x = _mm256_set1_ps(unsafe { x.read_unaligned() });
    // SAFETY: the line, as the caller promises.
    let weights = unsafe { W::load::<VECTORS>(w) };
    for (sum, weights) in sums.iter_mut().zip(weights) {
        *sum = _mm256_fmadd_ps(x, weights, *sum);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store<W: Weight>(panel: &Panel<W>, column: usize, sum: __m256) {
    let sum = if W::ARE_STEPS {
        // SAFETY: a scale for every column of the panel.
        _mm256_mul_ps(sum, unsafe { _mm256_loadu_ps(panel.scales.wrapping_add(column)) })
    } else {
        sum
    };
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
fn finish<W>(panel: &Panel<W>, sum: __m256, start: __m256) -> __m256 {
    // NaN stays: of an unordered pair these return the second operand.
    let y = _mm256_max_ps(_mm256_set1_ps(panel.low), _mm256_add_ps(sum, start));
    _mm256_min_ps(_mm256_set1_ps(panel.high), y)
}
