//! 8 channels at a time.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadl_epi64, _mm_set1_epi8, _mm_xor_si128, _mm256_add_epi32,
    _mm256_cvtepu8_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi32,
    _mm256_storeu_si256, _mm256_sub_epi32,
};

use super::Pixels;
use crate::kernels::requantise::avx2::Lanes;

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) unsafe fn pixels(p: &Pixels) {
    for channel in (0..p.channels).step_by(LANES) {
        // SAFETY: as the caller promises.
        unsafe { if (p.lines, p.columns) == (3, 3) { three(p, channel) } else { any(p, channel) } }
    }
}

/// A 3x3 window: its weights stay in registers while it slides.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn three(p: &Pixels, channel: usize) {
    let count = LANES.min(p.channels - channel);
    // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to `count`.
    unsafe {
        let (lanes, input) = (Lanes::load(&p.scaling, channel), Input::new(p, count));
        let bias = _mm256_loadu_si256(p.bias.add(channel).cast());
        let mut weights = [bias; 9];
        for (tap, weight) in weights.iter_mut().enumerate() {
            let at = tap / 3 * p.weight_line + tap % 3 * p.weight_column + channel;
            *weight = _mm256_loadu_si256(p.weights.add(at).cast());
        }
        for pixel in 0..p.count {
            let first = p.input.add(pixel * p.step + channel);
            let mut sum = bias;
            for (tap, &weight) in weights.iter().enumerate() {
                let x = input.load(first.add(tap / 3 * p.tap_line + tap % 3 * p.tap_column));
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, weight));
            }
            store(p.output.add(pixel * p.channels + channel), count, lanes.stored(sum));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn any(p: &Pixels, channel: usize) {
    let count = LANES.min(p.channels - channel);
    // SAFETY: as for `three`.
    unsafe {
        let (lanes, input) = (Lanes::load(&p.scaling, channel), Input::new(p, count));
        for pixel in 0..p.count {
            let mut sum = _mm256_loadu_si256(p.bias.add(channel).cast());
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let x = input.load(taps.add(column * p.tap_column));
                    let weight = _mm256_loadu_si256(weights.add(column * p.weight_column).cast());
                    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, weight));
                }
            }
            store(p.output.add(pixel * p.channels + channel), count, lanes.stored(sum));
        }
    }
}

/// How input bytes become differences from their zero point.
struct Input {
    count: usize,
    flip: __m128i,
    zero_point: __m256i,
}

impl Input {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(p: &Pixels, count: usize) -> Self {
        Self {
            count,
            flip: _mm_set1_epi8(p.bytes.flip.cast_signed()),
            zero_point: _mm256_set1_epi32(p.bytes.zero_point),
        }
    }

    /// # Safety
    /// As many bytes as there are channels are readable.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(&self, from: *const u8) -> __m256i {
        let bytes: __m128i = if self.count == LANES {
            // SAFETY: eight bytes are there.
            unsafe { _mm_loadl_epi64(from.cast()) }
        } else {
            let mut padded = [0u8; LANES];
            // SAFETY: `count` bytes are there, and fewer than eight; the copy is ours.
            unsafe {
                std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), self.count);
                _mm_loadl_epi64(padded.as_ptr().cast())
            }
        };
        _mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_xor_si128(bytes, self.flip)), self.zero_point)
    }
}

/// # Safety
/// `count` bytes are writable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(to: *mut u8, count: usize, values: __m256i) {
    let mut all = [0i32; LANES];
    // SAFETY: eight numbers of our own.
    unsafe { _mm256_storeu_si256(all.as_mut_ptr().cast(), values) };
    for (lane, value) in all.iter().enumerate().take(count) {
        // SAFETY: a byte that is there.
        unsafe { *to.add(lane) = value.to_le_bytes()[0] };
    }
}
