//! Bytes are widened to 16 bits and multiplied in pairs, since the 8-bit instruction saturates.

use core::arch::x86_64::{
    _mm_loadu_si128, _mm_set1_epi32, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16,
    _mm256_hadd_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_permute4x64_epi64,
    _mm256_setzero_si256, _mm256_storeu_si256,
};

use super::{COLUMNS, DEPTH, Kernel, Panels};

pub(super) const KERNEL: Kernel = Kernel { run: panels, signed: false };

/// Columns of a vector of weights.
const QUARTER: usize = COLUMNS / 4;

#[target_feature(enable = "avx2")]
unsafe fn panels(panels: &Panels) {
    let line = COLUMNS * DEPTH;
    for panel in 0..panels.panels {
        // Two sums per column, of two elements of depth each.
        let mut pairs = [_mm256_setzero_si256(); 4];
        for word in 0..panels.words {
            // SAFETY: a word of the row.
            let x = _mm_set1_epi32(unsafe { *panels.row.add(word) }.cast_signed());
            let x = _mm256_cvtepu8_epi16(x);
            for (quarter, sum) in pairs.iter_mut().enumerate() {
                // SAFETY: a quarter of a line of the panel.
                let weights = unsafe {
                    let from = panels.weights.add((panel * panels.words + word) * line);
                    _mm_loadu_si128(from.add(quarter * QUARTER * DEPTH).cast())
                };
                let products = _mm256_madd_epi16(x, _mm256_cvtepi8_epi16(weights));
                *sum = _mm256_add_epi32(*sum, products);
            }
        }
        for half in 0..2 {
            let both = _mm256_hadd_epi32(pairs[2 * half], pairs[2 * half + 1]);
            let both = _mm256_permute4x64_epi64::<0b1101_1000>(both);
            // SAFETY: eight sums of the panel.
            unsafe {
                let to = panels.sums.add(panel * COLUMNS + half * 8).cast();
                _mm256_storeu_si256(to, _mm256_add_epi32(both, _mm256_loadu_si256(to)));
            }
        }
    }
}
