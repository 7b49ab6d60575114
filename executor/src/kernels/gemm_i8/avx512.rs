//! Tiles of 12 by 32 with `vpdpbusd`: 24 sums in registers, two lines of weights, one broadcast.

use core::arch::x86_64::{
    __m512i, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_mask_cvtepi32_storeu_epi8,
    _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_maskz_mov_epi8,
    _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_sub_epi32, _mm512_xor_si512,
};

use super::{Bytes, Encoding, Kernel, Tile};
use crate::kernels::requantise::avx512::Lanes;

pub(super) const KERNEL: Kernel = Kernel {
    rows: ROWS,
    columns: 32,
    encoding: Encoding::Bytes,
    encode,
    full: tile::<2>,
    half: tile::<1>,
};

const ROWS: usize = 12;
const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn encode(row: *const u8, depth: usize, bytes: Bytes, words: *mut u32) -> i32 {
    let flip = _mm512_set1_epi8(bytes.flip.cast_signed());
    let ones = _mm512_set1_epi8(1);
    let mut sum = _mm512_setzero_si512();
    for at in (0..depth).step_by(64) {
        let mask = |count: usize| u64::MAX >> (64 - count.min(64));
        let (here, padded) = (depth - at, (depth - at).next_multiple_of(4));
        // SAFETY: bytes beyond the row, and beyond its words, are masked out.
        unsafe {
            let x = _mm512_maskz_loadu_epi8(mask(here), row.add(at).cast());
            // Padding may be anything, as weights are 0 there; the sum counts the row alone.
            let x = _mm512_xor_si512(x, flip);
            _mm512_mask_storeu_epi8(words.cast::<i8>().add(at), mask(padded), x);
            let counted = _mm512_maskz_mov_epi8(mask(here), x);
            sum = _mm512_dpbusd_epi32(sum, counted, ones);
        }
    }
    _mm512_reduce_add_epi32(sum)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tile<const VECTORS: usize>(tile: &Tile) {
    // SAFETY: as the caller promises; each arm differs in the number of rows alone.
    unsafe {
        match tile.rows {
            1 => rows::<1, VECTORS>(tile),
            2 => rows::<2, VECTORS>(tile),
            3 => rows::<3, VECTORS>(tile),
            4 => rows::<4, VECTORS>(tile),
            5 => rows::<5, VECTORS>(tile),
            6 => rows::<6, VECTORS>(tile),
            7 => rows::<7, VECTORS>(tile),
            8 => rows::<8, VECTORS>(tile),
            9 => rows::<9, VECTORS>(tile),
            10 => rows::<10, VECTORS>(tile),
            11 => rows::<11, VECTORS>(tile),
            _ => rows::<12, VECTORS>(tile),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn rows<const COUNT: usize, const VECTORS: usize>(tile: &Tile) {
    let (mut x, mut w) = (tile.rows_panel, tile.weights_panel);
    let mut bias = [_mm512_setzero_si512(); VECTORS];
    for (v, bias) in bias.iter_mut().enumerate() {
        // SAFETY: the line of bias.
        *bias = unsafe { _mm512_loadu_si512(w.add(v * LANES).cast()) };
    }
    let mut sums = [bias; COUNT];
    for _ in 0..tile.words {
        // SAFETY: there are `words` lines behind the bias, and as many of rows.
        unsafe {
            w = w.add(VECTORS * LANES);
            let mut line = [_mm512_setzero_si512(); VECTORS];
            for (v, weights) in line.iter_mut().enumerate() {
                *weights = _mm512_loadu_si512(w.add(v * LANES).cast());
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm512_set1_epi32((*x.add(row)).cast_signed());
                for (sum, &weights) in sums.iter_mut().zip(&line) {
                    *sum = _mm512_dpbusd_epi32(*sum, value, weights);
                }
            }
            x = x.add(ROWS);
        }
    }
    for v in 0..VECTORS {
        // SAFETY: scalings are padded to whole vectors; the mask keeps stores within the columns.
        unsafe {
            let lanes = Lanes::load(&tile.scaling, v * LANES);
            for (row, sums) in sums.iter().enumerate() {
                store(tile, &lanes, row, v, sums[v]);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn store(tile: &Tile, lanes: &Lanes, row: usize, vector: usize, sum: __m512i) {
    let columns = tile.columns.saturating_sub(vector * LANES).min(LANES);
    let mask = u16::try_from((1u32 << columns) - 1).unwrap_or(u16::MAX);
    // SAFETY: a correction per row; columns beyond the tile's are masked out.
    unsafe {
        let correction = _mm512_set1_epi32(*tile.corrections.add(row));
        let y = lanes.stored(_mm512_sub_epi32(sum, correction));
        let at = tile.output.wrapping_add(row * tile.stride + vector * LANES);
        _mm512_mask_cvtepi32_storeu_epi8(at.cast(), mask, y);
    }
}
