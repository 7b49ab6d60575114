//! The burst's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nnburst_fmq::{Producer, QueueError, Wait};
use nnburst_hal::{
    BurstCallback, ErrorStatus, FlowEnd, Layer, MeasureTiming, Phase, TimePoint, Timing,
    trace_flow, trace_past,
};

use super::mailbox::Pending;
use super::{BurstExecutor, Live, MAX_SLOTS, Mailbox};
use crate::channel::Receiver;
use crate::packet::{
    BurstAnswer, BurstPool, BurstRequest, Dialect, DriverTimes, RequestDatum, ResultDatum,
    deserialize_request, serialize_answer,
};

/// Requests that take longer get no warm-up run, in nanoseconds: what a warm-up run saves, some 10
/// to 20 microseconds, is nothing beside them.
const WARMED_UP_NS: u64 = 2_000_000;

/// Everything the thread holds. All storage is used again from frame to frame.
pub(super) struct Listener {
    pub(super) requests: Receiver<RequestDatum>,
    pub(super) results: Producer<ResultDatum>,
    pub(super) executor: Box<dyn BurstExecutor>,
    pub(super) callback: Arc<dyn BurstCallback>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) live: Arc<Live>,
    pub(super) dialect: Dialect,
    pub(super) pipelined: bool,
    pub(super) request: BurstRequest,
    pub(super) answer: BurstAnswer,
    pub(super) packet: Vec<ResultDatum>,
    pub(super) missing: Vec<i32>,
    /// By slot, the number of the request that used it last; 0 for none.
    pub(super) used: Vec<u64>,
    /// The number of the request at hand.
    pub(super) number: u64,
    /// `true` if the last request is worth a warm-up run.
    pub(super) warms_up: bool,
}

/// The burst is over.
struct Over;

impl Listener {
    pub(super) fn run(mut self) {
        while self.turn().is_ok() {}
    }

    /// Waits for a packet, or for word, and attends to it.
    fn turn(&mut self) -> Result<(), Over> {
        let Self { requests, executor, mailbox, request, answer, packet, .. } = self;
        let (dialect, warms_up) = (self.dialect, &mut self.warms_up);
        let idle = |last: &[RequestDatum], has_come: &mut dyn FnMut() -> bool| {
            // What panics has nothing left to do; the burst goes on.
            catch_unwind(AssertUnwindSafe(|| {
                if executor.keep_warm() {
                    return true;
                }
                // Last, so that what every request begins with stays nearest.
                if *warms_up {
                    *warms_up = false; // until it went well
                    if deserialize_request(last, dialect, request).is_ok() {
                        let mut is_over = || has_come() || mailbox.has_pending();
                        executor.warm_up(request, answer, &mut is_over);
                        let _ = serialize_answer(answer, dialect, packet);
                        *warms_up = true;
                    }
                }
                false
            }))
            .unwrap_or(false)
        };
        match requests.wait(None, idle) {
            Ok(()) | Err(QueueError::Cancelled) => {}
            Err(QueueError::PeerDied) => return Err(Over),
            Err(_) => return self.give_up(),
        }
        let began = TimePoint::now().nanoseconds;
        let parsed = match self.requests.take() {
            Ok(None) => None,
            Ok(Some((packet, behind))) => {
                self.live.begin(behind);
                Some(deserialize_request(packet, self.dialect, &mut self.request))
            }
            Err(_) => return self.give_up(),
        };
        // Once the packet is here and before it is run: it may use slots anew that were freed
        // before it was sent, maybe while this thread was attending to an earlier word.
        if self.mailbox.has_pending() {
            self.attend()?;
        }
        match parsed {
            None => return Ok(()),
            Some(Ok(())) => {
                self.requests.set_peer_processor(self.request.processor);
                self.requests.sleep_next(self.request.low_power);
                self.serve();
            }
            Some(Err(_)) => self.answer.fail(ErrorStatus::GeneralFailure),
        }
        let ended = TimePoint::now().nanoseconds;
        let took = ended.saturating_sub(began);
        self.warms_up = self.answer.status == ErrorStatus::None && took <= WARMED_UP_NS;
        if self.dialect == Dialect::Extended {
            let processor = self.requests.here(ended);
            self.answer.driver_times = Some(DriverTimes { began, ended, processor });
        }
        self.send()?;
        // After the answer is out: the client need not wait for our figures.
        self.live.end(self.answer.status, took);
        let [began, ended] = [began, ended].map(|nanoseconds| TimePoint { nanoseconds });
        trace_past(Layer::Driver, Phase::Overall, "request", began, ended);
        trace_flow(FlowEnd::Received, "burst", began.nanoseconds, began);
        Ok(())
    }

    /// Does what others left word of.
    fn attend(&mut self) -> Result<(), Over> {
        let Pending { freed, stop } = self.mailbox.take_pending();
        for slot in freed {
            self.executor.remove(slot);
            if let Some(used) = index(slot).and_then(|index| self.used.get_mut(index)) {
                *used = 0;
            }
        }
        if stop { Err(Over) } else { Ok(()) }
    }

    /// Has the request executed, and sees to it that the answer keeps the protocol.
    fn serve(&mut self) {
        if let Err(status) = self.fill_cache() {
            self.answer.driver_times = None;
            return self.answer.fail(status);
        }
        let Self { executor, request, answer, .. } = self;
        answer.status = ErrorStatus::GeneralFailure;
        answer.timing = Timing::NONE;
        answer.driver_times = None;
        if request.options.deadline.is_some_and(TimePoint::has_passed) {
            return answer.fail(ErrorStatus::MissedDeadlineTransient);
        }
        let measure = request.options.measure == MeasureTiming::Yes;
        // The storage of a broken run is written anew by the next; a panic there fails that request
        // alone.
        let run = AssertUnwindSafe(|| executor.execute(request, answer));
        if catch_unwind(run).is_err() {
            return answer.fail(ErrorStatus::GeneralFailure);
        }
        match answer.status {
            ErrorStatus::None if measure => {}
            ErrorStatus::None | ErrorStatus::OutputInsufficientSize => answer.timing = Timing::NONE,
            status => answer.fail(status),
        }
    }

