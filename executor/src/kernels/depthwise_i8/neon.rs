//! 8 channels at a time.

use core::arch::aarch64::{
    int16x8_t, vcombine_s16, vdup_n_u8, vdupq_n_s16, veor_u8, vget_low_s16, vld1_u8, vld1q_s32,
    vmlal_high_s16, vmlal_s16, vmovl_u8, vmovn_s32, vreinterpretq_s16_u16, vsubq_s16,
};

use super::Pixels;
use crate::kernels::requantise::neon::{Lanes, store};

const LANES: usize = 8;

#[target_feature(enable = "neon")]
pub(super) unsafe fn pixels(p: &Pixels) {
    for channel in (0..p.channels).step_by(LANES) {
        let count = LANES.min(p.channels - channel);
        // SAFETY: bias, weights and scaling are padded to whole vectors; loads and stores keep to `count`.
        unsafe {
            let low = Lanes::load(&p.scaling, channel);
            let high = Lanes::load(&p.scaling, channel + 4);
            for pixel in 0..p.count {
                let bias = p.bias.add(channel);
                let mut sums = [vld1q_s32(bias), vld1q_s32(bias.add(4))];
                for line in 0..p.lines {
                    let taps = p.input.add(pixel * p.step + line * p.tap_line + channel);
                    let weights = p.weights.add(line * p.weight_line + channel);
                    for column in 0..p.columns {
                        let x = differences(p, taps.add(column * p.tap_column), count);
                        let w = weights.add(column * p.weight_column);
                        // The lower half of each word is the weight.
                        let w =
                            vcombine_s16(vmovn_s32(vld1q_s32(w)), vmovn_s32(vld1q_s32(w.add(4))));
                        sums[0] = vmlal_s16(sums[0], vget_low_s16(x), vget_low_s16(w));
                        sums[1] = vmlal_high_s16(sums[1], x, w);
                    }
                }
                let values = [low.stored(sums[0]), high.stored(sums[1])];
                store(p.output.add(pixel * p.channels + channel), count, values);
            }
        }
    }
}

/// The first `count` of eight inputs as differences from their zero point.
///
/// # Safety
/// So many bytes are readable.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn differences(p: &Pixels, from: *const u8, count: usize) -> int16x8_t {
    let mut padded = [0u8; LANES];
    // SAFETY: eight bytes are there, or `count` of them; the copy is ours.
    let bytes = unsafe {
        if count == LANES {
            vld1_u8(from)
        } else {
            std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count);
            vld1_u8(padded.as_ptr())
        }
    };
    let x = vreinterpretq_s16_u16(vmovl_u8(veor_u8(bytes, vdup_n_u8(p.bytes.flip))));
    // Zero points are at most 255, which fits.
    vsubq_s16(x, vdupq_n_s16(i16::try_from(p.bytes.zero_point).unwrap_or(0)))
}
