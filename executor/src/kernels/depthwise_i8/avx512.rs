//! 16 channels at a time.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_maskz_loadu_epi8, _mm_set1_epi8, _mm_xor_si128, _mm512_cvtepu8_epi32,
    _mm512_dpwssd_epi32, _mm512_loadu_si512, _mm512_mask_cvtepi32_storeu_epi8, _mm512_set1_epi32,
    _mm512_sub_epi32,
};

use super::Pixels;
use crate::kernels::requantise::avx512::Lanes;

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn pixels(p: &Pixels) {
    for channel in (0..p.channels).step_by(LANES) {
        // SAFETY: as the caller promises.
        unsafe { if (p.lines, p.columns) == (3, 3) { three(p, channel) } else { any(p, channel) } }
    }
}

/// A 3x3 window: its weights stay in registers while it slides.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn three(p: &Pixels, channel: usize) {
    let count = LANES.min(p.channels - channel);
    // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to `count`.
    unsafe {
        let (lanes, input) = (Lanes::load(&p.scaling, channel), Input::new(p, count));
        let bias = _mm512_loadu_si512(p.bias.add(channel).cast());
        let mut weights = [bias; 9];
        for (tap, weight) in weights.iter_mut().enumerate() {
            let at = tap / 3 * p.weight_line + tap % 3 * p.weight_column + channel;
            *weight = _mm512_loadu_si512(p.weights.add(at).cast());
        }
        for pixel in 0..p.count {
            let first = p.input.add(pixel * p.step + channel);
            let mut sum = bias;
            for (tap, &weight) in weights.iter().enumerate() {
                let x = input.load(first.add(tap / 3 * p.tap_line + tap % 3 * p.tap_column));
                sum = _mm512_dpwssd_epi32(sum, x, weight);
            }
            store(p.output.add(pixel * p.channels + channel), count, lanes.stored(sum));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn any(p: &Pixels, channel: usize) {
    let count = LANES.min(p.channels - channel);
    // SAFETY: as for `three`.
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
