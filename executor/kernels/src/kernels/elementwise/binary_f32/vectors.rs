//! Vector by vector; the last few elements are part of one.

use std::marker::PhantomData;

use super::{Each, Rows};
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

/// Rows of an arithmetic.
pub(super) struct Vectors<E>(PhantomData<E>);

impl<E: Each> Kernel for Vectors<E> {
    type Work = Rows;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, rows: &Rows) {
        // SAFETY: as the caller promises; each arm differs in the steps from element to element
        // alone.
        unsafe {
            match rows.steps {
                (0, _) => of_steps::<S::F32, E, 0, 1>(isa, rows),
                (_, 0) => of_steps::<S::F32, E, 1, 0>(isa, rows),
                _ => of_steps::<S::F32, E, 1, 1>(isa, rows),
            }
        }
    }
}

/// # Safety
/// As for the rows.
#[inline(always)]
unsafe fn of_steps<V: F32Simd, E: Each, const A: usize, const B: usize>(isa: V::Isa, rows: &Rows) {
    let whole = rows.len / V::LANES * V::LANES;
    let (low, high) = (V::splat(isa, rows.low), V::splat(isa, rows.high));
    for row in 0..rows.count {
        // SAFETY: whole vectors are within the rows, and of the last one the elements that are
        // left.
        unsafe {
            let a_row = rows.a.add(row * rows.strides.0);
            let b_row = rows.b.add(row * rows.strides.1);
            let output = rows.output.add(row * rows.strides.2);
            for at in (0..whole).step_by(V::LANES) {
                let (a, b) = (load::<V, A>(isa, a_row, at), load::<V, B>(isa, b_row, at));
                E::vector(a, b).clamp(low, high).store(output.add(at));
            }
            let rest = rows.len - whole;
            if rest > 0 {
                let a = load_first::<V, A>(isa, a_row, whole, rest);
                let b = load_first::<V, B>(isa, b_row, whole, rest);
                E::vector(a, b).clamp(low, high).store_first(output.add(whole), rest);
            }
        }
    }
}

/// # Safety
/// A vector is there, or one number where the step is 0.
#[inline(always)]
unsafe fn load<V: F32Simd, const STEP: usize>(isa: V::Isa, from: *const f32, at: usize) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        if STEP == 0 { V::splat(isa, from.read_unaligned()) } else { V::load(isa, from.add(at)) }
    }
}

/// # Safety
/// So many elements are there, or one number where the step is 0.
#[inline(always)]
unsafe fn load_first<V: F32Simd, const STEP: usize>(
    isa: V::Isa,
    from: *const f32,
    at: usize,
    count: usize,
) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        if STEP == 0 {
            V::splat(isa, from.read_unaligned())
        } else {
            V::load_first(isa, from.add(at), count)
        }
    }
}