    /// Asks the client, once, for the memories behind all slots of the request that aren't cached
    /// yet. If it doesn't tell, they stay absent, and the executor finds that out.
    ///
    /// Where the driver has no room for more, the slots that were used least recently make room:
    /// when they are used again, they are asked for again.
    ///
    /// # Errors
    /// There is no room, and this burst holds nothing that could make any.
    fn fill_cache(&mut self) -> Result<(), ErrorStatus> {
        self.missing.clear();
        self.number = self.number.wrapping_add(1);
        for pool in &self.request.pools {
            let BurstPool::Slot(slot) = *pool else { continue };
            if !self.executor.is_cached(slot) {
                self.missing.push(slot);
            } else if let Some(used) = index(slot).and_then(|index| self.used.get_mut(index)) {
                *used = self.number;
            }
        }
        if self.missing.is_empty() {
            return Ok(());
        }
        self.missing.sort_unstable();
        self.missing.dedup();
        if !self.missing.iter().all(|&slot| index(slot).is_some()) {
            return Ok(());
        }
        let memories = loop {
            match self.callback.memories(&self.missing) {
                Ok(memories) => break memories,
                Err(error) if error.status.is_resource_exhausted() => {
                    if !self.make_room(self.missing.len()) {
                        return Err(error.status);
                    }
                }
                Err(_) => return Ok(()),
            }
        };
        if memories.len() != self.missing.len() {
            return Ok(());
        }
        let missing = std::mem::take(&mut self.missing);
        for (&slot, memory) in missing.iter().zip(&memories) {
            self.executor.add(slot, memory);
            if !self.executor.is_cached(slot) && self.make_room(1) {
                self.executor.add(slot, memory);
            }
            let Some(index) = index(slot) else { continue };
            if self.used.len() <= index {
                let wanted = index.saturating_add(1);
                if self.used.try_reserve(wanted.saturating_sub(self.used.len())).is_err() {
                    continue; // it is never idle then, and keeps its place
                }
                self.used.resize(wanted, 0);
            }
            if let Some(used) = self.used.get_mut(index) {
                *used = self.number;
            }
        }
        self.missing = missing;
        Ok(())
    }

    /// Forgets at least so many slots that this request does not use, those used least recently
    /// first; returns whether there were any.
    fn make_room(&mut self, least: usize) -> bool {
        let cached = |(index, &used): (usize, &u64)| {
            let slot = i32::try_from(index).ok()?;
            let is_idle = used != self.number && used != 0 && self.executor.is_cached(slot);
            is_idle.then_some((used, slot))
        };
        let mut idle: Vec<_> = self.used.iter().enumerate().filter_map(cached).collect();
        idle.sort_unstable();
        // An eighth at a time: finding them takes longer than one memory is worth.
        idle.truncate(least.max(idle.len() / 8));
        let slots: Vec<_> = idle.into_iter().map(|(_, slot)| slot).collect();
        for &slot in &slots {
            self.executor.remove(slot);
            if let Some(used) = index(slot).and_then(|index| self.used.get_mut(index)) {
                *used = 0;
            }
        }
        if !slots.is_empty() {
            self.callback.forgotten(&slots);
        }
        !slots.is_empty()
    }

    /// Sends the answer, or if it is too long that it failed.
    fn send(&mut self) -> Result<(), Over> {
        let fits = serialize_answer(&self.answer, self.dialect, &mut self.packet).is_ok()
            && self.packet.len() <= self.results.capacity();
        if fits && self.try_send()? {
            return Ok(());
        }
        self.answer.fail(ErrorStatus::GeneralFailure);
        if serialize_answer(&self.answer, self.dialect, &mut self.packet).is_err() {
            return Err(Over);
        }
        // If not even this fits, the client reads no answers: it has lost this one.
        self.try_send().map(drop)
    }

    /// Returns whether there was room. With several requests in flight, earlier answers may still
    /// lie there: then it waits until the client has taken them.
    fn try_send(&mut self) -> Result<bool, Over> {
        loop {
            let sent = if self.pipelined {
                self.results.write(&self.packet, Wait::default())
            } else {
                self.results.try_write(&self.packet)
            };
            match sent {
                Ok(()) => return Ok(true),
                Err(QueueError::Full { .. } | QueueError::TooLarge { .. }) => return Ok(false),
                Err(QueueError::Cancelled) => self.attend()?,
                Err(_) => return Err(Over),
            }
        }
    }

    /// The request queue can't be believed any more: tells the client, as far as it listens, and
    /// ends.
    fn give_up(&mut self) -> Result<(), Over> {
        self.answer.fail(ErrorStatus::GeneralFailure);
        if serialize_answer(&self.answer, self.dialect, &mut self.packet).is_ok() {
            // A client that broke one queue may have broken the other; there is nobody left to
            // tell.
            let _ = self.results.try_write(&self.packet);
        }
        Err(Over)
    }
}

/// The place of a slot, if its number can be one.
pub(super) fn index(slot: i32) -> Option<usize> {
    usize::try_from(slot).ok().filter(|&slot| slot < MAX_SLOTS)
}
