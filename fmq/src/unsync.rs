//! The unsynchronised flavour: one [`Writer`] that never waits, any number of [`Reader`]s that learn what they missed.
//!
//! Each reader has a private cursor; the writer knows of none. When a reader falls more than a ring behind, its next
//! read reports how many items it lost, and the one after goes on with the newer half of the history (as libfmq since
//! 2024): a reader that started at the very oldest item would lose it again at once.
//!
//! # A slot may be overwritten while it is read
//!
//! So a read copies first and then asks whether what it copied was still in place, as a seqlock does. The write counter
//! alone can't tell, since slots are overwritten before it moves. libfmq leaves the shared read counter unused in this
//! flavour; our writer says there up to where it is about to overwrite, before it does:
//!
//! | edge      | writer                                      | reader                                         |
//! |-----------|---------------------------------------------|------------------------------------------------|
//! | `publish` | items; `written` Release                    | `written` Acquire; items                       |
//! | `doom`    | `read` Relaxed; fence Release; items        | items; fence Acquire; `read` and `written`     |
//!
//! A reader that has seen a byte of a new item sees the doom that went before it, and drops its copy. With libfmq's
//! writer, which does not say it, a read of the oldest items can be torn, there as here.
//!
//! Readers map the memory read-only, and [`Writer::seal_future_writes`] makes the kernel insist on that.

use std::marker::PhantomData;

use bytemuck::Pod;
#[cfg(not(loom))]
use rustix::fs::SealFlags;

use crate::descriptor::Descriptor;
#[cfg(not(loom))]
use crate::descriptor::Flavor;
use crate::event_flag::EventFlag;
use crate::interrupt::Interrupts;
use crate::memory::Memory;
#[cfg(not(loom))]
use crate::memory::mapping::{self, Access};
#[cfg(not(loom))]
use crate::queue::{AttachOptions, expect_items};
use crate::ring::{put, take, usize_of};
use crate::sync::{Ordering, fence};
use crate::{Lie, LieKind, QueueError, SetupError};

/// The writing end of an unsynchronised queue; made by [`QueueBuilder::create_unsync`](crate::QueueBuilder::create_unsync).
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
#[derive(Debug)]
pub struct Writer<T> {
    memory: Memory,
    descriptor: Descriptor,
    written: u64,
    position: usize,
    _items: PhantomData<fn(T)>,
}

#[cfg(not(loom))]
impl<T: Pod> Writer<T> {
    /// Attaches as the writer, going on where the last one stopped.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    pub fn attach(descriptor: Descriptor) -> Result<Self, SetupError> {
        Self::attach_with(descriptor, AttachOptions::default())
    }

    /// [`Self::attach`] with exceptions.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    pub fn attach_with(descriptor: Descriptor, options: AttachOptions) -> Result<Self, SetupError> {
        let memory = attach::<T>(&descriptor, options, Access::ReadWrite)?;
        // Relaxed: nothing that the last writer did is relied on.
        let written = memory.written().load(Ordering::Relaxed);
        let ring_bytes = memory.ring_bytes() as u64;
        if !written.is_multiple_of(size_of::<T>() as u64) {
            return Err(SetupError::Counters { read: 0, written, ring_bytes });
        }
        let position = usize_of(written % ring_bytes);
        Ok(Self { memory, descriptor, written, position, _items: PhantomData })
    }

    /// Forbids everyone to map the memory for writing from now on; this end's own mapping stays writable.
    ///
    /// # Errors
    /// [`SetupError::System`] if a file can't be sealed so (Linux before 5.1, or no memfd).
    pub fn seal_future_writes(&self) -> Result<(), SetupError> {
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        self.descriptor.fds.iter().try_for_each(|fd| {
            rustix::fs::fcntl_add_seals(fd, seals)
                .map_err(|source| SetupError::System { call: "fcntl(F_ADD_SEALS)", source })
        })
    }
}

impl<T: Pod> Writer<T> {
    pub(crate) fn fresh(memory: Memory, descriptor: Descriptor) -> Self {
        Self { memory, descriptor, written: 0, position: 0, _items: PhantomData }
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.ring_bytes() / size_of::<T>()
    }

