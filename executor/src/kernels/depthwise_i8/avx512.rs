//! 16 channels at a time; of 3x3 and 5x5 windows 4 neighbours of 2 lines.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_loadu_si128, _mm_maskz_loadu_epi8, _mm_set1_epi8, _mm_setr_epi8,
    _mm_storeu_si128, _mm_xor_si128, _mm512_broadcast_i32x4, _mm512_castsi128_si512,
    _mm512_castsi512_si128, _mm512_cvtepu8_epi32, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32,
    _mm512_extracti32x4_epi32, _mm512_inserti32x4, _mm512_loadu_si512,
    _mm512_mask_cvtepi32_storeu_epi8, _mm512_or_si512, _mm512_permutexvar_epi32, _mm512_set1_epi32,
    _mm512_setr_epi32, _mm512_shuffle_epi8, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_sub_epi32,
};
use std::hint::black_box;

use super::Pixels;
use super::strips::Strip;
use crate::kernels::requantise::Quick;
use crate::kernels::requantise::avx512::{Lanes, Narrow, QuickLanes, general};

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn pixels(p: &Pixels) {
    for channel in (0..p.channels).step_by(LANES) {
        // SAFETY: as the caller promises.
        unsafe { any(p, channel) };
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn any(p: &Pixels, channel: usize) {
    let count = LANES.min(p.channels - channel);
    // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to `count`.
    unsafe {
        let (lanes, input) = (Lanes::load(&p.scaling, channel), Input::new(p, count));
        for pixel in 0..p.count {
            let mut sum = _mm512_loadu_si512(p.bias.add(channel).cast());
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let x = input.load(taps.add(column * p.tap_column));
                    let weight = _mm512_loadu_si512(weights.add(column * p.weight_column).cast());
                    sum = _mm512_dpwssd_epi32(sum, x, weight);
                }
            }
            store(p.output.add(pixel * p.channels + channel), count, lanes.stored(sum));
        }
    }
}

/// How input bytes become differences from their zero point.
struct Input {
    mask: u16,
    flip: __m128i,
    zero_point: __m512i,
}

impl Input {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn new(p: &Pixels, count: usize) -> Self {
        Self {
            mask: mask(count),
            flip: _mm_set1_epi8(p.bytes.flip.cast_signed()),
            zero_point: _mm512_set1_epi32(p.bytes.zero_point),
        }
    }

    /// # Safety
    /// As many bytes as there are channels are readable.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn load(&self, from: *const u8) -> __m512i {
        // SAFETY: bytes beyond the channels are masked out.
        let bytes = unsafe { _mm_maskz_loadu_epi8(self.mask, from.cast()) };
        _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, self.flip)), self.zero_point)
    }
}

fn mask(count: usize) -> u16 {
    u16::try_from((1u32 << count) - 1).unwrap_or(u16::MAX)
}

/// # Safety
/// `count` bytes are writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn store(to: *mut u8, count: usize, values: __m512i) {
    // SAFETY: bytes beyond the channels are masked out.
    unsafe { _mm512_mask_cvtepi32_storeu_epi8(to.cast(), mask(count), values) };
}

/// How sums become bytes: no result is below the zero point, some are, or multipliers are of any kind.
const POSITIVE: u8 = 0;
const NEGATIVE: u8 = 1;
const GENERAL: u8 = 2;

/// Windows of `SIDE` lines and columns; `WORDS` words hold the lines of one window and of the one below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn strip<const SIDE: usize, const WORDS: usize>(s: &Strip) {
    // SAFETY: as the caller promises; each arm differs in how sums become bytes alone.
    unsafe {
        match (s.two, s.scaling.quick) {
            (true, Some(Quick { negative: false })) => sharing::<SIDE, WORDS, 2, POSITIVE>(s),
            (true, Some(Quick { negative: true })) => sharing::<SIDE, WORDS, 2, NEGATIVE>(s),
            (true, None) => line::<SIDE, WORDS, 2, 1, 0, true, GENERAL>(s),
            (false, Some(Quick { negative: false })) => sharing::<SIDE, WORDS, 1, POSITIVE>(s),
            (false, Some(Quick { negative: true })) => sharing::<SIDE, WORDS, 1, NEGATIVE>(s),
            (false, None) => line::<SIDE, WORDS, 1, 1, 0, true, GENERAL>(s),
        }
    }
}

/// Neighbours share columns of the image unless they are too far apart, or too few.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn sharing<const SIDE: usize, const WORDS: usize, const ROWS: usize, const FINISH: u8>(
    s: &Strip,
) {
    // SAFETY: as the caller promises; each arm differs in how windows share columns alone.
    unsafe {
        match (s.split, s.step) {
            _ if s.count < 4 => line::<SIDE, WORDS, ROWS, 1, 0, true, FINISH>(s),
            (true, step) if step == s.tap => line::<SIDE, WORDS, ROWS, 4, 1, true, FINISH>(s),
            (false, step) if step == s.tap => line::<SIDE, WORDS, ROWS, 4, 1, false, FINISH>(s),
            (true, step) if step == 2 * s.tap => line::<SIDE, WORDS, ROWS, 4, 2, true, FINISH>(s),
            (false, step) if step == 2 * s.tap => line::<SIDE, WORDS, ROWS, 4, 2, false, FINISH>(s),
            _ => line::<SIDE, WORDS, ROWS, 1, 0, true, FINISH>(s),
        }
    }
}

