//! 4 channels at a time.

use core::arch::aarch64::{
    float32x4_t, vbslq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32,
};

use super::Pixels;

const LANES: usize = 4;

/// Windows that slide together: enough sums to hide an addition's latency, and each pixel that they
/// share is loaded once.
const TOGETHER: usize = 4;

#[target_feature(enable = "neon")]
pub(super) unsafe fn pixels(p: &Pixels) {
    // SAFETY: as the caller promises; a part of the channels each time.
    unsafe {
        // Lines are innermost, so that what windows of neighbouring lines share is in the first cache.
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
#[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
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
        let mut sums = [vld1q_f32(p.bias.add(channel)); COUNT];
        let first = p.input.add(pixel * p.step + channel);
        for line in 0..p.lines {
            let mut weights = [vdupq_n_f32(0.0); COLUMNS];
            for (tap, weight) in weights.iter_mut().enumerate() {
                let at = line * p.weight_line + tap * p.weight_column + channel;
                *weight = vld1q_f32(p.weights.add(at));
            }
            let first = first.add(line * p.tap_line);
            for column in 0..(COUNT - 1) * STRIDE + COLUMNS {
                let x = load::<WHOLE>(p, channel, first.add(column * p.tap_column));
                for (at, sum) in sums.iter_mut().enumerate() {
                    if column >= at * STRIDE && column - at * STRIDE < COLUMNS {
                        *sum = vfmaq_f32(*sum, x, weights[column - at * STRIDE]);
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
#[target_feature(enable = "neon")]
unsafe fn any<const WHOLE: bool>(p: &Pixels, channel: usize) {
    // SAFETY: as for `windows`.
    unsafe {
        for pixel in 0..p.count {
            let mut sum = vld1q_f32(p.bias.add(channel));
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let x = load::<WHOLE>(p, channel, taps.add(column * p.tap_column));
                    let weight = vld1q_f32(weights.add(column * p.weight_column));
                    sum = vfmaq_f32(sum, x, weight);
                }
            }
            store::<WHOLE>(p, pixel, channel, sum);
        }
    }
}

/// # Safety
/// The channels are readable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load<const WHOLE: bool>(p: &Pixels, channel: usize, from: *const f32) -> float32x4_t {
    if WHOLE {
        // SAFETY: four channels are there.
        return unsafe { vld1q_f32(from) };
    }
    let mut values = [0.0; LANES];
    for (lane, value) in values.iter_mut().enumerate().take(p.channels - channel) {
        // SAFETY: a channel that is there.
        *value = unsafe { from.add(lane).read_unaligned() };
    }
    // SAFETY: four floats of our own.
    unsafe { vld1q_f32(values.as_ptr()) }
}

/// # Safety
/// The pixel's channels are writable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store<const WHOLE: bool>(p: &Pixels, pixel: usize, channel: usize, sum: float32x4_t) {
    // NaN stays: it compares false.
    let (low, high) = (vdupq_n_f32(p.low), vdupq_n_f32(p.high));
    let y = vbslq_f32(vcltq_f32(sum, low), low, sum);
    let y = vbslq_f32(vcgtq_f32(y, high), high, y);
    let to = p.output.wrapping_add(pixel * p.output_step + channel);
    if WHOLE {
        // SAFETY: four channels are there.
        unsafe { vst1q_f32(to, y) };
        return;
    }
    let mut values = [0.0; LANES];
    // SAFETY: four floats of our own.
    unsafe { vst1q_f32(values.as_mut_ptr(), y) };
    for (lane, &value) in values.iter().enumerate().take(p.channels - channel) {
        // SAFETY: a channel that is there.
        unsafe { to.add(lane).write_unaligned(value) };
    }
}
