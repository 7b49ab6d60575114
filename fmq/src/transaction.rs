//! Zero-copy transactions: filling or reading slots where they lie, then publishing them all at
//! once. They are the same for both flavours; those of the unsynchronised one have names of their
//! own in [`unsync`](crate::unsync).
//!
//! A transaction borrows its end of the queue, so there is one at a time and nothing else happens
//! meanwhile. Committing takes no count: it publishes what was begun, or less after
//! [`WriteTransaction::truncate`], and can't publish more. Dropping it publishes nothing.
//!
//! The slots stay shared memory. Nothing here hands out a reference to them: copy in, copy out, or
//! take the raw addresses of the two [`Slots`] regions and mind that a hostile peer may be writing
//! too. Validate copies, not slots.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::endpoint::Endpoint;
#[cfg(not(loom))]
use crate::memory::Region;
use crate::ring::{Quantum, Reading, Side, Writing};
use crate::{Consumer, Producer, QueueError};

/// An end whose slots can be claimed, and then published: both flavours, typed and erased.
pub(crate) trait Claims {
    /// Claims the next `bytes`.
    fn claim(&mut self, bytes: usize) -> Result<(), QueueError>;

    /// The regions of the next `bytes`: up to the ring's end, and from its start.
    #[cfg(not(loom))]
    fn regions(&self, bytes: usize) -> [Region; 2];

    /// Publishes the next `bytes`; of readers, frees their slots.
    ///
    /// # Errors
    /// Of readers of the unsynchronised flavour alone: what was copied is not to be used.
    ///
    /// # Safety
    /// As many are claimed.
    unsafe fn publish(&mut self, bytes: usize) -> Result<(), QueueError>;
}

/// A writing end.
pub(crate) trait Fills: Claims {
    /// Copies `items` to the bytes from `at` bytes after the next one on.
    ///
    /// # Safety
    /// `at + items.len()` bytes are claimed.
    unsafe fn fill(&self, at: usize, items: &[u8]);
}

/// A reading end.
pub(crate) trait Drains: Claims {
    /// Copies the bytes from `at` bytes after the next one on to `items`.
    ///
    /// # Safety
    /// `at + items.len()` bytes are claimed.
    unsafe fn drain(&self, at: usize, items: &mut [u8]);
}

impl<S: Side, Q: Quantum> Claims for Endpoint<S, Q> {
    #[inline(always)]
    fn claim(&mut self, bytes: usize) -> Result<(), QueueError> {
        self.cursor.claim(bytes)
    }

    #[cfg(not(loom))]
    fn regions(&self, bytes: usize) -> [Region; 2] {
        self.cursor.regions(bytes)
    }

    #[inline(always)]
    unsafe fn publish(&mut self, bytes: usize) -> Result<(), QueueError> {
        // SAFETY: as the caller's duty.
        unsafe { Self::publish(self, bytes) };
        Ok(())
    }
}

impl<Q: Quantum> Fills for Endpoint<Writing, Q> {
    #[inline(always)]
    unsafe fn fill(&self, at: usize, items: &[u8]) {
        // SAFETY: as the caller's duty.
        unsafe { self.cursor.fill(at, items) };
    }
}

impl<Q: Quantum> Drains for Endpoint<Reading, Q> {
    #[inline(always)]
    unsafe fn drain(&self, at: usize, items: &mut [u8]) {
        // SAFETY: as the caller's duty.
        unsafe { self.cursor.drain(at, items) };
    }
}

/// Adjacent slots in the ring. Empty ones have a valid address too.
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

    /// The number of slots.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    #[cfg(not(loom))]
    fn of(Region { address, bytes }: Region) -> Self {
        Self { address: address.cast(), count: bytes / size_of::<T>(), _txn: PhantomData }
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
pub struct WriteTransaction<'queue, T, E = Producer<T>> {
    /// `count` of its slots are claimed.
    end: &'queue mut E,
    count: usize,
    _items: PhantomData<fn(T)>,
}

#[expect(private_bounds, reason = "there are two writing ends, and nobody can add a third")]
impl<'queue, T: Pod, E: Fills> WriteTransaction<'queue, T, E> {
    #[inline]
    pub(crate) fn begin(end: &'queue mut E, count: usize) -> Result<Self, QueueError> {
        end.claim(count.saturating_mul(size_of::<T>()))?;
        Ok(Self { end, count, _items: PhantomData })
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
        unsafe { self.end.fill(at, bytemuck::cast_slice(items)) };
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

    /// The raw slots: those up to the ring's end, and those from its start.
    #[cfg(not(loom))]
    #[must_use]
    pub fn slots(&mut self) -> [Slots<'_, T>; 2] {
        self.end.regions(self.count * size_of::<T>()).map(Slots::of)
    }

    /// Publishes the slots, all at once, and announces them if the queue is a synchronised one.
    #[inline]
    pub fn commit(self) {
        // SAFETY: slots below `count` are claimed.
        let published = unsafe { self.end.publish(self.count * size_of::<T>()) };
        debug_assert_eq!(published, Ok(()), "a writer's publication does not fail");
    }
}

/// Slots that are being read.
///
/// Of a synchronised queue: the producer gets none of them back before the commit. Of an
/// unsynchronised one: the writer may overwrite them meanwhile, so what was copied out of them
/// counts only once the commit has returned `Ok`.
#[derive(Debug)]
#[must_use = "what is not committed is not taken, and of an unsynchronised queue may be torn"]
pub struct ReadTransaction<'queue, T, E = Consumer<T>> {
    /// `count` of its slots are claimed.
    end: &'queue mut E,
    count: usize,
    _items: PhantomData<fn() -> T>,
}

#[expect(private_bounds, reason = "there are two reading ends, and nobody can add a third")]
impl<'queue, T: Pod, E: Drains> ReadTransaction<'queue, T, E> {
    #[inline]
    pub(crate) fn begin(end: &'queue mut E, count: usize) -> Result<Self, QueueError> {
        end.claim(count.saturating_mul(size_of::<T>()))?;
        Ok(Self { end, count, _items: PhantomData })
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
        unsafe { self.end.drain(at, bytemuck::cast_slice_mut(items)) };
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

    /// The raw slots: those up to the ring's end, and those from its start. For reading; a reader
    /// of the unsynchronised flavour has them mapped read-only.
    #[cfg(not(loom))]
    #[must_use]
    pub fn slots(&self) -> [Slots<'_, T>; 2] {
        self.end.regions(self.count * size_of::<T>()).map(Slots::of)
    }

    #[inline]
    pub(crate) fn publish(self) -> Result<(), QueueError> {
        // SAFETY: slots below `count` are claimed.
        unsafe { self.end.publish(self.count * size_of::<T>()) }
    }
}

impl<T: Pod> ReadTransaction<'_, T> {
    /// Frees the slots, all at once, and announces that.
    #[inline]
    pub fn commit(self) {
        let freed = self.publish();
        debug_assert_eq!(freed, Ok(()), "what is claimed of a synchronised queue stays so");
    }
}

/// The byte at which slot `index` starts, if `items` slots from there on are among the first
/// `count`.
#[inline(always)]
fn within<T>(index: usize, items: usize, count: usize) -> Result<usize, QueueError> {
    match index.checked_add(items) {
        Some(end) if end <= count => Ok(index * size_of::<T>()),
        end => Err(QueueError::TooLarge { asked: end.unwrap_or(usize::MAX), capacity: count }),
    }
}
