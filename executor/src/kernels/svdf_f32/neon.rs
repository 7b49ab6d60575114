//! Four slots at a time, the last few one by one.

use core::arch::aarch64::{vaddvq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32};

use super::Row;

const LANES: usize = 4;

#[target_feature(enable = "neon")]
pub(super) unsafe fn filter(row: &Row) {
    let last = row.memory - 1;
    let whole = last / LANES * LANES;
    for unit in 0..row.units {
        let mut sums = vdupq_n_f32(0.0);
        let mut sum = 0.0;
        for feature in unit * row.rank..(unit + 1) * row.rank {
            let state = row.state.wrapping_add(feature * row.memory);
            let weights = row.weights.wrapping_add(feature * row.memory);
            let next = row.next.wrapping_add(feature * row.memory);
            for at in (0..whole).step_by(LANES) {
                // SAFETY: four slots are there and one behind them.
                unsafe {
                    sums = vfmaq_f32(sums, vld1q_f32(state.add(at)), vld1q_f32(weights.add(at)));
                    vst1q_f32(next.add(at), vld1q_f32(state.add(at + 1)));
                }
            }
            // SAFETY: slots of the feature; of those stored above only the last may be the newest's.
            unsafe {
                let newest = row.newest.add(feature).read_unaligned();
                for at in whole..last {
                    let slot = state.add(at).read_unaligned();
                    sum += slot * weights.add(at).read_unaligned();
                    next.add(at).write_unaligned(state.add(at + 1).read_unaligned());
                }
                sum += newest * weights.add(last).read_unaligned();
                if last > 0 {
                    next.add(last - 1).write_unaligned(newest);
                }
                next.add(last).write_unaligned(0.0);
            }
        }
        // SAFETY: a unit that is there.
        unsafe { *row.sums.add(unit) += sum + vaddvq_f32(sums) };
    }
}
