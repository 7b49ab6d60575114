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

mod unsync;

use crate::descriptor::{Descriptor, Flavor};
use crate::event_flag::{EventFlag, NOT_EMPTY, NOT_FULL, Notify};
use crate::layout::Style;
use crate::memory::Memory;
use crate::memory::mapping::{self, Access};
use crate::queue::{AttachOptions, Plan, expect_items};
use crate::ring::{Bytes, Counters, Cursor, Side};
pub use crate::ring::{Reading, Writing};
use crate::wait::{Bits, WaitOptions, Waiter};
use crate::{Cancel, PeerWatch, QueueError, SetupError};
pub use unsync::{Reader, Writer};

/// A synchronised queue of items of `quantum` bytes, which has not yet taken a side.
#[derive(Debug)]
pub struct Queue {
    memory: Memory,
    counters: Counters,
    quantum: usize,
    descriptor: Descriptor,
}

impl Queue {
    /// Begins a new queue of `capacity` items of `quantum` bytes.
    pub fn builder(capacity: usize, quantum: usize) -> QueueBuilder {
        let (style, options) = (Style::Spaced, AttachOptions::default());
        QueueBuilder {
            plan: Plan { capacity, quantum, event_flag: false, style, ring: None, options },
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

    /// What another process needs to attach; a copy, with file descriptors of its own.
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
        let Self { memory, counters: Counters { read, written }, quantum, .. } = self;
        End::new(memory, quantum, (written, read), Bits { wait: NOT_FULL, wake: NOT_EMPTY })
    }

    /// Makes this the reading end.
    #[must_use]
    pub fn into_consumer(self) -> Consumer {
        let Self { memory, counters: Counters { read, written }, quantum, .. } = self;
        End::new(memory, quantum, (read, written), Bits { wait: NOT_EMPTY, wake: NOT_FULL })
    }
}

/// What a new queue of bytes is to be like; see [`Queue::builder`], and for its settings
/// [`crate::QueueBuilder`].
#[derive(Debug)]
#[must_use]
pub struct QueueBuilder {
    plan: Plan,
}

impl QueueBuilder {
    /// Gives the queue an event-flag word, on which either end can sleep. By default there is none.
    pub fn event_flag(mut self, event_flag: bool) -> Self {
        self.plan.event_flag = event_flag;
        self
    }

    /// Lays the region out byte for byte as libfmq's own allocator does.
    pub fn packed(mut self) -> Self {
        self.plan.style = Style::Packed;
        self
    }

    /// Puts the ring into `file`, at its start, as libfmq does with a user's buffer.
    pub fn ring_in(mut self, file: std::os::fd::OwnedFd) -> Self {
        self.plan.style = Style::TwoFiles;
        self.plan.ring = Some(file);
        self
    }

    /// As [`AttachOptions::allow_unsealed`], for a file given to [`Self::ring_in`].
    pub fn allow_unsealed(mut self, allow: bool) -> Self {
        self.plan.options = self.plan.options.allow_unsealed(allow);
        self
    }

    /// Makes the queue in a sealed memfd.
    ///
    /// # Errors
    /// As [`QueueBuilder::create`](crate::QueueBuilder::create).
    pub fn create(self) -> Result<Queue, SetupError> {
        let quantum = self.plan.quantum;
        let (memory, descriptor) = self.plan.build(Flavor::Synchronized)?;
        Ok(Queue { memory, counters: Counters { read: 0, written: 0 }, quantum, descriptor })
    }

