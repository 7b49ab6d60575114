//! [`Producer`]: the writing end of a synchronised queue.

use bytemuck::Pod;

use crate::QueueError;
use crate::event_flag::{EventFlag, NOT_EMPTY, NOT_FULL, Notify};
use crate::interrupt::Cancel;
use crate::memory::Memory;
use crate::ring::{Cursor, Of, Writing};
use crate::transaction::WriteTransaction;
use crate::wait::{Bits, WaitOptions, Waiter};

/// The writing end: exactly one per queue, so `Send` but not `Clone`.
///
/// Batches are all or nothing and become visible to the consumer at once. Each publication is
/// announced on the event flag, if the queue has one, whichever form made it; that costs a system
/// call only if the consumer sleeps.
#[derive(Debug)]
pub struct Producer<T> {
    pub(crate) cursor: Cursor<Writing, Of<T>>,
    pub(crate) waiter: Waiter,
}

impl<T: Pod> Producer<T> {
    pub(crate) fn new(memory: &Memory, written: u64, read: u64, notify: Notify) -> Self {
        let bits = Bits { wait: NOT_FULL, wake: NOT_EMPTY };
        Self {
            cursor: Cursor::new(memory.clone(), Of::NEW, written, read),
            waiter: Waiter::new(memory, bits, notify),
        }
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cursor.capacity()
    }

    /// Items that can be written now, at most the capacity; more may become so at any time.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the consumer's counter is
    /// impossible.
    #[inline]
    pub fn available_to_write(&mut self) -> Result<usize, QueueError> {
        self.cursor.usable()
    }

    /// Writes all of `items`, or nothing.
    ///
    /// # Errors
    /// [`QueueError::Full`] if there is no room for all of them now, [`QueueError::TooLarge`] if
    /// there never is, [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the consumer's
    /// counter is impossible.
    #[inline]
    pub fn try_write(&mut self, items: &[T]) -> Result<(), QueueError> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        self.cursor.claim(bytes.len())?;
        self.put(bytes);
        Ok(())
    }

    /// Writes one item.
    ///
    /// # Errors
    /// As [`Self::try_write`].
    #[inline(always)]
    pub fn try_push(&mut self, item: T) -> Result<(), QueueError> {
        self.cursor.claim(size_of::<T>())?;
        self.put_one(&item);
        Ok(())
    }

    /// Writes all of `items`, waiting for room.
    ///
    /// # Errors
    /// [`QueueError::TimedOut`], [`QueueError::Cancelled`] or [`QueueError::PeerDied`] (even if
    /// there is room: nobody will read it; but room that was seen before is filled without a look
    /// at either), [`QueueError::TooLarge`] at once, [`QueueError::NoEventFlag`] if it would have
    /// to sleep and can't, and those of [`Self::try_write`].
    #[inline]
    pub fn write(&mut self, items: &[T], wait: impl Into<WaitOptions>) -> Result<(), QueueError> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        if !self.cursor.has(bytes.len()) {
            self.await_room(bytes.len(), wait.into())?;
        }
        self.put(bytes);
        Ok(())
    }

    /// Writes one item, waiting for room.
    ///
    /// # Errors
    /// As [`Self::write`].
    #[inline(always)]
    pub fn push(&mut self, item: T, wait: impl Into<WaitOptions>) -> Result<(), QueueError> {
        if !self.cursor.has(size_of::<T>()) {
            self.await_room(size_of::<T>(), wait.into())?;
        }
        self.put_one(&item);
        Ok(())
    }

    /// Waits until `count` items can be written.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn wait_writable(
        &mut self,
        count: usize,
        wait: impl Into<WaitOptions>,
    ) -> Result<(), QueueError> {
        self.await_room(count.saturating_mul(size_of::<T>()), wait.into())
    }

    /// Begins to write `count` items in place; see [`WriteTransaction`].
    ///
    /// # Errors
    /// As [`Self::try_write`].
    pub fn write_transaction(
        &mut self,
        count: usize,
    ) -> Result<WriteTransaction<'_, T>, QueueError> {
        self.cursor.claim(count.saturating_mul(size_of::<T>()))?;
        Ok(WriteTransaction::new(self, count))
    }

    /// A handle to the event-flag word, if the queue has one; what is attached to this end now ends
    /// its waits too.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.waiter.event_flag()
    }

    /// Changes the bits that are waited for and set; by default [`NOT_FULL`] and [`NOT_EMPTY`].
    pub fn set_bits(&mut self, bits: Bits) {
        self.waiter.set_bits(bits);
    }

    /// From now on this end sleeps and announces on another word than the queue's: libfmq's calls
    /// that are given an `EventFlag`. The peer has to do so too.
    pub fn set_event_flag(&mut self, flag: &EventFlag) {
        self.waiter.set_event_flag(flag);
    }

    /// From now on `cancel` ends the waits of this end.
    pub fn set_cancel(&mut self, cancel: &Cancel) {
        self.waiter.interrupts().set_cancel(cancel);
    }

    /// From now on the peer's death ends the waits of this end.
    pub fn set_peer(&mut self, peer: &crate::PeerWatch) {
        peer.attach(self.waiter.interrupts());
    }

    /// Out of line: the fast path of a call is then small enough to be compiled into its caller.
    #[inline(never)]
    fn await_room(&mut self, bytes: usize, wait: WaitOptions) -> Result<(), QueueError> {
        self.waiter.interrupted()?;
        match self.cursor.claim(bytes) {
            Err(QueueError::Full { .. }) => {}
            claimed => return claimed,
        }
        let Self { cursor, waiter } = self;
        waiter.wait_for(cursor, bytes, wait)
    }

    /// Fills the claimed bytes, publishes and announces them.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        // SAFETY: the callers have claimed as many bytes, and nothing was published since.
        unsafe { self.cursor.fill(0, bytes) };
        self.publish(bytes.len());
    }

    /// [`Self::put`] for the one slot that is claimed.
    #[inline(always)]
    fn put_one(&mut self, item: &T) {
        // SAFETY: the callers have claimed a slot, and nothing was published since.
        unsafe { self.cursor.fill_one(bytemuck::bytes_of(item)) };
        self.publish(size_of::<T>());
    }

    #[inline(always)]
    pub(crate) fn publish(&mut self, bytes: usize) {
        if bytes != 0 {
            self.cursor.publish(bytes);
            self.waiter.announce();
            self.cursor.settle(bytes);
        }
    }
}
