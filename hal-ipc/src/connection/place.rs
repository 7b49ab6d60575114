//! The places in which calls wait for their answers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use nnburst_hal::TimePoint;

use super::Late;
use crate::socket::ReceivedFrame;

/// For whom an answer is.
#[derive(Debug)]
pub(super) enum Waiter {
    Call(Arc<Place>),
    /// The call was given up; what its answer made is to be released.
    Nobody(Late),
}

/// The place in which a call waits for its answer.
#[derive(Debug, Default)]
pub(super) struct Place {
    outcome: Mutex<Outcome>,
    told: Condvar,
}

#[derive(Debug, Default)]
pub(super) enum Outcome {
    #[default]
    Open,
    Answered(ReceivedFrame),
    /// The connection ended.
    Lost,
}

impl Place {
    pub(super) fn tell(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        self.told.notify_one();
    }

    /// Waits for the end of the call; [`Outcome::Open`] at the deadline.
    pub(super) fn wait(&self, deadline: Option<TimePoint>) -> Outcome {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match std::mem::take(&mut *outcome) {
                Outcome::Open => {}
                ended => return ended,
            }
            outcome = match deadline {
                None => self.told.wait(outcome).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) if deadline.has_passed() => return Outcome::Open,
                Some(deadline) => {
                    let waited = self.told.wait_timeout(outcome, deadline.remaining());
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
