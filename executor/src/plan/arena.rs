//! From lifetimes to offsets: values that never live at the same time share memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use nnburst_kernels::tensor::memory::ALIGN;
use nnburst_kernels::tensor::poll;

/// A span of memory that is needed from one step to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) bytes: usize,
    /// Step that writes it first.
    pub(crate) first: usize,
    /// Last step that touches it.
    pub(crate) last: usize,
}

/// More values than this are laid out in order of time: by size takes time that grows with their
/// square.
const MANY: usize = 2048;

/// Where each lies, and the size of the whole; offsets are multiples of 64. Nothing is said where
/// the work is to end: see [`poll::halted`].
pub(crate) fn lay_out(lifetimes: &[Lifetime]) -> (Vec<usize>, usize) {
    // What takes nothing lies anywhere: most locals, once steps are joined.
    let order: Vec<usize> = (0..lifetimes.len()).filter(|&at| lifetimes[at].bytes > 0).collect();
    if order.len() > MANY { by_time(lifetimes, order) } else { by_size(lifetimes, order) }
}

/// Largest first, each at the lowest offset where it fits beside those it meets.
fn by_size(lifetimes: &[Lifetime], mut order: Vec<usize>) -> (Vec<usize>, usize) {
    order.sort_by_key(|&index| Reverse(lifetimes[index].bytes));
    let mut offsets = vec![0; lifetimes.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    let mut total = 0;
    for index in order {
        if poll::work(placed.len() * 4).is_err() {
            break;
        }
        let this = lifetimes[index];
        // Neighbours in time, in order of offset: the first gap that is wide enough is ours.
        let mut neighbours: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&other| {
                let other = lifetimes[other];
                this.first <= other.last && other.first <= this.last
            })
            .map(|&other| (offsets[other], offsets[other] + padded(lifetimes[other].bytes)))
            .collect();
        neighbours.sort_unstable();
        let mut offset = 0;
        for (start, end) in neighbours {
            if offset + padded(this.bytes) <= start {
                break;
            }
            offset = offset.max(end);
        }
        offsets[index] = offset;
        total = total.max(offset + padded(this.bytes));
        placed.push(index);
    }
    (offsets, total)
}

/// As they come to life, each in the smallest gap that those which live leave it, or else at the
/// end.
fn by_time(lifetimes: &[Lifetime], mut order: Vec<usize>) -> (Vec<usize>, usize) {
    order.sort_by_key(|&index| (lifetimes[index].first, Reverse(lifetimes[index].bytes)));
    let mut offsets = vec![0; lifetimes.len()];
    let mut living = BinaryHeap::new();
    let mut gaps = Gaps::default();
    for index in order {
        if poll::work(1000).is_err() {
            break;
        }
        let this = lifetimes[index];
        while let Some(&Reverse((last, start, bytes))) = living.peek()
            && last < this.first
        {
            living.pop();
            gaps.give_back(start, bytes);
        }
        let bytes = padded(this.bytes);
        let start = gaps.take(bytes);
        offsets[index] = start;
        living.push(Reverse((this.last, start, bytes)));
    }
    (offsets, gaps.end)
}

/// Memory that nobody has, below its end.
#[derive(Default)]
struct Gaps {
    /// Bytes, by where they start.
    places: BTreeMap<usize, usize>,
    /// Bytes and start of each.
    sizes: BTreeSet<(usize, usize)>,
    end: usize,
}

impl Gaps {
    fn take(&mut self, bytes: usize) -> usize {
        let found = self.sizes.range((bytes, 0)..).next().copied();
        let at_end = || self.places.last_key_value().map(|(&start, &size)| (size, start));
        // None is wide enough: what lies at the end is made so.
        let found = found.or_else(|| at_end().filter(|(size, start)| start + size == self.end));
        let Some((size, start)) = found else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.remove(start, size);
        if size > bytes {
            self.add(start + bytes, size - bytes);
        }
        self.end = self.end.max(start + bytes);
        start
    }

    fn give_back(&mut self, mut start: usize, mut bytes: usize) {
        if let Some((&before, &size)) = self.places.range(..start).next_back()
            && before + size == start
        {
            self.remove(before, size);
            (start, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.places.get(&(start + bytes)) {
            self.remove(start + bytes, size);
            bytes += size;
        }
        self.add(start, bytes);
    }

    fn add(&mut self, start: usize, bytes: usize) {
        self.places.insert(start, bytes);
        self.sizes.insert((bytes, start));
    }

    fn remove(&mut self, start: usize, bytes: usize) {
        self.places.remove(&start);
        self.sizes.remove(&(bytes, start));
    }
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_chain_needs_two_buffers() {
        for steps in [10, 3 * MANY] {
            let chain: Vec<_> = (0..steps)
                .map(|step| Lifetime { bytes: 100, first: step, last: step + 1 })
                .collect();
            assert_eq!(lay_out(&chain).1, 256, "{steps} steps");
        }
    }

    #[test]
    fn a_gap_at_the_end_is_made_wide_enough() {
        let growing: Vec<_> = (0..3 * MANY)
            .map(|step| Lifetime { bytes: 64 * (step + 1), first: 2 * step, last: 2 * step + 1 })
            .collect();
        assert_eq!(lay_out(&growing).1, 64 * 3 * MANY);
    }

    proptest! {
        #[test]
        fn what_lives_together_lies_apart(
            raw in prop::collection::vec((0usize..300, 0usize..20, 0usize..6), 0..40)
        ) {
            let lifetimes: Vec<_> = raw
                .iter()
                .map(|&(bytes, first, more)| Lifetime { bytes, first, last: first + more })
                .collect();
            let order = || (0..lifetimes.len()).filter(|&at| lifetimes[at].bytes > 0).collect();
            for (offsets, total) in [by_size(&lifetimes, order()), by_time(&lifetimes, order())] {
                for (i, a) in lifetimes.iter().enumerate() {
                    prop_assert!(offsets[i] % ALIGN == 0 && offsets[i] + a.bytes <= total);
                    for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                        let together = a.first <= b.last && b.first <= a.last;
                        let nothing = a.bytes == 0 || b.bytes == 0;
                        let apart = offsets[i] + a.bytes <= offsets[j]
                            || offsets[j] + b.bytes <= offsets[i];
                        prop_assert!(
                            !together || apart || nothing,
                            "{a:?} at {} and {b:?} at {}", offsets[i], offsets[j]
                        );
                    }
                }
            }
        }
    }
}
