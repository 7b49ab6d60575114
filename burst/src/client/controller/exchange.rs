//! Sends packets and takes the answers that come for them.

use std::time::Instant;

#[cfg(not(loom))]
use nnburst_fmq::Readiness;
use nnburst_fmq::{PeerWatch, QueueError};
use nnburst_hal::{FlowEnd, TimePoint, bound, trace_flow};

use super::{BurstController, InFlight};
use crate::client::frame::Inner;
use crate::client::{BurstError, Closed, Fallback};
use crate::packet::deserialize_answer;
use crate::processor::Processor;

/// The time that an answer's processor is taken for the one that the driver's thread runs on,
/// unless that is pinned: later it may have slept, and be woken elsewhere.
const FRESH_NS: u64 = 1_000_000;

/// The outcome of one poll of the result queue.
#[derive(PartialEq, Eq)]
pub(super) enum Came {
    Nothing,
    Answer,
    BorrowedAnswer,
}

impl BurstController {
    /// Sends a packet, whole or not at all.
    pub(super) fn send(&mut self, inner: &mut Inner) -> Result<(), Fallback> {
        self.close_if_forked();
        if let Some(why @ Closed::Forked) = self.closed {
            return Err(Fallback::Closed(why));
        }
        match inner.deadline {
            Some(deadline) => bound::until(deadline, || self.slots.tell_put_off()),
            None => self.slots.tell_put_off(),
        }
        if self.peer.as_ref().is_some_and(PeerWatch::is_dead) {
            self.close(Closed::DriverDied);
        }
        if self.in_flight.is_empty()
            && self.closed.is_none()
            // Nothing is due, so what lies there is no answer to anything.
            && let Err(error) = self.results.discard()
        {
            self.close(Closed::Queue(error));
        }
        if let Some(why) = self.closed {
            return Err(Fallback::Closed(why));
        }
        inner.sent = TimePoint::now().nanoseconds;
        if inner.sent.saturating_sub(self.last_taken) > FRESH_NS {
            self.results.let_peer_move();
        }
        inner.set_sender(self.results.here(inner.sent));
        self.results.sleep_next(inner.low_power);
        let elements = inner.packet.len();
        match self.requests.try_write(&inner.packet) {
            Ok(()) => Ok(()),
            Err(QueueError::Full { free, .. }) => Err(Fallback::TooLong { elements, free }),
            Err(QueueError::TooLarge { capacity, .. }) => {
                Err(Fallback::TooLong { elements, free: capacity })
            }
            Err(error) => {
                self.close(Closed::Queue(error));
                Err(Fallback::Closed(Closed::Queue(error)))
            }
        }
    }

    /// Sends a packet and waits for its answer, until its deadline at most.
    pub(super) fn run(&mut self, inner: &mut Inner) -> Result<(), BurstError> {
        let until = match inner.deadline {
            // What can't be in time is not sent. (No time passes in a model.)
            Some(deadline) if !cfg!(loom) && deadline.has_passed() => {
                return Err(BurstError::DeadlineMissed);
            }
            Some(deadline) => Instant::now().checked_add(deadline.remaining()),
            None => None,
        };
        while self.in_flight.len() >= self.depth {
            if self.receive(None) == Came::Nothing
                && !self.await_answer(until)
                && self.closed.is_none()
            {
                return Err(BurstError::DeadlineMissed);
            }
        }
        self.send(inner).map_err(BurstError::NotSent)?;
        self.in_flight.push_back(InFlight::Borrowed);
        loop {
            match self.receive(Some(inner)) {
                Came::BorrowedAnswer => return inner.outcome,
                Came::Answer => {}
                Came::Nothing => {
                    if self.await_answer(until) {
                        continue;
                    }
                    if let Some(why) = self.closed {
                        return Err(BurstError::Closed(why));
                    }
                    self.give_up(inner);
                    return Err(BurstError::DeadlineMissed);
                }
            }
        }
    }

    /// Stops waiting for the answer of the borrowed frame. Until that comes, it counts towards the
    /// depth and its memories are kept: the driver may be at work on them.
    fn give_up(&mut self, inner: &Inner) {
        let borrowed = self.in_flight.iter_mut().find(|entry| matches!(entry, InFlight::Borrowed));
        if let Some(entry) = borrowed {
            *entry = InFlight::GivenUp { _memories: self.slots.memories_of(&inner.pools) };
        }
    }

