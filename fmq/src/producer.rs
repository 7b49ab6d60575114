//! [`Producer`]: the writing end of a synchronised queue.

use bytemuck::Pod;

use crate::QueueError;
use crate::endpoint::Endpoint;
use crate::ring::{Of, Writing};
use crate::transaction::WriteTransaction;
use crate::wait::WaitOptions;

/// The writing end: exactly one per queue, so `Send` but not `Clone`.
///
/// Batches are all or nothing and become visible to the consumer at once. Each publication is
/// announced on the event flag, if the queue has one, whichever form made it; that costs a system
/// call only if the consumer sleeps.
pub type Producer<T> = Endpoint<Writing, Of<T>>;

impl<T: Pod> Endpoint<Writing, Of<T>> {
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
        // SAFETY: just claimed.
        unsafe { self.put(bytes) };
        Ok(())
    }

    /// Writes one item.
    ///
    /// # Errors
    /// As [`Self::try_write`].
    #[inline(always)]
    pub fn try_push(&mut self, item: T) -> Result<(), QueueError> {
        self.cursor.claim(size_of::<T>())?;
        // SAFETY: just claimed.
        unsafe { self.put_one(&item) };
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
            self.await_claim(bytes.len(), wait.into())?;
        }
        // SAFETY: usable before, or waited for.
        unsafe { self.put(bytes) };
        Ok(())
    }

    /// Writes one item, waiting for room.
    ///
    /// # Errors
    /// As [`Self::write`].
    #[inline(always)]
    pub fn push(&mut self, item: T, wait: impl Into<WaitOptions>) -> Result<(), QueueError> {
        if !self.cursor.has(size_of::<T>()) {
            self.await_claim(size_of::<T>(), wait.into())?;
        }
        // SAFETY: usable before, or waited for.
        unsafe { self.put_one(&item) };
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
        self.await_claim(count.saturating_mul(size_of::<T>()), wait.into())
    }

    /// Begins to write `count` items in place; see [`WriteTransaction`].
    ///
    /// # Errors
    /// As [`Self::try_write`].
    pub fn write_transaction(
        &mut self,
        count: usize,
    ) -> Result<WriteTransaction<'_, T>, QueueError> {
        WriteTransaction::begin(self, count)
    }

    /// Fills the next `bytes.len()` bytes, publishes and announces them.
    ///
    /// # Safety
    /// As many are claimed.
    #[inline(always)]
    unsafe fn put(&mut self, bytes: &[u8]) {
        // SAFETY: claimed, by the caller's word.
        unsafe { self.cursor.fill(0, bytes) };
        // SAFETY: claimed, by the caller's word, and just filled.
        unsafe { self.publish(bytes.len()) };
    }

    /// [`Self::put`] for one slot.
    ///
    /// # Safety
    /// It is claimed.
    #[inline(always)]
    unsafe fn put_one(&mut self, item: &T) {
        // SAFETY: claimed, by the caller's word.
        unsafe { self.cursor.fill_one(bytemuck::bytes_of(item)) };
        // SAFETY: claimed, by the caller's word, and just filled.
        unsafe { self.publish(size_of::<T>()) };
    }
}