    /// What readers need to attach; a copy, with file descriptors of its own.
    ///
    /// # Errors
    /// [`SetupError::System`] if the files can't be duplicated.
    pub fn descriptor(&self) -> Result<Descriptor, SetupError> {
        self.descriptor.try_clone()
    }

    /// Writes all of `items`, over the oldest ones if need be. Never waits, and wakes nobody: this flavour has no
    /// blocking reads (an event flag, if there is one, is for bits of your own).
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] for more items than the queue holds.
    pub fn try_write(&mut self, items: &[T]) -> Result<(), QueueError> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        let ring_bytes = self.memory.ring_bytes();
        if bytes.len() > ring_bytes {
            let capacity = self.capacity();
            return Err(QueueError::TooLarge { asked: items.len(), capacity });
        }
        let written = self.written.wrapping_add(bytes.len() as u64);
        // edge doom (writer): what lies a ring before `written` is about to be overwritten. Nothing is in the first lap.
        if let Some(doomed) = written.checked_sub(ring_bytes as u64) {
            self.memory.read().store(doomed, Ordering::Relaxed);
            fence(Ordering::Release);
        }
        // SAFETY: the position is in the ring, the items are no more than it, and the writer owns every slot; readers
        // drop what they copied from slots that were doomed.
        unsafe { put(&self.memory, self.position, bytes) };
        let end = self.position + bytes.len();
        self.position = if end >= ring_bytes { end - ring_bytes } else { end };
        self.written = written;
        // edge publish (release): pairs with `Reader::look`.
        self.memory.written().store(written, Ordering::Release);
        Ok(())
    }

    /// Writes one item.
    ///
    /// # Errors
    /// None: a queue holds at least one item.
    pub fn try_push(&mut self, item: T) -> Result<(), QueueError> {
        self.try_write(std::slice::from_ref(&item))
    }

    /// A handle to the event-flag word, if the queue has one.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.memory.flag().map(|flag| EventFlag::new(flag, Interrupts::default()))
    }
}

/// A reading end of an unsynchronised queue, with a cursor of its own. It maps the memory read-only.
#[derive(Debug)]
pub struct Reader<T> {
    memory: Memory,
    read: u64,
    /// The write counter as last seen.
    written: u64,
    lie: Option<Lie>,
    _items: PhantomData<fn() -> T>,
}

#[cfg(not(loom))]
impl<T: Pod> Reader<T> {
    /// Attaches as one more reader, at the beginning of the history: if part of it is gone already, the first read
    /// reports that as lost.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    pub fn attach(descriptor: Descriptor) -> Result<Self, SetupError> {
        Self::attach_with(descriptor, AttachOptions::default())
    }

    /// [`Self::attach`] with exceptions.
    ///
    /// # Errors
    /// As [`Queue::attach`](crate::Queue::attach).
    #[expect(clippy::needless_pass_by_value, reason = "as other ends; the mapping needs no files")]
    pub fn attach_with(descriptor: Descriptor, options: AttachOptions) -> Result<Self, SetupError> {
        let memory = attach::<T>(&descriptor, options, Access::ReadOnly)?;
        Ok(Self { memory, read: 0, written: 0, lie: None, _items: PhantomData })
    }
}

