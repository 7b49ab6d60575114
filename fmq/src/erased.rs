//! Queues whose item size is known only at run time: items are runs of bytes. For bindings to other
//! languages, and for generic tools; libfmq has the like in `MQErased`.
//!
//! The rings, checks and waits are those of the typed ends. Transactions are begun and ended by
//! separate calls, since those for whom this is made can't hold a borrow; their end can't exceed
//! their beginning all the same.
//!
//! ```
//! use nnburst_fmq::{Wait, erased::Queue};
//!
//! let queue = Queue::builder(8, 3).event_flag(true).create()?; // 8 items of 3 bytes
//! let mut consumer = Queue::attach(queue.descriptor()?, 3)?.into_consumer();
//! let mut producer = queue.into_producer();
//! producer.write(b"abcdef", Wait::Block)?;
//! let mut items = [0; 6];
//! consumer.read(&mut items, Wait::Block)?;
//! assert_eq!(&items, b"abcdef");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::Deref;

use crate::descriptor::{Descriptor, Flavor};
use crate::endpoint::{Endpoint, Start};
use crate::event_flag::{EventFlag, Notify};
use crate::layout::Style;
use crate::memory::QueueMemory;
pub use crate::memory::Region;
use crate::memory::mapping::{self, Access};
use crate::queue::{AttachOptions, QueueSpec, expect_items};
use crate::ring::{ByteQuantum, Counters, Reading, Side, Writing};
use crate::transaction::Claims;
use crate::unsync::{ReadEnd, WriteEnd};
use crate::wait::{Bits, WaitOptions};
use crate::{Cancel, PeerWatch, QueueError, SetupError};

/// A synchronised queue of items of `quantum` bytes, which has not yet taken a side.
#[derive(Debug)]
pub struct Queue {
    memory: QueueMemory,
    counters: Counters,
    quantum: usize,
    descriptor: Descriptor,
}

impl Queue {
    /// Begins a new queue of `capacity` items of `quantum` bytes.
    pub fn builder(capacity: usize, quantum: usize) -> QueueBuilder {
        let (style, options) = (Style::Spaced, AttachOptions::default());
        QueueBuilder {
            spec: QueueSpec { capacity, quantum, event_flag: false, style, ring: None, options },
        }
    }

    /// Maps the queue that `descriptor` describes, trusting nothing in it: its items have to be of
    /// `quantum` bytes.
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
        expect_items(&descriptor, quantum, Flavor::Synchronized)?;
        let policy = options.policy(Access::ReadWrite);
        let memory = mapping::attach(&descriptor, quantum as u64, policy)?;
        options.reset_if_asked(&memory);
        let counters = Counters::of_queue(&memory, quantum)?;
        Ok(Self { memory, counters, quantum, descriptor })
    }

    /// A copy of the descriptor that another process needs to attach, with file descriptors of its
    /// own.
    ///
    /// # Errors
    /// [`SetupError::System`] if the files can't be duplicated.
    pub fn descriptor(&self) -> Result<Descriptor, SetupError> {
        self.descriptor.try_clone()
    }

    /// Bytes per item.
    #[must_use]
    pub fn quantum(&self) -> usize {
        self.quantum
    }

    /// Makes this the writing end.
    #[must_use]
    pub fn into_producer(self) -> Producer {
        let Counters { read, written } = self.counters;
        self.into_end(Start { ours: written, peer: read })
    }

    /// Makes this the reading end.
    #[must_use]
    pub fn into_consumer(self) -> Consumer {
        let Counters { read, written } = self.counters;
        self.into_end(Start { ours: read, peer: written })
    }

    fn into_end<S: Side>(self, start: Start) -> Bytewise<Endpoint<S, ByteQuantum>> {
        let Self { memory, quantum, .. } = self;
        let end = Endpoint::new(memory, ByteQuantum(quantum), start, Notify::UNKNOWN_PEER);
        Bytewise::new(end, quantum)
    }
}

/// Settings of a new queue of bytes; see [`Queue::builder`], and for what they mean
/// [`crate::QueueBuilder`].
#[derive(Debug)]
#[must_use]
pub struct QueueBuilder {
    spec: QueueSpec,
}

impl QueueBuilder {
    /// Gives the queue an event-flag word, on which either end can sleep. By default there is none.
    pub fn event_flag(mut self, event_flag: bool) -> Self {
        self.spec.event_flag = event_flag;
        self
    }

    /// Lays the region out byte for byte as libfmq's own allocator does.
    pub fn packed(mut self) -> Self {
        self.spec.style = Style::Packed;
        self
    }

    /// Puts the ring into `file`, at its start, as libfmq does with a user's buffer.
    pub fn ring_in(mut self, file: std::os::fd::OwnedFd) -> Self {
        self.spec.style = Style::TwoFiles;
        self.spec.ring = Some(file);
        self
    }

