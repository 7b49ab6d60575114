//! The lanes of a window, a vector at a time.

use super::{Pooled, flip};

/// A vector of bytes. All methods are always inlined.
pub(super) trait ByteVector: Copy {
    /// The proof of the instruction set.
    type Isa: Copy;

    /// ByteVector of a vector.
    const LANES: usize;

    /// One byte in all lanes.
    fn splat(isa: Self::Isa, x: u8) -> Self;

    /// # Safety
    /// A vector is readable.
    unsafe fn load(isa: Self::Isa, from: *const u8) -> Self;

    /// # Safety
    /// A vector is writable.
    unsafe fn store(self, to: *mut u8);

    /// The larger and the smaller ones.
    fn larger<const SIGNED: bool>(self, other: Self) -> Self;
    fn smaller<const SIGNED: bool>(self, other: Self) -> Self;
}

/// A vector that also holds fewer bytes.
pub(super) trait FewByteVector: ByteVector {
    /// Some lanes with the first `count` bytes, fewer than a vector: those that `store_few` stores.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn load_few(isa: Self::Isa, from: *const u8, count: usize) -> Self;

    /// # Safety
    /// `count` bytes, fewer than a vector, are writable.
    unsafe fn store_few(self, to: *mut u8, count: usize);
}

/// Folds the lanes of every window, those that are left by smaller vectors.
///
/// # Safety
/// As for a part.
#[inline(always)]
pub(super) unsafe fn fold<V: ByteVector, Few: FewByteVector, const SIGNED: bool>(
    isa: V::Isa,
    few_isa: Few::Isa,
    pooled: &Pooled,
) {
    let lanes = pooled.part.windows.lanes;
    let mut lane = 0;
    // SAFETY: so many lanes are left of windows whose elements and results are there.
    unsafe {
        while lanes - lane >= V::LANES {
            whole::<V, SIGNED>(isa, pooled, lane);
            lane += V::LANES;
        }
        while Few::LANES < V::LANES && lanes - lane >= Few::LANES {
            whole::<Few, SIGNED>(few_isa, pooled, lane);
            lane += Few::LANES;
        }
        if lane < lanes && lanes >= Few::LANES {
            // Rather a whole vector that overlaps the one before: what is as large twice is the
            // largest still.
            whole::<Few, SIGNED>(few_isa, pooled, lanes - Few::LANES);
        } else if lane < lanes {
            few::<Few, SIGNED>(few_isa, pooled);
        }
    }
}

/// A vector of lanes of every window.
///
/// # Safety
/// As for a part, whose windows have so many lanes from `lane` on.
#[inline(always)]
unsafe fn whole<V: ByteVector, const SIGNED: bool>(
    isa: V::Isa,
    &Pooled { part, low, high }: &Pooled,
    lane: usize,
) {
    let mut from = part.input.wrapping_add(lane);
    let mut to = part.output.wrapping_add(lane);
    for _ in 0..part.windows.count {
        // SAFETY: as the caller promises.
        unsafe {
            let mut largest =
                if part.begins { V::splat(isa, flip(SIGNED)) } else { V::load(isa, to) };
            let mut line = from;
            for _ in 0..part.windows.rows {
                let mut pixel = line;
                for _ in 0..part.windows.columns {
                    largest = largest.larger::<SIGNED>(V::load(isa, pixel));
                    pixel = pixel.wrapping_add(part.windows.column);
                }
                line = line.wrapping_add(part.windows.line);
            }
            if part.ends {
                largest = largest.larger::<SIGNED>(V::splat(isa, low));
                largest = largest.smaller::<SIGNED>(V::splat(isa, high));
            }
            largest.store(to);
        }
        from = from.wrapping_add(part.windows.distance);
        to = to.wrapping_add(part.windows.pitch);
    }
}

/// The lanes of every window, fewer than a vector.
///
/// # Safety
/// As for a part.
#[inline(always)]
unsafe fn few<V: FewByteVector, const SIGNED: bool>(
    isa: V::Isa,
    &Pooled { part, low, high }: &Pooled,
) {
    let (mut from, mut to, count) = (part.input, part.output, part.windows.lanes);
    for _ in 0..part.windows.count {
        // SAFETY: as the caller promises.
        unsafe {
            let mut largest = match part.begins {
                true => V::splat(isa, flip(SIGNED)),
                false => V::load_few(isa, to, count),
            };
            let mut line = from;
            for _ in 0..part.windows.rows {
                let mut pixel = line;
                for _ in 0..part.windows.columns {
                    largest = largest.larger::<SIGNED>(V::load_few(isa, pixel, count));
                    pixel = pixel.wrapping_add(part.windows.column);
                }
                line = line.wrapping_add(part.windows.line);
            }
            if part.ends {
                largest = largest.larger::<SIGNED>(V::splat(isa, low));
                largest = largest.smaller::<SIGNED>(V::splat(isa, high));
            }
            largest.store_few(to, count);
        }
        from = from.wrapping_add(part.windows.distance);
        to = to.wrapping_add(part.windows.pitch);
    }
}
