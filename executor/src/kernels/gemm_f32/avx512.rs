//! Tiles of 12 by 32: 24 sums in registers, two lines of weights, one broadcast.

use core::arch::x86_64::{
    __m256, __m512, _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_mask_storeu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_set1_ps, _mm256_setzero_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_min_ps,
    _mm512_set1_ps, _mm512_setzero_ps,
};

use super::panels::{Kernel, Width};
use super::tile::{AHEAD, ROWS_PER_BASE, Tile, bases};

pub(super) const LANES: usize = 16;

/// A form's tiles, where `$add` and `$add_half` add what comes of an element and a vector of weights, or half of one.
///
/// Half vectors cost half on cores that split whole ones in two (Zen 4), and nothing extra on others.
macro_rules! tiles {
    ($features:literal, $add:ident, $add_half:ident) => {
        pub(super) const KERNEL: Kernel = Kernel {
            rows: 12,
            widths: &[
                Width { columns: 8, run: tile::<0, true> },
                Width { columns: 16, run: tile::<1, false> },
                Width { columns: 24, run: tile::<1, true> },
                Width { columns: 32, run: tile::<2, false> },
            ],
        };

        #[target_feature(enable = $features)]
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
        #[target_feature(enable = $features)]
        unsafe fn rows<const COUNT: usize, const WHOLE: usize, const HALF: bool>(tile: &Tile) {
            // SAFETY: a line of bias, as wide as the panel.
            let bias = unsafe { line::<WHOLE, HALF>(tile.bias) };
            let mut sums = [bias; COUNT];
            let width = WHOLE * LANES + if HALF { LANES / 2 } else { 0 };
            tile.fetch_next_outputs(COUNT, width);
            for segment in tile.segments() {
                let mut w = segment.weights;
                let mut bases: [*const f32; 4] = bases(segment.rows, tile.row_stride);
                for _ in 0..tile.len {
                    // SAFETY: the segment has `len` lines of weights, and as many elements of each row.
                    unsafe {
                        let weights = line::<WHOLE, HALF>(w);
                        for at in (0..width).step_by(LANES) {
                            _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(AHEAD + at).cast());
                        }
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let base = bases[row / ROWS_PER_BASE];
                            let x = base.wrapping_add(row % ROWS_PER_BASE * tile.row_stride);
                            let x = x.read_unaligned();
                            for (sum, &weights) in sums.whole.iter_mut().zip(&weights.whole) {
                                *sum = $add(x, weights, *sum);
                            }
                            if HALF {
                                sums.half = $add_half(x, weights.half, sums.half);
                            }
                        }
                        w = w.add(width);
                    }
                    bases = bases.map(|base| base.wrapping_add(1));
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                // SAFETY: `store` keeps within the tile's columns.
                unsafe { store::<WHOLE, HALF>(tile, row, sums) };
            }
        }
    };
}
pub(super) use tiles;

tiles!("avx512f,avx512bw,avx512dq,avx512vl,fma", add, add_half);

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn add(x: f32, weights: __m512, sum: __m512) -> __m512 {
    _mm512_fmadd_ps(_mm512_set1_ps(x), weights, sum)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
fn add_half(x: f32, weights: __m256, sum: __m256) -> __m256 {
    _mm256_fmadd_ps(_mm256_set1_ps(x), weights, sum)
}

/// The sums of one row.
#[derive(Clone, Copy)]
pub(super) struct Sums<const WHOLE: usize> {
    pub(super) whole: [__m512; WHOLE],
    pub(super) half: __m256,
}

/// # Safety
/// As many floats as the panel is wide are readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub(super) unsafe fn line<const WHOLE: usize, const HALF: bool>(from: *const f32) -> Sums<WHOLE> {
    let mut line = Sums { whole: [_mm512_setzero_ps(); WHOLE], half: _mm256_setzero_ps() };
    for (v, vector) in line.whole.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        *vector = unsafe { _mm512_loadu_ps(from.add(v * LANES)) };
    }
    if HALF {
        // SAFETY: as the caller promises.
        line.half = unsafe { _mm256_loadu_ps(from.add(WHOLE * LANES)) };
    }
    line
}

/// # Safety
/// The tile's columns of that row are writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub(super) unsafe fn store<const WHOLE: usize, const HALF: bool>(
    tile: &Tile,
    row: usize,
    sums: &Sums<WHOLE>,
) {
    let output = tile.output.wrapping_add(row * tile.stride);
    let lanes = |from: usize| tile.columns.saturating_sub(from).min(LANES);
    // NaN stays: of an unordered pair min and max return the second operand.
    for (v, &sum) in sums.whole.iter().enumerate() {
        let y = _mm512_max_ps(_mm512_set1_ps(tile.low), sum);
        let y = _mm512_min_ps(_mm512_set1_ps(tile.high), y);
        let mask = u16::try_from((1u32 << lanes(v * LANES)) - 1).unwrap_or(u16::MAX);
        // SAFETY: lanes beyond the columns are masked out.
        unsafe { _mm512_mask_storeu_ps(output.wrapping_add(v * LANES), mask, y) };
    }
    if HALF {
        let y = _mm256_max_ps(_mm256_set1_ps(tile.low), sums.half);
        let y = _mm256_min_ps(_mm256_set1_ps(tile.high), y);
        let mask = u8::try_from((1u32 << lanes(WHOLE * LANES)) - 1).unwrap_or(u8::MAX);
        // SAFETY: lanes beyond the columns are masked out.
        unsafe { _mm256_mask_storeu_ps(output.wrapping_add(WHOLE * LANES), mask, y) };
    }
}
