//! Eight slots at a time, the last few one by one.

use core::arch::x86_64::{_mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps};

use super::Row;

const LANES: usize = 8;

#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn filter(row: &Row) {
    let last = row.memory - 1;
    let whole = last / LANES * LANES;
    for unit in 0..row.units {
        let mut sums = _mm256_setzero_ps();
        let mut sum = 0.0;
        for feature in unit * row.rank..(unit + 1) * row.rank {
            let state = row.state.wrapping_add(feature * row.memory);
            let weights = row.weights.wrapping_add(feature * row.memory);
            let next = row.next.wrapping_add(feature * row.memory);
            for at in (0..whole).step_by(LANES) {
                // SAFETY: eight slots are there and one behind them.
                unsafe {
                    let weights = _mm256_loadu_ps(weights.add(at));
                    sums = _mm256_fmadd_ps(_mm256_loadu_ps(state.add(at)), weights, sums);
                    _mm256_storeu_ps(next.add(at), _mm256_loadu_ps(state.add(at + 1)));
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
        let mut lanes = [0.0f32; LANES];
        // SAFETY: eight floats of our own, and a unit that is there.
        unsafe {
            _mm256_storeu_ps(lanes.as_mut_ptr(), sums);
            *row.sums.add(unit) += sum + lanes.iter().sum::<f32>();
        }
    }
}
