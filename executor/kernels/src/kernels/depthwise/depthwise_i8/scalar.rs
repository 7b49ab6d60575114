//! Plain Rust.

use super::Pixels;

pub(super) unsafe fn pixels(p: &Pixels) {
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