impl<T: Pod> Reader<T> {
    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.ring_bytes() / size_of::<T>()
    }

    /// Items that can be read now, at most the capacity; after an overflow, what its report will leave.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the writer's counter is impossible.
    pub fn available_to_read(&mut self) -> Result<usize, QueueError> {
        let ahead = self.look()?;
        let kept = if ahead > self.ring_bytes() { self.half() } else { ahead };
        Ok(usize_of(kept) / size_of::<T>())
    }

    /// Fills all of `items`, or reads nothing.
    ///
    /// # Errors
    /// [`QueueError::Empty`] if there are not that many now, [`QueueError::TooLarge`] if there never are,
    /// [`QueueError::Lost`] once after the writer has overtaken this reader (what `items` holds then means nothing),
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the writer's counter is impossible.
    pub fn try_read(&mut self, items: &mut [T]) -> Result<(), QueueError> {
        let asked = items.len();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(items);
        if bytes.len() > self.memory.ring_bytes() {
            return Err(QueueError::TooLarge { asked, capacity: self.capacity() });
        }
        let ahead = self.look()?;
        if ahead > self.ring_bytes() {
            return Err(self.lose(0));
        }
        if bytes.len() as u64 > ahead {
            let available = usize_of(ahead) / size_of::<T>();
            return Err(QueueError::Empty { asked, available });
        }
        let start = usize_of(self.read % self.ring_bytes());
        // SAFETY: the start is in the ring and the items are no more than it. The writer may overwrite them meanwhile:
        // then `bytes` holds a mixture, and is not vouched for below.
        unsafe { take(&self.memory, start, bytes) };
        self.still_there()?;
        self.read = self.read.wrapping_add(bytes.len() as u64);
        Ok(())
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

    fn ring_bytes(&self) -> u64 {
        self.memory.ring_bytes() as u64
    }

    /// Bytes of the half of the history that is kept after an overflow, in whole items.
    fn half(&self) -> u64 {
        (self.capacity() / 2 * size_of::<T>()) as u64
    }

    /// How far the writer is ahead, in bytes: more than the ring after an overflow.
    fn look(&mut self) -> Result<u64, QueueError> {
        if let Some(lie) = self.lie {
            return Err(QueueError::Poisoned(lie));
        }
        // edge publish (acquire): pairs with `Writer::try_write`; the items below are visible from here on.
        let seen = self.memory.written().load(Ordering::Acquire);
        let ahead = seen.wrapping_sub(self.read);
        if ahead < self.written.wrapping_sub(self.read) {
            return Err(self.poison(LieKind::Backwards, seen));
        }
        if !ahead.is_multiple_of(size_of::<T>() as u64) {
            return Err(self.poison(LieKind::Misaligned, seen));
        }
        self.written = seen;
        Ok(ahead)
    }

    /// Whether what was just copied, from `read` on, had not been overwritten.
    fn still_there(&mut self) -> Result<(), QueueError> {
        // edge doom (reader): the copy must not pass the look at what is doomed.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        let doomed = self.memory.read().load(Ordering::Relaxed);
        let ahead = self.look()?;
        // libfmq's writer leaves the word alone: 0, behind everyone.
        let gone = doomed.wrapping_sub(self.read);
        let overtaken = gone != 0 && gone <= ahead;
        if ahead > self.ring_bytes() || overtaken {
            return Err(self.lose(if overtaken { gone } else { 0 }));
        }
        Ok(())
    }

    /// Moves on to the newer half of the history, past at least `gone` bytes.
    fn lose(&mut self, gone: u64) -> QueueError {
        let ahead = self.written.wrapping_sub(self.read);
        let skipped = ahead.saturating_sub(self.half()).max(gone);
        // Whole items, whatever the doomed counter said.
        let quantum = size_of::<T>() as u64;
        let lost = skipped.div_ceil(quantum);
        self.read = self.read.wrapping_add(lost.saturating_mul(quantum));
        QueueError::Lost { lost }
    }

    #[cold]
    fn poison(&mut self, kind: LieKind, seen: u64) -> QueueError {
        let lie = Lie { kind, seen, ours: self.read, ring_bytes: self.ring_bytes() };
        self.lie = Some(lie);
        QueueError::PeerLied(lie)
    }
}

#[cfg(not(loom))]
fn attach<T: Pod>(
    descriptor: &Descriptor,
    options: AttachOptions,
    access: Access,
) -> Result<Memory, SetupError> {
    expect_items(descriptor, size_of::<T>(), Flavor::Unsynchronized)?;
    mapping::attach(descriptor, size_of::<T>() as u64, options.policy(access))
}

/// A writer and a reader of it, for models.
#[cfg(loom)]
pub(crate) fn pair<T: Pod>(memory: Memory) -> (Writer<T>, Reader<T>) {
    let reader =
        Reader { memory: memory.clone(), read: 0, written: 0, lie: None, _items: PhantomData };
    (Writer::fresh(memory, Descriptor::default()), reader)
}
