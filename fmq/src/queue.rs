//! [`Queue`]: memory that is mapped and checked, before it becomes an end.

use std::marker::PhantomData;

use bytemuck::Pod;
#[cfg(not(loom))]
use nix::fcntl::SealFlag;

use crate::descriptor::Descriptor;
#[cfg(not(loom))]
use crate::descriptor::{DescriptorData, Flavor};
use crate::endpoint::Start;
use crate::event_flag::{EventFlag, Notify};
use crate::interrupt::Interrupts;
use crate::layout::{self, Style};
#[cfg(not(loom))]
use crate::memory::mapping::{self, Access, Policy};
use crate::memory::{QueueMemory, heap};
use crate::ring::{Counters, Of};
#[cfg(not(loom))]
use crate::sync::Ordering;
#[cfg(not(loom))]
use crate::unsync;
use crate::{Consumer, Producer, SetupError};

/// A queue of `T` in this process's address space, which has not yet taken a side.
///
/// One process makes it with [`Self::builder`] and sends the [`Self::descriptor`]; the other
/// attaches with [`Self::attach`]. Then each becomes one end. Attaching never resets the counters,
/// so an end that is replaced (its process was restarted, say) goes on where the last one stopped.
///
/// `T` is plain data of at most 8-byte alignment in the ring; 16 works in libfmq's layout and ours.
#[derive(Debug)]
pub struct Queue<T> {
    memory: QueueMemory,
    counters: Counters,
    /// The descriptor that others need to attach; absent for a queue that was attached to.
    #[cfg(not(loom))]
    descriptor: Option<Descriptor>,
    _items: PhantomData<fn() -> T>,
}

impl<T: Pod> Queue<T> {
    /// Begins a new queue of `capacity` items; any number but 0.
    pub fn builder(capacity: usize) -> QueueBuilder<T> {
        QueueBuilder::new(capacity)
    }

    /// The queue at its start: counters zero.
    fn fresh(memory: QueueMemory) -> Self {
        Self {
            memory,
            counters: Counters { read: 0, written: 0 },
            #[cfg(not(loom))]
            descriptor: None,
            _items: PhantomData,
        }
    }

    /// Makes this the writing end.
    #[must_use]
    pub fn into_producer(self) -> Producer<T> {
        let Counters { read, written } = self.counters;
        let start = Start { ours: written, peer: read };
        Producer::new(self.memory, Of::NEW, start, Notify::UNKNOWN_PEER)
    }

    /// Makes this the reading end.
    #[must_use]
    pub fn into_consumer(self) -> Consumer<T> {
        let Counters { read, written } = self.counters;
        let start = Start { ours: read, peer: written };
        Consumer::new(self.memory, Of::NEW, start, Notify::UNKNOWN_PEER)
    }

    /// Makes both ends, for two threads of this process.
    #[must_use]
    pub fn split(self) -> (Producer<T>, Consumer<T>) {
        let Counters { read, written } = self.counters;
        let memory = self.memory.clone();
        let start = Start { ours: written, peer: read };
        let producer = Producer::new(memory, Of::NEW, start, Notify::Look);
        let start = Start { ours: read, peer: written };
        (producer, Consumer::new(self.memory, Of::NEW, start, Notify::Look))
    }

    /// A handle to the event-flag word, if the queue has one.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.memory.flag().map(|flag| EventFlag::new(flag, Interrupts::default()))
    }

    /// Items the queue holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.ring_bytes() / size_of::<T>()
    }
}

#[cfg(not(loom))]
impl<T: Pod> Queue<T> {
    /// Maps the queue that `descriptor` describes, trusting nothing in it. See
    /// [`Self::attach_with`] for what is checked.
    ///
    /// # Errors
    /// [`SetupError`] naming the rule that is broken.
    pub fn attach(descriptor: Descriptor) -> Result<Self, SetupError> {
        Self::attach_with(descriptor, AttachOptions::default())
    }

    /// [`Self::attach`] with exceptions.
    ///
    /// Checked are: flavour and quantum; number of grantors; per grantor the file's index, an
    /// offset that is a multiple of 8, an extent long enough and not absurd; a ring of a whole
    /// number of items; no two parts on the same bytes, also through two descriptors of one file;
    /// seals, then each part's end against the file's size; and counters that are whole items apart
    /// and at most the ring's size.
    ///
    /// # Errors
    /// [`SetupError`] naming the rule that is broken.
    pub fn attach_with(descriptor: Descriptor, options: AttachOptions) -> Result<Self, SetupError> {
        expect_items(&descriptor, size_of::<T>(), Flavor::Synchronized)?;
        let policy = options.policy(Access::ReadWrite);
        let memory = mapping::attach(&descriptor, size_of::<T>() as u64, policy)?;
        options.reset_if_asked(&memory);
        let counters = Counters::of_queue(&memory, size_of::<T>())?;
        Ok(Self { memory, counters, descriptor: Some(descriptor), _items: PhantomData })
    }

