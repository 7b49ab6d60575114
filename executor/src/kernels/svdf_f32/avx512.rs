//! Sixteen slots at a time, the last of a feature under a mask; the features of a unit share their sums, and
//! four units what brings those down to one number each.

use core::arch::x86_64::{
    __m128, __m512, _mm_add_ps, _mm_loadu_ps, _mm_storeu_ps, _mm256_add_ps, _mm256_castps256_ps128,
    _mm256_extractf128_ps, _mm256_hadd_ps, _mm512_castps512_ps256, _mm512_extractf32x8_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_mov_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_storeu_ps,
};

use super::Row;

const LANES: usize = 16;
const TOGETHER: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn filter(row: &Row) {
    let tail = Tail::of(row.memory);
    let whole = row.units / TOGETHER * TOGETHER;
    // SAFETY: units that are there.
    unsafe {
        for first in (0..whole).step_by(TOGETHER) {
            let mut sums = [_mm512_setzero_ps(); TOGETHER];
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = unit(row, &tail, first + at);
            }
            let to = row.sums.add(first);
            _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), totals(sums)));
        }
        for at in whole..row.units {
            *row.sums.add(at) += _mm512_reduce_add_ps(unit(row, &tail, at));
        }
    }
}

/// The last vector of a feature's slots.
struct Tail {
    /// Its first slot.
    from: usize,
    slots: u16,
    /// The newest of them.
    newest: u16,
    /// Those that stay: the oldest of all falls out.
    kept: u16,
}

impl Tail {
    fn of(memory: usize) -> Self {
        let from = (memory - 1) / LANES * LANES;
        let newest = 1 << (memory - 1 - from);
        let slots = newest | (newest - 1);
        Self { from, slots, newest, kept: if from == 0 { slots & !1 } else { slots } }
    }
}

/// Weighs and shifts the features of a unit.
///
/// # Safety
/// It is there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn unit(row: &Row, tail: &Tail, unit: usize) -> __m512 {
    let mut sums = _mm512_setzero_ps();
    for feature in unit * row.rank..(unit + 1) * row.rank {
        let first = feature * row.memory;
        let (state, weights) = (row.state.wrapping_add(first), row.weights.wrapping_add(first));
        let next = row.next.wrapping_add(first);
        for at in (0..tail.from).step_by(LANES) {
            // SAFETY: sixteen slots are there and one behind them.
            unsafe {
                let weights = _mm512_loadu_ps(weights.add(at));
                sums = _mm512_fmadd_ps(_mm512_loadu_ps(state.add(at)), weights, sums);
                _mm512_storeu_ps(next.add(at), _mm512_loadu_ps(state.add(at + 1)));
            }
        }
        // SAFETY: the masks keep within the feature's slots; the slot in front of the tail's is stored again.
        unsafe {
            let newest = _mm512_set1_ps(row.newest.add(feature).read_unaligned());
            let slots = _mm512_maskz_loadu_ps(tail.slots, state.add(tail.from));
            let slots = _mm512_mask_mov_ps(slots, tail.newest, newest);
            let weights = _mm512_maskz_loadu_ps(tail.slots, weights.add(tail.from));
            sums = _mm512_fmadd_ps(slots, weights, sums);
            let to = next.wrapping_add(tail.from).wrapping_sub(1);
            _mm512_mask_storeu_ps(to, tail.kept, slots);
            next.add(row.memory - 1).write_unaligned(0.0);
        }
    }
    sums
}

/// The sum of the lanes of each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn totals(sums: [__m512; TOGETHER]) -> __m128 {
    let [a, b, c, d] = sums
        .map(|sum| _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps::<1>(sum)));
    let all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all))
}
