//! The newest frame of each source, which waits for its turn.

use std::collections::VecDeque;

/// Frames that wait, one of each source. Sources have their turns in the order in which they began
/// to wait, so that a fast one keeps no other from being served.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    waiting: VecDeque<Waiting<T>>,
    most: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    source: String,
    frame: T,
}

impl<T> Newest<T> {
    /// Room for the frames of so many sources.
    pub(crate) fn new(most: usize) -> Self {
        Self { waiting: VecDeque::new(), most: most.max(1) }
    }

    /// Has a frame wait in place of an older one of its source, which is returned. Where too many
    /// sources wait, the frame of the one that has waited longest is.
    pub(crate) fn put(&mut self, source: &str, frame: T) -> Option<T> {
        if let Some(place) = self.waiting.iter_mut().find(|waiting| waiting.source == source) {
            return Some(std::mem::replace(&mut place.frame, frame));
        }
        let full = self.waiting.len() >= self.most;
        let oldest = if full { self.waiting.pop_front() } else { None };
        self.waiting.push_back(Waiting { source: source.to_owned(), frame });
        oldest.map(|waiting| waiting.frame)
    }

    /// Has a frame wait first, unless its source has a newer one: then it is returned.
    pub(crate) fn put_back(&mut self, source: &str, frame: T) -> Option<T> {
        if self.waiting.iter().any(|waiting| waiting.source == source) {
            return Some(frame);
        }
        self.waiting.push_front(Waiting { source: source.to_owned(), frame });
        None
    }

    /// Takes the frame of the source that has waited longest.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.waiting.pop_front().map(|waiting| waiting.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_of_a_source_waits_and_no_source_starves() {
        let mut newest = Newest::new(2);
        assert_eq!(newest.put("fast", 1), None);
        assert_eq!(newest.put("slow", 2), None);
        assert_eq!(newest.put("fast", 3), Some(1));
        assert_eq!(newest.put("third", 4), Some(3), "of too many sources, the one first in line");
        assert_eq!((newest.take(), newest.put("slow", 5)), (Some(2), None));
        assert_eq!((newest.take(), newest.take(), newest.take()), (Some(4), Some(5), None));
    }

    #[test]
    fn a_frame_comes_back_unless_there_is_a_newer_one() {
        let mut newest = Newest::new(2);
        newest.put("a", 1);
        newest.put("b", 2);
        let frame = newest.take().unwrap();
        assert_eq!(newest.put_back("a", frame), None);
        assert_eq!(newest.take(), Some(1));
        newest.put("a", 3);
        assert_eq!(newest.put_back("a", 1), Some(1));
    }
}