    /// Waits until an answer can be received: `true`; or until the deadline or the end of the
    /// burst.
    pub(super) fn await_answer(&mut self, deadline: Option<Instant>) -> bool {
        self.close_if_forked();
        if self.closed.is_some() {
            return false;
        }
        self.slots.set_waiting(true);
        let waited = self.results.wait(deadline, |_, _| false);
        self.slots.set_waiting(false);
        match waited {
            Ok(()) => true,
            Err(QueueError::TimedOut) => false,
            Err(QueueError::PeerDied) => {
                self.close(Closed::DriverDied);
                false
            }
            Err(error) => {
                self.close(Closed::Queue(error));
                false
            }
        }
    }

    /// Returns whether an answer can be received, or the burst is over; if not, `readiness` tells
    /// when that may have changed.
    #[cfg(not(loom))]
    pub(super) fn is_ready(&mut self, readiness: &mut Readiness) -> bool {
        self.close_if_forked();
        match self.results.poll_readable(readiness) {
            _ if self.closed.is_some() => true,
            Ok(is_ready) => is_ready,
            Err(QueueError::PeerDied) => {
                self.close(Closed::DriverDied);
                true
            }
            Err(error) => {
                self.close(Closed::Queue(error));
                true
            }
        }
    }

    /// Takes one answer, if one is here, to whom it belongs. `borrowed` is the frame of
    /// [`InFlight::Borrowed`], if there is one in flight.
    pub(super) fn receive(&mut self, borrowed: Option<&mut Inner>) -> Came {
        self.close_if_forked();
        if self.closed.is_some() {
            return Came::Nothing;
        }
        let packet = match self.results.take() {
            Ok(Some((packet, _))) => packet,
            Ok(None) => return Came::Nothing,
            Err(error) => {
                self.close(Closed::Queue(error));
                return Came::Nothing;
            }
        };
        // An answer that nobody is due is passed over.
        let Some(mut entry) = self.in_flight.pop_front() else { return Came::Answer };
        let inner = match (&mut entry, borrowed) {
            (InFlight::Submitted(frame) | InFlight::Forgotten(frame), _) => frame.inner(),
            (InFlight::Borrowed, Some(inner)) => inner,
            (InFlight::Borrowed | InFlight::GivenUp { .. }, _) => {
                // Nobody reads it. It is parsed all the same: one out of step ends the burst.
                let parsed = deserialize_answer(packet, self.dialect, &mut self.late);
                if let Err(error) = parsed
                    && !self.in_flight.is_empty()
                {
                    self.close(Closed::OutOfStep(error));
                }
                return Came::Answer;
            }
        };
        let taken = deserialize_answer(packet, self.dialect, &mut inner.answer);
        inner.outcome = taken.map_err(BurstError::Malformed);
        if taken.is_ok() {
            inner.taken = self.stats.record(inner.sent, &inner.answer);
            self.last_taken = inner.taken;
            let times = inner.answer.driver_times;
            if let Some(times) = times {
                let sent = TimePoint { nanoseconds: inner.sent };
                trace_flow(FlowEnd::Sent, "burst", times.began, sent);
            }
            let processor = times.map_or(Processor::UNKNOWN, |times| times.processor);
            self.results.set_peer_processor(processor);
        }
        let came = match entry {
            InFlight::Submitted(frame) => {
                self.done.push_back(frame);
                Came::Answer
            }
            InFlight::Forgotten(_) => Came::Answer,
            InFlight::Borrowed | InFlight::GivenUp { .. } => Came::BorrowedAnswer,
        };
        if let Err(error) = taken
            && !self.in_flight.is_empty()
        {
            self.close(Closed::OutOfStep(error));
        }
        came
    }

    /// Ends the burst for a child of the process that opened it.
    #[inline]
    pub(super) fn close_if_forked(&mut self) {
        if !self.origin.is_here() {
            self.close(Closed::Forked);
        }
    }

    /// Ends the burst: what is in flight has no answer.
    fn close(&mut self, why: Closed) {
        let why = *self.closed.get_or_insert(why);
        while let Some(entry) = self.in_flight.pop_front() {
            if let InFlight::Submitted(mut frame) = entry {
                frame.inner().outcome = Err(BurstError::Closed(why));
                self.done.push_back(frame);
            }
        }
    }
}