    /// As [`AttachOptions::allow_unsealed`], for a file given to [`Self::ring_in`].
    pub fn allow_unsealed(mut self, allow: bool) -> Self {
        self.spec.options = self.spec.options.allow_unsealed(allow);
        self
    }

    /// Makes the queue in a sealed memfd.
    ///
    /// # Errors
    /// As [`QueueBuilder::create`](crate::QueueBuilder::create).
    pub fn create(self) -> Result<Queue, SetupError> {
        let quantum = self.spec.quantum;
        let (memory, descriptor) = self.spec.build(Flavor::Synchronized)?;
        Ok(Queue { memory, counters: Counters { read: 0, written: 0 }, quantum, descriptor })
    }

    /// Makes an unsynchronised queue, of which this is the writer.
    ///
    /// # Errors
    /// As [`QueueBuilder::create_unsync`](crate::QueueBuilder::create_unsync).
    pub fn create_unsync(self) -> Result<Writer, SetupError> {
        let quantum = self.spec.quantum;
        let (memory, descriptor) = self.spec.build(Flavor::Unsynchronized)?;
        let end = WriteEnd::fresh(memory, ByteQuantum(quantum), descriptor);
        Ok(Bytewise::new(end, quantum))
    }
}

/// The writing end of a queue of bytes.
pub type Producer = Bytewise<Endpoint<Writing, ByteQuantum>>;
/// The reading end of a queue of bytes.
pub type Consumer = Bytewise<Endpoint<Reading, ByteQuantum>>;
/// The writing end of an unsynchronised queue of bytes; as
/// [`unsync::Writer`](crate::unsync::Writer).
pub type Writer = Bytewise<WriteEnd<ByteQuantum>>;
/// A reading end of an unsynchronised queue of bytes; as
/// [`unsync::Reader`](crate::unsync::Reader).
pub type Reader = Bytewise<ReadEnd<ByteQuantum>>;

/// An end of a queue of bytes.
#[derive(Debug)]
pub struct Bytewise<E> {
    end: E,
    quantum: usize,
    /// Bytes of the transaction that is under way: as many are claimed.
    begun: usize,
}

impl<E> Bytewise<E> {
    fn new(end: E, quantum: usize) -> Self {
        Self { end, quantum, begun: 0 }
    }

    /// Bytes per item.
    #[must_use]
    pub fn quantum(&self) -> usize {
        self.quantum
    }

    /// Items in a buffer, which must be a multiple of an item. Whatever the buffer is for, it
    /// ends the transaction that was under way.
    fn whole(&mut self, bytes: usize) -> Result<usize, QueueError> {
        self.begun = 0;
        if bytes.is_multiple_of(self.quantum) {
            Ok(bytes / self.quantum)
        } else {
            Err(QueueError::Uneven { bytes, quantum: self.quantum })
        }
    }
}

#[expect(private_bounds, reason = "there are four ends, and nobody can add a fifth")]
impl<E: Claims> Bytewise<E> {
    /// Begins a transaction over `count` items: the slots up to the ring's end and from its start,
    /// mapped as long as this end lives. Another `begin`, a read or a write forgets this one.
    ///
    /// Of an unsynchronised queue: what is begun to be written can't be read any more from here on;
    /// what is copied while reading, from memory that is mapped read-only, counts once
    /// [`Self::commit`] has returned `Ok`.
    ///
    /// # Errors
    /// Those of `try_write` and `try_read`, of this flavour and side.
    pub fn begin(&mut self, count: usize) -> Result<[Region; 2], QueueError> {
        self.begun = 0;
        let bytes = count.saturating_mul(self.quantum);
        self.end.claim(bytes)?;
        self.begun = bytes;
        Ok(self.end.regions(bytes))
    }

    /// Ends the transaction, publishing its first `count` items.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] for more items than were begun; the transaction goes on then. Of a
    /// [`Reader`] also those of an
    /// [`unsync::ReadTransaction`](crate::unsync::ReadTransaction), which end it.
    pub fn commit(&mut self, count: usize) -> Result<(), QueueError> {
        let bytes = count.saturating_mul(self.quantum);
        if bytes > self.begun {
            let capacity = self.begun / self.quantum;
            return Err(QueueError::TooLarge { asked: count, capacity });
        }
        self.begun = 0;
        // SAFETY: no more than was begun, and nothing was published since.
        unsafe { self.end.publish(bytes) }
    }
}

/// For reading alone: whoever could exchange the end would leave this one with claims of another.
impl<E> Deref for Bytewise<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.end
    }
}

