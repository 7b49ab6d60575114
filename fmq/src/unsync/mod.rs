//! The unsynchronised flavour: one [`Writer`] that never waits, any number of [`Reader`]s that
//! learn what they missed.
//!
//! Each reader has a private cursor; the writer knows of none. When a reader falls more than a ring
//! behind, its next read reports how many items it lost, and the one after goes on with the newer
//! half of the history (as libfmq since 2024): a reader that started at the very oldest item would
//! lose it again at once.
//!
//! # A slot may be overwritten while it is read
//!
//! So a read copies first and then asks whether what it copied was still in place, as a seqlock
//! does. The write counter alone can't tell, since slots are overwritten before it moves. The
//! shared read counter, which this flavour has no other use for, says it: before a batch is
//! written, its end is put there. libfmq's writers do the same since 2025, so either side may be
//! one of them:
//!
//! | edge | writer | reader |
//! |---|---|---|
//! | `publish` | items; `written` Release | `written` Acquire; items |
//! | `doom` | `read` Relaxed; fence Release; items | items; fence Acquire; `read` and `written` |
//!
//! A reader that has seen a byte of a new item sees the doom that went before it, and drops its
//! copy. The mark never goes back: a writer that follows one that died in mid batch takes it over,
//! so that what the dead one wrote and never published is not read as something older. With an
//! older libfmq's writer, which makes no mark, a read of the oldest items can be torn, there as
//! here.
//!
//! Readers map the memory read-only, and [`Writer::seal_future_writes`] makes the kernel insist on
//! that.

mod cursor;

#[cfg(not(loom))]
use std::os::fd::AsFd;

use bytemuck::Pod;
#[cfg(not(loom))]
use nix::fcntl::SealFlag;

use crate::descriptor::Descriptor;
#[cfg(not(loom))]
use crate::descriptor::Flavor;
use crate::event_flag::EventFlag;
use crate::interrupt::Interrupts;
use crate::memory::QueueMemory;
#[cfg(not(loom))]
use crate::memory::mapping::{self, Access};
#[cfg(not(loom))]
use crate::queue::{AttachOptions, expect_items};
use crate::ring::Of;
use crate::{QueueError, SetupError};

#[cfg(not(loom))]
use crate::memory::Region;
use crate::ring::Quantum;
#[cfg(not(loom))]
use crate::sys::failed;
use crate::transaction::{self, Claims, Drains, Fills};
use cursor::{ReadCursor, WriteCursor};

/// The writing end of an unsynchronised queue; made by
/// [`QueueBuilder::create_unsync`](crate::QueueBuilder::create_unsync).
///
/// ```
/// use nnburst_fmq::{Queue, QueueError, unsync::Reader};
///
/// let mut writer = Queue::<u32>::builder(4).create_unsync()?;
/// let mut reader = Reader::<u32>::attach(writer.descriptor()?)?;
/// writer.try_write(&[1, 2, 3])?;
/// assert_eq!(reader.try_pop()?, 1);
/// writer.try_write(&[4, 5, 6])?; // overwrites 2, which the reader has not seen
/// assert_eq!(reader.try_pop(), Err(QueueError::Lost { lost: 3 }));
/// assert_eq!(reader.try_pop()?, 5); // the newer half of the history
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Writer<T> = WriteEnd<Of<T>>;

/// The writing end of an unsynchronised queue, with items whose size `Q` knows.
#[derive(Debug)]
pub struct WriteEnd<Q> {
    cursor: WriteCursor<Q>,
    descriptor: Descriptor,
}

#[expect(private_bounds, reason = "there are two quanta, and nobody can add a third")]
impl<Q: Quantum> WriteEnd<Q> {
    pub(crate) fn fresh(memory: QueueMemory, quantum: Q, descriptor: Descriptor) -> Self {
        Self { cursor: WriteCursor::fresh(memory, quantum), descriptor }
    }

    #[cfg(not(loom))]
    pub(crate) fn attach_to(
        descriptor: Descriptor,
        quantum: Q,
        options: AttachOptions,
    ) -> Result<Self, SetupError> {
        let memory = attach(&descriptor, quantum.bytes(), options, Access::ReadWrite)?;
        Ok(Self { cursor: WriteCursor::attach(memory, quantum)?, descriptor })
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cursor.ring().capacity()
    }

    /// A copy of the descriptor that readers need to attach, with file descriptors of its own.
    ///
    /// # Errors
    /// [`SetupError::System`] if the files can't be duplicated.
    pub fn descriptor(&self) -> Result<Descriptor, SetupError> {
        self.descriptor.try_clone()
    }

