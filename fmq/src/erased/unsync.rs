//! The unsynchronised flavour over bytes; see [`crate::unsync`].

use super::{Run, addresses, committed, whole};
use crate::descriptor::Descriptor;
use crate::event_flag::EventFlag;
use crate::interrupt::Interrupts;
use crate::memory::Memory;
use crate::memory::mapping::Access;
use crate::queue::AttachOptions;
use crate::ring::Bytes;
use crate::unsync::{ReadCursor, WriteCursor, attach, seal_future_writes};
use crate::{QueueError, SetupError};

/// The writing end of an unsynchronised queue of bytes; as
/// [`unsync::Writer`](crate::unsync::Writer).
#[derive(Debug)]
pub struct Writer {
    cursor: WriteCursor<Bytes>,
    descriptor: Descriptor,
    /// Bytes of the transaction that is under way.
    begun: usize,
}

impl Writer {
    pub(super) fn fresh(memory: Memory, quantum: usize, descriptor: Descriptor) -> Self {
        Self { cursor: WriteCursor::fresh(memory, Bytes(quantum)), descriptor, begun: 0 }
    }

    /// Attaches as the writer of items of `quantum` bytes, going on where the last one stopped.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    pub fn attach(descriptor: Descriptor, quantum: usize) -> Result<Self, SetupError> {
        Self::attach_with(descriptor, quantum, AttachOptions::default())
    }

    /// [`Self::attach`] with exceptions.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    pub fn attach_with(
        descriptor: Descriptor,
        quantum: usize,
        options: AttachOptions,
    ) -> Result<Self, SetupError> {
        let memory = attach(&descriptor, quantum, options, Access::ReadWrite)?;
        Ok(Self { cursor: WriteCursor::attach(memory, Bytes(quantum))?, descriptor, begun: 0 })
    }

    /// As [`unsync::Writer::seal_future_writes`](crate::unsync::Writer::seal_future_writes).
    ///
    /// # Errors
    /// As there.
    pub fn seal_future_writes(&self) -> Result<(), SetupError> {
        seal_future_writes(&self.descriptor)
    }

    /// What readers need to attach; a copy, with file descriptors of its own.
    ///
    /// # Errors
    /// [`SetupError::System`] if the files can't be duplicated.
    pub fn descriptor(&self) -> Result<Descriptor, SetupError> {
        self.descriptor.try_clone()
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cursor.capacity()
    }

    /// Bytes per item.
    #[must_use]
    pub fn quantum(&self) -> usize {
        self.cursor.quantum()
    }

    /// A handle to the event-flag word, if the queue has one.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.cursor.memory().flag().map(|flag| EventFlag::new(flag, Interrupts::default()))
    }

    /// Writes all of `items`, over the oldest ones if need be.
    ///
    /// # Errors
    /// As [`unsync::Writer::try_write`](crate::unsync::Writer::try_write), and
    /// [`QueueError::Uneven`].
    pub fn try_write(&mut self, items: &[u8]) -> Result<(), QueueError> {
        whole(items.len(), self.quantum())?;
        self.begun = 0;
        self.cursor.begin(items.len())?;
        // SAFETY: just begun.
        unsafe { self.cursor.fill(0, items) };
        self.cursor.publish(items.len());
        Ok(())
    }

    /// Begins a transaction over `count` items, as [`End::begin`](super::End::begin).
    ///
    /// # Errors
    /// As [`unsync::Writer::try_write`](crate::unsync::Writer::try_write).
    pub fn begin(&mut self, count: usize) -> Result<[Run; 2], QueueError> {
        self.begun = 0;
        let bytes = count.saturating_mul(self.quantum());
        self.cursor.begin(bytes)?;
        self.begun = bytes;
        Ok(addresses(self.cursor.memory(), self.cursor.runs(bytes)))
    }

    /// Ends the transaction, publishing its first `count` items.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] for more items than were begun; the transaction goes on then.
    pub fn commit(&mut self, count: usize) -> Result<(), QueueError> {
        let bytes = committed(count, self.begun, self.quantum())?;
        self.begun = 0;
        self.cursor.publish(bytes);
        Ok(())
    }
}

/// A reading end of an unsynchronised queue of bytes; as [`unsync::Reader`](crate::unsync::Reader).
#[derive(Debug)]
pub struct Reader {
    cursor: ReadCursor<Bytes>,
    /// Bytes of the transaction that is under way.
    begun: usize,
}

impl Reader {
    /// Attaches as one more reader, of items of `quantum` bytes.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    pub fn attach(descriptor: Descriptor, quantum: usize) -> Result<Self, SetupError> {
        Self::attach_with(descriptor, quantum, AttachOptions::default())
    }

    /// [`Self::attach`] with exceptions.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    #[expect(clippy::needless_pass_by_value, reason = "as other ends; the mapping needs no files")]
    pub fn attach_with(
        descriptor: Descriptor,
        quantum: usize,
        options: AttachOptions,
    ) -> Result<Self, SetupError> {
        let memory = attach(&descriptor, quantum, options, Access::ReadOnly)?;
        Ok(Self { cursor: ReadCursor::new(memory, Bytes(quantum)), begun: 0 })
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cursor.capacity()
    }

    /// Bytes per item.
    #[must_use]
    pub fn quantum(&self) -> usize {
        self.cursor.quantum()
    }

    /// Items that can be read now, at most the capacity; after an overflow, what its report will
    /// leave.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the writer's counter is impossible.
    pub fn available(&mut self) -> Result<usize, QueueError> {
        self.cursor.available()
    }

    /// Fills all of `items`, or reads nothing.
    ///
    /// # Errors
    /// As [`unsync::Reader::try_read`](crate::unsync::Reader::try_read), and
    /// [`QueueError::Uneven`].
    pub fn try_read(&mut self, items: &mut [u8]) -> Result<(), QueueError> {
        whole(items.len(), self.quantum())?;
        self.begun = 0;
        self.cursor.begin(items.len())?;
        // SAFETY: just begun.
        unsafe { self.cursor.drain(0, items) };
        self.cursor.commit(items.len())
    }

    /// Begins a transaction over `count` items. The memory is mapped for reading only, and the
    /// writer may overwrite it meanwhile: what is copied counts once [`Self::commit`] has returned
    /// `Ok`.
    ///
    /// # Errors
    /// As [`unsync::Reader::try_read`](crate::unsync::Reader::try_read).
    pub fn begin(&mut self, count: usize) -> Result<[Run; 2], QueueError> {
        self.begun = 0;
        let bytes = count.saturating_mul(self.quantum());
        self.cursor.begin(bytes)?;
        self.begun = bytes;
        Ok(addresses(self.cursor.memory(), self.cursor.runs(bytes)))
    }

    /// Ends the transaction, moving on past its first `count` items.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] for more items than were begun; the transaction goes on then. Else
    /// as [`unsync::ReadTransaction::commit`](crate::unsync::ReadTransaction::commit), which ends
    /// it.
    pub fn commit(&mut self, count: usize) -> Result<(), QueueError> {
        let bytes = committed(count, self.begun, self.quantum())?;
        self.begun = 0;
        self.cursor.commit(bytes)
    }
}
