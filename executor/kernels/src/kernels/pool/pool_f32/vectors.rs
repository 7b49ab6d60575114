//! The lanes of a window, as many as four vectors hold at a time.

use std::marker::PhantomData;

use super::{Fold, Pooled};
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Kernel, Simd};

/// Windows, folded in a way.
pub(super) struct PoolVectors<F>(PhantomData<F>);

/// PoolVectors that are folded side by side: a sum waits for the one before it.
const TOGETHER: usize = 4;

impl<F: Fold> Kernel for PoolVectors<F> {
    type Work = Pooled;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, pooled: &Pooled) {
        let (all, lanes) = (pooled.part.windows.lanes, <S::F32 as F32Simd>::LANES);
        let mut lane = 0;
        // SAFETY: so many lanes are left of windows whose elements and results are there.
        unsafe {
            while all - lane >= TOGETHER * lanes {
                whole::<S::F32, F, TOGETHER>(isa, pooled, lane);
                lane += TOGETHER * lanes;
            }
            while all - lane >= lanes {
                whole::<S::F32, F, 1>(isa, pooled, lane);
                lane += lanes;
            }
            if lane < all {
                rest::<S::F32, F>(isa, pooled, lane);
            }
        }
    }
}

/// `N` vectors of lanes of every window.
///
/// # Safety
/// As for a part, whose windows have so many lanes from `lane` on.
#[inline(always)]
unsafe fn whole<V: F32Simd, F: Fold, const N: usize>(isa: V::Isa, pooled: &Pooled, lane: usize) {
    let Pooled { part, factor, low, high } = *pooled;
    let mut from = part.input.wrapping_add(lane);
    let mut to = part.output.wrapping_add(lane);
    for _ in 0..part.windows.count {
        let mut folded = [V::splat(isa, F::FIRST); N];
        // SAFETY: as the caller promises.
        unsafe {
            if !part.begins {
                for (at, folded) in folded.iter_mut().enumerate() {
                    *folded = V::load(isa, to.add(at * V::LANES));
                }
            }
            let mut line = from;
            for _ in 0..part.windows.rows {
                let mut pixel = line;
                for _ in 0..part.windows.columns {
                    for (at, folded) in folded.iter_mut().enumerate() {
                        *folded = F::vector(*folded, V::load(isa, pixel.add(at * V::LANES)));
                    }
                    pixel = pixel.wrapping_add(part.windows.column);
                }
                line = line.wrapping_add(part.windows.line);
            }
            for (at, folded) in folded.into_iter().enumerate() {
                let y = match part.ends {
                    true => F::results(folded, V::splat(isa, factor))
                        .clamp(V::splat(isa, low), V::splat(isa, high)),
                    false => folded,
                };
                y.store(to.add(at * V::LANES));
            }
        }
        from = from.wrapping_add(part.windows.distance);
        to = to.wrapping_add(part.windows.pitch);
    }
}

/// The lanes from `lane` on of every window, fewer than a vector.
///
/// # Safety
/// As for a part.
#[inline(always)]
unsafe fn rest<V: F32Simd, F: Fold>(isa: V::Isa, pooled: &Pooled, lane: usize) {
    let Pooled { part, factor, low, high } = *pooled;
    let mut from = part.input.wrapping_add(lane);
    let mut to = part.output.wrapping_add(lane);
    let count = part.windows.lanes - lane;
    for _ in 0..part.windows.count {
        let mut folded = V::splat(isa, F::FIRST);
        // SAFETY: as the caller promises.
        unsafe {
            if !part.begins {
                folded = V::load_first(isa, to, count);
            }
            let mut line = from;
            for _ in 0..part.windows.rows {
                let mut pixel = line;
                for _ in 0..part.windows.columns {
                    folded = F::vector(folded, V::load_first(isa, pixel, count));
                    pixel = pixel.wrapping_add(part.windows.column);
                }
                line = line.wrapping_add(part.windows.line);
            }
            if part.ends {
                folded = F::results(folded, V::splat(isa, factor))
                    .clamp(V::splat(isa, low), V::splat(isa, high));
            }
            folded.store_first(to, count);
        }
        from = from.wrapping_add(part.windows.distance);
        to = to.wrapping_add(part.windows.pitch);
    }
}
