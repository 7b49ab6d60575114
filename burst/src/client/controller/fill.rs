//! Makes a request into a packet: its memories get slots, its arguments are written down.

use nnburst_hal::{ExecutionOptions, Memory, Request, RequestPool, TimePoint};

use super::BurstController;
use crate::client::scratch::Scratch;
use crate::client::{BurstFrame, Closed, Fallback};
use crate::packet::{BurstPool, Dialect, serialize_request};
use crate::server::MAX_SLOTS;

impl BurstController {
    /// Gives the request's memories slots and writes its packet.
    pub(super) fn fill(
        &mut self,
        frame: &mut BurstFrame,
        request: &Request,
        options: &ExecutionOptions,
    ) -> Result<(), Fallback> {
        self.close_if_forked();
        if let Some(why @ Closed::Forked) = self.closed {
            return Err(Fallback::Closed(why));
        }
        let inner = frame.inner();
        inner.pools.clear();
        for pool in &request.pools {
            inner.pools.push(self.burst_pool(pool)?);
        }
        // The limits are always there in an extended frame, so that `BurstFrame::set_deadline` has
        // their place.
        let (mut options, deadline) = (*options, options.deadline);
        if self.dialect == Dialect::Extended {
            options.deadline.get_or_insert(TimePoint { nanoseconds: u64::MAX });
        }
        (inner.loop_timeout, inner.deadline) = (options.loop_timeout, deadline);
        serialize_request(request, &inner.pools, &options, self.dialect, &mut inner.packet)
            .map_err(Fallback::Inexpressible)?;
        let (elements, free) = (inner.packet.len(), self.requests.capacity());
        if elements > free {
            return Err(Fallback::TooLong { elements, free });
        }
        Ok(())
    }

    /// As [`Self::fill`], as far as the request is another than the last one.
    pub(super) fn refill(
        &mut self,
        scratch: &mut Scratch,
        request: &Request,
        options: &ExecutionOptions,
    ) -> Result<(), Fallback> {
        if !self.origin.is_here() || !scratch.says(request, options) {
            scratch.forget();
            self.fill(&mut scratch.frame, request, options)?;
            scratch.note(request, options);
            return Ok(());
        }
        for (at, pool) in request.pools.iter().enumerate() {
            if !scratch.has_pool(at, pool) {
                let stands = self.burst_pool(pool)?;
                scratch.frame.set_pool(at, stands).map_err(Fallback::Inexpressible)?;
                scratch.note_pool(at, pool);
            }
        }
        scratch.frame.set_deadline(options.deadline);
        Ok(())
    }

    /// Returns the element of a pool in packets.
    pub(super) fn burst_pool(&mut self, pool: &RequestPool) -> Result<BurstPool, Fallback> {
        Ok(match pool {
            RequestPool::Token(token) => BurstPool::Token(*token),
            RequestPool::Memory(memory) => BurstPool::Slot(self.slot(memory)?),
        })
    }

    fn slot(&mut self, memory: &Memory) -> Result<i32, Fallback> {
        if let Some(&slot) = self.known.get(&memory.id()) {
            return Ok(slot);
        }
        self.slots.tell_put_off();
        for id in self.slots.take_gone() {
            self.known.remove(&id);
        }
        let full = Fallback::TooManyMemories { limit: MAX_SLOTS };
        let slot = self.slots.bind(memory).ok_or(full)?;
        self.known.insert(memory.id(), slot);
        Ok(slot)
    }
}
