//! 16 channels at a time; of 3x3 windows 4 neighbours of 2 lines.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_loadu_si128, _mm_maskz_loadu_epi8, _mm_set1_epi8, _mm_setr_epi8,
    _mm_storeu_si128, _mm_xor_si128, _mm512_broadcast_i32x4, _mm512_castsi128_si512,
    _mm512_castsi512_si128, _mm512_cvtepu8_epi32, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32,
    _mm512_extracti32x4_epi32, _mm512_inserti32x4, _mm512_loadu_si512,
    _mm512_mask_cvtepi32_storeu_epi8, _mm512_permutexvar_epi32, _mm512_set1_epi32,
    _mm512_setr_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_slli_epi32,
    _mm512_sub_epi32,
};

use super::Pixels;
use super::strips::Strip;
use crate::kernels::requantise::avx512::{Lanes, Narrow, rounded};

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

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn strip(s: &Strip) {
    // SAFETY: as the caller promises; each arm differs in how windows share columns alone.
    unsafe {
        match (s.step, s.split) {
            (step, true) if step == s.tap => lines::<1, true>(s),
            (step, false) if step == s.tap => lines::<1, false>(s),
            (step, true) if step == 2 * s.tap => lines::<2, true>(s),
            (step, false) if step == 2 * s.tap => lines::<2, false>(s),
            (_, true) => lines::<3, true>(s),
            (_, false) => lines::<3, false>(s),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn lines<const STEP: usize, const SPLIT: bool>(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe {
        if s.count < 4 {
            for x in 0..s.count {
                if s.two {
                    tile::<2, 1, STEP, SPLIT>(s, x);
                } else {
                    tile::<1, 1, STEP, SPLIT>(s, x);
                }
            }
            return;
        }
        // The last tile overlaps the one before.
        for x in (0..s.count).step_by(4) {
            let x = x.min(s.count - 4);
            if s.two { tile::<2, 4, STEP, SPLIT>(s, x) } else { tile::<1, 4, STEP, SPLIT>(s, x) }
        }
    }
}

/// `PIXELS` windows that lie `STEP` taps apart (3: any distance), of one line or two.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tile<const ROWS: usize, const PIXELS: usize, const STEP: usize, const SPLIT: bool>(
    s: &Strip,
    x: usize,
) {
    // SAFETY: a block of weights has seven lines.
    let line = |at: usize| unsafe { _mm512_loadu_si512(s.weights.add(at * LANES).cast()) };
    let (first, rest) = ([line(1), line(2), line(3)], [line(4), line(5), line(6)]);
    let mut sums = [[line(0); PIXELS]; ROWS];
    let interleave = Interleave::new();
    // SAFETY: windows are within the copy.
    let from = unsafe { s.input.add(x * s.step) };
    // Neighbours share columns of the image unless they are too far apart.
    unrolled!(12: column < if STEP == 3 { 3 * PIXELS } else { (PIXELS - 1) * STEP + 3 }, {
        let at = if STEP == 3 { column / 3 * s.step + column % 3 * s.tap } else { column * s.tap };
        // SAFETY: a column of a window.
        let lines = unsafe { interleave.load::<ROWS>(from.add(at), s.line) };
        unrolled!(4: p < PIXELS, {
            if let Some(tap) = column.checked_sub(p * STEP)
                && tap < 3
            {
                unrolled!(2: r < ROWS, {
                    // The weights of the second row are a byte further up.
                    let up = |w| if r == 0 { w } else { _mm512_slli_epi32::<8>(w) };
                    sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], lines, up(first[tap]));
                    if SPLIT {
                        sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], lines, up(rest[tap]));
                    }
                });
            }
        });
    });
    let narrow = Narrow::new(&s.scaling);
    unrolled!(2: r < ROWS, {
        let mut values = [[_mm512_setzero_si512(); 1]; PIXELS];
        unrolled!(4: p < PIXELS, { values[p][0] = sums[r][p] });
        // SAFETY: a block of channels, and the outputs of the windows.
        unsafe {
            let values = rounded(&s.scaling, values);
            let value = |p: usize| values[if p < PIXELS { p } else { 0 }][0];
            let all = narrow.bytes([value(0), value(1), value(2), value(3)]);
            let pixels = [
                _mm512_castsi512_si128(all),
                _mm512_extracti32x4_epi32::<1>(all),
                _mm512_extracti32x4_epi32::<2>(all),
                _mm512_extracti32x4_epi32::<3>(all),
            ];
            let mut output = s.output.add(r * s.out_line + x * s.out_step);
            for pixel in pixels.into_iter().take(PIXELS) {
                _mm_storeu_si128(output.cast(), pixel);
                output = output.wrapping_add(s.out_step);
            }
        }
    });
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
        let bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        Self {
            lines: _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
            bytes: _mm512_broadcast_i32x4(bytes),
        }
    }

    /// The fourth line is read where there are two rows of outputs; else its weights are 0.
    ///
    /// # Safety
    /// Sixteen bytes of three or four lines are readable.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn load<const ROWS: usize>(&self, from: *const u8, line: usize) -> __m512i {
        // SAFETY: as the caller promises.
        let row = |at: usize| unsafe { _mm_loadu_si128(from.add(at * line).cast()) };
        let all = _mm512_castsi128_si512(row(0));
        let all = _mm512_inserti32x4::<1>(all, row(1));
        let mut all = _mm512_inserti32x4::<2>(all, row(2));
        if ROWS == 2 {
            all = _mm512_inserti32x4::<3>(all, row(3));
        }
        _mm512_shuffle_epi8(_mm512_permutexvar_epi32(self.lines, all), self.bytes)
    }
}
