//! What ends a wait from outside the queue: cancellation, and the death of the peer.
//!
//! Both are a [`Signal`]: an atomic that every wait looks at on each turn (no system call, a line of this process that
//! nobody writes), and a list of the sleepers to rouse when it is raised.
//!
//! A sleeper sleeps on the queue's own event-flag word, as libfmq's protocol demands, so it is roused by setting the
//! bits it waits for: for the peer that is one more spurious bit, which the protocol allows. The hand-over is a store
//! buffer pattern again (edge `rouse`): the sleeper stores its mask, fences, looks at the signal; the raiser stores the
//! signal, fences, looks at the mask. One of them sees the other.

use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

use crate::memory::Memory;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, fence, lock};

/// One endpoint of a queue as those see it who may have to rouse it.
#[derive(Debug)]
pub(crate) struct Sleeper {
    memory: Memory,
    /// The bits this endpoint waits for while it sleeps or is about to; 0 while it is awake.
    waiting_for: AtomicU32,
}

impl Sleeper {
    pub(crate) fn new(memory: &Memory) -> Arc<Self> {
        Arc::new(Self { memory: memory.clone(), waiting_for: AtomicU32::new(0) })
    }

    /// Tells raisers that a sleep may begin. A fence must follow before the signals are looked at.
    pub(crate) fn announce(&self, mask: NonZeroU32) {
        // Relaxed: the fence that follows (edge rouse) orders it against the look at the signals.
        self.waiting_for.store(mask.get(), Ordering::Relaxed);
    }

    pub(crate) fn awake(&self) {
        // Relaxed: a raiser that misses it sets a bit too many, which is harmless.
        self.waiting_for.store(0, Ordering::Relaxed);
    }

    fn rouse(&self) {
        // Relaxed: ordered by the raiser's fence (edge rouse).
        let mask = NonZeroU32::new(self.waiting_for.load(Ordering::Relaxed));
        if let (Some(mask), Some(word)) = (mask, self.memory.flag()) {
            // A sleeper that has not gone to sleep yet finds the word changed; one that sleeps is woken.
            // Relaxed: the raiser's fence goes before it, and the sleeper's after it has found the bit.
            word.fetch_or(mask.get(), Ordering::Relaxed);
            word.wake(mask);
        }
    }
}

/// Something that happens once, and that waits look at.
#[derive(Debug)]
pub(crate) struct Signal {
    raised: AtomicBool,
    sleepers: Mutex<Vec<Weak<Sleeper>>>,
}

impl Signal {
    pub(crate) fn new() -> Self {
        Self { raised: AtomicBool::new(false), sleepers: Mutex::new(Vec::new()) }
    }

    #[inline(always)]
    pub(crate) fn is_raised(&self) -> bool {
        // Acquire: who learns of a death or a cancellation sees what its raiser did before.
        self.raised.load(Ordering::Acquire)
    }

    /// From now on every wait that looks finds it raised, and those that sleep are woken to look.
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        // edge rouse (raiser): the store must not pass the look at who sleeps.
        fence(Ordering::SeqCst);
        for sleeper in lock(&self.sleepers).iter().filter_map(Weak::upgrade) {
            sleeper.rouse();
        }
    }

    pub(crate) fn lower(&self) {
        // Relaxed: that waits are allowed again hands nothing over.
        self.raised.store(false, Ordering::Relaxed);
    }

    /// Adds an endpoint to those that are roused. One that is attached after the signal was raised sees it by itself.
    pub(crate) fn attach(&self, sleeper: &Arc<Sleeper>) {
        let mut sleepers = lock(&self.sleepers);
        sleepers.retain(|known| known.strong_count() > 0);
        sleepers.push(Arc::downgrade(sleeper));
    }
}

/// Ends the waits of the queues it is attached to: for tearing down, from any thread of this process.
///
/// Cheap to clone; all clones are the same handle. Attach it with
/// [`Producer::set_cancel`](crate::Producer::set_cancel) and [`Consumer::set_cancel`](crate::Consumer::set_cancel), to
/// as many queues as one teardown concerns.
///
/// ```
/// use nnburst_fmq::{Cancel, Queue, QueueError, Wait};
///
/// let (_producer, mut consumer) = Queue::<u64>::builder(4).event_flag(true).pair()?;
/// let cancel = Cancel::new();
/// consumer.set_cancel(&cancel);
/// let waiter = std::thread::spawn(move || consumer.read(&mut [0], Wait::Block));
/// cancel.cancel();
/// assert_eq!(waiter.join().unwrap(), Err(QueueError::Cancelled));
/// # Ok::<(), nnburst_fmq::SetupError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cancel {
    signal: Arc<Signal>,
}

impl Cancel {
    /// A handle that is attached to nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { signal: Arc::new(Signal::new()) }
    }

    /// Ends present and future waits with [`QueueError::Cancelled`](crate::QueueError::Cancelled).
    /// The `try_` forms go on working.
    pub fn cancel(&self) {
        self.signal.raise();
    }

    /// Allows waits again.
    pub fn reset(&self) {
        self.signal.lower();
    }

    /// Whether waits end at once.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.signal.is_raised()
    }

    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
