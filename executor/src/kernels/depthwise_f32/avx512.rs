//! 16 channels at a time.

use core::arch::x86_64::{
    __m512, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

use super::Pixels;

const LANES: usize = 16;

/// Windows that slide together: enough sums to hide an addition's latency, and each pixel that they
/// share is loaded once.
const TOGETHER: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
pub(super) unsafe fn pixels(p: &Pixels) {
    // SAFETY: as the caller promises; a part of the channels each time.
    unsafe {
        // Lines are innermost, so that what windows of neighbouring lines share is in the first cache: a line
        // of a few channels fits it where one of all channels doesn't.
        let whole = p.channels / LANES * LANES;
        for channel in (0..whole).step_by(LANES) {
            (0..p.height).for_each(|at| line::<true>(&p.line(at), channel));
        }
        if whole < p.channels {
            (0..p.height).for_each(|at| line::<false>(&p.line(at), whole));
        }
    }
}

/// The channels of a vector, all of its lanes (`WHOLE`) or the last few of the image.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn line<const WHOLE: bool>(p: &Pixels, channel: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        match (p.columns, p.step.checked_div(p.tap_column)) {
            (3, Some(1)) if p.step == p.tap_column => slide::<3, 1, WHOLE>(p, channel),
            (3, Some(2)) if p.step == 2 * p.tap_column => slide::<3, 2, WHOLE>(p, channel),
            (5, Some(1)) if p.step == p.tap_column => slide::<5, 1, WHOLE>(p, channel),
            (5, Some(2)) if p.step == 2 * p.tap_column => slide::<5, 2, WHOLE>(p, channel),
            _ => any::<WHOLE>(p, channel),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn slide<const COLUMNS: usize, const STRIDE: usize, const WHOLE: bool>(
    p: &Pixels,
    channel: usize,
) {
    let whole = p.count / TOGETHER * TOGETHER;
    // SAFETY: as the caller promises; a part of the pixels each time.
    unsafe {
        for pixel in (0..whole).step_by(TOGETHER) {
            windows::<TOGETHER, COLUMNS, STRIDE, WHOLE>(p, channel, pixel);
        }
        match p.count - whole {
            3 => windows::<3, COLUMNS, STRIDE, WHOLE>(p, channel, whole),
            2 => windows::<2, COLUMNS, STRIDE, WHOLE>(p, channel, whole),
            1 => windows::<1, COLUMNS, STRIDE, WHOLE>(p, channel, whole),
            _ => {}
        }
    }
}

/// `COUNT` neighbouring windows of `COLUMNS` columns, `STRIDE` columns apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn windows<
    const COUNT: usize,
    const COLUMNS: usize,
    const STRIDE: usize,
    const WHOLE: bool,
>(
    p: &Pixels,
    channel: usize,
    pixel: usize,
) {
    // SAFETY: bias and weights are padded to whole vectors; the windows are over the image.
    unsafe {
        let mut sums = [_mm512_loadu_ps(p.bias.add(channel)); COUNT];
        let first = p.input.add(pixel * p.step + channel);
        for line in 0..p.lines {
            let mut weights = [_mm512_setzero_ps(); COLUMNS];
            for (tap, weight) in weights.iter_mut().enumerate() {
                let at = line * p.weight_line + tap * p.weight_column + channel;
                *weight = _mm512_loadu_ps(p.weights.add(at));
            }
            let first = first.add(line * p.tap_line);
            for column in 0..(COUNT - 1) * STRIDE + COLUMNS {
                let x = load::<WHOLE>(p, channel, first.add(column * p.tap_column));
                for (at, sum) in sums.iter_mut().enumerate() {
                    if column >= at * STRIDE && column - at * STRIDE < COLUMNS {
                        *sum = _mm512_fmadd_ps(x, weights[column - at * STRIDE], *sum);
                    }
                }
            }
        }
        for (at, &sum) in sums.iter().enumerate() {
            store::<WHOLE>(p, pixel + at, channel, sum);
        }
    }
}

/// Windows of any shape, one at a time.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn any<const WHOLE: bool>(p: &Pixels, channel: usize) {
    // SAFETY: as for `windows`.
    unsafe {
        for pixel in 0..p.count {
            let mut sum = _mm512_loadu_ps(p.bias.add(channel));
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let x = load::<WHOLE>(p, channel, taps.add(column * p.tap_column));
                    let weight = _mm512_loadu_ps(weights.add(column * p.weight_column));
                    sum = _mm512_fmadd_ps(x, weight, sum);
                }
            }
            store::<WHOLE>(p, pixel, channel, sum);
        }
    }
}

/// The lanes that are channels, of a vector that is not whole.
fn mask(p: &Pixels, channel: usize) -> u16 {
    u16::try_from((1u32 << (p.channels - channel).min(LANES)) - 1).unwrap_or(u16::MAX)
}

/// # Safety
/// The channels are readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn load<const WHOLE: bool>(p: &Pixels, channel: usize, from: *const f32) -> __m512 {
    // SAFETY: as the caller promises.
    unsafe {
        if WHOLE { _mm512_loadu_ps(from) } else { _mm512_maskz_loadu_ps(mask(p, channel), from) }
    }
}

/// # Safety
/// The pixel's channels are writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
unsafe fn store<const WHOLE: bool>(p: &Pixels, pixel: usize, channel: usize, sum: __m512) {
    // NaN stays: of an unordered pair these return the second operand.
    let y = _mm512_max_ps(_mm512_set1_ps(p.low), sum);
    let y = _mm512_min_ps(_mm512_set1_ps(p.high), y);
    // SAFETY: as the caller promises.
    unsafe {
        let to = p.output.add(pixel * p.output_step + channel);
        if WHOLE {
            _mm512_storeu_ps(to, y);
        } else {
            _mm512_mask_storeu_ps(to, mask(p, channel), y);
        }
    }
}
