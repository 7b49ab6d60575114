//! Tiles of 6 by 64 with `vpdpbusd`: 24 sums in registers, six words broadcast from the image itself, four
//! lines of weights.

use core::arch::x86_64::{
    __m512i, _mm_mask_storeu_epi8, _mm256_mask_storeu_epi8, _mm256_mask_storeu_epi32,
    _mm256_mullo_epi32, _mm256_set1_epi32, _mm512_add_epi64, _mm512_castsi512_si128,
    _mm512_castsi512_si256, _mm512_cvtepi64_epi32, _mm512_dpbusd_epi32, _mm512_extracti32x4_epi32,
    _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_maskz_mov_epi8, _mm512_sad_epu8, _mm512_set1_epi8,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_sub_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::{Bytes, Encoding, Few, Kernel, Run};
use crate::kernels::requantise::avx512::{Narrow, rounded};

pub(super) const KERNEL: Kernel = Kernel {
    columns: 4 * LANES,
    lanes: LANES,
    encoding: Encoding::Bytes,
    signed: false,
    few: Some(Few { words: 12, columns: 3 * LANES, rows: 6 }),
    encode,
    sums,
    run,
};

const LANES: usize = 16;

/// Windows whose sums are taken together.
const SUMS: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(in crate::kernels) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = _mm512_set1_epi8(bytes.flip.cast_signed());
    for at in (0..count).step_by(64) {
        // SAFETY: bytes beyond the count are masked out.
        unsafe {
            let x = _mm512_maskz_loadu_epi8(mask(count - at), from.add(at).cast());
            let to = to.add(at).cast();
            _mm512_mask_storeu_epi8(to, mask(count - at), _mm512_xor_si512(x, flip));
        }
    }
}

/// The lowest `count` bits, at most 64.
#[inline(always)]
fn mask(count: usize) -> u64 {
    u64::MAX >> (64 - count.min(64))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn sums(run: &Run, bytes: usize, factor: i32, sums: *mut i32) {
    let flip = _mm512_set1_epi8(run.flip.cast_signed());
    for row in (0..run.rows).step_by(SUMS) {
        let count = SUMS.min(run.rows - row);
        let mut eights = [_mm512_setzero_si512(); SUMS];
        for (at, eights) in eights.iter_mut().enumerate() {
            // The last few windows stand in for those behind the end.
            let from = (row + at.min(count - 1)) * run.step;
            for segment in 0..run.segment_count {
                for byte in (0..bytes).step_by(64) {
                    let mask = mask(bytes - byte);
                    // SAFETY: a segment of a window; bytes behind it are masked out.
                    let x = unsafe {
                        let from = run.input.add(from + *run.segments.add(segment) + byte);
                        _mm512_maskz_loadu_epi8(mask, from.cast())
                    };
                    let x = _mm512_maskz_mov_epi8(mask, _mm512_xor_si512(x, flip));
                    let sums = _mm512_sad_epu8(x, _mm512_setzero_si512());
                    *eights = _mm512_add_epi64(*eights, sums);
                }
            }
        }
        let sum = _mm512_cvtepi64_epi32(across(&eights));
        let product = _mm256_mullo_epi32(sum, _mm256_set1_epi32(factor));
        let mask = mask(count).to_le_bytes()[0];
        // SAFETY: a sum per window, those behind the end masked out.
        unsafe { _mm256_mask_storeu_epi32(sums.add(row), mask, product) };
    }
}

/// The sum of each vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn across(v: &[__m512i; SUMS]) -> __m512i {
    let pair = |a, b| _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let four = |a, b| {
        let (even, odd) = (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xDD>(a, b));
        _mm512_add_epi64(even, odd)
    };
    let low = four(pair(v[0], v[1]), pair(v[2], v[3]));
    let high = four(pair(v[4], v[5]), pair(v[6], v[7]));
    four(low, high)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the width of tiles alone.
    unsafe {
        match run.columns {
            ..=16 => tiles::<1>(run),
            17..=32 => tiles::<2>(run),
            33..=48 => tiles::<3>(run),
            _ => tiles::<4>(run),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tiles<const VECTORS: usize>(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the height of tiles alone.
    unsafe {
        match run.rows {
            1 => run.tiles(1, |row| tile::<1, VECTORS, false>(run, row)),
            2..4 => run.tiles(2, |row| tile::<2, VECTORS, false>(run, row)),
            4..6 => run.tiles(4, |row| tile::<4, VECTORS, false>(run, row)),
            _ if !run.factors.is_null() => sixes_and_fours::<VECTORS, true>(run),
            _ => sixes_and_fours::<VECTORS, false>(run),
        }
    }
}

/// Tiles of six rows, the last few of them of four where that computes less again: images of 14 or 7 columns would have
/// 18 or 12 rows of tiles to a line otherwise.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn sixes_and_fours<const VECTORS: usize, const SUM: bool>(run: &Run) {
    let whole = run.rows / 6;
    let (sixes, fours) = match run.rows % 6 {
        0 => (whole, 0),
        1 | 2 => (whole - 1, 2),
        3 | 4 => (whole, 1),
        _ => (whole + 1, 0),
    };
    for at in 0..sixes {
        let row = (at * 6).min(run.rows - 6);
        // SAFETY: as the caller promises; there are six rows or more, hence four from any of these on.
        unsafe { tile::<6, VECTORS, SUM>(run, row) };
    }
    for at in 0..fours {
        let row = (sixes * 6 + at * 4).min(run.rows - 4);
        // SAFETY: as above.
        unsafe { tile::<4, VECTORS, SUM>(run, row) };
    }
}

/// With `SUM` the tile sums its windows itself: one more product per word, in every lane the same.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tile<const ROWS: usize, const VECTORS: usize, const SUM: bool>(run: &Run, row: usize) {
    let mut corrections = [_mm512_setzero_si512(); ROWS];
    let flip = _mm512_set1_epi8(run.flip.cast_signed());
    let mut w = run.weights;
    let mut bias = [_mm512_setzero_si512(); VECTORS];
    unrolled!(4: v < VECTORS, {
        // SAFETY: the line of bias.
        bias[v] = unsafe { _mm512_loadu_si512(w.add(v * LANES).cast()) };
    });
    let mut sums = [bias; ROWS];
    for segment in 0..run.segment_count {
        // SAFETY: the window's segments, and a line of weights for each of their words.
        unsafe {
            let mut x = run.input.add(row * run.step + *run.segments.add(segment));
            for word in 0..run.words {
                let factors = _mm512_set1_epi32(if SUM { *run.factors.add(word) } else { 0 });
                w = w.add(VECTORS * LANES);
                let mut line = [_mm512_setzero_si512(); VECTORS];
                unrolled!(4: v < VECTORS, {
                    line[v] = _mm512_loadu_si512(w.add(v * LANES).cast());
                });
                unrolled!(6: r < ROWS, {
                    let word = x.add(r * run.step).cast::<i32>().read_unaligned();
                    let value = _mm512_xor_si512(_mm512_set1_epi32(word), flip);
                    if SUM {
                        corrections[r] = _mm512_dpbusd_epi32(corrections[r], value, factors);
                    }
                    unrolled!(4: v < VECTORS, {
                        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], value, line[v]);
                    });
                });
                x = x.add(4);
            }
        }
    }
    if SUM {
        unrolled!(6: r < ROWS, {
            unrolled!(4: v < VECTORS, {
                sums[r][v] = _mm512_sub_epi32(sums[r][v], corrections[r]);
            });
        });
    } else if !run.corrections.is_null() {
        unrolled!(6: r < ROWS, {
            // SAFETY: a correction per window.
            let correction = unsafe { _mm512_set1_epi32(*run.corrections.add(row + r)) };
            unrolled!(4: v < VECTORS, { sums[r][v] = _mm512_sub_epi32(sums[r][v], correction) });
        });
    }
    // SAFETY: scalings are padded to whole panels; rows and columns are within the output.
    unsafe {
        let values = rounded(&run.scaling, sums);
        let output = run.output.add(row * run.stride);
        store(run, &Narrow::new(&run.scaling), output, &values);
    }
}

