//! Tiles as in `avx512`, of elements that are two numbers of 16 bits each: one instruction multiplies both pairs and
//! adds the products, so a tile takes half as many steps.

use core::arch::x86_64::{
    __m256, __m256bh, __m256i, __m512, __m512bh, __m512i, _MM_HINT_T0, _mm_prefetch,
    _mm256_dpbf16_ps, _mm256_set1_epi32, _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_epi32,
};
use core::mem::transmute;

use super::avx512::{LANES, line, store};
use super::panels::{Kernel, Width};
use super::{AHEAD, Pairs, ROWS_PER_BASE, Tile, bases};

/// Panels as wide as those of floats.
pub(super) const PAIRS: Pairs = Pairs {
    kernel: Kernel {
        rows: 12,
        widths: &[
            Width { columns: 8, run: tile::<0, true> },
            Width { columns: 16, run: tile::<1, false> },
            Width { columns: 24, run: tile::<1, true> },
            Width { columns: 32, run: tile::<2, false> },
        ],
    },
    round: pairs,
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
unsafe fn tile<const WHOLE: usize, const HALF: bool>(tile: &Tile) {
    // SAFETY: as the caller promises; each arm differs in the number of rows alone.
    unsafe {
        match tile.rows {
            1 => rows::<1, WHOLE, HALF>(tile),
            2 => rows::<2, WHOLE, HALF>(tile),
            3 => rows::<3, WHOLE, HALF>(tile),
            4 => rows::<4, WHOLE, HALF>(tile),
            5 => rows::<5, WHOLE, HALF>(tile),
            6 => rows::<6, WHOLE, HALF>(tile),
            7 => rows::<7, WHOLE, HALF>(tile),
            8 => rows::<8, WHOLE, HALF>(tile),
            9 => rows::<9, WHOLE, HALF>(tile),
            10 => rows::<10, WHOLE, HALF>(tile),
            11 => rows::<11, WHOLE, HALF>(tile),
            _ => rows::<12, WHOLE, HALF>(tile),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
unsafe fn rows<const COUNT: usize, const WHOLE: usize, const HALF: bool>(tile: &Tile) {
    // SAFETY: a line of bias, as wide as the panel.
    let bias = unsafe { line::<WHOLE, HALF>(tile.bias) };
    let mut sums = [bias; COUNT];
    let width = WHOLE * LANES + if HALF { LANES / 2 } else { 0 };
    tile.fetch_next_outputs(COUNT, width);
    let mut w = tile.weights;
    let mut bases: [*const f32; 4] = bases(tile.input, tile.row_stride);
    for _ in 0..tile.len {
        // SAFETY: there are `len` lines of weights, and as many elements of each row; vectors of floats and of twice
        // as many halves are the same bits.
        unsafe {
            let weights = line::<WHOLE, HALF>(w);
            for at in (0..width).step_by(LANES) {
                _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(AHEAD + at).cast());
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let base = bases[row / ROWS_PER_BASE];
                let x = base.wrapping_add(row % ROWS_PER_BASE * tile.row_stride);
                let x = x.cast::<i32>().read_unaligned();
                let whole = transmute::<__m512i, __m512bh>(_mm512_set1_epi32(x));
                for (sum, &weights) in sums.whole.iter_mut().zip(&weights.whole) {
                    *sum = _mm512_dpbf16_ps(*sum, whole, transmute::<__m512, __m512bh>(weights));
                }
                if HALF {
                    let half = transmute::<__m256i, __m256bh>(_mm256_set1_epi32(x));
                    let weights = transmute::<__m256, __m256bh>(weights.half);
                    sums.half = _mm256_dpbf16_ps(sums.half, half, weights);
                }
            }
            w = w.add(width);
        }
        bases = bases.map(|base| base.wrapping_add(1));
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: `store` keeps within the tile's columns.
        unsafe { store::<WHOLE, HALF>(tile, row, sums) };
    }
}

/// Rounds `len` floats to the nearest pairs, ties to even; a missing last one is 0.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
unsafe fn pairs(from: *const f32, len: usize, to: *mut f32) {
    for at in (0..len).step_by(2 * LANES) {
        let mask = |from: usize| u16::MAX.checked_shr(lanes_missing(len, from)).unwrap_or(0);
        let (low, high) = (mask(at), mask(at + LANES));
        // SAFETY: lanes beyond the floats are masked out, and pairs beyond these.
        unsafe {
            let low = _mm512_maskz_loadu_ps(low, from.wrapping_add(at));
            let high = _mm512_maskz_loadu_ps(high, from.wrapping_add(at + LANES));
            let both = transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low));
            let mask = u16::MAX.checked_shr(lanes_missing(len.div_ceil(2), at / 2)).unwrap_or(0);
            _mm512_mask_storeu_ps(to.wrapping_add(at / 2), mask, both);
        }
    }
}

/// How many of the lanes that start at element `from` are beyond `len`.
fn lanes_missing(len: usize, from: usize) -> u32 {
    let there = len.saturating_sub(from).min(LANES);
    u32::try_from(LANES - there).unwrap_or(0)
}
