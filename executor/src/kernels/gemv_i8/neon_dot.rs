//! A panel's sums are four vectors.

use core::arch::aarch64::{vdupq_n_u32, vld1q_s8, vld1q_s32, vreinterpretq_s8_u32, vst1q_s32};

use super::{COLUMNS, DEPTH, Kernel, Panels};
use crate::kernels::dot_neon::dot;

pub(super) const KERNEL: Kernel = Kernel { run: panels, signed: true };

/// Columns of a vector.
const QUARTER: usize = COLUMNS / 4;

#[target_feature(enable = "neon,dotprod")]
unsafe fn panels(panels: &Panels) {
    let line = COLUMNS * DEPTH;
    for panel in 0..panels.panels {
        // SAFETY: the sums of a panel that is there.
        let to = unsafe { panels.sums.add(panel * COLUMNS) };
        // SAFETY: four of them.
        let load = |quarter: usize| unsafe { vld1q_s32(to.add(quarter * QUARTER)) };
        let mut sums = [load(0), load(1), load(2), load(3)];
        for word in 0..panels.words {
            // SAFETY: a word of the row, and a line of the panel.
            unsafe {
                let x = vreinterpretq_s8_u32(vdupq_n_u32(*panels.row.add(word)));
                let from = panels.weights.add((panel * panels.words + word) * line);
                for (quarter, sum) in sums.iter_mut().enumerate() {
                    *sum = dot(*sum, vld1q_s8(from.add(quarter * QUARTER * DEPTH)), x);
                }
            }
        }
        for (quarter, sum) in sums.into_iter().enumerate() {
            // SAFETY: four sums of the panel.
            unsafe { vst1q_s32(to.add(quarter * QUARTER), sum) };
        }
    }
}
