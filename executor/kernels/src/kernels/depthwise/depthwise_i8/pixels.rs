//! Window by window, some vectors of channels at a time.

use super::Pixels;
use crate::simd::requantise::Quick;
use crate::simd::requantise::RequantiseSimd;
use crate::simd::{Kernel, Simd};

/// The scalar reference.
///
/// # Safety
/// As for the pixels.
pub(super) unsafe fn scalar(p: &Pixels) {
    for pixel in 0..p.count {
        for channel in 0..p.channels {
            // SAFETY: a bias per channel.
            let mut sum = unsafe { *p.bias.add(channel) };
            for line in 0..p.lines {
                for column in 0..p.columns {
                    let tap = pixel * p.step + line * p.tap_line + column * p.tap_column + channel;
                    let weight = line * p.weight_line + column * p.weight_column + channel;
                    // SAFETY: the window covers the tap, which has a weight.
                    let (x, w) = unsafe { (*p.input.add(tap), *p.weights.add(weight)) };
                    let x = i32::from(x ^ p.bytes.flip) - p.bytes.zero_point;
                    sum = sum.wrapping_add(x * ((w << 16) >> 16));
                }
            }
            // SAFETY: the pixel's output.
            unsafe {
                let y = p.scaling.stored(sum, channel);
                *p.output.add(pixel * p.output_step + channel) = y.to_le_bytes()[0];
            }
        }
    }
}

/// Vectors of channels.
pub(super) struct Windows;

impl Kernel for Windows {
    type Work = Pixels;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, p: &Pixels) {
        // SAFETY: as the caller promises.
        unsafe {
            match p.scaling.quick {
                Some(Quick { negative: true }) => quick::<S::I32, true>(isa, p),
                Some(Quick { negative: false }) => quick::<S::I32, false>(isa, p),
                None => general::<S::I32>(isa, p),
            }
        }
    }
}

/// # Safety
/// As for the pixels, of which all channels are quick.
#[inline(always)]
unsafe fn quick<V: RequantiseSimd, const NEGATIVE: bool>(isa: V::Isa, p: &Pixels) {
    let mut channel = 0;
    while channel < p.channels {
        // SAFETY: as the caller promises; a part of the channels each time.
        channel += unsafe {
            match (p.channels - channel) / V::LANES {
                4.. => vectors::<V, NEGATIVE, 4>(isa, p, channel, V::LANES),
                2 | 3 => vectors::<V, NEGATIVE, 2>(isa, p, channel, V::LANES),
                1 => vectors::<V, NEGATIVE, 1>(isa, p, channel, V::LANES),
                _ => vectors::<V, NEGATIVE, 1>(isa, p, channel, p.channels - channel),
            }
        };
    }
}

/// `VECTORS` vectors of channels, of each of which `lanes` are there; returns how many channels
/// these are.
///
/// # Safety
/// As for the pixels, of which all channels are quick.
#[inline(always)]
unsafe fn vectors<V: RequantiseSimd, const NEGATIVE: bool, const VECTORS: usize>(
    isa: V::Isa,
    p: &Pixels,
    channel: usize,
    lanes: usize,
) -> usize {
    // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to the
    // channels.
    unsafe {
        let weights = |line: usize, column: usize, v: usize| {
            let tap = line * p.weight_line + column * p.weight_column;
            V::load(isa, p.weights.add(tap + channel + v * V::LANES))
        };
        // Bytes are multiplied as they are: what the zero point takes off is the same for all
        // pixels.
        let (zero_point, range) =
            (V::splat(isa, -p.bytes.zero_point), V::narrow(isa, p.scaling.range()));
        let mut start = [zero_point; VECTORS];
        unrolled!(4: v < VECTORS, {
            start[v] = V::load(isa, p.bias.add(channel + v * V::LANES));
            for line in 0..p.lines {
                for column in 0..p.columns {
                    start[v] = start[v].mul_add_16(zero_point, weights(line, column, v));
                }
            }
        });
        for pixel in 0..p.count {
            let mut sums = start;
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                for column in 0..p.columns {
                    let tap = taps.add(column * p.tap_column);
                    unrolled!(4: v < VECTORS, {
                        let x = V::first_bytes(isa, tap.add(v * V::LANES), lanes, p.bytes.flip);
                        sums[v] = sums[v].mul_add_16(x, weights(line, column, v));
                    });
                }
            }
            let mut values = [zero_point; 4];
            unrolled!(4: v < VECTORS, {
                let by = V::quick(isa, &p.scaling, channel + v * V::LANES);
                values[v] = sums[v].rounded::<NEGATIVE>(&by);
            });
            let output = p.output.add(pixel * p.output_step + channel);
            V::store_narrow(values, &range, output, (VECTORS - 1) * V::LANES + lanes);
        }
    }
    (VECTORS - 1) * V::LANES + lanes
}

/// A vector of channels at a time, multipliers of any kind.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn general<V: RequantiseSimd>(isa: V::Isa, p: &Pixels) {
    for channel in (0..p.channels).step_by(V::LANES) {
        // SAFETY: as the caller promises; a part of the channels each time.
        unsafe { channels::<V>(isa, p, channel, V::LANES.min(p.channels - channel)) };
    }
}

/// The `count` channels of a vector.
///
/// # Safety
/// As for the pixels.
#[inline(always)]
unsafe fn channels<V: RequantiseSimd>(isa: V::Isa, p: &Pixels, channel: usize, count: usize) {
    // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to the
    // channels.
    unsafe {
        let (by, zero_point) =
            (V::multipliers(isa, &p.scaling, channel), V::splat(isa, p.bytes.zero_point));
        for pixel in 0..p.count {
            let mut sums = V::load(isa, p.bias.add(channel));
            for line in 0..p.lines {
                let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                let weights = p.weights.add(line * p.weight_line + channel);
                for column in 0..p.columns {
                    let tap = taps.add(column * p.tap_column);
                    let x = V::first_bytes(isa, tap, count, p.bytes.flip).sub(zero_point);
                    sums = sums.mul_add_16(x, V::load(isa, weights.add(column * p.weight_column)));
                }
            }
            sums.stored(&by).store_bytes(p.output.add(pixel * p.output_step + channel), count);
        }
    }
}
