//! A vector of slots at a time, of the last of a feature a part; the features of a unit share their sums, and
//! four units what brings those down to one number each.

use super::Row;
use crate::kernels::simd::{Floats, Kernel};

const TOGETHER: usize = 4;

pub(super) struct Filter;

impl Kernel for Filter {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<V: Floats>(row: &Row) {
        let whole = row.units / TOGETHER * TOGETHER;
        // SAFETY: units that are there.
        unsafe {
            for first in (0..whole).step_by(TOGETHER) {
                let mut sums = [V::splat(0.0); TOGETHER];
                for (at, sum) in sums.iter_mut().enumerate() {
                    *sum = unit(row, first + at);
                }
                for (at, sum) in V::sums(sums).into_iter().enumerate() {
                    *row.sums.add(first + at) += sum;
                }
            }
            for at in whole..row.units {
                let [sum, ..] = V::sums([unit(row, at); TOGETHER]);
                *row.sums.add(at) += sum;
            }
        }
    }
}

/// Weighs and shifts the features of a unit.
///
/// # Safety
/// It is there.
#[inline(always)]
unsafe fn unit<V: Floats>(row: &Row, unit: usize) -> V {
    let last = row.memory - 1;
    // The slots of the last vector, without the newest.
    let whole = last / V::LANES * V::LANES;
    let rest = last - whole;
    // SAFETY: the machine has the instruction set.
    let mut sums = unsafe { V::splat(0.0) };
    for feature in unit * row.rank..(unit + 1) * row.rank {
        let first = feature * row.memory;
        let (state, weights) = (row.state.wrapping_add(first), row.weights.wrapping_add(first));
        let next = row.next.wrapping_add(first);
        for at in (0..whole).step_by(V::LANES) {
            // SAFETY: a vector of slots is there and one behind it.
            unsafe {
                sums = V::load(state.add(at)).mul_add(V::load(weights.add(at)), sums);
                V::load(state.add(at + 1)).store(next.add(at));
            }
        }
        // SAFETY: slots of the feature.
        unsafe {
            let newest = row.newest.add(feature).read_unaligned();
            let slots = V::load_first(state.add(whole), rest + 1).with_lane(rest, newest);
            sums = slots.mul_add(V::load_first(weights.add(whole), rest + 1), sums);
            // The oldest of all falls out; the slot in front of the last vector is stored again.
            match whole {
                0 => slots.store_from_second(next, rest + 1),
                _ => slots.store_first(next.add(whole - 1), rest + 1),
            }
            next.add(last).write_unaligned(0.0);
        }
    }
    sums
}
