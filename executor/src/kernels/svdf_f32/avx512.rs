//! Sixteen slots at a time under a mask; the features of a unit share their sums.

use core::arch::x86_64::{
    _mm512_fmadd_ps, _mm512_mask_mov_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use super::Row;

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn filter(row: &Row) {
    let mut feature = 0;
    for unit in 0..row.units {
        let mut sums = _mm512_setzero_ps();
        for _ in 0..row.rank {
            let (first, end) = (feature * row.memory, (feature + 1) * row.memory);
            // SAFETY: a feature that is there.
            let newest = _mm512_set1_ps(unsafe { row.newest.add(feature).read_unaligned() });
            for at in (first..end).step_by(LANES) {
                let lanes = (end - at).min(LANES);
                let mask = u16::try_from((1u32 << lanes) - 1).unwrap_or(u16::MAX);
                // SAFETY: the masks keep within the feature's slots. The oldest slot falls out, so it is
                // masked where it would be stored in front of the feature.
                unsafe {
                    let mut slots = _mm512_maskz_loadu_ps(mask, row.state.add(at));
                    if at + lanes == end {
                        slots = _mm512_mask_mov_ps(slots, 1 << (lanes - 1), newest);
                    }
                    let weights = _mm512_maskz_loadu_ps(mask, row.weights.add(at));
                    sums = _mm512_fmadd_ps(slots, weights, sums);
                    let kept = if at == first { mask & !1 } else { mask };
                    _mm512_mask_storeu_ps(row.next.wrapping_add(at).wrapping_sub(1), kept, slots);
                }
            }
            // SAFETY: the last slot of the feature.
            unsafe { row.next.add(end - 1).write_unaligned(0.0) };
            feature += 1;
        }
        // SAFETY: a unit that is there.
        unsafe { *row.sums.add(unit) += _mm512_reduce_add_ps(sums) };
    }
}