#[expect(private_bounds, reason = "there are two sides, and nobody can add a third")]
impl<S: Side> Bytewise<Endpoint<S, ByteQuantum>> {
    /// Items that this end can write or read now, at most the capacity.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the peer's counter is impossible.
    pub fn available(&mut self) -> Result<usize, QueueError> {
        self.end.cursor.usable()
    }

    /// Waits until this end can write or read `count` items.
    ///
    /// # Errors
    /// As [`Producer::write`](crate::Producer::write) and
    /// [`Consumer::read`](crate::Consumer::read).
    pub fn wait(&mut self, count: usize, wait: impl Into<WaitOptions>) -> Result<(), QueueError> {
        let bytes = count.saturating_mul(self.quantum);
        if self.end.cursor.has(bytes) {
            return Ok(());
        }
        self.end.await_claim(bytes, wait.into())
    }

    /// As [`Endpoint::set_bits`].
    pub fn set_bits(&mut self, bits: Bits) {
        self.end.set_bits(bits);
    }

    /// As [`Endpoint::set_event_flag`].
    pub fn set_event_flag(&mut self, flag: &EventFlag) {
        self.end.set_event_flag(flag);
    }

    /// As [`Endpoint::set_cancel`].
    pub fn set_cancel(&mut self, cancel: &Cancel) {
        self.end.set_cancel(cancel);
    }

    /// As [`Endpoint::set_peer`].
    pub fn set_peer(&mut self, peer: &PeerWatch) {
        self.end.set_peer(peer);
    }
}

impl Producer {
    /// Writes all of `items`, or nothing.
    ///
    /// # Errors
    /// As [`Producer::try_write`](crate::Producer::try_write), and [`QueueError::Uneven`].
    pub fn try_write(&mut self, items: &[u8]) -> Result<(), QueueError> {
        self.whole(items.len())?;
        self.end.cursor.claim(items.len())?;
        // SAFETY: just claimed.
        unsafe { self.end.cursor.fill(0, items) };
        // SAFETY: just claimed, and filled.
        unsafe { self.end.publish(items.len()) };
        Ok(())
    }

    /// Writes all of `items`, waiting for room.
    ///
    /// # Errors
    /// As [`Producer::write`](crate::Producer::write), and [`QueueError::Uneven`].
    pub fn write(&mut self, items: &[u8], wait: impl Into<WaitOptions>) -> Result<(), QueueError> {
        let count = self.whole(items.len())?;
        self.wait(count, wait)?;
        self.try_write(items)
    }
}

impl Consumer {
    /// Fills all of `items`, or reads nothing.
    ///
    /// # Errors
    /// As [`Consumer::try_read`](crate::Consumer::try_read), and [`QueueError::Uneven`].
    pub fn try_read(&mut self, items: &mut [u8]) -> Result<(), QueueError> {
        self.whole(items.len())?;
        self.end.cursor.claim(items.len())?;
        // SAFETY: just claimed.
        unsafe { self.end.cursor.drain(0, items) };
        // SAFETY: just claimed, and copied.
        unsafe { self.end.publish(items.len()) };
        Ok(())
    }

    /// Fills all of `items`, waiting for them.
    ///
    /// # Errors
    /// As [`Consumer::read`](crate::Consumer::read), and [`QueueError::Uneven`].
    pub fn read(
        &mut self,
        items: &mut [u8],
        wait: impl Into<WaitOptions>,
    ) -> Result<(), QueueError> {
        let count = self.whole(items.len())?;
        self.wait(count, wait)?;
        self.try_read(items)
    }
}

impl Writer {
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
        WriteEnd::attach_to(descriptor, ByteQuantum(quantum), options)
            .map(|end| Self::new(end, quantum))
    }

    /// Writes all of `items`, over the oldest ones if need be.
    ///
    /// # Errors
    /// As [`unsync::Writer::try_write`](crate::unsync::Writer::try_write), and
    /// [`QueueError::Uneven`].
    pub fn try_write(&mut self, items: &[u8]) -> Result<(), QueueError> {
        self.whole(items.len())?;
        self.end.write_bytes(items)
    }
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
        ReadEnd::attach_to(&descriptor, ByteQuantum(quantum), options)
            .map(|end| Self::new(end, quantum))
    }

    /// Items that can be read now, at most the capacity; after an overflow, what its report will
    /// leave.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the writer's counter is impossible.
    pub fn available(&mut self) -> Result<usize, QueueError> {
        self.end.available_to_read()
    }

    /// Fills all of `items`, or reads nothing.
    ///
    /// # Errors
    /// As [`unsync::Reader::try_read`](crate::unsync::Reader::try_read), and
    /// [`QueueError::Uneven`].
    pub fn try_read(&mut self, items: &mut [u8]) -> Result<(), QueueError> {
        self.whole(items.len())?;
        self.end.read_bytes(items)
    }
}
