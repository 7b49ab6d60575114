//! Calls at a camera's rate, or back to back.

use std::time::{Duration, Instant};

/// Sleeps until the next call is due.
#[derive(Debug)]
pub(crate) struct Pacer {
    period: Option<Duration>,
    next: Instant,
}

impl Pacer {
    pub(crate) fn new(period: Option<Duration>) -> Self {
        Self { period, next: Instant::now() }
    }

    /// Returns when the next call is due. A call that took longer than the period makes the next one due
    /// at once; what was missed is not made up for, as a camera doesn't either.
    pub(crate) fn wait(&mut self) {
        let Some(period) = self.period else { return };
        let now = Instant::now();
        if let Some(left) = self.next.checked_duration_since(now) {
            std::thread::sleep(left);
        } else {
            self.next = now;
        }
        self.next += period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_at_least_a_period_apart() {
        let period = Duration::from_millis(2);
        let mut pacer = Pacer::new(Some(period));
        pacer.wait();
        let start = Instant::now();
        for _ in 0..3 {
            pacer.wait();
        }
        assert!(start.elapsed() >= period * 2, "{:?}", start.elapsed());
    }
}
