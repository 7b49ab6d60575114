//! The account of a user of a service: a budget and a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nnburst_hal::{Budget, ErrorStatus, HalError, Result};

use crate::limits::UserLimits;
use crate::process;

/// A user of a service, for as long as anything is charged to it.
#[derive(Debug)]
pub(super) struct Account {
    uid: u32,
    pub(super) budget: Arc<Budget>,
    rate: Rate,
}

impl Account {
    pub(super) fn new(uid: u32, limits: &UserLimits) -> Self {
        let (whose, amounts) = (format!("user {uid}"), limits.amounts(is_own_user(uid)));
        let budget = process::user(uid).set_child(whose, amounts, UserLimits::setting);
        let account = Self { uid, budget, rate: Rate::new() };
        account.set_limits(limits);
        account
    }

    /// Has other limits hold from now on.
    pub(super) fn set_limits(&self, limits: &UserLimits) {
        self.budget.set_limits(limits.amounts(is_own_user(self.uid)));
        self.rate.set(limits.executions_per_second);
    }

    /// Returns whether forgetting it would give its user anything back.
    pub(super) fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || Arc::strong_count(&self.budget) > 1 || self.rate.is_ahead()
    }

    /// Counts an execution, or refuses it. It neither locks nor waits.
    pub(super) fn count_execution(&self) -> Result<()> {
        if self.rate.admits() {
            return Ok(());
        }
        let (uid, limit) = (self.uid, self.rate.per_second());
        let setting = "user.executions-per-second";
        tracing::debug!(target: "nnburst::driver", uid, limit, setting, "refused");
        let reason = format!(
            "the user {uid} has executed as often as it may, {limit} times a second, the \
             driver's setting {setting}"
        );
        Err(HalError::new(ErrorStatus::ResourceExhaustedTransient, reason))
    }
}

fn is_own_user(uid: u32) -> bool {
    uid == nix::unistd::geteuid().as_raw()
}

/// Nanoseconds of executions that may follow on each other.
const AT_ONCE: u64 = 250_000_000;

const SECOND: u64 = 1_000_000_000;

/// A rate of executions, as a queue that empties at that rate: each adds its share of a second to
/// the time at which it will be empty, which may be so far ahead. Relaxed throughout: figures,
/// which hand nothing over.
#[derive(Debug)]
struct Rate {
    start: Instant,
    /// Nanoseconds that one takes; 0 without a limit.
    each: AtomicU64,
    /// When the queue will be empty, in nanoseconds from the start.
    empty_at: AtomicU64,
}

impl Rate {
    fn new() -> Self {
        Self { start: Instant::now(), each: AtomicU64::new(0), empty_at: AtomicU64::new(0) }
    }

    /// A limit of 0 refuses all; what takes no whole nanosecond isn't limited.
    fn set(&self, per_second: u64) {
        let each = SECOND.checked_div(per_second).unwrap_or(u64::MAX);
        self.each.store(each, Ordering::Relaxed);
    }

    fn per_second(&self) -> u64 {
        SECOND.checked_div(self.each.load(Ordering::Relaxed)).unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        let elapsed: Duration = self.start.elapsed();
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    fn admits(&self) -> bool {
        match self.each.load(Ordering::Relaxed) {
            0 => true,
            u64::MAX => false,
            each => self.admits_at(self.now(), each),
        }
    }

    fn admits_at(&self, now: u64, each: u64) -> bool {
        let add = |empty_at: u64| {
            let begin = empty_at.max(now);
            (begin - now <= AT_ONCE.saturating_sub(each)).then(|| begin.saturating_add(each))
        };
        self.empty_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn is_ahead(&self) -> bool {
        self.empty_at.load(Ordering::Relaxed) > self.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executions that are admitted of one each millisecond.
    fn admitted(rate: &Rate, milliseconds: std::ops::Range<u64>) -> usize {
        let each = rate.each.load(Ordering::Relaxed);
        milliseconds.filter(|ms| rate.admits_at(ms * 1_000_000, each)).count()
    }

    #[test]
    fn a_rate_holds_over_time_and_a_rest_is_worth_a_quarter_of_a_second() {
        let rate = Rate::new();
        rate.set(100);
        assert_eq!(admitted(&rate, 1..1001), 125 - 1, "100, and what may come at once");
        assert_eq!(admitted(&rate, 1001..3001), 200);
        // After a rest of a minute no more than after a short one.
        assert_eq!(admitted(&rate, 63_001..64_001), 125 - 1);
    }

    #[test]
    fn rates_of_one_none_and_all() {
        let rate = Rate::new();
        assert!(rate.admits() && rate.admits());
        rate.set(1);
        assert_eq!(admitted(&rate, 1..4001), 4);
        rate.set(0);
        assert!(!rate.admits());
        rate.set(u64::MAX);
        assert!(rate.admits());
    }
}
