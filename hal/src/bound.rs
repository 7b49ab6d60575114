//! The bound of a thread: how long its calls to drivers in other processes may take, whatever they
//! are.
//!
//! Executions and preparations carry deadlines of their own. Device queries, copies of buffers and
//! the opening of bursts have none in the interface; they, too, wait for another process, which may
//! be stopped. Whoever can't wait for ever makes them within a bound. It holds for the calling
//! thread and what is called from there.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use crate::{ErrorStatus, HalError, TimePoint};

thread_local! {
    static BOUND: Cell<Option<TimePoint>> = const { Cell::new(None) };
}

/// Runs `work`, whose calls to drivers in other processes end at `deadline` at the latest, with
/// `MISSED_DEADLINE_TRANSIENT` where the driver has not answered. A bound within a bound ends with
/// the earlier one.
pub fn until<R>(deadline: TimePoint, work: impl FnOnce() -> R) -> R {
    let _bound = Bound::until(deadline);
    work()
}

/// A bound on the calling thread, as [`until`] has one, for as long as it lives.
#[derive(Debug)]
#[must_use = "the bound ends where this is dropped"]
pub struct Bound {
    before: Option<TimePoint>,
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl Bound {
    /// Bounds the calling thread's calls to drivers in other processes by `deadline`.
    pub fn until(deadline: TimePoint) -> Self {
        let before = BOUND.get();
        BOUND.set(earlier(before, Some(deadline)));
        Self { before, not_send: PhantomData }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        BOUND.set(self.before);
    }
}

/// The bound of the calling thread, if it has one.
#[must_use]
pub fn bound() -> Option<TimePoint> {
    BOUND.get()
}

/// The earlier of two deadlines. `None` is no deadline.
#[must_use]
pub fn earlier(one: Option<TimePoint>, other: Option<TimePoint>) -> Option<TimePoint> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The time after its deadline that a driver in another process may take to report that it was
/// missed: one that runs looks at the deadline every few milliseconds. Who waits longer waits for
/// one that is stopped.
const GRACE: Duration = Duration::from_millis(100);

/// When a driver has answered a call with this deadline, if it answers at all.
#[must_use]
pub fn answered_by(deadline: TimePoint) -> TimePoint {
    let grace = u64::try_from(GRACE.as_nanos()).unwrap_or(u64::MAX);
    TimePoint { nanoseconds: deadline.nanoseconds.saturating_add(grace) }
}

/// The error of a call that a driver has not answered in time.
#[must_use]
pub fn missed(what: &str) -> HalError {
    let why = format!("{what}: the driver has not answered by the deadline");
    HalError::new(ErrorStatus::MissedDeadlineTransient, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_bound_holds_until_its_work_is_done() {
        let [near, far] = [1, 2].map(|nanoseconds| TimePoint { nanoseconds });
        assert_eq!(bound(), None);
        until(near, || {
            until(far, || assert_eq!(bound(), Some(near)));
            assert_eq!(bound(), Some(near));
        });
        until(far, || until(near, || assert_eq!(bound(), Some(near))));
        assert!(std::panic::catch_unwind(|| until(near, || panic!("over"))).is_err());
        assert_eq!(bound(), None);
    }
}
