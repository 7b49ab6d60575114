//! Several frames in flight: submitted at once, handed back with their answers.

use std::time::Instant;

#[cfg(not(loom))]
use nnburst_fmq::Readiness;
use nnburst_hal::TimePoint;

use super::exchange::Came;
use super::{BurstController, InFlight, Rejected};
use crate::client::frame::Inner;
use crate::client::{BurstError, BurstFrame, SubmitError};

impl BurstController {
    /// Sends a frame and returns at once; [`poll`](Self::poll) hands it back with its answer.
    ///
    /// # Errors
    /// The frame, with why it was not sent.
    pub fn try_submit(&mut self, mut frame: BurstFrame) -> Result<(), Rejected> {
        let depth = self.depth;
        if !self.make_room() {
            return Err(Rejected { frame, why: SubmitError::Busy { depth } });
        }
        if let Err(why) = self.send(frame.inner()) {
            return Err(Rejected { frame, why: why.into() });
        }
        self.in_flight.push_back(InFlight::Submitted(frame));
        Ok(())
    }

    /// Takes answers while there is no room for a frame, and returns whether there is then. Nobody
    /// polls for answers to frames that were given up.
    fn make_room(&mut self) -> bool {
        // As many as there may be: a driver that goes on answering holds nobody up.
        for _ in 0..self.depth {
            if !self.is_full() || self.receive(None) == Came::Nothing {
                break;
            }
        }
        !self.is_full()
    }

    /// Returns whether a frame can be sent, or the burst is over. If not, the descriptor of
    /// `readiness` becomes readable when that may have changed, and its waker is woken; where
    /// frames wait to be [polled](Self::poll), it changes with that alone.
    #[cfg(not(loom))]
    pub fn room_ready(&mut self, readiness: &mut Readiness) -> bool {
        loop {
            if self.make_room() || self.closed.is_some() {
                return true;
            }
            if !self.done.is_empty() || !self.is_ready(readiness) {
                return false;
            }
        }
    }

    /// Returns whether as many frames as can be are in flight, or answered and not taken.
    fn is_full(&self) -> bool {
        self.in_flight.len().saturating_add(self.done.len()) >= self.depth
    }

    /// The oldest submitted frame, if its answer is here, or if its deadline has passed for so long
    /// that a driver at work would have said so: [`BurstError::DeadlineMissed`]. Never waits, and
    /// makes no system call.
    pub fn poll(&mut self) -> Option<BurstFrame> {
        while self.done.is_empty() && self.receive(None) != Came::Nothing {}
        if self.done.is_empty() {
            self.give_up_overdue();
        }
        self.done.pop_front()
    }

    /// As [`poll`](Self::poll); where it returns `None` with frames in flight, the descriptor of
    /// `readiness` becomes readable when one may be back, and its waker is woken.
    #[cfg(not(loom))]
    pub fn poll_ready(&mut self, readiness: &mut Readiness) -> Option<BurstFrame> {
        loop {
            if let Some(frame) = self.poll() {
                return Some(frame);
            }
            if self.in_flight() == 0 || self.closed.is_some() {
                return self.done.pop_front();
            }
            if !self.is_ready(readiness) {
                return None;
            }
        }
    }

    /// Waits for the oldest submitted frame, until `deadline` at most. `None` at the deadline, the
    /// frame then being in flight still, and where nothing is in flight.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<BurstFrame> {
        self.wait_for_frame(Some(deadline))
    }

    /// Waits for the oldest submitted frame. `None` where nothing is in flight.
    pub fn wait(&mut self) -> Option<BurstFrame> {
        self.wait_for_frame(None)
    }

    /// Frames in flight whose answers are awaited.
    pub fn in_flight(&self) -> usize {
        let awaited = |entry: &&InFlight| matches!(entry, InFlight::Submitted(_));
        self.in_flight.iter().filter(awaited).count()
    }

    /// Gives up all frames in flight. Their answers will be thrown away when they come; until then
    /// they count towards the depth and keep their memories, for the driver may be at work on them.
    pub fn forget(&mut self) {
        for entry in &mut self.in_flight {
            *entry = match std::mem::replace(entry, InFlight::Borrowed) {
                InFlight::Submitted(frame) => InFlight::Forgotten(frame),
                other => other,
            };
        }
    }

    fn wait_for_frame(&mut self, deadline: Option<Instant>) -> Option<BurstFrame> {
        loop {
            if let Some(frame) = self.poll() {
                return Some(frame);
            }
            if self.in_flight() == 0 {
                return self.done.pop_front();
            }
            let overdue = self.oldest_submitted().and_then(|frame| frame.answered_by());
            let overdue = overdue.and_then(|end| Instant::now().checked_add(end.remaining()));
            let until = deadline.into_iter().chain(overdue).min();
            if !self.await_answer(until)
                && (self.closed.is_some() || deadline.is_some_and(|end| Instant::now() >= end))
            {
                return self.poll();
            }
        }
    }

    /// The oldest frame in flight whose answer is awaited.
    fn oldest_submitted(&mut self) -> Option<&mut Inner> {
        self.in_flight.iter_mut().find_map(|entry| match entry {
            InFlight::Submitted(frame) => Some(frame.inner()),
            _ => None,
        })
    }

    /// Stops waiting for the oldest submitted frame if the driver should have answered by now. The
    /// driver may be at work on its memories still, so those stay until it has answered.
    fn give_up_overdue(&mut self) {
        let is_submitted = |entry: &InFlight| matches!(entry, InFlight::Submitted(_));
        let Some(at) = self.in_flight.iter().position(is_submitted) else { return };
        let Some(entry) = self.in_flight.get_mut(at) else { return };
        let InFlight::Submitted(frame) = entry else { return };
        let inner = frame.inner();
        if !inner.answered_by().is_some_and(TimePoint::has_passed) {
            return;
        }
        inner.outcome = Err(BurstError::DeadlineMissed);
        let given_up = InFlight::GivenUp { _memories: inner.memories() };
        if let InFlight::Submitted(frame) = std::mem::replace(entry, given_up) {
            self.done.push_back(frame);
        }
    }
}
