//! What elements become between two lines, and what that becomes between two columns.

use std::fmt::Debug;

use super::vectors::Vectors;
use super::{Column, Floats, Run, Samples, Signed, UnsignedBytes, Work};
use crate::simd::vector_f32::{F32Lanes, F32Simd};
use crate::simd::vector_i32::{I32Simd, lanes_of};
use crate::simd::{Simd, Variants, variants};
use crate::tensor::Element;
use crate::tensor::quant::round_up_small;

/// What is done with the elements of a kind.
pub(super) trait Interpolate: Samples {
    /// Best first.
    const VARIANTS: Variants<Run<Self>> = variants!(Vectors<Self>, scalar::<Self>);

    /// What lies between a vector of elements of either line; a vector has as many as one of 32-bit
    /// integers.
    type Middle<S: Simd>: Copy;

    /// The scalar reference: of an element above and below on the left, then on the right, with the
    /// weights of the second line and of the second column.
    fn between(around: [Self::Element; 4], weights: [Self::Weight; 2], flip: u8) -> Self::Element;

    /// Between a vector of elements of either line, of which the first `count` are there.
    ///
    /// # Safety
    /// These are readable.
    unsafe fn down<S: Simd>(
        isa: S,
        lines: [*const Self::Element; 2],
        count: usize,
        weight: Self::Weight,
        flip: u8,
    ) -> Self::Middle<S>;

    /// # Safety
    /// A vector is writable for each part.
    unsafe fn store<S: Simd>(middle: Self::Middle<S>, to: [*mut u32; 2]);

    /// # Safety
    /// A vector is readable for each part.
    unsafe fn load<S: Simd>(isa: S, from: [*mut u32; 2]) -> Self::Middle<S>;

    /// Stores the first `count` elements between the columns on the left and on the right.
    ///
    /// # Safety
    /// These are writable.
    unsafe fn across<S: Simd>(
        isa: S,
        sides: [Self::Middle<S>; 2],
        weight: Self::Weight,
        flip: u8,
        to: *mut Self::Element,
        count: usize,
    );
}

/// As many vectors of floats as one of integers has lanes for; the first one again where that is
/// one.
type Two<S> = [<S as Simd>::F32; 2];

/// Vectors of floats to one of integers.
#[inline(always)]
const fn vectors<S: Simd>() -> usize {
    S::I32::LANES / S::F32::LANES
}

/// # Safety
/// A vector of integers is readable.
#[inline(always)]
unsafe fn load_two<S: Simd>(isa: S, from: *const f32) -> Two<S> {
    let second = (vectors::<S>() - 1) * S::F32::LANES;
    // SAFETY: as the caller promises.
    unsafe { [S::F32::load(isa, from), S::F32::load(isa, from.add(second))] }
}

/// # Safety
/// A vector of integers is writable.
#[inline(always)]
unsafe fn store_two<S: Simd>(two: Two<S>, to: *mut f32) {
    unrolled!(2: at < vectors::<S>(), {
        // SAFETY: as the caller promises.
        unsafe { two[at].store(to.add(at * S::F32::LANES)) };
    });
}

/// Floats as such, in single precision.
impl Interpolate for Floats {
    type Middle<S: Simd> = Two<S>;

    fn between([a, b, c, d]: [f32; 4], [v, u]: [f32; 2], _: u8) -> f32 {
        let (left, right) = (a * (1.0 - v) + b * v, c * (1.0 - v) + d * v);
        left * (1.0 - u) + right * u
    }

    #[inline(always)]
    unsafe fn down<S: Simd>(
        isa: S,
        [above, below]: [*const f32; 2],
        count: usize,
        weight: f32,
        _: u8,
    ) -> Two<S> {
        let [upper, lower] = [S::F32::splat(isa, 1.0 - weight), S::F32::splat(isa, weight)];
        let mut two = [upper; 2];
        unrolled!(2: at < vectors::<S>(), {
            let (first, left) = (at * S::F32::LANES, lanes_of(at, count, S::F32::LANES));
            let (above, below) = (above.wrapping_add(first), below.wrapping_add(first));
            // SAFETY: as the caller promises.
            let (a, b) = unsafe {
                match left == S::F32::LANES {
                    true => (S::F32::load(isa, above), S::F32::load(isa, below)),
                    false => (
                        S::F32::load_first(isa, above, left),
                        S::F32::load_first(isa, below, left),
                    ),
                }
            };
            two[at] = a.mul(upper).add(b.mul(lower));
        });
        two
    }

