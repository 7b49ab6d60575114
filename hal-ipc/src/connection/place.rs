//! The places in which calls wait for their answers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use nnburst_hal::TimePoint;

use super::Late;
use crate::socket::ReceivedFrame;

/// For whom an answer is.
#[derive(Debug)]
pub(super) enum Waiter {
    Call(Arc<CallPlace>),
    /// The call was given up; what its answer made is to be released.
    Nobody(Late),
}

/// The place in which a call waits for its answer.
#[derive(Debug, Default)]
pub(super) struct CallPlace {
    outcome: Mutex<CallOutcome>,
    told: Condvar,
}

#[derive(Debug, Default)]
pub(super) enum CallOutcome {
    #[default]
    Open,
    Answered(ReceivedFrame),
    /// The connection ended.
    Lost,
}

impl CallPlace {
    pub(super) fn tell(&self, outcome: CallOutcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        self.told.notify_one();
    }

    /// Waits for the end of the call; [`CallOutcome::Open`] at the deadline.
    pub(super) fn wait(&self, deadline: Option<TimePoint>) -> CallOutcome {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match std::mem::take(&mut *outcome) {
                CallOutcome::Open => {}
                ended => return ended,
            }
            outcome = match deadline {
                None => self.told.wait(outcome).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) if deadline.has_passed() => return CallOutcome::Open,
                Some(deadline) => {
                    let waited = self.told.wait_timeout(outcome, deadline.remaining());
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
