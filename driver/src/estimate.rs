//! Estimates from measured runs: whether a deadline can be met at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nnburst_hal::{ErrorStatus, HalError, Model, Result, TimePoint};

/// The quickest of what was measured so far, per unit of work. Whoever can't be served in the time
/// of the quickest run need not be tried; of the others nothing is foretold.
#[derive(Debug, Default)]
pub(crate) struct Quickest {
    /// Nanoseconds of 2^20 units; 0 before the first. Relaxed, like the units: an estimate,
    /// whichever run it is of.
    nanoseconds: AtomicU64,
    /// Units of that run. More are not taken to need more: a small model's time is mostly not its
    /// size's, and what is refused is never measured.
    units: AtomicU64,
}

impl Quickest {
    /// Notes how long some work took.
    pub(crate) fn took(&self, units: u64, time: Duration) {
        let nanoseconds = (time.as_nanos() << 20) / u128::from(units.max(1));
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1);
        let quickest = self.nanoseconds.load(Ordering::Relaxed);
        if quickest == 0 || nanoseconds < quickest {
            self.nanoseconds.store(nanoseconds, Ordering::Relaxed);
            self.units.store(units, Ordering::Relaxed);
        }
    }

    /// Returns whether nothing was measured yet.
    pub(crate) fn is_unknown(&self) -> bool {
        self.nanoseconds.load(Ordering::Relaxed) == 0
    }

    /// Returns the least time of some work.
    pub(crate) fn least(&self, units: u64) -> Duration {
        let units = units.min(self.units.load(Ordering::Relaxed));
        let whole = u128::from(self.nanoseconds.load(Ordering::Relaxed)) * u128::from(units);
        Duration::from_nanos(u64::try_from(whole >> 20).unwrap_or(u64::MAX))
    }

    /// Returns whether work may yet be done by the deadline.
    ///
    /// # Errors
    /// `MISSED_DEADLINE_PERSISTENT` if the deadline had passed, or was nearer than any run so far
    /// was quick, when the work was asked for: an idle device doesn't meet it either.
    /// `MISSED_DEADLINE_TRANSIENT` if it became so while the work `waited` for others.
    pub(crate) fn check(
        &self,
        what: &str,
        units: u64,
        deadline: Option<TimePoint>,
        waited: Duration,
    ) -> Result<()> {
        let Some(deadline) = deadline else { return Ok(()) };
        let now = TimePoint::now().nanoseconds;
        let until = |from: u64| Duration::from_nanos(deadline.nanoseconds.saturating_sub(from));
        let (left, least) = (until(now), self.least(units));
        let is_too_near = |left: Duration| left.is_zero() || left < least;
        if !is_too_near(left) {
            return Ok(());
        }
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let status = match is_too_near(until(now.saturating_sub(waited))) {
            true => ErrorStatus::MissedDeadlinePersistent,
            false => ErrorStatus::MissedDeadlineTransient,
        };
        let reason = match left.is_zero() {
            true => format!("the deadline had passed before the {what} began"),
            false => format!("{left:?} are left for a {what} that takes {least:?} at the least"),
        };
        Err(HalError::new(status, reason))
    }
}

/// Returns the measure with which the cost of preparing a model grows: its operations, and
/// kibibytes of constants to be packed.
pub(crate) fn size(model: &Model) -> u64 {
    let graphs = std::iter::once(&model.main).chain(&model.referenced);
    let operations: usize = graphs.map(|graph| graph.operations.len()).sum();
    let bytes = u64::try_from(model.operand_values.len()).unwrap_or(u64::MAX);
    let pools = model.pools.iter().fold(bytes, |sum, pool| sum.saturating_add(pool.size()));
    u64::try_from(operations).unwrap_or(u64::MAX).saturating_add(pools >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_run_decides() {
        let quickest = Quickest::default();
        let check = |quickest: &Quickest, units, deadline| {
            quickest.check("run", units, deadline, Duration::ZERO)
        };
        let soon = Some(TimePoint::after(Duration::from_secs(5)));
        assert_eq!(check(&quickest, 1, soon), Ok(()), "nothing was measured");
        assert!(quickest.is_unknown());
        quickest.took(2, Duration::from_secs(20));
        assert!(!quickest.is_unknown());
        quickest.took(2, Duration::from_secs(40));
        assert_eq!(quickest.least(1), Duration::from_secs(10));
        let status = |units, deadline| check(&quickest, units, deadline).unwrap_err().status;
        assert_eq!(status(1, soon), ErrorStatus::MissedDeadlinePersistent);
        assert_eq!(status(1, Some(TimePoint::now())), ErrorStatus::MissedDeadlinePersistent);
        // It was far enough away when it was asked for.
        let waited = quickest.check("run", 1, soon, Duration::from_secs(30)).unwrap_err().status;
        assert_eq!(waited, ErrorStatus::MissedDeadlineTransient);
        quickest.took(2, Duration::from_secs(2));
        assert_eq!(check(&quickest, 1, soon), Ok(()));
        assert_eq!(check(&quickest, 9, soon), Ok(()), "as long as the one that was measured");
        quickest.took(9, Duration::from_secs(8));
        assert_eq!(status(9, soon), ErrorStatus::MissedDeadlinePersistent);
        assert_eq!(check(&quickest, 3, soon), Ok(()), "a third of it");
        assert_eq!(check(&quickest, u64::MAX, None), Ok(()));
    }
}
