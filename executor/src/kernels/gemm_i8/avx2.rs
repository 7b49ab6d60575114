//! Tiles of 6 by 16 with `vpmaddwd` on 16-bit differences: exact, where the byte form would saturate.

use core::arch::x86_64::{
    _mm_loadu_si128, _mm_set1_epi8, _mm_xor_si128, _mm256_add_epi32, _mm256_cvtepu8_epi16,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_sub_epi16,
};

use super::{Bytes, Encoding, Kernel, Run, scalar};
use crate::kernels::requantise::avx2::{Lanes, store};

pub(super) const KERNEL: Kernel = Kernel {
    columns: 2 * LANES,
    lanes: LANES,
    encoding: Encoding::Differences,
    signed: false,
    few: None,
    encode,
    sums: scalar::no_sums,
    run,
};

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(in crate::kernels) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = _mm_set1_epi8(bytes.flip.cast_signed());
    // Zero points are at most 255, which fits.
    let zero_point = _mm256_set1_epi16(i16::try_from(bytes.zero_point).unwrap_or(0));
    let whole = count / 16 * 16;
    for at in (0..whole).step_by(16) {
        // SAFETY: sixteen bytes, and as many differences.
        unsafe {
            let x = _mm_xor_si128(_mm_loadu_si128(from.add(at).cast()), flip);
            let x = _mm256_sub_epi16(_mm256_cvtepu8_epi16(x), zero_point);
            _mm256_storeu_si256(to.add(at * 2).cast(), x);
        }
    }
    // SAFETY: the rest.
    unsafe { scalar::encode(from.add(whole), count - whole, bytes, to.add(whole * 2)) };
}

#[target_feature(enable = "avx2")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the size of tiles alone.
    unsafe {
        match (run.rows, run.columns > LANES) {
            (1, true) => run.tiles(1, |row| tile::<1, 2>(run, row)),
            (1, false) => run.tiles(1, |row| tile::<1, 1>(run, row)),
            (2..6, true) => run.tiles(2, |row| tile::<2, 2>(run, row)),
            (2..6, false) => run.tiles(2, |row| tile::<2, 1>(run, row)),
            (_, true) => run.tiles(6, |row| tile::<6, 2>(run, row)),
            (_, false) => run.tiles(6, |row| tile::<6, 1>(run, row)),
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn tile<const ROWS: usize, const VECTORS: usize>(run: &Run, row: usize) {
    let mut w = run.weights;
    let mut bias = [_mm256_setzero_si256(); VECTORS];
    unrolled!(2: v < VECTORS, {
        // SAFETY: the line of bias.
        bias[v] = unsafe { _mm256_loadu_si256(w.add(v * LANES).cast()) };
    });
    let mut sums = [bias; ROWS];
    for segment in 0..run.segment_count {
        // SAFETY: the window's segments, and a line of weights for each of their words.
        unsafe {
            let mut x = run.input.add(row * run.step + *run.segments.add(segment));
            for _ in 0..run.words {
                w = w.add(VECTORS * LANES);
                unrolled!(6: r < ROWS, {
                    let word = x.add(r * run.step).cast::<i32>().read_unaligned();
                    let value = _mm256_set1_epi32(word);
                    unrolled!(2: v < VECTORS, {
                        let weights = _mm256_loadu_si256(w.add(v * LANES).cast());
                        let product = _mm256_madd_epi16(value, weights);
                        sums[r][v] = _mm256_add_epi32(sums[r][v], product);
                    });
                });
                x = x.add(4);
            }
        }
    }
    unrolled!(2: v < VECTORS, {
        let columns = run.columns.saturating_sub(v * LANES).min(LANES);
        // SAFETY: scalings are padded to whole vectors; `store` keeps within the columns.
        unsafe {
            let lanes = Lanes::load(&run.scaling, v * LANES);
            unrolled!(6: r < ROWS, {
                let at = run.output.add((row + r) * run.stride + v * LANES);
                store(at, columns, lanes.stored(sums[r][v]));
            });
        }
    });
}
