//! From lifetimes to offsets: values that never live at the same time share memory.

use crate::memory::ALIGN;

/// A stretch of memory that is needed from one step to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) bytes: usize,
    /// Step that writes it first.
    pub(crate) first: usize,
    /// Last step that touches it.
    pub(crate) last: usize,
}

/// Where each lies, and the size of the whole. Largest first, each at the lowest offset where it
/// fits beside those it meets; offsets are multiples of 64.
pub(crate) fn lay_out(lifetimes: &[Lifetime]) -> (Vec<usize>, usize) {
    // What takes nothing lies anywhere: most locals, once steps are joined.
    let mut order: Vec<usize> =
        (0..lifetimes.len()).filter(|&at| lifetimes[at].bytes > 0).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lifetimes[index].bytes));
    let mut offsets = vec![0; lifetimes.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(lifetimes.len());
    let mut total = 0;
    for index in order {
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

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_chain_needs_two_buffers() {
        let chain: Vec<_> =
            (0..10).map(|step| Lifetime { bytes: 100, first: step, last: step + 1 }).collect();
        assert_eq!(lay_out(&chain).1, 256);
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
            let (offsets, total) = lay_out(&lifetimes);
            for (i, a) in lifetimes.iter().enumerate() {
                prop_assert!(offsets[i] % ALIGN == 0 && offsets[i] + a.bytes <= total);
                for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart = offsets[i] + a.bytes <= offsets[j]
                        || offsets[j] + b.bytes <= offsets[i];
                    prop_assert!(!together || apart, "{a:?} at {} and {b:?} at {}", offsets[i], offsets[j]);
                }
            }
        }
    }
}
