//! Products of bytes fit 16 bits; pairs of them are added into sums of 32.

use core::arch::aarch64::{
    vaddq_s32, vdupq_n_s32, vdupq_n_u32, vget_low_s8, vld1q_s8, vld1q_s32, vmull_high_s8, vmull_s8,
    vpadalq_s16, vpaddq_s32, vreinterpretq_s8_u32, vst1q_s32,
};

use super::{COLUMNS, DEPTH, Kernel, Panels};

pub(super) const KERNEL: Kernel = Kernel { run: panels, signed: true };

/// Columns of a vector of weights.
const QUARTER: usize = COLUMNS / 4;

#[target_feature(enable = "neon")]
unsafe fn panels(panels: &Panels) {
    let line = COLUMNS * DEPTH;
    for panel in 0..panels.panels {
        // Two sums per column, of two elements of depth each.
        let mut pairs = [[vdupq_n_s32(0); 2]; 4];
        for word in 0..panels.words {
            // SAFETY: a word of the row, and a line of the panel.
            unsafe {
                let x = vreinterpretq_s8_u32(vdupq_n_u32(*panels.row.add(word)));
                let from = panels.weights.add((panel * panels.words + word) * line);
                for (quarter, [low, high]) in pairs.iter_mut().enumerate() {
                    let weights = vld1q_s8(from.add(quarter * QUARTER * DEPTH));
                    let products = vmull_s8(vget_low_s8(weights), vget_low_s8(x));
                    *low = vpadalq_s16(*low, products);
                    *high = vpadalq_s16(*high, vmull_high_s8(weights, x));
                }
            }
        }
        for (quarter, [low, high]) in pairs.into_iter().enumerate() {
            // SAFETY: four sums of the panel.
            unsafe {
                let to = panels.sums.add(panel * COLUMNS + quarter * QUARTER);
                vst1q_s32(to, vaddq_s32(vld1q_s32(to), vpaddq_s32(low, high)));
            }
        }
    }
}
