//! [`Consumer`]: the reading end of a synchronised queue.

use bytemuck::Pod;

use crate::QueueError;
use crate::event_flag::{EventFlag, NOT_EMPTY, NOT_FULL, Notify};
use crate::interrupt::Cancel;
use crate::memory::Memory;
use crate::ring::{Cursor, Of, Reading};
use crate::transaction::ReadTransaction;
use crate::wait::{Bits, WaitOptions, Waiter};

/// The reading end: exactly one per queue, so `Send` but not `Clone`.
///
/// Reads are all or nothing and copy items out: what is returned is private, so it can be validated
/// and used. Each read frees its slots and announces that on the event flag, if the queue has one;
/// that costs a system call only if the producer sleeps.
#[derive(Debug)]
pub struct Consumer<T> {
    pub(crate) cursor: Cursor<Reading, Of<T>>,
    pub(crate) waiter: Waiter,
}

impl<T: Pod> Consumer<T> {
    pub(crate) fn new(memory: &Memory, read: u64, written: u64, notify: Notify) -> Self {
        let bits = Bits { wait: NOT_EMPTY, wake: NOT_FULL };
        Self {
            cursor: Cursor::new(memory.clone(), Of::NEW, read, written),
            waiter: Waiter::new(memory, bits, notify),
        }
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cursor.capacity()
    }

    /// Items that can be read now, at most the capacity; more may become so at any time.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the producer's counter is
    /// impossible.
    #[inline]
    pub fn available_to_read(&mut self) -> Result<usize, QueueError> {
        self.cursor.usable()
    }

    /// Fills all of `items`, or reads nothing.
    ///
    /// # Errors
    /// [`QueueError::Empty`] if there are not that many now, [`QueueError::TooLarge`] if there
    /// never are, [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the producer's counter is
    /// impossible.
    #[inline]
    pub fn try_read(&mut self, items: &mut [T]) -> Result<(), QueueError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(items);
        self.cursor.claim(bytes.len())?;
        self.take(bytes);
        Ok(())
    }

    /// Reads one item.
    ///
    /// # Errors
    /// As [`Self::try_read`].
    #[inline(always)]
    pub fn try_pop(&mut self) -> Result<T, QueueError> {
        self.cursor.claim(size_of::<T>())?;
        Ok(self.take_one())
    }

    /// Fills all of `items`, waiting for them.
    ///
    /// # Errors
    /// [`QueueError::TimedOut`], [`QueueError::Cancelled`] (once the items that were seen before
    /// are read), [`QueueError::PeerDied`] (once what the peer had published is too little),
    /// [`QueueError::TooLarge`] at once, [`QueueError::NoEventFlag`] if it would have to sleep and
    /// can't, and those of [`Self::try_read`].
    #[inline]
    pub fn read(
        &mut self,
        items: &mut [T],
        wait: impl Into<WaitOptions>,
    ) -> Result<(), QueueError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(items);
        if !self.cursor.has(bytes.len()) {
            self.await_items(bytes.len(), wait.into())?;
        }
        self.take(bytes);
        Ok(())
    }

    /// Reads one item, waiting for it.
    ///
    /// # Errors
    /// As [`Self::read`].
    #[inline(always)]
    pub fn pop(&mut self, wait: impl Into<WaitOptions>) -> Result<T, QueueError> {
        if !self.cursor.has(size_of::<T>()) {
            self.await_items(size_of::<T>(), wait.into())?;
        }
        Ok(self.take_one())
    }

    /// Waits until `count` items can be read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn wait_readable(
        &mut self,
        count: usize,
        wait: impl Into<WaitOptions>,
    ) -> Result<(), QueueError> {
        self.await_items(count.saturating_mul(size_of::<T>()), wait.into())
    }

    /// Begins to read `count` items in place; see [`ReadTransaction`].
    ///
    /// # Errors
    /// As [`Self::try_read`].
    pub fn read_transaction(&mut self, count: usize) -> Result<ReadTransaction<'_, T>, QueueError> {
        self.cursor.claim(count.saturating_mul(size_of::<T>()))?;
        Ok(ReadTransaction::new(self, count))
    }

    /// A handle to the event-flag word, if the queue has one; what is attached to this end now ends
    /// its waits too.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.waiter.event_flag()
    }

    /// Changes the bits that are waited for and set; by default [`NOT_EMPTY`] and [`NOT_FULL`].
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
    fn await_items(&mut self, bytes: usize, wait: WaitOptions) -> Result<(), QueueError> {
        if let Err(QueueError::Cancelled) = self.waiter.interrupted() {
            return Err(QueueError::Cancelled);
        }
        match self.cursor.claim(bytes) {
            Err(QueueError::Empty { .. }) => {}
            claimed => return claimed,
        }
        let Self { cursor, waiter } = self;
        waiter.wait_for(cursor, bytes, wait)
    }

    /// Copies the claimed bytes out, frees their slots and announces that.
    #[inline(always)]
    fn take(&mut self, bytes: &mut [u8]) {
        // SAFETY: the callers have claimed as many bytes, and nothing was freed since.
        unsafe { self.cursor.drain(0, bytes) };
        self.publish(bytes.len());
    }

    /// [`Self::take`] for the one slot that is claimed.
    #[inline(always)]
    fn take_one(&mut self) -> T {
        let mut item = T::zeroed();
        // SAFETY: the callers have claimed a slot, and nothing was freed since.
        unsafe { self.cursor.drain_one(bytemuck::bytes_of_mut(&mut item)) };
        self.publish(size_of::<T>());
        item
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
