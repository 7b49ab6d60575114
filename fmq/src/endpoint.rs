//! [`Endpoint`]: one end of a synchronised queue. A [`Producer`](crate::Producer) and a
//! [`Consumer`](crate::Consumer) are endpoints of one side each; [`erased`](crate::erased) has the
//! same two for items whose size is known at run time.

use crate::event_flag::{EventFlag, Notify};
use crate::interrupt::Cancel;
use crate::memory::QueueMemory;
use crate::ring::{Cursor, Quantum, Side};
use crate::wait::{Bits, WaitOptions, Waiter};
use crate::{PeerWatch, QueueError};

/// One end of a synchronised queue: of side `S`, with items whose size `Q` knows.
#[derive(Debug)]
pub struct Endpoint<S, Q> {
    pub(crate) cursor: Cursor<S, Q>,
    pub(crate) waiter: Waiter,
}

/// Counters of the two sides when an end is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) ours: u64,
    pub(crate) peer: u64,
}

#[expect(private_bounds, reason = "there are two sides and two quanta, and nobody can add more")]
impl<S: Side, Q: Quantum> Endpoint<S, Q> {
    pub(crate) fn new(memory: QueueMemory, quantum: Q, start: Start, notify: Notify) -> Self {
        let waiter = Waiter::new(&memory, S::BITS, notify);
        Self { cursor: Cursor::new(memory, quantum, start.ours, start.peer), waiter }
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cursor.capacity()
    }

    /// A handle to the event-flag word, if the queue has one; what is attached to this end now ends
    /// its waits too.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.waiter.event_flag()
    }

    /// Changes the bits that are waited for and set; by default a producer waits for
    /// [`NOT_FULL`](crate::NOT_FULL) and sets [`NOT_EMPTY`](crate::NOT_EMPTY), a consumer the other
    /// way round.
    pub fn set_bits(&mut self, bits: Bits) {
        self.waiter.set_bits(bits);
    }

    /// From now on this end sleeps and announces on another word than the queue's: libfmq's calls
    /// that are given an `EventFlag`. The peer has to do so too.
    pub fn set_event_flag(&mut self, flag: &EventFlag) {
        self.waiter.set_event_flag(flag);
    }

    /// Has the waits of this end leave a peer alone for a moment that writes one message after the
    /// other (or reads them), so that both get on faster; on unless turned off. A message is what a
    /// wait is for. Packets of several items look like such a stream to an end that waits for their
    /// first item: there it only delays the next packet.
    pub fn set_stream_backoff(&mut self, is_on: bool) {
        self.waiter.set_stream_backoff(is_on);
    }

    /// From now on `cancel` ends the waits of this end.
    pub fn set_cancel(&mut self, cancel: &Cancel) {
        self.waiter.interrupts().set_cancel(cancel);
    }

    /// From now on the peer's death ends the waits of this end.
    pub fn set_peer(&mut self, peer: &PeerWatch) {
        peer.attach(self.waiter.interrupts());
    }

    /// Waits until `bytes` are claimed. Out of line: the fast path of a call is then small enough
    /// to be compiled into its caller.
    #[inline(never)]
    pub(crate) fn await_claim(
        &mut self,
        bytes: usize,
        wait: WaitOptions,
    ) -> Result<(), QueueError> {
        match self.waiter.interrupted() {
            Err(QueueError::PeerDied) if S::OUTLIVES_PEER => {}
            interrupted => interrupted?,
        }
        match self.cursor.claim(bytes) {
            Err(QueueError::Full { .. } | QueueError::Empty { .. }) => {}
            claimed => return claimed,
        }
        let Self { cursor, waiter } = self;
        waiter.wait_for(cursor, bytes, wait)
    }

    /// Publishes `bytes` and announces them.
    ///
    /// # Safety
    /// As many are claimed, and have been written or copied out.
    #[inline(always)]
    pub(crate) unsafe fn publish(&mut self, bytes: usize) {
        if bytes != 0 {
            // SAFETY: claimed, by the caller's word.
            unsafe { self.cursor.publish(bytes) };
            self.waiter.announce();
            // SAFETY: follows a publication of as many bytes.
            unsafe { self.cursor.settle(bytes) };
        }
    }
}
