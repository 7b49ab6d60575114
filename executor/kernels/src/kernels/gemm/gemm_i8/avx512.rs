//! Tiles of 6 by 64 with `vpdpbusd`: 24 sums in registers, six words broadcast from the image
//! itself, four lines of weights. Narrow panels have tiles of 12 by 16.

use core::arch::x86_64::{
    __m512i, _mm_mask_storeu_epi8, _mm256_mask_storeu_epi8, _mm256_mask_storeu_epi32,
    _mm256_mullo_epi32, _mm256_set1_epi32, _mm512_add_epi64, _mm512_castsi512_si128,
    _mm512_castsi512_si256, _mm512_cvtepi64_epi32, _mm512_extracti32x4_epi32,
    _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_maskz_mov_epi8, _mm512_sad_epu8, _mm512_set1_epi8,
    _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_storeu_si512, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::kernel::{Bytes, Encoding, Microkernel, Run};
use super::tile::{Epilogue, of_width, one};
use crate::simd::Avx512;
use crate::simd::requantise::Channels;
use crate::simd::requantise::avx512::{Narrow, rounded};
use crate::simd::vector_i32::I32x16;

pub(super) const KERNEL: Microkernel = Microkernel {
    columns: 4 * LANES,
    lanes: LANES,
    encoding: Encoding::Bytes,
    signed: false,
    encode,
    sums,
    run,
    single,
};

const LANES: usize = 16;

/// Windows whose sums are taken together.
const SUMS: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = _mm512_set1_epi8(bytes.flip.cast_signed());
    let whole = count / 64 * 64;
    for at in (0..whole).step_by(64) {
        // SAFETY: sixty-four bytes on both sides.
        unsafe {
            let x = _mm512_loadu_si512(from.add(at).cast());
            _mm512_storeu_si512(to.add(at).cast(), _mm512_xor_si512(x, flip));
        }
    }
    if whole < count {
        let rest = mask(count - whole);
        // SAFETY: bytes beyond the count are masked out.
        unsafe {
            let x = _mm512_maskz_loadu_epi8(rest, from.add(whole).cast());
            _mm512_mask_storeu_epi8(to.add(whole).cast(), rest, _mm512_xor_si512(x, flip));
        }
    }
}

/// The lowest `count` bits, at most 64.
#[inline(always)]
pub(super) fn mask(count: usize) -> u64 {
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
pub(super) unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises; each arm differs in the width of tiles alone.
    unsafe {
        match run.columns.div_ceil(LANES) {
            4.. => wide::<4>(run),
            3 => wide::<3>(run),
            2 => wide::<2>(run),
            _ => wide::<1>(run),
        }
    }
}

/// The tiles of one width. Built without optimisation, every tile has a place of its own on the
/// stack: those of all widths in one function take more than a thread has, 2 MiB.
///
/// # Safety
/// As for [`Microkernel::run`]; the panel is so many vectors wide.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn wide<const VECTORS: usize>(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { of_width::<_, VECTORS>(Avx512::new_unchecked(), run) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<_, 4>(Avx512::new_unchecked(), run) };
}

impl Epilogue for Avx512 {
    const TALLEST: usize = 16;

    /// Loaded for each tile: kept over the next one's products, it costs narrow panels 1 to 4 %.
    type Constants<const VECTORS: usize> = ();

    #[inline(always)]
    unsafe fn constants<const VECTORS: usize>(self, _: &Run) {}

    #[inline(always)]
    unsafe fn store<const ROWS: usize, const VECTORS: usize>(
        self,
        run: &Run,
        scaling: &Channels,
        row: usize,
        (): &(),
        sums: [[I32x16; VECTORS]; ROWS],
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let values = rounded(scaling, sums);
            let output = run.output.add(row * run.stride);
            store(run, &Narrow::new(scaling.range()), output, &values);
        }
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
    // Sixty-four bytes are one row, two or four, as wide as the tile is. Rows that lie one behind
    // the other are stored together.
    let whole = VECTORS < 3 && run.columns == VECTORS * LANES && run.stride == run.columns;
    if whole && ROWS.is_multiple_of(4 / VECTORS.min(4)) {
        let each = 4 / VECTORS;
        unrolled!(16: at < ROWS * VECTORS / 4, {
            let value = |v: usize| values[at * each + v / VECTORS][v % VECTORS];
            let all = narrow.bytes([value(0), value(1), value(2), value(3)]);
            // SAFETY: some rows of the tile.
            unsafe { _mm512_storeu_si512(output.add(at * 64).cast(), all) };
        });
        return;
    }
    // SAFETY: columns beyond the run's are masked out, rows beyond the tile's left out.
    unsafe {
        match VECTORS {
            1 => unrolled!(16: r < ROWS, {
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
            2 => unrolled!(16: r < ROWS, {
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
            _ => unrolled!(16: r < ROWS, {
                let all = narrow.bytes([at(r, 0), at(r, 1), at(r, 2), at(r, 3)]);
                _mm512_mask_storeu_epi8(output.add(r * run.stride).cast(), mask, all);
            }),
        }
    }
}