    /// Makes an unsynchronised queue, of which this is the writer.
    ///
    /// # Errors
    /// As [`QueueBuilder::create_unsync`](crate::QueueBuilder::create_unsync).
    pub fn create_unsync(self) -> Result<Writer, SetupError> {
        let quantum = self.plan.quantum;
        let (memory, descriptor) = self.plan.build(Flavor::Unsynchronized)?;
        Ok(Writer::fresh(memory, quantum, descriptor))
    }
}

/// The writing end of a queue of bytes.
pub type Producer = End<Writing>;
/// The reading end of a queue of bytes.
pub type Consumer = End<Reading>;

/// One end of a queue of bytes: a [`Producer`] or a [`Consumer`].
#[derive(Debug)]
#[expect(private_bounds, reason = "there are two sides, and nobody can add a third")]
pub struct End<S: Side> {
    cursor: Cursor<S, Bytes>,
    waiter: Waiter,
    /// Bytes of the transaction that is under way.
    begun: usize,
}

/// A run of adjacent slots: address and length in bytes.
pub type Run = (*mut u8, usize);

#[expect(private_bounds, reason = "as above")]
impl<S: Side> End<S> {
    fn new(memory: Memory, quantum: usize, (ours, peer): (u64, u64), bits: Bits) -> Self {
        let waiter = Waiter::new(&memory, bits, Notify::STRANGER);
        Self { cursor: Cursor::new(memory, Bytes(quantum), ours, peer), waiter, begun: 0 }
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

    /// Items that this end can write or read now, at most the capacity.
    ///
    /// # Errors
    /// [`QueueError::PeerLied`] or [`QueueError::Poisoned`] if the peer's counter is impossible.
    pub fn available(&mut self) -> Result<usize, QueueError> {
        self.cursor.usable()
    }

    /// Waits until this end can write or read `count` items.
    ///
    /// # Errors
    /// As [`Producer::write`](crate::Producer::write) and
    /// [`Consumer::read`](crate::Consumer::read).
    pub fn wait(&mut self, count: usize, wait: impl Into<WaitOptions>) -> Result<(), QueueError> {
        let bytes = count.saturating_mul(self.quantum());
        if self.cursor.has(bytes) {
            return Ok(());
        }
        match self.waiter.interrupted() {
            Err(QueueError::Cancelled) => return Err(QueueError::Cancelled),
            Err(error) if !S::OUTLIVES_PEER => return Err(error),
            _ => {}
        }
        match self.cursor.claim(bytes) {
            Err(QueueError::Full { .. } | QueueError::Empty { .. }) => {}
            claimed => return claimed,
        }
        let Self { cursor, waiter, .. } = self;
        waiter.wait_for(cursor, bytes, wait.into())
    }

    /// Begins a transaction over `count` items: the runs of slots up to the ring's end and from its
    /// start, valid until [`Self::commit`] or the end's drop. Another `begin` forgets this one.
    ///
    /// # Errors
    /// As [`Producer::try_write`](crate::Producer::try_write) and
    /// [`Consumer::try_read`](crate::Consumer::try_read).
    pub fn begin(&mut self, count: usize) -> Result<[Run; 2], QueueError> {
        self.begun = 0;
        let bytes = count.saturating_mul(self.quantum());
        self.cursor.claim(bytes)?;
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
        self.publish(bytes);
        Ok(())
    }

    /// A handle to the event-flag word, if the queue has one.
    #[must_use]
    pub fn event_flag(&self) -> Option<EventFlag> {
        self.waiter.event_flag()
    }

    /// Changes the bits that are waited for and set.
    pub fn set_bits(&mut self, bits: Bits) {
        self.waiter.set_bits(bits);
    }

    /// From now on this end sleeps and announces on another word than the queue's; the peer has to
    /// do so too.
    pub fn set_event_flag(&mut self, flag: &EventFlag) {
        self.waiter.set_event_flag(flag);
    }

    /// From now on `cancel` ends the waits of this end.
    pub fn set_cancel(&mut self, cancel: &Cancel) {
        self.waiter.interrupts().set_cancel(cancel);
    }

    /// From now on the peer's death ends the waits of this end.
    pub fn set_peer(&mut self, peer: &PeerWatch) {
        peer.attach(self.waiter.interrupts());
    }

    fn publish(&mut self, bytes: usize) {
        if bytes != 0 {
            self.cursor.publish(bytes);
            self.waiter.announce();
            self.cursor.settle(bytes);
        }
    }
}

impl Producer {
    /// Writes all of `items`, or nothing.
    ///
    /// # Errors
    /// As [`Producer::try_write`](crate::Producer::try_write), and [`QueueError::Uneven`].
    pub fn try_write(&mut self, items: &[u8]) -> Result<(), QueueError> {
        whole(items.len(), self.quantum())?;
        self.begun = 0;
        self.cursor.claim(items.len())?;
        // SAFETY: just claimed.
        unsafe { self.cursor.fill(0, items) };
        self.publish(items.len());
        Ok(())
    }

    /// Writes all of `items`, waiting for room.
    ///
    /// # Errors
    /// As [`Producer::write`](crate::Producer::write), and [`QueueError::Uneven`].
    pub fn write(&mut self, items: &[u8], wait: impl Into<WaitOptions>) -> Result<(), QueueError> {
        let count = whole(items.len(), self.quantum())?;
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
        whole(items.len(), self.quantum())?;
        self.begun = 0;
        self.cursor.claim(items.len())?;
        // SAFETY: just claimed.
        unsafe { self.cursor.drain(0, items) };
        self.publish(items.len());
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
        let count = whole(items.len(), self.quantum())?;
        self.wait(count, wait)?;
        self.try_read(items)
    }
}

/// Refuses buffers that are no whole number of items.
fn whole(bytes: usize, quantum: usize) -> Result<usize, QueueError> {
    if bytes.is_multiple_of(quantum) {
        Ok(bytes / quantum)
    } else {
        Err(QueueError::Uneven { bytes, quantum })
    }
}

/// The bytes of the first `count` items of a transaction of `begun` bytes.
fn committed(count: usize, begun: usize, quantum: usize) -> Result<usize, QueueError> {
    let bytes = count.saturating_mul(quantum);
    if bytes > begun {
        return Err(QueueError::TooLarge { asked: count, capacity: begun / quantum });
    }
    Ok(bytes)
}

/// Runs of the ring as addresses.
fn addresses(memory: &Memory, runs: [(usize, usize); 2]) -> [Run; 2] {
    // SAFETY: runs start within the ring.
    runs.map(|(at, bytes)| (unsafe { memory.slot(at) }, bytes))
}
