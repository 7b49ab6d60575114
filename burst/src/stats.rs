//! Figures of a burst's executions: histograms that are recorded into without allocating.

use hdrhistogram::{CreationError, Histogram};
use nnburst_hal::{ErrorStatus, TimePoint};

use crate::packet::{BurstAnswer, DriverTimes};

/// Longest time that is told from longer ones, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;

/// Latencies of a burst, in nanoseconds, to 1 %; what takes longer than a minute counts as a
/// minute.
///
/// ```text
/// latency   |---------------------------------------------|   sent .. answer taken
/// queueing  |--------|                                        an earlier request was still running
/// driver              ......|------------------|              the driver had the packet in hand
/// overhead            |-----|                  |----------|   the rest: both queues
/// ```
///
/// The parts need the driver's clock, which travels in extended bursts alone; in others only
/// [`latency`](Self::latency) is recorded.
#[derive(Clone, Debug)]
pub struct BurstStats {
    /// From sending a request to taking its answer.
    pub latency: Histogram<u64>,
    /// Of that: behind earlier requests of the same burst.
    pub queueing: Histogram<u64>,
    /// Of that: in the driver.
    pub driver: Histogram<u64>,
    /// Of that: neither.
    pub overhead: Histogram<u64>,
    /// Answers that said that the deadline was missed.
    pub missed_deadlines: u64,
    /// The time at which the driver ended the last request, by its own account.
    last_ended: u64,
}

impl BurstStats {
    pub(crate) fn new() -> Result<Self, CreationError> {
        let latency = Histogram::new_with_bounds(1, LONGEST_NS, 2)?;
        Ok(Self {
            queueing: latency.clone(),
            driver: latency.clone(),
            overhead: latency.clone(),
            latency,
            missed_deadlines: 0,
            last_ended: 0,
        })
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        for histogram in
            [&mut self.latency, &mut self.queueing, &mut self.driver, &mut self.overhead]
        {
            histogram.reset();
        }
        self.missed_deadlines = 0;
    }

    /// Executions that were answered.
    pub fn executions(&self) -> u64 {
        self.latency.len()
    }

    /// Records an answer that was taken just now to a request that was sent at `sent`. Returns the
    /// time.
    pub(crate) fn record(&mut self, sent: u64, answer: &BurstAnswer) -> u64 {
        let missed = [ErrorStatus::MissedDeadlineTransient, ErrorStatus::MissedDeadlinePersistent];
        if missed.contains(&answer.status) {
            self.missed_deadlines = self.missed_deadlines.saturating_add(1);
        }
        let taken = TimePoint::now().nanoseconds;
        let parts = Parts::of(sent, taken, answer.driver_times, self.last_ended);
        self.latency.saturating_record(parts.latency);
        if let Some(DriverTimes { ended, .. }) = answer.driver_times {
            self.last_ended = ended;
            self.queueing.saturating_record(parts.queueing);
            self.driver.saturating_record(parts.driver);
            self.overhead.saturating_record(parts.overhead);
        }
        taken
    }
}

/// A latency taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    latency: u64,
    queueing: u64,
    driver: u64,
    overhead: u64,
}

impl Parts {
    /// The driver's figures count as far as they are possible: its part is not longer than the
    /// whole.
    fn of(sent: u64, taken: u64, driver: Option<DriverTimes>, last_ended: u64) -> Self {
        let latency = taken.saturating_sub(sent);
        let Some(DriverTimes { began, ended, .. }) = driver else {
            return Self { latency, queueing: 0, driver: 0, overhead: latency };
        };
        let driver = ended.saturating_sub(began).min(latency);
        let rest = latency.saturating_sub(driver);
        let queueing = last_ended.saturating_sub(sent).min(rest);
        Self { latency, queueing, driver, overhead: rest.saturating_sub(queueing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_the_sum_of_its_parts_whatever_the_driver_says() {
        let times =
            |began, ended| Some(DriverTimes { began, ended, processor: crate::Processor::UNKNOWN });
        let parts =
            |latency, queueing, driver, overhead| Parts { latency, queueing, driver, overhead };
        let cases = [
            ("no figures", None, 0, parts(100, 0, 0, 100)),
            ("alone", times(1010, 1090), 0, parts(100, 0, 80, 20)),
            ("behind another", times(1050, 1090), 1045, parts(100, 45, 40, 15)),
            ("longer than the whole", times(0, u64::MAX), 0, parts(100, 0, 100, 0)),
            ("backwards", times(1090, 1010), 0, parts(100, 0, 0, 100)),
            ("the other one ended in the future", times(1, 2), u64::MAX, parts(100, 99, 1, 0)),
        ];
        for (what, driver, last_ended, want) in cases {
            assert_eq!(Parts::of(1000, 1100, driver, last_ended), want, "{what}");
        }
    }
}
