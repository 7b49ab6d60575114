//! A request made ready once and executed many times.

use std::time::Duration;

use nnburst_hal::{Memory, RequestPool, TimePoint, bound};

use super::BurstError;
use crate::packet::{
    BurstAnswer, BurstPool, Dialect, PacketError, RequestDatum, RequestItem, pool_datum,
};
use crate::processor::Processor;

/// A request whose memories have slots and whose packet is written: executing it allocates nothing.
/// It holds its memories, and the answer of its last execution.
///
/// A frame belongs to the controller that made it. Another one would send slot numbers that mean
/// nothing to its driver, or other memories.
#[derive(Debug)]
pub struct BurstFrame {
    // Boxed, so that moving a frame in and out of a burst moves a pointer.
    inner: Box<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) packet: Vec<RequestDatum>,
    /// The request's pools, as the packet has them.
    pub(super) pools: Vec<BurstPool>,
    pub(super) dialect: Dialect,
    pub(super) loop_timeout: Option<Duration>,
    /// `true` if both sides are to sleep instead of polling.
    pub(super) low_power: bool,
    /// The time at which to stop waiting for the answer.
    pub(super) deadline: Option<TimePoint>,
    /// The request's pools, kept alive so that slots keep their meaning while it is underway.
    pub(super) kept: Vec<RequestPool>,
    pub(super) answer: BurstAnswer,
    pub(super) outcome: Result<(), BurstError>,
    /// The time at which it was sent, nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) sent: u64,
    /// The time at which its answer was taken; 0 before the first.
    pub(super) taken: u64,
}

impl BurstFrame {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            inner: Box::new(Inner {
                packet: Vec::new(),
                pools: Vec::new(),
                dialect,
                loop_timeout: None,
                low_power: false,
                deadline: None,
                kept: Vec::new(),
                answer: BurstAnswer::default(),
                outcome: Err(BurstError::NotExecuted),
                sent: 0,
                taken: 0,
            }),
        }
    }

    /// The answer to the last execution. Its status may be an error of the driver's.
    ///
    /// # Errors
    /// [`BurstError`] where there was no answer.
    pub fn answer(&self) -> Result<&BurstAnswer, BurstError> {
        self.inner.outcome.map(|()| &self.inner.answer)
    }

    /// From sending the request to taking its answer, at the last execution that was answered.
    pub fn latency(&self) -> Duration {
        Duration::from_nanos(self.inner.taken.saturating_sub(self.inner.sent))
    }

    /// Has both sides sleep, instead of polling, when they wait for later executions of this frame
    /// and for what comes after them. In the original protocol the driver does not know of it.
    pub fn set_low_power(&mut self, yes: bool) {
        self.inner.low_power = yes;
    }

    /// Sets the deadline of later executions: how long they wait. Returns whether the driver will
    /// know of it: in the original protocol no deadline travels.
    pub fn set_deadline(&mut self, deadline: Option<TimePoint>) -> bool {
        let loop_timeout = self.inner.loop_timeout;
        self.set_limits(deadline, loop_timeout)
    }

    /// As [`Self::set_deadline`], and how long a WHILE of later executions may run.
    pub fn set_limits(
        &mut self,
        deadline: Option<TimePoint>,
        loop_timeout: Option<Duration>,
    ) -> bool {
        let Inner { packet, dialect, loop_timeout: kept, deadline: until, .. } = &mut *self.inner;
        (*until, *kept) = (deadline, loop_timeout);
        // The last element but one, in every frame of an extended burst.
        let at = packet.len().checked_sub(2);
        let Some(limits) = at.and_then(|at| packet.get_mut(at)) else { return false };
        if *dialect == Dialect::Android {
            return false;
        }
        let timeout = |timeout: Duration| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        *limits = RequestDatum::new(RequestItem::ExecutionLimits {
            deadline: deadline.map_or(u64::MAX, |deadline| deadline.nanoseconds),
            loop_timeout: loop_timeout.map_or(u64::MAX, timeout),
            // Both are written when the packet is sent.
            processor: Processor::UNKNOWN,
            low_power: false,
        });
        true
    }

    /// Exchanges a pool for another in the packet.
    pub(super) fn set_pool(&mut self, at: usize, pool: BurstPool) -> Result<(), PacketError> {
        let Inner { packet, pools, dialect, .. } = &mut *self.inner;
        let datum = pool_datum(pool, *dialect)?;
        // After the pools come the limits, in every frame of an extended burst, and whether to
        // measure.
        let behind = if *dialect == Dialect::Extended { 2 } else { 1 };
        let first = packet.len().checked_sub(behind + pools.len());
        let place = first.and_then(|first| packet.get_mut(first + at));
        if let (Some(place), Some(known)) = (place, pools.get_mut(at)) {
            (*place, *known) = (datum, pool);
        }
        Ok(())
    }

    /// The elements that are sent.
    pub fn packet(&self) -> &[RequestDatum] {
        &self.inner.packet
    }

    pub(super) fn inner(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Inner {
    /// Writes where it is sent from, and whether to sleep afterwards, into the packet, if the
    /// dialect has a place for that.
    #[inline]
    pub(super) fn set_sender(&mut self, processor: Processor) {
        // The last element but one, in every frame of an extended burst.
        if self.dialect == Dialect::Extended
            && let [.., limits, _] = self.packet.as_mut_slice()
        {
            limits.set_sender(processor, self.low_power);
        }
    }

    /// The time at which a driver that runs has answered, if there is a deadline. (No time passes
    /// in a model.)
    pub(super) fn answered_by(&self) -> Option<TimePoint> {
        self.deadline.filter(|_| !cfg!(loom)).map(bound::answered_by)
    }

    /// The memories that the request uses.
    pub(super) fn memories(&self) -> Vec<Memory> {
        let memory = |pool: &RequestPool| match pool {
            RequestPool::Memory(memory) => Some(memory.clone()),
            RequestPool::Token(_) => None,
        };
        self.kept.iter().filter_map(memory).collect()
    }
}
