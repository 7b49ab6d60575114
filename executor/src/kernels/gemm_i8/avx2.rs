//! Tiles of 6 by 16 with `vpmaddwd` on 16-bit differences: exact, where the byte form would saturate.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm_set1_epi8, _mm_xor_si128, _mm256_add_epi32, _mm256_cvtepu8_epi16,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_sub_epi16,
};

use super::{Bytes, Encoding, Kernel, Tile, scalar};
use crate::kernels::requantise::avx2::Lanes;

pub(super) const KERNEL: Kernel = Kernel {
    rows: ROWS,
    columns: 16,
    encoding: Encoding::Differences,
    encode,
    full: tile::<2>,
    half: tile::<1>,
};

const ROWS: usize = 6;
const LANES: usize = 8;

#[target_feature(enable = "avx2")]
unsafe fn encode(row: *const u8, depth: usize, bytes: Bytes, words: *mut u32) -> i32 {
    let flip = _mm_set1_epi8(bytes.flip.cast_signed());
    // Zero points are at most 255, which fits.
    let zero_point = _mm256_set1_epi16(i16::try_from(bytes.zero_point).unwrap_or(0));
    let whole = depth / 16 * 16;
    for at in (0..whole).step_by(16) {
        // SAFETY: sixteen bytes of the row, and the eight words for them.
        unsafe {
            let x = _mm_xor_si128(_mm_loadu_si128(row.add(at).cast()), flip);
            let x = _mm256_sub_epi16(_mm256_cvtepu8_epi16(x), zero_point);
            _mm256_storeu_si256(words.add(at / 2).cast(), x);
        }
    }
    // SAFETY: the rest of the row.
    unsafe { scalar::encode_from(whole, row, depth, bytes, words) };
    0
}

#[target_feature(enable = "avx2")]
unsafe fn tile<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises; each arm differs in the number of rows alone.
    unsafe {
        match tile.rows {
            1 => rows::<1, VECTORS>(tile),
            2 => rows::<2, VECTORS>(tile),
            3 => rows::<3, VECTORS>(tile),
            4 => rows::<4, VECTORS>(tile),
            5 => rows::<5, VECTORS>(tile),
            _ => rows::<6, VECTORS>(tile),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn rows<const COUNT: usize, const VECTORS: usize>(tile: &Tile) {
    let (mut x, mut w) = (tile.rows_panel, tile.weights_panel);
    let mut bias = [_mm256_setzero_si256(); VECTORS];
    for (v, bias) in bias.iter_mut().enumerate() {
        // SAFETY: the line of bias.
        *bias = unsafe { _mm256_loadu_si256(w.add(v * LANES).cast()) };
    }
    let mut sums = [bias; COUNT];
    for _ in 0..tile.words {
        // SAFETY: there are `words` lines behind the bias, and as many of rows.
        unsafe {
            w = w.add(VECTORS * LANES);
            let mut line = [_mm256_setzero_si256(); VECTORS];
            for (v, weights) in line.iter_mut().enumerate() {
                *weights = _mm256_loadu_si256(w.add(v * LANES).cast());
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm256_set1_epi32((*x.add(row)).cast_signed());
                for (sum, &weights) in sums.iter_mut().zip(&line) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(value, weights));
                }
            }
            x = x.add(ROWS);
        }
    }
    for v in 0..VECTORS {
        // SAFETY: scalings are padded to whole vectors; `store` keeps within the columns.
        unsafe {
            let lanes = Lanes::load(&tile.scaling, v * LANES);
            for (row, sums) in sums.iter().enumerate() {
                store(tile, &lanes, row, v, sums[v]);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(tile: &Tile, lanes: &Lanes, row: usize, vector: usize, sum: __m256i) {
    let columns = tile.columns.saturating_sub(vector * LANES).min(LANES);
    let mut values = [0i32; LANES];
    // SAFETY: eight numbers of our own.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), lanes.stored(sum)) };
    let at = tile.output.wrapping_add(row * tile.stride + vector * LANES);
    for (lane, value) in values.iter().enumerate().take(columns) {
        // SAFETY: a column that is there.
        unsafe { *at.add(lane) = value.to_le_bytes()[0] };
    }
}
