//! Plain Rust.

use super::Pixels;

pub(super) unsafe fn pixels<const ORDERED: bool>(p: &Pixels) {
    for at in 0..p.height {
        let line = Pixels {
            input: p.input.wrapping_add(at * p.input_line),
            output: p.output.wrapping_add(at * p.output_line),
            ..*p
        };
        // SAFETY: as the caller promises, line by line.
        unsafe { self::line::<ORDERED>(&line) };
    }
}

unsafe fn line<const ORDERED: bool>(p: &Pixels) {
    for pixel in 0..p.count {
        for channel in 0..p.channels {
            // SAFETY: a bias per channel.
            let bias = unsafe { *p.bias.add(channel) };
            let mut sum = if ORDERED { 0.0 } else { bias };
            for line in 0..p.lines {
                for column in 0..p.columns {
                    let tap = pixel * p.step + line * p.tap_line + column * p.tap_column + channel;
                    let weight = line * p.weight_line + column * p.weight_column + channel;
                    // SAFETY: the window covers the tap, which has a weight.
                    sum += unsafe { p.input.add(tap).read_unaligned() * *p.weights.add(weight) };
                }
            }
            let sum = if ORDERED { sum + bias } else { sum };
            let y = crate::tensor::quant::clamp_real(sum, p.low, p.high);
            // SAFETY: the pixel's output.
            unsafe { p.output.add(pixel * p.output_step + channel).write_unaligned(y) };
        }
    }
}
