//! Vectors of elements between the lines, and of each pixel.

use std::marker::PhantomData;

use super::arithmetic::Interpolate;
use super::{Column, Work};
use crate::simd::vector_i32::I32Simd;
use crate::simd::{Kernel, Simd};

pub(super) struct Vectors<T>(PhantomData<T>);

impl<T: Interpolate> Kernel for Vectors<T> {
    type Work = Work<T>;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, work: &Work<T>) {
        // SAFETY: as the caller promises.
        unsafe {
            if work.kept == 0 {
                return each::<S, T, false>(isa, work);
            }
            if work.pitch == work.channels {
                down::<S, T>(isa, work, 0, work.kept * work.channels);
            } else {
                for at in 0..work.kept {
                    down::<S, T>(isa, work, at, work.channels);
                }
            }
            each::<S, T, true>(isa, work);
        }
    }
}

/// `len` elements from pixel `at` of those that are read on, and of those behind it. The last
/// vector goes beyond them: what that gives is written over, or lies in the padding.
///
/// # Safety
/// As for the work.
#[inline(always)]
unsafe fn down<S: Simd, T: Interpolate>(isa: S, work: &Work<T>, at: usize, len: usize) {
    let (from, to) = ((work.start + at) * work.pitch, at * work.channels);
    let lanes = S::I32::LANES;
    let place = |done: usize| work.middle.map(|it| it.wrapping_add(to + done));
    let line = |done: usize| work.lines.map(|it| it.wrapping_add(from + done));
    let whole = len / lanes * lanes;
    // SAFETY: elements of the pixels, and as many numbers as these have, or in the padding.
    unsafe {
        for done in (0..whole).step_by(lanes) {
            T::store::<S>(T::down(isa, line(done), lanes, work.weight, work.flip), place(done));
        }
        if whole < len {
            let middle = T::down(isa, line(whole), len - whole, work.weight, work.flip);
            T::store::<S>(middle, place(whole));
        }
    }
}

/// Each pixel of the output: of what is kept between the lines, or of these themselves.
///
/// # Safety
/// As for the work.
#[inline(always)]
unsafe fn each<S: Simd, T: Interpolate, const KEPT: bool>(isa: S, work: &Work<T>) {
    let Work { count, channels, output_pitch, .. } = *work;
    let lanes = S::I32::LANES;
    // SAFETY: pixels of the work, and elements of them; what is none of a pixel is one of those
    // behind it, which are written later.
    unsafe {
        if channels >= lanes {
            for at in 0..count {
                let pixel = Pixel::<S, T, KEPT>::new(isa, work, at);
                // Elements of the last vector are those of the one before, too.
                let mut channel = 0;
                loop {
                    pixel.store(work, channel, lanes, lanes);
                    if channel + lanes == channels {
                        break;
                    }
                    channel = (channel + lanes).min(channels - lanes);
                }
            }
            return;
        }
        let behind = if output_pitch == channels { lanes.div_ceil(channels) - 1 } else { count };
        for at in 0..count {
            let pixel = Pixel::<S, T, KEPT>::new(isa, work, at);
            let is_readable = KEPT || pixel.sides[0].max(pixel.sides[1]) + lanes <= work.left;
            if is_readable && at + behind < count {
                pixel.store(work, 0, lanes, lanes);
            } else {
                pixel.store(work, 0, channels, channels);
            }
        }
    }
}

/// A pixel of the output.
struct Pixel<S, T: Interpolate, const KEPT: bool> {
    isa: S,
    /// Where the pixels on either side begin, in what is kept or in the lines.
    sides: [usize; 2],
    weight: T::Weight,
    output: *mut T::Element,
}

impl<S: Simd, T: Interpolate, const KEPT: bool> Pixel<S, T, KEPT> {
    /// # Safety
    /// There is such a pixel.
    #[inline(always)]
    unsafe fn new(isa: S, work: &Work<T>, at: usize) -> Self {
        // SAFETY: within the columns.
        let Column { first, second, weight } = unsafe { work.columns.add(at).read() };
        let unit = if KEPT { 1 } else { work.pitch };
        let output = work.output.wrapping_add(at * work.output_pitch);
        Self { isa, sides: [first as usize * unit, second as usize * unit], weight, output }
    }

    /// Stores `count` elements of as many that are `read`, or all, both at most a vector.
    ///
    /// # Safety
    /// These are there, and writable.
    #[inline(always)]
    unsafe fn store(&self, work: &Work<T>, channel: usize, read: usize, count: usize) {
        let Self { isa, sides: [left, right], weight, output } = *self;
        let (left, right) = (left + channel, right + channel);
        let (v, flip) = (work.weight, work.flip);
        // SAFETY: as the caller promises; a vector from any kept number on is within the padding.
        unsafe {
            let sides = if KEPT {
                let middle = |side: usize| work.middle.map(|it| it.wrapping_add(side));
                [T::load(isa, middle(left)), T::load(isa, middle(right))]
            } else {
                let lines = |side: usize| work.lines.map(|it| it.wrapping_add(side));
                [
                    T::down(isa, lines(left), read, v, flip),
                    T::down(isa, lines(right), read, v, flip),
                ]
            };
            T::across(isa, sides, weight, flip, output.add(channel), count);
        }
    }
}