    #[inline(always)]
    unsafe fn store<S: Simd>(middle: Two<S>, [to, _]: [*mut u32; 2]) {
        // SAFETY: as the caller promises.
        unsafe { store_two::<S>(middle, to.cast()) };
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(isa: S, [from, _]: [*mut u32; 2]) -> Two<S> {
        // SAFETY: as the caller promises.
        unsafe { load_two(isa, from.cast()) }
    }

    #[inline(always)]
    unsafe fn across<S: Simd>(
        isa: S,
        [left, right]: [Two<S>; 2],
        weight: f32,
        _: u8,
        to: *mut f32,
        count: usize,
    ) {
        let [near, far] = [S::F32::splat(isa, 1.0 - weight), S::F32::splat(isa, weight)];
        unrolled!(2: at < vectors::<S>(), {
            let y = left[at].mul(near).add(right[at].mul(far));
            let (to, count) =
                (to.wrapping_add(at * S::F32::LANES), lanes_of(at, count, S::F32::LANES));
            // SAFETY: as the caller promises.
            unsafe {
                match count == S::F32::LANES {
                    true => y.store(to),
                    false => y.store_first(to, count),
                }
            }
        });
    }
}

/// NNAPI's and the interpreter's definition for unsigned bytes: shares in single precision, each
/// product and sum rounded in this order, and halves up.
impl Interpolate for UnsignedBytes {
    /// Of the line above, then of that below.
    type Middle<S: Simd> = [Two<S>; 2];

    fn between(around: [u8; 4], [v, u]: [f32; 2], flip: u8) -> u8 {
        let [a, b, c, d] = around.map(|byte| f32::from(byte ^ flip));
        let (a, c) = (a * (1.0 - v), c * (1.0 - v));
        let (b, d) = (b * v, d * v);
        let y = round_up_small(a * (1.0 - u) + b * (1.0 - u) + c * u + d * u);
        y.to_le_bytes()[0] ^ flip
    }

    #[inline(always)]
    unsafe fn down<S: Simd>(
        isa: S,
        [above, below]: [*const u8; 2],
        count: usize,
        weight: f32,
        flip: u8,
    ) -> [Two<S>; 2] {
        let [upper, lower] = [S::F32::splat(isa, 1.0 - weight), S::F32::splat(isa, weight)];
        // SAFETY: as the caller promises.
        let (a, b) = unsafe {
            (
                S::I32::first_bytes(isa, above, count, flip),
                S::I32::first_bytes(isa, below, count, flip),
            )
        };
        let second = vectors::<S>() - 1;
        [
            [a.floats(0).mul(upper), a.floats(second).mul(upper)],
            [b.floats(0).mul(lower), b.floats(second).mul(lower)],
        ]
    }

    #[inline(always)]
    unsafe fn store<S: Simd>([above, below]: [Two<S>; 2], to: [*mut u32; 2]) {
        let [to_above, to_below] = to;
        // SAFETY: as the caller promises.
        unsafe {
            store_two::<S>(above, to_above.cast());
            store_two::<S>(below, to_below.cast());
        }
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(isa: S, [above, below]: [*mut u32; 2]) -> [Two<S>; 2] {
        // SAFETY: as the caller promises.
        unsafe { [load_two(isa, above.cast()), load_two(isa, below.cast())] }
    }

    #[inline(always)]
    unsafe fn across<S: Simd>(
        isa: S,
        [[a, b], [c, d]]: [[Two<S>; 2]; 2],
        weight: f32,
        flip: u8,
        to: *mut u8,
        count: usize,
    ) {
        let [near, far] = [S::F32::splat(isa, 1.0 - weight), S::F32::splat(isa, weight)];
        let mut floats = [S::F32::splat(isa, 0.5); 2];
        unrolled!(2: at < 2, {
            let (a, b) = (a[at].mul(near), b[at].mul(near));
            let (c, d) = (c[at].mul(far), d[at].mul(far));
            floats[at] = a.add(b).add(c).add(d).add(floats[at]);
        });
        let y = S::I32::whole_parts(floats).sub(S::I32::splat(isa, i32::from(flip)));
        // SAFETY: as the caller promises.
        unsafe { y.store_bytes(to, count) };
    }
}

/// The interpreter's definition for signed integers: weights in steps of 1/1024, one rounding,
/// halves away from zero.
impl<T: SignedElement> Interpolate for Signed<T> {
    type Middle<S: Simd> = S::I32;

    fn between(around: [T; 4], weights: [i32; 2], _: u8) -> T {
        let ([a, b, c, d], [v, u]) = (around.map(Into::into), weights.map(i64::from));
        let (left, right) = ((a << 10) + (b - a) * v, (c << 10) + (d - c) * v);
        let sum = (left << 10) + (right - left) * u;
        T::of((sum + (1 << 19) + (sum >> 63)) >> 20)
    }

    #[inline(always)]
    unsafe fn down<S: Simd>(
        isa: S,
        [above, below]: [*const T; 2],
        count: usize,
        weight: i32,
        _: u8,
    ) -> S::I32 {
        // SAFETY: as the caller promises.
        let (a, b) = unsafe { (T::first(isa, above, count), T::first(isa, below, count)) };
        a.shift_left::<10>().add(b.sub(a).mul(S::I32::splat(isa, weight)))
    }