    /// A copy of the descriptor that another process needs to attach, with file descriptors of its
    /// own.
    ///
    /// # Errors
    /// [`SetupError::Private`] for a queue in private memory, [`SetupError::System`] if the files
    /// can't be duplicated.
    pub fn descriptor(&self) -> Result<Descriptor, SetupError> {
        self.descriptor.as_ref().ok_or(SetupError::Private)?.try_clone()
    }
}

/// Compares what a descriptor says of itself with what the caller expects.
#[cfg(not(loom))]
pub(crate) fn expect_items(
    descriptor: &Descriptor,
    quantum: usize,
    flavor: Flavor,
) -> Result<(), SetupError> {
    let data = &descriptor.data;
    if quantum == 0 {
        return Err(SetupError::ItemSize { bytes: 0 });
    }
    if data.flags != flavor as u32 {
        return Err(SetupError::Flavor { flags: i64::from(data.flags), wanted: flavor as u32 });
    }
    let (theirs, ours) = (u64::from(data.quantum), quantum as u64);
    if theirs == ours { Ok(()) } else { Err(SetupError::Quantum { theirs, ours }) }
}

/// Exceptions from the rules of attaching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AttachOptions {
    allow_unsealed: bool,
    reset_counters: bool,
}

impl AttachOptions {
    /// Also maps files that are not sealed against shrinking and can't be: ashmem, files on disk,
    /// memfds made without sealing. By default they are refused.
    ///
    /// Whoever holds such a file can shorten it, and then this process gets `SIGBUS` at its next
    /// access. Allow it for peers that you trust that far, or with a handler for that signal.
    pub fn allow_unsealed(mut self, allow: bool) -> Self {
        self.allow_unsealed = allow;
        self
    }

    /// Puts both counters to zero first, whatever they were: the queue is empty then. For the owner
    /// of a queue, who knows that nobody is attached to it: an end that is would take it for a lie
    /// of its peer. Readers of the unsynchronised flavour reset nothing.
    pub fn reset_counters(mut self, reset: bool) -> Self {
        self.reset_counters = reset;
        self
    }

    /// `memory` can be written.
    #[cfg(not(loom))]
    pub(crate) fn reset_if_asked(self, memory: &QueueMemory) {
        if self.reset_counters {
            // Relaxed, both: nobody else is there to see it.
            memory.read().store(0, Ordering::Relaxed);
            memory.written().store(0, Ordering::Relaxed);
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn policy(self, access: Access) -> Policy {
        Policy { access, allow_unsealed: self.allow_unsealed }
    }
}

/// Settings of a new queue; see [`Queue::builder`].
#[derive(Debug)]
#[must_use]
pub struct QueueBuilder<T> {
    capacity: usize,
    event_flag: bool,
    #[cfg_attr(loom, expect(dead_code, reason = "a model has one layout"))]
    style: Style,
    #[cfg(not(loom))]
    ring: Option<std::os::fd::OwnedFd>,
    #[cfg(not(loom))]
    options: AttachOptions,
    _items: PhantomData<fn() -> T>,
}

impl<T: Pod> QueueBuilder<T> {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            event_flag: false,
            style: Style::Spaced,
            #[cfg(not(loom))]
            ring: None,
            #[cfg(not(loom))]
            options: AttachOptions::default(),
            _items: PhantomData,
        }
    }

    /// Gives the queue an event-flag word, on which either end can sleep. By default there is none.
    pub fn event_flag(mut self, event_flag: bool) -> Self {
        self.event_flag = event_flag;
        self
    }

    /// A pair of ends in private memory, for two threads of this process: no file, no descriptor.
    ///
    /// # Errors
    /// [`SetupError::NoCapacity`], [`SetupError::ItemSize`] or [`SetupError::TooLarge`].
    pub fn pair(self) -> Result<(Producer<T>, Consumer<T>), SetupError> {
        let bytes = layout::ring_bytes(self.capacity, size_of::<T>())?;
        let memory = heap::memory(crate::ring::usize_of(bytes), size_of::<T>(), self.event_flag)?;
        Ok(Queue::fresh(memory).split())
    }
}

/// Methods that a model has instead of files and a second process: the descriptor carries the
/// memory itself.
#[cfg(loom)]
impl<T: Pod> QueueBuilder<T> {
    /// As the native one makes it.
    ///
    /// # Errors
    /// As [`Self::pair`].
    pub fn create(self) -> Result<Queue<T>, SetupError> {
        let bytes = layout::ring_bytes(self.capacity, size_of::<T>())?;
        let memory = heap::memory(crate::ring::usize_of(bytes), size_of::<T>(), self.event_flag)?;
        Ok(Queue::fresh(memory))
    }

    /// An unsynchronised writer and a reader of it.
    ///
    /// # Errors
    /// As [`Self::pair`].
    pub fn pair_unsync(
        self,
    ) -> Result<(crate::unsync::Writer<T>, crate::unsync::Reader<T>), SetupError> {
        let bytes = layout::ring_bytes(self.capacity, size_of::<T>())?;
        let memory = heap::racy(crate::ring::usize_of(bytes), size_of::<T>());
        Ok(crate::unsync::pair(memory))
    }
}

