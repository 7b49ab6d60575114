//! What kernels of several rows at a time have in common: sums in sixteen lanes, the upper half of
//! which is added to the lower one until one is left, as MEAN adds.

use crate::simd::vector_f32::F32Simd;

/// Elements of a row that are added side by side.
pub(super) const LANES: usize = 16;

/// Rows at a time: the lanes of one alone would be added up for as long as reading 64 elements
/// takes.
pub(super) const TOGETHER: usize = 4;

/// Vectors of sixteen lanes, at most.
pub(super) const PARTS: usize = 4;

/// The lanes of each row, as the vectors that they take.
pub(super) type Lanes<V> = [[V; PARTS]; TOGETHER];

/// The sum of the lanes of each of the first `N` rows.
#[inline(always)]
pub(super) fn sums_of<V: F32Simd, const N: usize>(mut lanes: Lanes<V>) -> [f32; TOGETHER] {
    unrolled!(4: row < N, {
        if V::LANES * 4 == LANES {
            lanes[row][0] = lanes[row][0].add(lanes[row][2]);
            lanes[row][1] = lanes[row][1].add(lanes[row][3]);
        }
        if V::LANES * 2 <= LANES {
            lanes[row][0] = lanes[row][0].add(lanes[row][1]);
        }
    });
    V::folded([lanes[0][0], lanes[1][0], lanes[2][0], lanes[3][0]])
}

/// The scalar twin of [`sums_of`], of one row.
#[inline(always)]
pub(super) fn sum_of(mut lanes: [f32; LANES]) -> f32 {
    for half in [LANES / 2, LANES / 4, LANES / 8, LANES / 16] {
        (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
    }
    lanes[0]
}

/// A number of each row in all lanes of a vector, `N` of which are needed.
#[inline(always)]
pub(super) fn filled<V: F32Simd, const N: usize>(
    isa: V::Isa,
    numbers: [f32; TOGETHER],
) -> [V; TOGETHER] {
    let mut vectors = [V::splat(isa, numbers[0]); TOGETHER];
    unrolled!(4: row < N, { vectors[row] = V::splat(isa, numbers[row]) });
    vectors
}

/// A kernel of some rows.
pub(super) trait RowsKernel {
    /// What it is given.
    type Work;

    /// `N` rows from the one `first` on, at most [`TOGETHER`].
    ///
    /// # Safety
    /// They are among those of the work, which are as it states.
    unsafe fn some<V: F32Simd, const N: usize>(isa: V::Isa, work: &Self::Work, first: usize);
}

/// All of `count` rows: four at a time, and what is left one by one.
///
/// # Safety
/// The rows are as the work states, so many.
#[inline(always)]
pub(super) unsafe fn all<K: RowsKernel, V: F32Simd>(isa: V::Isa, work: &K::Work, count: usize) {
    for first in (0..count).step_by(TOGETHER) {
        // SAFETY: within the rows.
        unsafe {
            if count - first >= TOGETHER {
                K::some::<V, TOGETHER>(isa, work, first);
            } else {
                for row in first..count {
                    K::some::<V, 1>(isa, work, row);
                }
            }
        }
    }
}

/// What is added of an element.
pub(super) trait Term {
    /// Of the elements of a vector, beside a number of their row.
    fn of<V: F32Simd>(x: V, number: V) -> V;

    /// Of one element, with the same bits.
    fn of_one(x: f32, number: f32) -> f32;
}

/// The element itself.
pub(super) struct Itself;

impl Term for Itself {
    #[inline(always)]
    fn of<V: F32Simd>(x: V, _: V) -> V {
        x
    }

    #[inline(always)]
    fn of_one(x: f32, _: f32) -> f32 {
        x
    }
}

/// The square of its distance from the number.
pub(super) struct Square;

impl Term for Square {
    #[inline(always)]
    fn of<V: F32Simd>(x: V, number: V) -> V {
        let distance = x.sub(number);
        distance.mul(distance)
    }

    #[inline(always)]
    fn of_one(x: f32, number: f32) -> f32 {
        (x - number) * (x - number)
    }
}

/// The sums of the terms of `N` rows, each beside its number: the lanes of whole blocks of sixteen
/// elements, then the elements behind the last block.
///
/// # Safety
/// `len` floats are readable at each of the first `N` rows.
#[inline(always)]
pub(super) unsafe fn sums<V: F32Simd, T: Term, const N: usize>(
    isa: V::Isa,
    rows: [*const f32; TOGETHER],
    len: usize,
    numbers: [f32; TOGETHER],
) -> [f32; TOGETHER] {
    let whole = len / LANES * LANES;
    let of = filled::<V, N>(isa, numbers);
    let mut lanes = [[V::splat(isa, 0.0); PARTS]; TOGETHER];
    for at in (0..whole).step_by(LANES) {
        unrolled!(4: row < N, {
            unrolled!(4: part < LANES / V::LANES, {
                // SAFETY: within the row.
                let x = unsafe { V::load(isa, rows[row].add(at + part * V::LANES)) };
                lanes[row][part] = lanes[row][part].add(T::of(x, of[row]));
            });
        });
    }
    let mut sums = sums_of::<V, N>(lanes);
    for at in whole..len {
        unrolled!(4: row < N, {
            // SAFETY: within the row.
            let x = unsafe { rows[row].add(at).read_unaligned() };
            sums[row] += T::of_one(x, numbers[row]);
        });
    }
    sums
}

/// The scalar twin of [`sums`], of one row.
///
/// # Safety
/// `len` floats are readable at the row.
#[inline(always)]
pub(super) unsafe fn sum<T: Term>(row: *const f32, len: usize, number: f32) -> f32 {
    let whole = len / LANES * LANES;
    // SAFETY: within the row.
    let term = |at: usize| T::of_one(unsafe { row.add(at).read_unaligned() }, number);
    let mut lanes = [0.0; LANES];
    for at in (0..whole).step_by(LANES) {
        lanes.iter_mut().enumerate().for_each(|(lane, sum)| *sum += term(at + lane));
    }
    (whole..len).fold(sum_of(lanes), |sum, at| sum + term(at))
}