    #[inline(always)]
    unsafe fn store<S: Simd>(middle: S::I32, [to, _]: [*mut u32; 2]) {
        // SAFETY: as the caller promises.
        unsafe { middle.store(to.cast()) };
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(isa: S, [from, _]: [*mut u32; 2]) -> S::I32 {
        // SAFETY: as the caller promises.
        unsafe { S::I32::load(isa, from.cast()) }
    }

    #[inline(always)]
    unsafe fn across<S: Simd>(
        isa: S,
        [left, right]: [S::I32; 2],
        weight: i32,
        _: u8,
        to: *mut T,
        count: usize,
    ) {
        let y = T::across::<S>([left, right], S::I32::splat(isa, weight));
        // SAFETY: as the caller promises.
        unsafe { T::store::<S>(y, to, count) };
    }
}

/// Signed integers, and what depends on their width.
pub(super) trait SignedElement: Element + Debug + Into<i64> {
    /// One that it can have.
    fn of(value: i64) -> Self;

    /// The first `count` of a vector; the other lanes are arbitrary.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn first<S: Simd>(isa: S, from: *const Self, count: usize) -> S::I32;

    /// Rounded, of sums of 1,024 for each step of the elements.
    fn across<S: Simd>(sides: [S::I32; 2], weight: S::I32) -> S::I32;

    /// # Safety
    /// So many are writable.
    unsafe fn store<S: Simd>(values: S::I32, to: *mut Self, count: usize);
}

impl SignedElement for i8 {
    fn of(value: i64) -> Self {
        value.to_le_bytes()[0].cast_signed()
    }

    #[inline(always)]
    unsafe fn first<S: Simd>(isa: S, from: *const Self, count: usize) -> S::I32 {
        // SAFETY: as the caller promises.
        unsafe { S::I32::first_signed_bytes(isa, from.cast(), count) }
    }

    /// Sums stay below 2^29.
    #[inline(always)]
    fn across<S: Simd>([left, right]: [S::I32; 2], weight: S::I32) -> S::I32 {
        let sum = left.shift_left::<10>().add(right.sub(left).mul(weight));
        let sign = sum.shift_right(left.filled(31));
        sum.add(sign).add(left.filled(1 << 19)).shift_right(left.filled(20))
    }

    #[inline(always)]
    unsafe fn store<S: Simd>(values: S::I32, to: *mut Self, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { values.store_bytes(to.cast(), count) };
    }
}

impl SignedElement for i16 {
    fn of(value: i64) -> Self {
        let [low, high, ..] = value.to_le_bytes();
        Self::from_le_bytes([low, high])
    }

    #[inline(always)]
    unsafe fn first<S: Simd>(isa: S, from: *const Self, count: usize) -> S::I32 {
        // SAFETY: as the caller promises.
        unsafe { S::I32::first_words(isa, from, count) }
    }

    /// Sums have 38 bits: what is below a step of 1/1024 is kept apart.
    #[inline(always)]
    fn across<S: Simd>([left, right]: [S::I32; 2], weight: S::I32) -> S::I32 {
        // The product with the weight, of the difference's upper bits and of its lower fourteen.
        let apart = right.sub(left);
        let upper = apart.shift_right(left.filled(14)).mul(weight);
        let lower = left.filled(!0x3FFF).missing(apart).mul(weight);
        // The sum in steps of 1/1024, cut, and whether nothing was cut off.
        let sum = left.add(upper.shift_left::<4>()).add(lower.shift_right(left.filled(10)));
        let rest = left.filled(!1023).missing(lower);
        let is_whole = rest.sub(left.filled(1)).shift_right(left.filled(31));
        // One less for what is negative, which only counts where nothing was cut off.
        let less = sum.shift_right(left.filled(31)).clamp(is_whole, left.filled(0));
        sum.add(left.filled(512)).add(less).shift_right(left.filled(10))
    }

    #[inline(always)]
    unsafe fn store<S: Simd>(values: S::I32, to: *mut Self, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { values.store_words(to, count) };
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar<T: Interpolate>(work: &Work<T>) {
    let (pitch, [above, below]) = (work.pitch, work.lines);
    let unit = if work.kept > 0 { work.channels } else { 1 };
    for at in 0..work.count {
        // SAFETY: within the columns, and within the pixels that they name.
        unsafe {
            let Column { first, second, weight } = work.columns.add(at).read();
            let [left, right] = [first, second].map(|it| (work.start + it as usize / unit) * pitch);
            for channel in 0..work.channels {
                let read = |line: *const T::Element, pixel: usize| {
                    line.add(pixel + channel).read_unaligned()
                };
                let [a, b] = [read(above, left), read(below, left)];
                let [c, d] = [read(above, right), read(below, right)];
                let y = T::between([a, b, c, d], [work.weight, weight], work.flip);
                work.output.add(at * work.output_pitch + channel).write_unaligned(y);
            }
        }
    }
}
