//! A vector of channels at a time, window by window.

use super::Pixels;
use crate::kernels::numbers::{Kernel, Numbers};

pub(super) struct Windows;

impl Kernel for Windows {
    type Work = Pixels;

    #[inline(always)]
    unsafe fn run<V: Numbers>(p: &Pixels) {
        let whole = p.channels / V::LANES * V::LANES;
        // SAFETY: as the caller promises; a part of the channels each time.
        unsafe {
            for channel in (0..whole).step_by(V::LANES) {
                channels::<V, true>(p, channel);
            }
            if whole < p.channels {
                channels::<V, false>(p, whole);
            }
        }
    }
}

/// The channels of a vector, all of its lanes (`WHOLE`) or the last few of the image.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn channels<V: Numbers, const WHOLE: bool>(p: &Pixels, channel: usize) {
    let count = if WHOLE { V::LANES } else { p.channels - channel };
    // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to the channels.
    unsafe {
        let (by, zero_point) = (V::multipliers(&p.scaling, channel), V::splat(p.bytes.zero_point));
        for pixel in 0..p.count {
            let mut sums = V::load(p.bias.add(channel));
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let tap = taps.add(column * p.tap_column);
                    let x = V::first_bytes(tap, count, p.bytes.flip).sub(zero_point);
                    sums = sums.mul_add_16(x, V::load(weights.add(column * p.weight_column)));
                }
            }
            sums.stored(&by).store_bytes(p.output.add(pixel * p.output_step + channel), count);
        }
    }
}
