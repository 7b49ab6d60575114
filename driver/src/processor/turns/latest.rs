//! The users who began something lately.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{BELOW, HALF, LATELY};

/// The user who began something last, and the last one before that who was another: each as its uid
/// below the milliseconds since the processor's start, which begin anew after 49 days. Relaxed
/// throughout: a hint that hands nothing over.
#[derive(Debug, Default)]
pub(super) struct Latest {
    user: AtomicU64,
    other: AtomicU64,
}

impl Latest {
    pub(super) fn note(&self, uid: u32, now: u64) {
        let noted = (Self::milliseconds(now) << HALF) | u64::from(uid);
        let before = self.user.swap(noted, Ordering::Relaxed);
        if before & BELOW != noted & BELOW {
            self.other.store(before, Ordering::Relaxed);
        }
    }

    /// Returns whether somebody else began something lately.
    pub(super) fn is_another_than(&self, uid: u32, now: u64) -> bool {
        [&self.user, &self.other].into_iter().any(|noted| {
            let noted = noted.load(Ordering::Relaxed);
            let away = Self::milliseconds(now).wrapping_sub(noted >> HALF) & BELOW;
            let is_lately = Duration::from_millis(away) < LATELY;
            noted != 0 && noted & BELOW != u64::from(uid) && is_lately
        })
    }

    /// From 1 on, so that what was noted is never 0.
    fn milliseconds(now: u64) -> u64 {
        ((now / 1_000_000) & BELOW).max(1)
    }
}