/// # Safety
/// The run's columns of as many rows as there are values are writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn store<const ROWS: usize, const VECTORS: usize>(
    run: &Run,
    narrow: &Narrow,
    output: *mut u8,
    values: &[[__m512i; VECTORS]; ROWS],
) {
    let none = _mm512_setzero_si512();
    let at = |r: usize, v: usize| if r < ROWS && v < VECTORS { values[r][v] } else { none };
    let mask = mask(run.columns);
    // Sixty-four bytes are one row, two or four, as wide as the tile is.
    // SAFETY: columns beyond the run's are masked out, rows beyond the tile's left out.
    unsafe {
        match VECTORS {
            1 => unrolled!(6: r < ROWS, {
                if r.is_multiple_of(4) {
                    let all = narrow.bytes([at(r, 0), at(r + 1, 0), at(r + 2, 0), at(r + 3, 0)]);
                    let mask = u16::try_from(mask).unwrap_or(u16::MAX);
                    let rows = [
                        _mm512_castsi512_si128(all),
                        _mm512_extracti32x4_epi32::<1>(all),
                        _mm512_extracti32x4_epi32::<2>(all),
                        _mm512_extracti32x4_epi32::<3>(all),
                    ];
                    let mut to = output.add(r * run.stride);
                    for row in rows.into_iter().take(ROWS - r) {
                        _mm_mask_storeu_epi8(to.cast(), mask, row);
                        to = to.wrapping_add(run.stride);
                    }
                }
            }),
            2 => unrolled!(6: r < ROWS, {
                if r.is_multiple_of(2) {
                    let all = narrow.bytes([at(r, 0), at(r, 1), at(r + 1, 0), at(r + 1, 1)]);
                    let mask = u32::try_from(mask).unwrap_or(u32::MAX);
                    let to = output.add(r * run.stride).cast();
                    _mm256_mask_storeu_epi8(to, mask, _mm512_castsi512_si256(all));
                    if r + 1 < ROWS {
                        let row = _mm512_extracti64x4_epi64::<1>(all);
                        let to = output.add((r + 1) * run.stride).cast();
                        _mm256_mask_storeu_epi8(to, mask, row);
                    }
                }
            }),
            _ => unrolled!(6: r < ROWS, {
                let all = narrow.bytes([at(r, 0), at(r, 1), at(r, 2), at(r, 3)]);
                _mm512_mask_storeu_epi8(output.add(r * run.stride).cast(), mask, all);
            }),
        }
    }
}
