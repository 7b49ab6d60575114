//! The priority queue of the C++ library that the interpreter is built with.

/// Elements of which the greatest comes first. Which one of equals does follows from how elements
/// are moved, and that is as libstdc++'s `std::priority_queue` does it: an element that leaves is
/// followed by the last one, which goes down to the end, past the right one of equal children, and
/// up again from there.
#[derive(Debug)]
pub(super) struct Heap<T, F> {
    items: Vec<T>,
    is_less: F,
}

impl<T: Copy, F: Fn(&T, &T) -> bool> Heap<T, F> {
    /// One with room for so many, empty.
    pub(super) fn new(room: usize, is_less: F) -> Self {
        Self { items: Vec::with_capacity(room), is_less }
    }

    pub(super) fn push(&mut self, item: T) {
        self.items.push(item);
        self.rise(self.items.len() - 1, item);
    }

    /// Takes the greatest.
    pub(super) fn pop(&mut self) -> Option<T> {
        let last = self.items.pop()?;
        let Some(&first) = self.items.first() else { return Some(last) };
        let items = &mut self.items;
        let mut hole = 0;
        while let Some(&left) = items.get(2 * hole + 1) {
            let child = match items.get(2 * hole + 2) {
                Some(right) if !(self.is_less)(right, &left) => 2 * hole + 2,
                _ => 2 * hole + 1,
            };
            items[hole] = items[child];
            hole = child;
        }
        self.rise(hole, last);
        Some(first)
    }

    /// Puts an element where it belongs on the way from a place to the first.
    fn rise(&mut self, mut hole: usize, item: T) {
        while hole > 0 {
            let parent = (hole - 1) / 2;
            if !(self.is_less)(&self.items[parent], &item) {
                break;
            }
            self.items[hole] = self.items[parent];
            hole = parent;
        }
        self.items[hole] = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_come_first_and_equals_as_in_cpp() {
        let mut heap = Heap::new(8, |a: &(i32, i32), b: &(i32, i32)| a.0 < b.0);
        assert_eq!(heap.pop(), None);
        // What libstdc++ gives, whose order among equals is not the one that they came in.
        (0..8).for_each(|at| heap.push((5, at)));
        heap.push((7, 8));
        let order: Vec<_> = std::iter::from_fn(|| heap.pop()).map(|(_, at)| at).collect();
        assert_eq!(order, [8, 2, 6, 3, 5, 7, 4, 0, 1]);
        for seed in 0..50 {
            let numbers: Vec<i32> = (0..seed).map(|at| at * 7919 % 31).collect();
            numbers.iter().for_each(|&number| heap.push((number, 0)));
            let mut sorted = numbers;
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).map(|item| item.0).collect();
            assert_eq!(popped, sorted);
        }
    }
}
