//! The order of a source's frames, restored: without any messages or clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A duration since any moment.
pub(crate) type Time = Duration;

/// Results of one source that wait for those before them. What was lost is waited for no longer
/// than it takes to hear of that.
#[derive(Debug)]
pub(crate) struct ResultOrder<T> {
    /// The number that comes next; `None` before the first.
    next: Option<i64>,
    held: BTreeMap<i64, Held<T>>,
    lost: BTreeSet<i64>,
    wait: Duration,
}

#[derive(Debug)]
struct Held<T> {
    item: T,
    since: Time,
}

/// The most results that wait.
const MOST_HELD: usize = 1024;
/// A number so far back is that of a source which began anew.
const ANEW: i64 = 1000;

impl<T> ResultOrder<T> {
    /// A result waits so long for those before it.
    pub(crate) fn new(wait: Duration) -> Self {
        Self { next: None, held: BTreeMap::new(), lost: BTreeSet::new(), wait }
    }

    /// A result came. It is returned where a later one went on already.
    pub(crate) fn put(&mut self, seq: i64, item: T, now: Time) -> Option<T> {
        if self.next.is_some_and(|next| seq == 0 && next > 1 || seq < next.saturating_sub(ANEW)) {
            self.next = None;
            self.lost.clear();
        }
        if self.next.is_some_and(|next| seq < next) || self.held.contains_key(&seq) {
            return Some(item);
        }
        if seq == 0 {
            self.next = Some(0);
        }
        self.held.insert(seq, Held { item, since: now });
        None
    }

    /// A frame will have no results.
    pub(crate) fn lose(&mut self, seq: i64) {
        if seq == 0 && self.next.is_none() {
            self.next = Some(0);
        }
        if self.next.is_none_or(|next| seq >= next) {
            self.lost.insert(seq);
        }
        while self.lost.len() > MOST_HELD {
            self.lost.pop_first();
        }
    }

    /// The next result that needs to wait for nobody.
    pub(crate) fn take(&mut self, now: Time) -> Option<T> {
        while let Some(next) = self.next
            && self.lost.remove(&next)
        {
            self.next = Some(next + 1);
        }
        let (&first, held) = self.held.first_key_value()?;
        let is_over = now.saturating_sub(held.since) >= self.wait || self.held.len() > MOST_HELD;
        if self.next != Some(first) && !is_over {
            return None;
        }
        self.next = Some(first.saturating_add(1));
        self.lost = self.lost.split_off(&first);
        self.held.pop_first().map(|(_, held)| held.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Time {
        Duration::from_millis(time)
    }

    fn taken(order: &mut ResultOrder<i64>, now: u64) -> Vec<i64> {
        std::iter::from_fn(|| order.take(ms(now))).collect()
    }

    #[test]
    fn results_go_on_in_order_and_nobody_waits_for_what_was_lost() {
        let mut order = ResultOrder::new(ms(100));
        assert_eq!(order.put(1, 1, ms(0)), None);
        assert_eq!(taken(&mut order, 0), [0; 0]);
        order.put(0, 0, ms(1));
        order.put(3, 3, ms(1));
        assert_eq!(taken(&mut order, 1), [0, 1]);
        order.lose(2);
        assert_eq!(taken(&mut order, 1), [3]);
        order.put(5, 5, ms(2));
        assert_eq!(taken(&mut order, 50), [0; 0]);
        assert_eq!(taken(&mut order, 102), [5], "long enough");
        assert_eq!(order.put(4, 4, ms(103)), Some(4), "too late");
        assert!(order.held.is_empty());
    }

    #[test]
    fn sources_may_be_joined_late_and_begin_anew() {
        let mut order = ResultOrder::new(ms(100));
        order.put(501, 501, ms(0));
        order.put(500, 500, ms(0));
        assert_eq!(taken(&mut order, 99), [0; 0]);
        assert_eq!(taken(&mut order, 100), [500, 501]);
        assert_eq!(order.put(0, 0, ms(101)), None, "anew");
        order.put(1, 1, ms(101));
        assert_eq!(taken(&mut order, 101), [0, 1]);
        order.lose(i64::MIN);
        order.put(i64::MAX, 9, ms(102));
        assert_eq!(taken(&mut order, 300), [9]);
    }
}
