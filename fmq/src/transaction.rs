//! Zero-copy transactions: filling or reading slots where they lie, then publishing them all at
//! once.
//!
//! A transaction borrows its end of the queue, so there is one at a time and nothing else happens
//! meanwhile. Committing takes no count: it publishes what was begun, or less after
//! [`WriteTransaction::truncate`], and can't publish more. Dropping it publishes nothing.
//!
//! The slots stay shared memory. Nothing here hands out a reference to them: copy in, copy out, or
//! take the raw addresses of the two [`Slots`] runs and mind that a hostile peer may be writing
//! too. Validate copies, not slots.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::{Consumer, Producer, QueueError};

/// One run of adjacent slots in the ring. Empty runs have a valid address too.
///
/// The address is valid as long as the transaction. It is aligned to 8 at the ring's start and to
/// the item's size from there, which for types that want more may not be their alignment: use
/// unaligned accesses for those.
#[derive(Debug)]
pub struct Slots<'txn, T> {
    address: *mut T,
    count: usize,
    _txn: PhantomData<&'txn ()>,
}

impl<T> Slots<'_, T> {
    /// The first slot.
    #[must_use]
    pub fn address(&self) -> *mut T {
        self.address
    }

    /// How many slots there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Slots that are being written; the consumer sees none of them before [`Self::commit`].
///
/// ```
/// # use nnburst_fmq::Queue;
/// let (mut producer, mut consumer) = Queue::<u32>::builder(4).pair()?;
/// let mut slots = producer.write_transaction(3)?;
/// slots.copy_from(0, &[1, 2])?;
/// slots.set(2, 3)?;
/// slots.commit();
/// let mut items = [0; 3];
/// consumer.try_read(&mut items)?;
/// assert_eq!(items, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "what is not committed is not published"]
pub struct WriteTransaction<'queue, T> {
    producer: &'queue mut Producer<T>,
    count: usize,
}

impl<'queue, T: Pod> WriteTransaction<'queue, T> {
    /// `count` items have been claimed.
    pub(crate) fn new(producer: &'queue mut Producer<T>, count: usize) -> Self {
        Self { producer, count }
    }

    /// Slots that a commit will publish.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Copies `items` to the slots from number `index` on.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] if they reach past the last slot; nothing is copied then.
    pub fn copy_from(&mut self, index: usize, items: &[T]) -> Result<(), QueueError> {
        let at = within::<T>(index, items.len(), self.count)?;
        // SAFETY: slots below `count` are claimed, and `within` has checked that these are.
        unsafe { self.producer.cursor.fill(at, bytemuck::cast_slice(items)) };
        Ok(())
    }

    /// Fills slot `index`.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] if there is no such slot.
    #[inline]
    pub fn set(&mut self, index: usize, item: T) -> Result<(), QueueError> {
        self.copy_from(index, std::slice::from_ref(&item))
    }

    /// Keeps the first `count` slots, if there are more.
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// The raw slots: the run up to the ring's end, and the one from its start.
    #[cfg(not(loom))]
    #[must_use]
    pub fn slots(&mut self) -> [Slots<'_, T>; 2] {
        let runs = self.producer.cursor.runs(self.count * size_of::<T>());
        slots(self.producer.cursor.memory(), runs)
    }

    /// Publishes the slots, all at once, and announces them.
    #[inline]
    pub fn commit(self) {
        self.producer.publish(self.count * size_of::<T>());
    }
}

/// Slots that are being read; the producer gets none of them back before [`Self::commit`].
#[derive(Debug)]
#[must_use = "what is not committed is not taken"]
pub struct ReadTransaction<'queue, T> {
    consumer: &'queue mut Consumer<T>,
    count: usize,
}

impl<'queue, T: Pod> ReadTransaction<'queue, T> {
    /// `count` items have been claimed.
    pub(crate) fn new(consumer: &'queue mut Consumer<T>, count: usize) -> Self {
        Self { consumer, count }
    }

    /// Slots that a commit will free.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Copies the slots from number `index` on to `items`.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] if that reaches past the last slot; nothing is copied then.
    pub fn copy_to(&self, index: usize, items: &mut [T]) -> Result<(), QueueError> {
        let at = within::<T>(index, items.len(), self.count)?;
        // SAFETY: slots below `count` are claimed, and `within` has checked that these are.
        unsafe { self.consumer.cursor.drain(at, bytemuck::cast_slice_mut(items)) };
        Ok(())
    }

    /// A copy of slot `index`.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] if there is no such slot.
    #[inline]
    pub fn item(&self, index: usize) -> Result<T, QueueError> {
        let mut item = T::zeroed();
        self.copy_to(index, std::slice::from_mut(&mut item))?;
        Ok(item)
    }

    /// Keeps the first `count` slots, if there are more; the others stay in the queue.
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// The raw slots: the run up to the ring's end, and the one from its start. For reading.
    #[cfg(not(loom))]
    #[must_use]
    pub fn slots(&self) -> [Slots<'_, T>; 2] {
        let runs = self.consumer.cursor.runs(self.count * size_of::<T>());
        slots(self.consumer.cursor.memory(), runs)
    }

    /// Frees the slots, all at once, and announces that.
    #[inline]
    pub fn commit(self) {
        self.consumer.publish(self.count * size_of::<T>());
    }
}

/// The byte at which slot `index` starts, if `items` slots from there on are among the first
/// `count`.
#[inline(always)]
pub(crate) fn within<T>(index: usize, items: usize, count: usize) -> Result<usize, QueueError> {
    match index.checked_add(items) {
        Some(end) if end <= count => Ok(index * size_of::<T>()),
        end => Err(QueueError::TooLarge { asked: end.unwrap_or(usize::MAX), capacity: count }),
    }
}

#[cfg(not(loom))]
pub(crate) fn slots<'txn, T>(
    memory: &'txn crate::memory::Memory,
    runs: [(usize, usize); 2],
) -> [Slots<'txn, T>; 2] {
    runs.map(|(position, bytes)| Slots {
        // SAFETY: runs start within the ring: the cursor's position is, and 0 is.
        address: unsafe { memory.slot(position) }.cast(),
        count: bytes / size_of::<T>(),
        _txn: PhantomData,
    })
}
