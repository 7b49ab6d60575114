//! A vector of channels at a time.

use super::Pixels;
use crate::kernels::simd::{Floats, Kernel};

/// Windows that slide together: enough sums to hide an addition's latency, and each pixel that they
/// share is loaded once.
const TOGETHER: usize = 4;

pub(super) struct Windows;

impl Kernel for Windows {
    type Work = Pixels;

    #[inline(always)]
    unsafe fn run<V: Floats>(p: &Pixels) {
        // SAFETY: as the caller promises; a part of the channels each time.
        unsafe {
            // Lines are innermost, so that what windows of neighbouring lines share is in the first cache: a line
            // of a few channels fits it where one of all channels doesn't.
            let whole = p.channels / V::LANES * V::LANES;
            for channel in (0..whole).step_by(V::LANES) {
                for at in 0..p.height {
                    line::<V, true>(&p.line(at), channel);
                }
            }
            if whole < p.channels {
                for at in 0..p.height {
                    line::<V, false>(&p.line(at), whole);
                }
            }
        }
    }
}

/// The channels of a vector, all of its lanes (`WHOLE`) or the last few of the image.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn line<V: Floats, const WHOLE: bool>(p: &Pixels, channel: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        match (p.columns, p.step.checked_div(p.tap_column)) {
            (3, Some(1)) if p.step == p.tap_column => slide::<V, 3, 1, WHOLE>(p, channel),
            (3, Some(2)) if p.step == 2 * p.tap_column => slide::<V, 3, 2, WHOLE>(p, channel),
            (5, Some(1)) if p.step == p.tap_column => slide::<V, 5, 1, WHOLE>(p, channel),
            (5, Some(2)) if p.step == 2 * p.tap_column => slide::<V, 5, 2, WHOLE>(p, channel),
            _ => any::<V, WHOLE>(p, channel),
        }
    }
}

/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn slide<V: Floats, const COLUMNS: usize, const STRIDE: usize, const WHOLE: bool>(
    p: &Pixels,
    channel: usize,
) {
    let whole = p.count / TOGETHER * TOGETHER;
    // SAFETY: as the caller promises; a part of the pixels each time.
    unsafe {
        for pixel in (0..whole).step_by(TOGETHER) {
            windows::<V, TOGETHER, COLUMNS, STRIDE, WHOLE>(p, channel, pixel);
        }
        match p.count - whole {
            3 => windows::<V, 3, COLUMNS, STRIDE, WHOLE>(p, channel, whole),
            2 => windows::<V, 2, COLUMNS, STRIDE, WHOLE>(p, channel, whole),
            1 => windows::<V, 1, COLUMNS, STRIDE, WHOLE>(p, channel, whole),
            _ => {}
        }
    }
}

/// `COUNT` neighbouring windows of `COLUMNS` columns, `STRIDE` columns apart.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn windows<
    V: Floats,
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
        let mut sums = [V::load(p.bias.add(channel)); COUNT];
        let first = p.input.add(pixel * p.step + channel);
        for line in 0..p.lines {
            let mut weights = [V::splat(0.0); COLUMNS];
            for (tap, weight) in weights.iter_mut().enumerate() {
                let at = line * p.weight_line + tap * p.weight_column + channel;
                *weight = V::load(p.weights.add(at));
            }
            let first = first.add(line * p.tap_line);
            for column in 0..(COUNT - 1) * STRIDE + COLUMNS {
                let x: V = load::<V, WHOLE>(p, channel, first.add(column * p.tap_column));
                for (at, sum) in sums.iter_mut().enumerate() {
                    if column >= at * STRIDE && column - at * STRIDE < COLUMNS {
                        *sum = x.mul_add(weights[column - at * STRIDE], *sum);
                    }
                }
            }
        }
        for (at, &sum) in sums.iter().enumerate() {
            store::<V, WHOLE>(p, pixel + at, channel, sum);
        }
    }
}

/// Windows of any shape, one at a time.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn any<V: Floats, const WHOLE: bool>(p: &Pixels, channel: usize) {
    // SAFETY: as for `windows`.
    unsafe {
        for pixel in 0..p.count {
            let mut sum = V::load(p.bias.add(channel));
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let x: V = load::<V, WHOLE>(p, channel, taps.add(column * p.tap_column));
                    sum = x.mul_add(V::load(weights.add(column * p.weight_column)), sum);
                }
            }
            store::<V, WHOLE>(p, pixel, channel, sum);
        }
    }
}

/// # Safety
/// The channels are readable.
#[inline(always)]
unsafe fn load<V: Floats, const WHOLE: bool>(p: &Pixels, channel: usize, from: *const f32) -> V {
    // SAFETY: as the caller promises.
    unsafe { if WHOLE { V::load(from) } else { V::load_first(from, p.channels - channel) } }
}

/// # Safety
/// The pixel's channels are writable.
#[inline(always)]
unsafe fn store<V: Floats, const WHOLE: bool>(p: &Pixels, pixel: usize, channel: usize, sum: V) {
    // SAFETY: as the caller promises.
    unsafe {
        let y = sum.clamp(V::splat(p.low), V::splat(p.high));
        let to = p.output.add(pixel * p.output_step + channel);
        if WHOLE {
            y.store(to);
        } else {
            y.store_first(to, p.channels - channel);
        }
    }
}