    /// A handle to the event-flag word, if the queue has one.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.cursor.ring().memory.flag().map(|flag| EventFlag::new(flag, Interrupts::default()))
    }

    /// Forbids everyone to map the memory for writing from now on; this end's own mapping stays
    /// writable.
    ///
    /// # Errors
    /// [`SetupError::System`] if a file can't be sealed so (Linux before 5.1, or no memfd).
    #[cfg(not(loom))]
    pub fn seal_future_writes(&self) -> Result<(), SetupError> {
        let seals = SealFlag::F_SEAL_FUTURE_WRITE | SealFlag::F_SEAL_SEAL;
        let seal = |fd| mapping::add_seals(fd, seals).map_err(failed("fcntl(F_ADD_SEALS)"));
        self.descriptor.fds.iter().map(AsFd::as_fd).try_for_each(seal)
    }

    /// Writes all of `bytes`, a multiple of an item, over the oldest ones if need be.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), QueueError> {
        self.cursor.begin(bytes.len())?;
        // SAFETY: just begun.
        unsafe { self.cursor.fill(0, bytes) };
        // SAFETY: just begun.
        unsafe { self.cursor.publish(bytes.len()) };
        Ok(())
    }
}

impl<T: Pod> WriteEnd<Of<T>> {
    /// Attaches as the writer, going on where the last one stopped.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    #[cfg(not(loom))]
    pub fn attach(descriptor: Descriptor) -> Result<Self, SetupError> {
        Self::attach_with(descriptor, AttachOptions::default())
    }

    /// [`Self::attach`] with exceptions.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    #[cfg(not(loom))]
    pub fn attach_with(descriptor: Descriptor, options: AttachOptions) -> Result<Self, SetupError> {
        Self::attach_to(descriptor, Of::NEW, options)
    }

    /// As the native one does; in a model a descriptor has the memory itself.
    ///
    /// # Errors
    /// [`SetupError::Private`] for a descriptor of no queue, [`SetupError::Counters`] if they make
    /// no sense.
    #[cfg(loom)]
    pub fn attach(descriptor: Descriptor) -> Result<Self, SetupError> {
        let memory = descriptor.memory.clone().ok_or(SetupError::Private)?;
        Ok(Self { cursor: WriteCursor::attach(memory, Of::NEW)?, descriptor })
    }

    /// Writes all of `items`, over the oldest ones if need be. Never waits, and wakes nobody: this
    /// flavour has no blocking reads (an event flag, if there is one, is for bits of your own).
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] for more items than the queue holds.
    pub fn try_write(&mut self, items: &[T]) -> Result<(), QueueError> {
        self.write_bytes(bytemuck::cast_slice(items))
    }

    /// Writes one item.
    ///
    /// # Errors
    /// None: a queue holds at least one item.
    pub fn try_push(&mut self, item: T) -> Result<(), QueueError> {
        self.try_write(std::slice::from_ref(&item))
    }

    /// Begins to write `count` items in place; see [`WriteTransaction`]. From here on, committed or
    /// not, readers take nothing any more from the slots that they go over.
    ///
    /// # Errors
    /// As [`Self::try_write`].
    pub fn write_transaction(
        &mut self,
        count: usize,
    ) -> Result<WriteTransaction<'_, T>, QueueError> {
        WriteTransaction::begin(self, count)
    }
}

/// A reading end of an unsynchronised queue, with a cursor of its own. It maps the memory
/// read-only.
pub type Reader<T> = ReadEnd<Of<T>>;

/// A reading end of an unsynchronised queue, with items whose size `Q` knows.
#[derive(Debug)]
pub struct ReadEnd<Q> {
    cursor: ReadCursor<Q>,
}

#[expect(private_bounds, reason = "there are two quanta, and nobody can add a third")]
impl<Q: Quantum> ReadEnd<Q> {
    #[cfg(not(loom))]
    pub(crate) fn attach_to(
        descriptor: &Descriptor,
        quantum: Q,
        options: AttachOptions,
    ) -> Result<Self, SetupError> {
        let memory = attach(descriptor, quantum.bytes(), options, Access::ReadOnly)?;
        Ok(Self { cursor: ReadCursor::new(memory, quantum) })
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cursor.ring().capacity()
    }

    /// Items that can be read now, at most the capacity; after an overflow, what its report will
    /// leave.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the writer's counter is impossible.
    pub fn available_to_read(&mut self) -> Result<usize, QueueError> {
        self.cursor.available()
    }

    /// Fills all of `bytes`, a multiple of an item, or reads nothing.
    pub(crate) fn read_bytes(&mut self, bytes: &mut [u8]) -> Result<(), QueueError> {
        self.cursor.begin(bytes.len())?;
        // SAFETY: just begun.
        unsafe { self.cursor.drain(0, bytes) };
        self.cursor.commit(bytes.len())
    }
}

impl<T: Pod> ReadEnd<Of<T>> {
    /// Attaches as one more reader, at the beginning of the history: if part of it is gone already,
    /// the first read reports that as lost.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    #[cfg(not(loom))]
    pub fn attach(descriptor: Descriptor) -> Result<Self, SetupError> {
        Self::attach_with(descriptor, AttachOptions::default())
    }