#[cfg(loom)]
impl<T: Pod> Queue<T> {
    /// Looks at the counters as the native one does.
    ///
    /// # Errors
    /// [`SetupError::Private`] for a descriptor of no queue, [`SetupError::Counters`] if they make
    /// no sense.
    pub fn attach(descriptor: Descriptor) -> Result<Self, SetupError> {
        let memory = descriptor.memory.ok_or(SetupError::Private)?;
        let counters = Counters::of_queue(&memory, size_of::<T>())?;
        Ok(Self { memory, counters, _items: PhantomData })
    }

    /// The descriptor that another side needs to attach.
    ///
    /// # Errors
    /// None in a model.
    pub fn descriptor(&self) -> Result<Descriptor, SetupError> {
        Ok(Descriptor { memory: Some(self.memory.clone()), ..Descriptor::default() })
    }
}

#[cfg(not(loom))]
impl<T: Pod> QueueBuilder<T> {
    /// Lays the region out byte for byte as libfmq's own allocator does, instead of giving each
    /// counter cache lines of its own. Any libfmq peer reads either; this is for those that ignore
    /// the grantors.
    pub fn packed(mut self) -> Self {
        self.style = Style::Packed;
        self
    }

    /// Puts the ring into `file`, at its start, as libfmq does with a user's buffer; counters and
    /// flag get a file of their own, in libfmq's places. The file must be long enough, and sealable
    /// against shrinking unless [`Self::allow_unsealed`].
    pub fn ring_in(mut self, file: std::os::fd::OwnedFd) -> Self {
        self.style = Style::TwoFiles;
        self.ring = Some(file);
        self
    }

    /// As [`AttachOptions::allow_unsealed`], for a file given to [`Self::ring_in`].
    pub fn allow_unsealed(mut self, allow: bool) -> Self {
        self.options = self.options.allow_unsealed(allow);
        self
    }

    /// Makes the queue in a memfd, sealed against shrinking, growing and further seals.
    ///
    /// # Errors
    /// [`SetupError::NoCapacity`], [`SetupError::ItemSize`] or [`SetupError::TooLarge`] for
    /// impossible sizes; [`SetupError::PastEnd`] or [`SetupError::Unsealed`] for a ring's file that
    /// will not do; [`SetupError::System`].
    pub fn create(self) -> Result<Queue<T>, SetupError> {
        let (memory, descriptor) = self.build(Flavor::Synchronized)?;
        Ok(Queue { descriptor: Some(descriptor), ..Queue::fresh(memory) })
    }

    /// Makes an unsynchronised queue: its writer overwrites what its readers were too slow for.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_unsync(self) -> Result<unsync::Writer<T>, SetupError> {
        let (memory, descriptor) = self.build(Flavor::Unsynchronized)?;
        Ok(unsync::Writer::fresh(memory, Of::NEW, descriptor))
    }

    fn build(self, flavor: Flavor) -> Result<(QueueMemory, Descriptor), SetupError> {
        let Self { capacity, event_flag, style, ring, options, _items } = self;
        let spec =
            QueueSpec { capacity, quantum: size_of::<T>(), event_flag, style, ring, options };
        spec.build(flavor)
    }
}

/// A new queue, whatever its items are called.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct QueueSpec {
    pub(crate) capacity: usize,
    pub(crate) quantum: usize,
    pub(crate) event_flag: bool,
    pub(crate) style: Style,
    pub(crate) ring: Option<std::os::fd::OwnedFd>,
    pub(crate) options: AttachOptions,
}

#[cfg(not(loom))]
impl QueueSpec {
    /// Lays out, allocates and maps.
    pub(crate) fn build(self, flavor: Flavor) -> Result<(QueueMemory, Descriptor), SetupError> {
        let Self { capacity, quantum, event_flag, style, ring, options } = self;
        let ring_bytes = layout::ring_bytes(capacity, quantum)?;
        let arrangement = layout::arrange(style, ring_bytes, event_flag)?;
        let seals = match flavor {
            Flavor::Synchronized => SealFlag::F_SEAL_SEAL,
            // Room for one more: against future writers.
            Flavor::Unsynchronized => SealFlag::empty(),
        };
        let mut fds = vec![mapping::create(arrangement.bytes, seals)?];
        fds.extend(ring);
        let quantum =
            u32::try_from(quantum).map_err(|_| SetupError::ItemSize { bytes: quantum })?;
        let flags = flavor as u32;
        let data = DescriptorData { grantors: arrangement.grantors, quantum, flags };
        let descriptor = Descriptor { data, fds };
        // Through the same checks as another process's descriptor: the ring's file is the user's.
        let policy = options.policy(Access::ReadWrite);
        let memory = mapping::attach(&descriptor, u64::from(quantum), policy)?;
        Ok((memory, descriptor))
    }
}
