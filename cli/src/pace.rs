//! Calls at a camera's rate, or back to back.

use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Sleeps until the next call is due.
#[derive(Debug)]
pub(crate) struct Pacer {
    period: Option<Duration>,
    /// When the next call is due; none before the first.
    next: Option<Instant>,
    /// Calls that took longer than the period, the one that runs apart.
    missed: u64,
}

impl Pacer {
    pub(crate) fn new(period: Option<Duration>) -> Self {
        Self { period, next: None, missed: 0 }
    }

    /// Returns when the next call is due. A call that took longer than the period makes the next
    /// one due at once; what was missed is not made up for, as a camera doesn't either.
    pub(crate) fn wait(&mut self) {
        let Some(period) = self.period else { return };
        let now = Instant::now();
        let due = self.next.unwrap_or(now);
        if let Some(left) = due.checked_duration_since(now) {
            std::thread::sleep(left);
            self.next = Some(due + period);
        } else {
            self.missed += 1;
            self.next = Some(now + period);
        }
    }

    /// Ends a series of calls: how many of them were not done when the next was due, and
    /// from then on none. A series begins with the next call.
    pub(crate) fn finish(&mut self) -> u64 {
        let is_last_late = self.next.take().is_some_and(|next| next < Instant::now());
        std::mem::take(&mut self.missed) + u64::from(is_last_late)
    }
}

/// Calls of a series that were late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed {
    /// Those that took longer than the deadline.
    pub(crate) deadlines: u64,
    /// Those that were not done when the next was due.
    pub(crate) periods: u64,
    /// All calls.
    pub(crate) of: u64,
}

impl Missed {
    /// Warns of missed periods; missed deadlines are a failure.
    pub(crate) fn verdict(
        self,
        what: &str,
        period: Option<Duration>,
        deadline: Option<Duration>,
    ) -> Result<(), Failure> {
        let Self { deadlines, periods, of } = self;
        if let Some(period) = period.filter(|_| periods > 0) {
            crate::failure::warn(&format!(
                "{what}: {periods} of {of} calls missed the period of {period:?}, the next one came late"
            ));
        }
        match deadline {
            Some(deadline) if deadlines > 0 => Err(Failure::deadline(format!(
                "{what}: {deadlines} of {of} calls missed the deadline of {deadline:?}"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_at_least_a_period_apart() {
        let period = Duration::from_millis(2);
        let mut pacer = Pacer::new(Some(period));
        // The first call is due at once, each later one a period after the one before at least.
        let start = Instant::now();
        for _ in 0..4 {
            pacer.wait();
        }
        assert!(start.elapsed() >= period * 3, "{:?}", start.elapsed());
    }

    #[test]
    fn calls_that_are_not_done_in_time_are_counted() {
        let mut pacer = Pacer::new(Some(Duration::from_nanos(1)));
        for calls in [3, 2] {
            for _ in 0..calls {
                pacer.wait();
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(pacer.finish(), calls);
        }
        let mut pacer = Pacer::new(Some(Duration::from_secs(3600)));
        pacer.wait();
        assert_eq!(pacer.finish(), 0);
        let mut pacer = Pacer::new(None);
        pacer.wait();
        assert_eq!(pacer.finish(), 0);
    }
}