    /// [`Self::attach`] with exceptions.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    #[cfg(not(loom))]
    #[expect(clippy::needless_pass_by_value, reason = "as other ends; the mapping needs no files")]
    pub fn attach_with(descriptor: Descriptor, options: AttachOptions) -> Result<Self, SetupError> {
        Self::attach_to(&descriptor, Of::NEW, options)
    }

    /// Fills all of `items`, or reads nothing.
    ///
    /// # Errors
    /// [`QueueError::Empty`] if there are not that many now, [`QueueError::TooLarge`] if there
    /// never are, [`QueueError::Lost`] once after the writer has overtaken this reader (what
    /// `items` holds then means nothing), [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if
    /// the writer's counter is impossible.
    pub fn try_read(&mut self, items: &mut [T]) -> Result<(), QueueError> {
        self.read_bytes(bytemuck::cast_slice_mut(items))
    }

    /// Reads one item.
    ///
    /// # Errors
    /// As [`Self::try_read`].
    pub fn try_pop(&mut self) -> Result<T, QueueError> {
        let mut item = T::zeroed();
        self.try_read(std::slice::from_mut(&mut item))?;
        Ok(item)
    }

    /// Begins to read `count` items in place; see [`ReadTransaction`].
    ///
    /// # Errors
    /// As [`Self::try_read`].
    pub fn read_transaction(&mut self, count: usize) -> Result<ReadTransaction<'_, T>, QueueError> {
        ReadTransaction::begin(self, count)
    }
}

/// Slots that are being written; readers see none of them before the commit, and nothing any more
/// of what was there. See [`crate::WriteTransaction`].
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
pub type WriteTransaction<'queue, T> = transaction::WriteTransaction<'queue, T, Writer<T>>;

/// Slots that are being read, while the writer may overwrite them. See [`crate::ReadTransaction`].
pub type ReadTransaction<'queue, T> = transaction::ReadTransaction<'queue, T, Reader<T>>;

impl<T: Pod> ReadTransaction<'_, T> {
    /// Moves on past the slots.
    ///
    /// # Errors
    /// [`QueueError::Lost`] if the writer has overwritten one of them meanwhile: what was copied
    /// means nothing then, and the next read goes on with the newer half of the history.
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the writer's counter is impossible.
    pub fn commit(self) -> Result<(), QueueError> {
        self.publish()
    }
}

impl<Q: Quantum> Claims for WriteEnd<Q> {
    fn claim(&mut self, bytes: usize) -> Result<(), QueueError> {
        self.cursor.begin(bytes)
    }

    #[cfg(not(loom))]
    fn regions(&self, bytes: usize) -> [Region; 2] {
        self.cursor.regions(bytes)
    }

    unsafe fn publish(&mut self, bytes: usize) -> Result<(), QueueError> {
        // SAFETY: as the caller's duty.
        unsafe { self.cursor.publish(bytes) };
        Ok(())
    }
}

impl<Q: Quantum> Fills for WriteEnd<Q> {
    unsafe fn fill(&self, at: usize, items: &[u8]) {
        // SAFETY: as the caller's duty.
        unsafe { self.cursor.fill(at, items) };
    }
}

impl<Q: Quantum> Claims for ReadEnd<Q> {
    fn claim(&mut self, bytes: usize) -> Result<(), QueueError> {
        self.cursor.begin(bytes)
    }

    #[cfg(not(loom))]
    fn regions(&self, bytes: usize) -> [Region; 2] {
        self.cursor.regions(bytes)
    }

    unsafe fn publish(&mut self, bytes: usize) -> Result<(), QueueError> {
        self.cursor.commit(bytes)
    }
}

impl<Q: Quantum> Drains for ReadEnd<Q> {
    unsafe fn drain(&self, at: usize, items: &mut [u8]) {
        // SAFETY: as the caller's duty.
        unsafe { self.cursor.drain(at, items) };
    }
}

/// Checks and maps a queue of this flavour.
#[cfg(not(loom))]
fn attach(
    descriptor: &Descriptor,
    quantum: usize,
    options: AttachOptions,
    access: Access,
) -> Result<QueueMemory, SetupError> {
    expect_items(descriptor, quantum, Flavor::Unsynchronized)?;
    let memory = mapping::attach(descriptor, quantum as u64, options.policy(access))?;
    if access == Access::ReadWrite {
        options.reset_if_asked(&memory);
    }
    Ok(memory)
}

/// A writer and a reader of it, for models.
#[cfg(loom)]
pub(crate) fn pair<T: Pod>(memory: QueueMemory) -> (Writer<T>, Reader<T>) {
    let reader = ReadEnd { cursor: ReadCursor::new(memory.clone(), Of::NEW) };
    let descriptor = Descriptor { memory: Some(memory.clone()), ..Descriptor::default() };
    (WriteEnd::fresh(memory, Of::NEW, descriptor), reader)
}
