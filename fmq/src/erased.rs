//! Queues whose item size is known only at run time: items are runs of bytes. For bindings to other languages, and for
//! generic tools; libfmq has the like in `MQErased`.
//!
//! The rings, checks and waits are those of the typed ends. Transactions are begun and ended by separate calls, since
//! those for whom this is made can't hold a borrow; their end can't exceed their beginning all the same.
//!
//! ```
//! use nnburst_fmq::{Wait, erased::Queue};
//!
//! let queue = Queue::create(8, 3, true)?; // 8 items of 3 bytes, with an event flag
//! let mut consumer = Queue::attach(queue.descriptor()?)?.into_consumer();
//! let mut producer = queue.into_producer();
//! producer.write(b"abcdef", Wait::Block)?;
//! let mut items = [0; 6];
//! consumer.read(&mut items, Wait::Block)?;
//! assert_eq!(&items, b"abcdef");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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

/// A synchronised queue of items of `quantum` bytes, which has not yet taken a side.
#[derive(Debug)]
pub struct Queue {
    memory: Memory,
    counters: Counters,
    quantum: usize,
    descriptor: Descriptor,
}

impl Queue {
    /// Makes a queue of `capacity` items of `quantum` bytes in a sealed memfd.
    ///
    /// # Errors
    /// As [`QueueBuilder::create`](crate::QueueBuilder::create).
    pub fn create(capacity: usize, quantum: usize, event_flag: bool) -> Result<Self, SetupError> {
        let (style, options) = (Style::Spaced, AttachOptions::default());
        let plan = Plan { capacity, quantum, event_flag, style, ring: None, options };
        let (memory, descriptor) = plan.build(Flavor::Synchronized)?;
        Ok(Self { memory, counters: Counters { read: 0, written: 0 }, quantum, descriptor })
    }

    /// Maps the queue that `descriptor` describes, taking the item's size from it and trusting nothing.
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
        let quantum = descriptor.data.quantum as usize;
        expect_items(&descriptor, quantum, Flavor::Synchronized)?;
        let policy = options.policy(Access::ReadWrite);
        let memory = mapping::attach(&descriptor, quantum as u64, policy)?;
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
    /// As [`Producer::write`](crate::Producer::write) and [`Consumer::read`](crate::Consumer::read).
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

    /// Begins a transaction over `count` items: the runs of slots up to the ring's end and from its start, valid until
    /// [`Self::commit`] or the end's drop. Another `begin` forgets this one.
    ///
    /// # Errors
    /// As [`Producer::try_write`](crate::Producer::try_write) and [`Consumer::try_read`](crate::Consumer::try_read).
    pub fn begin(&mut self, count: usize) -> Result<[Run; 2], QueueError> {
        self.begun = 0;
        let bytes = count.saturating_mul(self.quantum());
        self.cursor.claim(bytes)?;
        self.begun = bytes;
        let memory = self.cursor.memory();
        // SAFETY: runs start within the ring.
        Ok(self.cursor.runs(bytes).map(|(at, bytes)| (unsafe { memory.slot(at) }, bytes)))
    }

    /// Ends the transaction, publishing its first `count` items.
    ///
    /// # Errors
    /// [`QueueError::TooLarge`] for more items than were begun; the transaction goes on then.
    pub fn commit(&mut self, count: usize) -> Result<(), QueueError> {
        let bytes = count.saturating_mul(self.quantum());
        if bytes > self.begun {
            let capacity = self.begun / self.quantum();
            return Err(QueueError::TooLarge { asked: count, capacity });
        }
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

    /// From now on this end sleeps and announces on another word than the queue's; the peer has to do so too.
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

    /// Refuses buffers that are no whole number of items.
    fn whole(&self, bytes: usize) -> Result<usize, QueueError> {
        let quantum = self.quantum();
        if bytes.is_multiple_of(quantum) {
            Ok(bytes / quantum)
        } else {
            Err(QueueError::Uneven { bytes, quantum })
        }
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
        self.whole(items.len())?;
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
        let count = self.whole(items.len())?;
        self.wait(count, wait)?;
        self.try_read(items)
    }
}
