//! Sorting of any length that polls: chunks first, then merges of them.

use std::cmp::Ordering;

use half::f16;
use nnburst_kernels::tensor::Element;
use nnburst_kernels::tensor::poll::{self, Halted};

/// A number that has a place among the numbers of its type: sorted by these places, rows of any
/// type are sorted by one piece of code, which compares integers.
pub(super) trait Ranked: Element {
    /// Integers in the order of the numbers: equal for equal numbers, 0 for what is no number.
    fn rank(self) -> u32;
}

impl Ranked for f32 {
    #[inline(always)]
    fn rank(self) -> u32 {
        // Zeros of both signs are equal.
        let bits = (self + 0.0).to_bits();
        match self.is_nan() {
            true => 0,
            false if bits >> 31 == 1 => !bits,
            false => bits | 1 << 31,
        }
    }
}

impl Ranked for f16 {
    #[inline(always)]
    fn rank(self) -> u32 {
        self.to_f32().rank()
    }
}

impl Ranked for i32 {
    #[inline(always)]
    fn rank(self) -> u32 {
        self.cast_unsigned() ^ 1 << 31
    }
}

macro_rules! ranked {
    ($($kind:ty),*) => {$(
        impl Ranked for $kind {
            #[inline(always)]
            fn rank(self) -> u32 {
                i32::from(self).rank()
            }
        }
    )*};
}
ranked!(i8, u8, i16);

/// The approximate cost of a comparison.
const COMPARE_NS: usize = 8;

/// Sorts stably; `buffer` is as long as what is sorted, if that is more than [`poll::CHUNK`].
///
/// # Errors
/// The run is to end; the order then means nothing.
pub(super) fn sort_by<T: Copy>(
    items: &mut [T],
    buffer: &mut [T],
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<(), Halted> {
    for chunk in items.chunks_mut(poll::CHUNK) {
        poll::work(chunk.len() * COMPARE_NS * 8)?;
        chunk.sort_by(&compare);
    }
    let buffer = buffer.get_mut(..items.len()).unwrap_or_default();
    let (mut from, mut to, mut run) = (&mut *items, buffer, poll::CHUNK);
    let mut swapped = false;
    while run < from.len() && from.len() == to.len() {
        for (from, to) in from.chunks(2 * run).zip(to.chunks_mut(2 * run)) {
            let (a, b) = from.split_at(run.min(from.len()));
            merge(a, b, to, &compare)?;
        }
        (from, to, run, swapped) = (to, from, run.saturating_mul(2), !swapped);
    }
    if swapped {
        // The result lies in the buffer.
        for (from, to) in from.chunks(poll::CHUNK).zip(to.chunks_mut(poll::CHUNK)) {
            poll::work(from.len())?;
            to.copy_from_slice(from);
        }
    }
    Ok(())
}

/// As [`sort_by`], with a buffer of its own.
///
/// # Errors
/// As there; or there is no memory for the buffer.
pub(super) fn sort_vec_by<T: Copy + Default>(
    items: &mut [T],
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<(), String> {
    let mut buffer = Vec::new();
    if items.len() > poll::CHUNK {
        let room = buffer.try_reserve_exact(items.len());
        room.map_err(|_| format!("no memory to sort {} values", items.len()))?;
        buffer.resize(items.len(), T::default());
    }
    Ok(sort_by(items, &mut buffer, compare)?)
}

fn merge<T: Copy>(
    a: &[T],
    b: &[T],
    to: &mut [T],
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<(), Halted> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    for to in to.chunks_mut(poll::CHUNK) {
        poll::work(to.len() * COMPARE_NS)?;
        for to in to {
            let from_b = match (a.peek(), b.peek()) {
                // Of equals those of the first run come first.
                (Some(x), Some(y)) => compare(y, x) == Ordering::Less,
                (None, _) => true,
                _ => false,
            };
            let next = if from_b { b.next() } else { a.next() };
            if let Some(&next) = next {
                *to = next;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_ordered_as_their_numbers_are() {
        let floats = [f32::NEG_INFINITY, -2.5, -f32::MIN_POSITIVE, 0.0, 1e-40, 3.0, f32::INFINITY];
        assert!(floats.map(Ranked::rank).is_sorted_by(|a, b| a < b));
        assert_eq!((-0.0f32).rank(), 0.0f32.rank());
        assert_eq!([f32::NAN.rank(), (-f32::NAN).rank(), f16::NAN.rank()], [0; 3]);
        assert!(f32::NEG_INFINITY.rank() > 0);
        assert!([i32::MIN, -1, 0, 7, i32::MAX].map(Ranked::rank).is_sorted_by(|a, b| a < b));
        assert!([-128i8, -1, 0, 127].map(Ranked::rank).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn any_length_is_sorted_stably() {
        for len in [0, 1, 7, poll::CHUNK, poll::CHUNK + 1, 5 * poll::CHUNK + 3] {
            let mut got: Vec<(usize, usize)> =
                (0..len).map(|at| (at.wrapping_mul(2_654_435_761) % 97, at)).collect();
            let mut want = got.clone();
            want.sort_by_key(|it| it.0);
            sort_vec_by(&mut got, |a, b| a.0.cmp(&b.0)).unwrap();
            assert_eq!(got, want, "{len}");
        }
    }
}
