//! 16 channels at a time.

use core::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use super::Pixels;

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn pixels(p: &Pixels) {
    for channel in (0..p.channels).step_by(LANES) {
        // SAFETY: as the caller promises.
        unsafe { if (p.lines, p.columns) == (3, 3) { three(p, channel) } else { any(p, channel) } }
    }
}

/// A 3x3 window: its weights stay in registers while it slides.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn three(p: &Pixels, channel: usize) {
    let mask = mask(p.channels - channel);
    // SAFETY: bias and weights are padded to whole vectors; masks keep within the channels.
    unsafe {
        let bias = _mm512_loadu_ps(p.bias.add(channel));
        let mut weights = [bias; 9];
        for (tap, weight) in weights.iter_mut().enumerate() {
            let at = tap / 3 * p.weight_line + tap % 3 * p.weight_column + channel;
            *weight = _mm512_loadu_ps(p.weights.add(at));
        }
        for pixel in 0..p.count {
            let first = p.input.add(pixel * p.step + channel);
            // Two chains of additions hide each other's latency.
            let (mut even, mut odd) = (bias, _mm512_setzero_ps());
            for line in 0..3 {
                for column in 0..3 {
                    let x = load(first.add(line * p.tap_line + column * p.tap_column), mask);
                    let (tap, sum) =
                        (line * 3 + column, if column == 1 { &mut odd } else { &mut even });
                    *sum = _mm512_fmadd_ps(x, weights[tap], *sum);
                }
            }
            store(p, pixel, channel, mask, _mm512_add_ps(even, odd));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn any(p: &Pixels, channel: usize) {
    let mask = mask(p.channels - channel);
    // SAFETY: as for `three`.
    unsafe {
        for pixel in 0..p.count {
            let mut sum = _mm512_loadu_ps(p.bias.add(channel));
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let x = load(taps.add(column * p.tap_column), mask);
                    sum = _mm512_fmadd_ps(
                        x,
                        _mm512_loadu_ps(weights.add(column * p.weight_column)),
                        sum,
                    );
                }
            }
            store(p, pixel, channel, mask, sum);
        }
    }
}

type Mask = u16;

fn mask(channels: usize) -> Mask {
    u16::try_from((1u32 << channels.min(LANES)) - 1).unwrap_or(u16::MAX)
}

/// # Safety
/// The lanes of the mask are readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn load(from: *const f32, mask: Mask) -> __m512 {
    // SAFETY: as the caller promises.
    unsafe { _mm512_maskz_loadu_ps(mask, from) }
}

/// # Safety
/// The lanes of the mask are channels of the pixel from `channel` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn store(p: &Pixels, pixel: usize, channel: usize, mask: Mask, sum: __m512) {
    // NaN stays: of an unordered pair these return the second operand.
    let y = _mm512_max_ps(_mm512_set1_ps(p.low), sum);
    let y = _mm512_min_ps(_mm512_set1_ps(p.high), y);
    // SAFETY: as the caller promises.
    unsafe { _mm512_mask_storeu_ps(p.output.add(pixel * p.channels + channel), mask, y) };
}
