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

use super::strips::line::{GENERAL, Job, NEGATIVE, Word, strip};
use super::strips::{self, LANES, Strip};
use super::{Kernel, Pixels};
use crate::kernels::gemm_i8::Encoding;
use crate::kernels::gemm_i8::avx512::encode;
use crate::kernels::requantise::Channels;
use crate::kernels::requantise::avx512::{Lanes, Narrow, QuickLanes, general};

pub(super) const KERNEL: Kernel = Kernel {
    pixels,
    strips: Some(strips::Kernel {
        encoding: Encoding::Bytes,
        lines: 4,
        encode,
        order: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        three,
        five,
    }),
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn pixels(p: &Pixels) {
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
unsafe fn three(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { if s.split { strip::<Lines<2>, 3, 1, 4>(s) } else { strip::<Lines<1>, 3, 1, 4>(s) } };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn five(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { if s.split { strip::<Lines<2>, 5, 2, 4>(s) } else { strip::<Lines<1>, 5, 2, 4>(s) } };
}

/// Four lines: those of a channel in each lane. Weights have so many parts.
#[derive(Clone, Copy)]
struct Lines<const PARTS: usize>(__m512i);

impl<const PARTS: usize> Word for Lines<PARTS> {
    type Sums = __m512i;
    type Order = Interleave;
    type Finish = (QuickLanes, Narrow);

    const LINES: usize = 4;
    const PARTS: usize = PARTS;
    const QUICK: bool = true;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn apart<J: Job>(s: &Strip) {
        // SAFETY: as the caller promises.
        unsafe { J::run(s) };
    }

    #[inline(always)]
    unsafe fn order() -> Interleave {
        // SAFETY: as the caller promises.
        unsafe { Interleave::new() }
    }

    #[inline(always)]
    unsafe fn finish(scaling: &Channels) -> (QuickLanes, Narrow) {
        // SAFETY: as the caller promises; the first isn't looked at unless all channels are quick.
        unsafe { (QuickLanes::load(scaling, 0), Narrow::new(scaling)) }
    }

    #[inline(always)]
    unsafe fn sums(from: *const i32) -> __m512i {
        // SAFETY: as the caller promises.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn weights(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn lines(order: &Interleave, from: *const u8, line: usize, count: usize) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { order.load(from, line, count) })
    }

    #[inline(always)]
    fn lowered(self, before: Option<Self>) -> Self {
        // SAFETY: a word is proof of the instruction set.
        unsafe {
            let down = _mm512_slli_epi32::<8>(self.0);
            Self(match before {
                Some(before) => _mm512_or_si512(down, _mm512_srli_epi32::<24>(before.0)),
                None => down,
            })
        }
    }

    #[inline(always)]
    fn dot(self, weights: Self, sums: __m512i) -> __m512i {
        // SAFETY: a word is proof of the instruction set.
        unsafe { _mm512_dpbusd_epi32(sums, self.0, weights.0) }
    }

    #[inline(always)]
    unsafe fn store<const FINISH: u8, const PIXELS: usize>(
        (quick, narrow): &(QuickLanes, Narrow),
        scaling: &Channels,
        sums: [__m512i; PIXELS],
        to: *mut u8,
        step: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut values = [sums[0]; 4];
            unrolled!(4: p < PIXELS, { values[p] = sums[p] });
            if FINISH == GENERAL {
                general(scaling, &mut values[..PIXELS], 1);
            } else {
                unrolled!(4: p < PIXELS, {
                    values[p] = if FINISH == NEGATIVE {
                        quick.rounded::<true>(values[p])
                    } else {
                        quick.rounded::<false>(values[p])
                    };
                });
            }
            let all = narrow.bytes(values);
            _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(all));
            if PIXELS == 4 {
                _mm_storeu_si128(to.add(step).cast(), _mm512_extracti32x4_epi32::<1>(all));
                _mm_storeu_si128(to.add(2 * step).cast(), _mm512_extracti32x4_epi32::<2>(all));
                _mm_storeu_si128(to.add(3 * step).cast(), _mm512_extracti32x4_epi32::<3>(all));
            }
        }
    }
}

/// Turns sixteen bytes of four lines each so that a lane has those of one channel.
#[derive(Clone, Copy)]
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