/// A whole strip, `PIXELS` windows at a time that lie `STEP` taps apart. What all tiles need is loaded once:
/// behind a store the compiler would load it again.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn line<
    const SIDE: usize,
    const WORDS: usize,
    const ROWS: usize,
    const PIXELS: usize,
    const STEP: usize,
    const SPLIT: bool,
    const FINISH: u8,
>(
    s: &Strip,
) {
    // SAFETY: a block of weights has a line of bias, and two of each word of each column.
    let line = |at: usize| unsafe { _mm512_loadu_si512(s.weights.add(at * LANES).cast()) };
    let bias = line(0);
    // What fits signed bytes, and what is left; of the second row of windows a byte further up.
    let mut weights = [[[[bias; WORDS]; SIDE]; 2]; ROWS];
    unrolled!(2: part < 2, {
        unrolled!(6: tap < SIDE, {
            unrolled!(2: word < WORDS, {
                let all = line(1 + (part * SIDE + tap) * WORDS + word);
                weights[0][part][tap][word] = all;
                if ROWS == 2 {
                    let mut up = _mm512_slli_epi32::<8>(all);
                    if word > 0 {
                        let above = weights[0][part][tap][word.saturating_sub(1)];
                        up = _mm512_or_si512(up, _mm512_srli_epi32::<24>(above));
                    }
                    weights[1][part][tap][word] = up;
                }
            });
        });
    });
    // SAFETY: sixteen channels; they aren't looked at unless all are quick.
    let lanes = unsafe { QuickLanes::load(&s.scaling, 0) };
    let (interleave, narrow) = (Interleave::new(), Narrow::new(&s.scaling));
    for x in (0..s.count).step_by(PIXELS) {
        // The last tile overlaps the one before.
        let x = x.min(s.count - PIXELS);
        let mut sums = [[bias; 4]; ROWS];
        let from = s.input.wrapping_add(x * s.step);
        unrolled!(12: column < (PIXELS - 1) * STEP + SIDE, {
            unrolled!(2: word < WORDS, {
                let first = from.wrapping_add(column * s.tap + word * 4 * s.line);
                let count = SIDE + ROWS - 1 - word * 4;
                // SAFETY: a column of a window, or of two.
                let lines = unsafe { interleave.load(first, s.line, count) };
                unrolled!(4: p < PIXELS, {
                    if column >= p * STEP && column - p * STEP < SIDE {
                        let tap = column - p * STEP;
                        unrolled!(2: r < ROWS, {
                            let [most, rest] = [0, 1].map(|part| weights[r][part][tap][word]);
                            sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], lines, most);
                            if SPLIT {
                                sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], lines, rest);
                            }
                        });
                    }
                });
            });
        });
        unrolled!(2: r < ROWS, {
            let mut values = sums[r];
            if FINISH == GENERAL {
                // SAFETY: sixteen channels.
                unsafe { general(&s.scaling, &mut values[..PIXELS], 1) };
            } else {
                unrolled!(4: p < PIXELS, {
                    values[p] = if FINISH == NEGATIVE {
                        lanes.rounded::<true>(values[p])
                    } else {
                        lanes.rounded::<false>(values[p])
                    };
                });
            }
            let all = narrow.bytes(values);
            let to = s.output.wrapping_add(r * s.out_line + x * s.out_step);
            // SAFETY: the outputs of the windows.
            unsafe {
                _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(all));
                if PIXELS == 4 {
                    let second = _mm512_extracti32x4_epi32::<1>(all);
                    _mm_storeu_si128(to.add(s.out_step).cast(), second);
                    let third = _mm512_extracti32x4_epi32::<2>(all);
                    _mm_storeu_si128(to.add(2 * s.out_step).cast(), third);
                    let fourth = _mm512_extracti32x4_epi32::<3>(all);
                    _mm_storeu_si128(to.add(3 * s.out_step).cast(), fourth);
                }
            }
        });
    }
}

/// Sixteen bytes of four lines each, turned so that a lane has those of one channel.
struct Interleave {
    lines: __m512i,
    bytes: __m512i,
}

impl Interleave {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    fn new() -> Self {
        let lines = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        // Where it sees the order, the compiler makes eight shuffles of these two.
        Self { lines: black_box(lines), bytes: black_box(_mm512_broadcast_i32x4(bytes)) }
    }

    /// `count` lines, at most four; what stands in the place of others is arbitrary.
    ///
    /// # Safety
    /// Sixteen bytes of so many lines are readable.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn load(&self, from: *const u8, line: usize, count: usize) -> __m512i {
        // SAFETY: as the caller promises.
        let row = |at: usize| unsafe { _mm_loadu_si128(from.add(at * line).cast()) };
        let mut all = _mm512_castsi128_si512(row(0));
        if count > 1 {
            all = _mm512_inserti32x4::<1>(all, row(1));
        }
        if count > 2 {
            all = _mm512_inserti32x4::<2>(all, row(2));
        }
        if count > 3 {
            all = _mm512_inserti32x4::<3>(all, row(3));
        }
        _mm512_shuffle_epi8(_mm512_permutexvar_epi32(self.lines, all), self.bytes)
    }
}
