//! Zero-copy transactions of the unsynchronised flavour; how they are used is as in
//! [`crate::WriteTransaction`] and [`crate::ReadTransaction`].

use bytemuck::Pod;

use super::{ReadCursor, WriteCursor};
use crate::QueueError;
use crate::ring::Of;
use crate::transaction::within;
#[cfg(not(loom))]
use crate::transaction::{Slots, slots};

/// Slots that are being written; readers see none of them before [`Self::commit`], and nothing any
/// more of what was there.
///
/// ```
/// # use nnburst_fmq::{Queue, unsync::Reader};
/// let mut writer = Queue::<u32>::builder(4).create_unsync()?;
/// let mut reader = Reader::<u32>::attach(writer.descriptor()?)?;
/// let mut slots = writer.write_transaction(2)?;
/// slots.copy_from(0, &[7, 8])?;
/// slots.commit();
/// let slots = reader.read_transaction(2)?;
/// let mut items = [0; 2];
/// slots.copy_to(0, &mut items)?;
/// slots.commit()?; // only now it is certain that the writer has overwritten neither
/// assert_eq!(items, [7, 8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "what is not committed is not published"]
pub struct WriteTransaction<'queue, T> {
    cursor: &'queue mut WriteCursor<Of<T>>,
    count: usize,
}

impl<'queue, T: Pod> WriteTransaction<'queue, T> {
    /// `count` items have been begun.
    pub(super) fn new(cursor: &'queue mut WriteCursor<Of<T>>, count: usize) -> Self {
        Self { cursor, count }
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
        // SAFETY: slots below `count` are begun, and `within` has checked that these are.
        unsafe { self.cursor.fill(at, bytemuck::cast_slice(items)) };
        Ok(())
    }

    /// Fills slot `index`.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] if there is no such slot.
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
        let runs = self.cursor.runs(self.count * size_of::<T>());
        slots(self.cursor.memory(), runs)
    }

    /// Publishes the slots, all at once.
    pub fn commit(self) {
        self.cursor.publish(self.count * size_of::<T>());
    }
}

/// Slots that are being read, while the writer may overwrite them: what was copied out of them
/// counts once [`Self::commit`] has vouched for it.
#[derive(Debug)]
#[must_use = "what is not committed is not taken, and may be torn"]
pub struct ReadTransaction<'queue, T> {
    cursor: &'queue mut ReadCursor<Of<T>>,
    count: usize,
}

impl<'queue, T: Pod> ReadTransaction<'queue, T> {
    /// `count` items have been begun.
    pub(super) fn new(cursor: &'queue mut ReadCursor<Of<T>>, count: usize) -> Self {
        Self { cursor, count }
    }

    /// Slots that a commit will take.
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
        // SAFETY: slots below `count` are begun, and `within` has checked that these are.
        unsafe { self.cursor.drain(at, bytemuck::cast_slice_mut(items)) };
        Ok(())
    }

    /// A copy of slot `index`.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] if there is no such slot.
    pub fn item(&self, index: usize) -> Result<T, QueueError> {
        let mut item = T::zeroed();
        self.copy_to(index, std::slice::from_mut(&mut item))?;
        Ok(item)
    }

    /// Keeps the first `count` slots, if there are more; the others stay to be read.
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// The raw slots: the run up to the ring's end, and the one from its start. They are mapped for
    /// reading only.
    #[cfg(not(loom))]
    #[must_use]
    pub fn slots(&self) -> [Slots<'_, T>; 2] {
        let runs = self.cursor.runs(self.count * size_of::<T>());
        slots(self.cursor.memory(), runs)
    }

    /// Moves on past the slots.
    ///
    /// # Errors
    /// [`QueueError::Lost`] if the writer has overwritten one of them meanwhile: what was copied
    /// means nothing then, and the next read goes on with the newer half of the history.
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the writer's counter is impossible.
    pub fn commit(self) -> Result<(), QueueError> {
        self.cursor.commit(self.count * size_of::<T>())
    }
}
