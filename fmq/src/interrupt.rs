//! Ends of a wait from outside the queue: cancellation, and the death of the peer.
//!
//! Both are a [`Signal`]: a word of this process that pollers look at every few microseconds (no
//! system call, and a line that nobody writes), and on which sleepers sleep beside the queue's
//! event flag (`futex_waitv`). So a raised signal wakes whoever sleeps, by memory that no peer can
//! reach: one that changes the flag's bits, or moves its sleepers to another futex, hides nothing.
//!
//! | edge | raiser | who waits |
//! |---|---|---|
//! | `raised` | store of the word; Release | load, Acquire; what the raiser did before is visible |
//! | `rouse` | store of the word; wake | the kernel compares the word and sleeps in one step |

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::QueueError;
use crate::sync::{FutexWord, Ordering};

/// Something that happens once, and that waits look at.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// 1 once it is raised, else 0.
    raised: FutexWord,
}

impl Signal {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[inline(always)]
    pub(crate) fn is_raised(&self) -> bool {
        // Acquire: who learns of a death or a cancellation sees what its raiser did before.
        self.raised.load(Ordering::Acquire) != 0
    }

    /// From now on every wait that looks finds it raised, and those that sleep are woken to look.
    pub(crate) fn raise(&self) {
        self.raised.store(1, Ordering::Release);
        // edge rouse: the kernel orders the store before its search for sleepers.
        self.raised.wake_threads();
    }

    pub(crate) fn lower(&self) {
        // Relaxed: that waits are allowed again hands nothing over.
        self.raised.store(0, Ordering::Relaxed);
    }

    /// The word that is 0 until the signal is raised, to sleep on.
    pub(crate) fn word(&self) -> &FutexWord {
        &self.raised
    }
}

/// The signals that may end the waits of one end, or of one handle to an event flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts {
    cancel: Option<Arc<Signal>>,
    death: Option<Death>,
}

/// The signal of a peer's death, and who looks for it.
#[derive(Clone, Debug)]
struct Death {
    signal: Arc<Signal>,
    watch: Arc<dyn Watching>,
}

/// A watch: somebody looks for a death as long as it lives.
pub(crate) trait Watching: Send + Sync + fmt::Debug {
    /// Sees to it that somebody looks in this process: a fork leaves the watching threads behind.
    /// Returns whether somebody does.
    fn follow_fork(&self) -> bool;
}

impl Interrupts {
    pub(crate) fn set_cancel(&mut self, cancel: &Cancel) {
        self.cancel = Some(Arc::clone(&cancel.signal));
    }

    /// `watch` is held as long as `signal` is looked at.
    pub(crate) fn set_death(&mut self, signal: &Arc<Signal>, watch: Arc<dyn Watching>) {
        self.death = Some(Death { signal: Arc::clone(signal), watch });
    }

    /// To be called where a wait begins. Returns whether a death will be noticed.
    #[inline]
    pub(crate) fn follow_fork(&self) -> bool {
        self.death.as_ref().is_none_or(|death| death.watch.follow_fork())
    }

    /// [`QueueError::Cancelled`] or [`QueueError::PeerDied`], if one is the case.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), QueueError> {
        if self.cancel.as_ref().is_some_and(|signal| signal.is_raised()) {
            return Err(QueueError::Cancelled);
        }
        if self.death.as_ref().is_some_and(|death| death.signal.is_raised()) {
            return Err(QueueError::PeerDied);
        }
        Ok(())
    }

    /// Sleeps until `word` is not `expected`, a wake of it meets `mask`, one of the signals is
    /// raised, the deadline, or for no reason.
    pub(crate) fn sleep(
        &self,
        word: &FutexWord,
        expected: u32,
        mask: NonZeroU32,
        deadline: Option<Instant>,
    ) {
        let unwatched = (!self.follow_fork()).then(|| Instant::now().checked_add(TRY_AGAIN));
        let deadline = unwatched.flatten().into_iter().chain(deadline).min();
        word.wait(expected, mask, self.signals().map(|signal| signal.word()), deadline);
    }

    /// The signals: two at most.
    pub(crate) fn signals(&self) -> impl Iterator<Item = &Arc<Signal>> {
        let death = self.death.as_ref().map(|death| &death.signal);
        self.cancel.iter().chain(death)
    }
}

/// The time that a forked child sleeps that could not make a watch anew, before it tries again.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// Ends the waits of the queues it is attached to: for tearing down, from any thread of this
/// process.
///
/// Cheap to clone; all clones are the same handle. Attach it with
/// [`Producer::set_cancel`](crate::Producer::set_cancel),
/// [`Consumer::set_cancel`](crate::Consumer::set_cancel) and
/// [`EventFlag::set_cancel`](crate::EventFlag::set_cancel), to as many queues as one teardown
/// concerns.
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
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    signal: Arc<Signal>,
}

impl Cancel {
    /// A handle that is attached to nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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

    /// Returns whether waits end at once.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.signal.is_raised()
    }
}
