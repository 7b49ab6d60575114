//! A vector of slots at a time, of the last of a feature a part; the features of a unit share their
//! sums, and four units what brings those down to one number each.

use super::Row;
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

const TOGETHER: usize = 4;

pub(super) struct Filter;

impl Kernel for Filter {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, row: &Row) {
        let whole = row.units / TOGETHER * TOGETHER;
        let mut slots =
            Slots { state: row.state, newest: row.newest, weights: row.weights, next: row.next };
        // SAFETY: units that are there, one behind the other.
        unsafe {
            for first in (0..whole).step_by(TOGETHER) {
                let mut sums = [S::F32::splat(isa, 0.0); TOGETHER];
                for sum in &mut sums {
                    *sum = slots.unit(isa, row);
                }
                for (at, sum) in S::F32::sums(sums).into_iter().enumerate() {
                    *row.sums.add(first + at) += sum;
                }
            }
            for at in whole..row.units {
                let [sum, ..] = S::F32::sums([slots.unit(isa, row); TOGETHER]);
                *row.sums.add(at) += sum;
            }
        }
    }
}

/// The slots of a feature; features follow each other in all of them.
struct Slots {
    state: *const f32,
    newest: *const f32,
    weights: *const f32,
    next: *mut f32,
}

impl Slots {
    /// Weighs and shifts the features of a unit and goes on to the next.
    ///
    /// # Safety
    /// They are those of a unit of the row.
    #[inline(always)]
    unsafe fn unit<V: F32Simd>(&mut self, isa: V::Isa, row: &Row) -> V {
        let mut sums = V::splat(isa, 0.0);
        for _ in 0..row.rank {
            // SAFETY: a feature of the unit.
            sums = unsafe { self.feature(isa, row.memory, sums) };
            self.state = self.state.wrapping_add(row.memory);
            self.weights = self.weights.wrapping_add(row.memory);
            self.next = self.next.wrapping_add(row.memory);
            self.newest = self.newest.wrapping_add(1);
        }
        sums
    }

    /// # Safety
    /// There are so many slots.
    #[inline(always)]
    unsafe fn feature<V: F32Simd>(&self, isa: V::Isa, memory: usize, mut sums: V) -> V {
        let &Self { state, newest, weights, next } = self;
        let last = memory - 1;
        // The slots of the last vector, without the newest.
        let whole = last / V::LANES * V::LANES;
        let rest = last - whole;
        for at in (0..whole).step_by(V::LANES) {
            // SAFETY: a vector of slots is there and one behind it.
            unsafe {
                sums = V::load(isa, state.add(at)).mul_add(V::load(isa, weights.add(at)), sums);
                V::load(isa, state.add(at + 1)).store(next.add(at));
            }
        }
        // SAFETY: slots of the feature.
        unsafe {
            let slots = V::load_first(isa, state.add(whole), rest + 1);
            let slots = slots.with_lane(rest, newest.read_unaligned());
            sums = slots.mul_add(V::load_first(isa, weights.add(whole), rest + 1), sums);
            // The oldest of all falls out; the slot in front of the last vector is stored again.
            match whole {
                0 => slots.store_from_second(next, rest + 1),
                _ => slots.store_first(next.add(whole - 1), rest + 1),
            }
            next.add(last).write_unaligned(0.0);
        }
        sums
    }
}
