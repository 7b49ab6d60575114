//! [`Consumer`]: the reading end of a synchronised queue.

use bytemuck::Pod;

use crate::QueueError;
use crate::endpoint::Endpoint;
use crate::ring::{Of, Reading};
use crate::transaction::ReadTransaction;
use crate::wait::WaitOptions;

/// The reading end: exactly one per queue, so `Send` but not `Clone`.
///
/// Reads are all or nothing and copy items out: what is returned is private, so it can be validated
/// and used. Each read frees its slots and announces that on the event flag, if the queue has one;
/// that costs a system call only if the producer sleeps.
pub type Consumer<T> = Endpoint<Reading, Of<T>>;

impl<T: Pod> Endpoint<Reading, Of<T>> {
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
        // SAFETY: just claimed.
        unsafe { self.take(bytes) };
        Ok(())
    }

    /// Reads one item.
    ///
    /// # Errors
    /// As [`Self::try_read`].
    #[inline(always)]
    pub fn try_pop(&mut self) -> Result<T, QueueError> {
        self.cursor.claim(size_of::<T>())?;
        // SAFETY: just claimed.
        Ok(unsafe { self.take_one() })
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
            self.await_claim(bytes.len(), wait.into())?;
        }
        // SAFETY: usable before, or waited for.
        unsafe { self.take(bytes) };
        Ok(())
    }

    /// Reads one item, waiting for it.
    ///
    /// # Errors
    /// As [`Self::read`].
    #[inline(always)]
    pub fn pop(&mut self, wait: impl Into<WaitOptions>) -> Result<T, QueueError> {
        if !self.cursor.has(size_of::<T>()) {
            self.await_claim(size_of::<T>(), wait.into())?;
        }
        // SAFETY: usable before, or waited for.
        Ok(unsafe { self.take_one() })
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
        self.await_claim(count.saturating_mul(size_of::<T>()), wait.into())
    }

    /// Begins to read `count` items in place; see [`ReadTransaction`].
    ///
    /// # Errors
    /// As [`Self::try_read`].
    pub fn read_transaction(&mut self, count: usize) -> Result<ReadTransaction<'_, T>, QueueError> {
        ReadTransaction::begin(self, count)
    }

    /// Copies the next `bytes.len()` bytes out, frees their slots and announces that.
    ///
    /// # Safety
    /// As many are claimed.
    #[inline(always)]
    unsafe fn take(&mut self, bytes: &mut [u8]) {
        // SAFETY: claimed, by the caller's word.
        unsafe { self.cursor.drain(0, bytes) };
        // SAFETY: claimed, by the caller's word, and just copied.
        unsafe { self.publish(bytes.len()) };
    }

    /// [`Self::take`] for one slot.
    ///
    /// # Safety
    /// It is claimed.
    #[inline(always)]
    unsafe fn take_one(&mut self) -> T {
        let mut item = T::zeroed();
        // SAFETY: claimed, by the caller's word.
        unsafe { self.cursor.drain_one(bytemuck::bytes_of_mut(&mut item)) };
        // SAFETY: claimed, by the caller's word, and just copied.
        unsafe { self.publish(size_of::<T>()) };
        item
    }
}
