//! [`Readiness`]: a queue as a file descriptor, for event loops and async runtimes.
//!
//! A futex word can't be put into epoll, so somebody has to sleep on it. One thread of the process
//! does so for up to 42 queues at once (`futex_waitv`, Linux 5.16), and writes to a queue's eventfd
//! when its bit is set. The bridge is only in the way of those who use it: it costs the peer one
//! wake-up and this process one more, so it is for queues that are one source among many; where
//! latency counts, a thread of one's own with [`Wait`](crate::Wait) is faster.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::endpoint::Endpoint;
use crate::process::{self, PerProcess};
use crate::sync::{FutexWord, Mutex, Ordering, Sharing, WaitWord, lock, wait_for_any};
use crate::sys::{errno, failed};
use crate::wait::Slept;
use crate::{QueueError, SetupError};

/// Tells an event loop when an end of a queue is ready: an eventfd that becomes readable.
///
/// One-shot, in the manner of a poll function: ask [`poll_readable`](Self::poll_readable) or
/// [`poll_writable`](Self::poll_writable); if the answer is `false`, wait until the descriptor is
/// readable (epoll, `AsyncFd`, ..), then ask again. Death and cancellation make it readable too. It
/// may be so for no reason.
///
/// A child that this process forks must not share the descriptor, so there the first poll makes
/// another one: ask for it ([`as_fd`](AsFd::as_fd)) after that.
///
/// ```
/// use nnburst_fmq::{Queue, Readiness};
/// use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
/// use std::os::fd::AsFd;
///
/// let (mut producer, mut consumer) = Queue::<u64>::builder(4).event_flag(true).pair()?;
/// let mut readiness = Readiness::new()?;
/// assert!(!readiness.poll_readable(&mut consumer, 1)?); // nothing there: armed
/// producer.try_push(7)?;
/// poll(&mut [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)?;
/// assert!(readiness.poll_readable(&mut consumer, 1)?);
/// assert_eq!(consumer.try_pop()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Readiness {
    fd: Arc<EventFd>,
    key: u64,
    bridge: &'static Bridge,
    waker: Option<Waker>,
    /// The process that the descriptor and the bridge are of; see [`process::id`].
    process: u64,
}

impl Readiness {
    /// Makes an eventfd and a place on the bridge for it.
    ///
    /// # Errors
    /// [`SetupError::System`] if there is no `futex_waitv` (Linux before 5.16), or no more
    /// descriptors.
    pub fn new() -> Result<Self, SetupError> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let fd = Arc::new(EventFd::from_flags(flags).map_err(failed("eventfd2"))?);
        let (bridge, key) = Bridge::place(&fd)?;
        Ok(Self { fd, key, bridge, waker: None, process: process::id() })
    }

    /// From the next poll on `waker` is woken as well when the descriptor becomes readable: for
    /// tasks that need no event loop.
    pub fn set_waker(&mut self, waker: Option<&Waker>) {
        self.waker = waker.cloned();
    }

    /// Returns whether `count` items can be read. If not (`false`), the descriptor becomes readable
    /// when that may have changed.
    ///
    /// # Errors
    /// As [`Consumer::wait_readable`](crate::Consumer::wait_readable), and
    /// [`QueueError::NoEventFlag`] in a forked child that has no descriptor left for an eventfd.
    pub fn poll_readable<T: bytemuck::Pod>(
        &mut self,
        consumer: &mut crate::Consumer<T>,
        count: usize,
    ) -> Result<bool, QueueError> {
        let Endpoint { cursor, waiter } = consumer;
        let bytes = count.saturating_mul(size_of::<T>());
        match cursor.claim(bytes) {
            Err(QueueError::Empty { .. }) => {}
            claimed => return claimed.map(|()| true),
        }
        self.poll(waiter, || cursor.ready(bytes))
    }

    /// Returns whether `count` items can be written. If not (`false`), the descriptor becomes
    /// readable when that may have changed.
    ///
    /// # Errors
    /// As [`Producer::wait_writable`](crate::Producer::wait_writable).
    pub fn poll_writable<T: bytemuck::Pod>(
        &mut self,
        producer: &mut crate::Producer<T>,
        count: usize,
    ) -> Result<bool, QueueError> {
        let Endpoint { cursor, waiter } = producer;
        waiter.interrupted()?;
        let bytes = count.saturating_mul(size_of::<T>());
        match cursor.claim(bytes) {
            Err(QueueError::Full { .. }) => {}
            claimed => return claimed.map(|()| true),
        }
        self.poll(waiter, || cursor.ready(bytes))
    }

    fn poll(
        &mut self,
        waiter: &mut crate::wait::Waiter,
        ready: impl FnMut() -> Result<bool, QueueError>,
    ) -> Result<bool, QueueError> {
        if self.process != process::id() {
            let waker = self.waker.take();
            *self = Self::new().map_err(|_| QueueError::NoEventFlag)?;
            self.waker = waker;
        }
        // Empties the eventfd; `EAGAIN` if it is.
        let _ = self.fd.read();
        let Some(slept) = waiter.prepare_to_sleep(ready)? else { return Ok(true) };
        self.bridge.arm(self.key, Armed { slept, looks: 0, waker: self.waker.clone() });
        Ok(false)
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        // A child leaves the parent's bridge alone: its lock may be held by a thread that is not
        // here.
        if self.process == process::id() {
            lock(&self.bridge.places).retain(|place| place.key != self.key);
        }
    }
}

/// A thread that sleeps for many.
#[derive(Debug)]
struct Bridge {
    /// Changes whenever `places` does: the thread sleeps on it as well.
    control: FutexWord,
    places: Mutex<Vec<Place>>,
}

/// One eventfd, and what it waits for, if anything.
#[derive(Debug)]
struct Place {
    key: u64,
    fd: Arc<EventFd>,
    armed: Option<Armed>,
}

#[derive(Clone, Debug)]
struct Armed {
    slept: Slept,
    /// Number of times that the word changed without one of our bits.
    looks: u32,
    waker: Option<Waker>,
}

impl Armed {
    /// Changes of other bits that are slept through; a peer that makes more makes us wake our
    /// owner, who then looks.
    const MOST_LOOKS: u32 = 64;

    /// Returns whether the owner has to look.
    fn fires(&mut self) -> bool {
        let Slept { word, expected, mask, signals } = &mut self.slept;
        // Acquire: pairs with the fetch_or of wakers (edge bits).
        let value = word.load(Ordering::Acquire);
        if value != *expected {
            *expected = value;
            self.looks += 1;
        }
        let interrupted = signals.iter().any(|signal| signal.is_raised());
        interrupted || value & mask.get() != 0 || self.looks > Self::MOST_LOOKS
    }

    /// The words to sleep on: the queue's word, and those that interrupt its owner.
    fn words(&self) -> impl Iterator<Item = WaitWord> {
        let Slept { word, expected, signals, .. } = &self.slept;
        let private = signals.iter().map(|signal| signal.word().in_a_vector(0, Sharing::Threads));
        [word.in_a_vector(*expected, Sharing::Processes)].into_iter().chain(private)
    }
}

/// This process's bridges, and the last key.
static BRIDGES: PerProcess<(Vec<&'static Bridge>, u64)> = PerProcess::new();

impl Bridge {
    /// Queues per thread: three words each (the queue's, a cancellation's and a death's) and the
    /// control word are what one call can wait for.
    const MOST: usize = (128 - 1) / 3;

    /// A place on a bridge that has one, else on a new one.
    fn place(fd: &Arc<EventFd>) -> Result<(&'static Self, u64), SetupError> {
        let mut bridges = lock(BRIDGES.get());
        bridges.1 += 1;
        let key = bridges.1;
        let free = |bridge: &&&'static Self| lock(&bridge.places).len() < Self::MOST;
        let bridge = match bridges.0.iter().find(free) {
            Some(bridge) => *bridge,
            None => {
                let bridge = Self::start()?;
                bridges.0.push(bridge);
                bridge
            }
        };
        lock(&bridge.places).push(Place { key, fd: Arc::clone(fd), armed: None });
        Ok((bridge, key))
    }

    fn start() -> Result<&'static Self, SetupError> {
        // Lives as long as its thread: as long as the process.
        let bridge: &'static Self = Box::leak(Box::new(Self {
            control: FutexWord::default(),
            places: Mutex::new(Vec::new()),
        }));
        // A value that is not there: returns at once, and says whether the kernel knows the call.
        if !wait_for_any(&[bridge.control.in_a_vector(1, Sharing::Threads)], None) {
            return Err(failed("futex_waitv")(Errno::ENOSYS));
        }
        process::spawn("fmq-readiness", move || bridge.run())
            .map_err(|error| failed("clone")(errno(&error)))?;
        Ok(bridge)
    }

    fn arm(&self, key: u64, armed: Armed) {
        if let Some(place) = lock(&self.places).iter_mut().find(|place| place.key == key) {
            place.armed = Some(armed);
        }
        self.control.bump();
        self.control.wake_threads();
    }

    /// The thread: signals what fires, then sleeps on the rest.
    fn run(&self) {
        loop {
            // Acquire: before the places are looked at; a change from here on makes the sleep
            // return at once.
            let control = self.control.load(Ordering::Acquire);
            let sleeping: Vec<Armed> = self.signal();
            let control = self.control.in_a_vector(control, Sharing::Threads);
            let words: Vec<_> =
                [control].into_iter().chain(sleeping.iter().flat_map(Armed::words)).collect();
            // Whatever it returns for (woken, a word has changed, a signal): look at all of them.
            wait_for_any(&words, None);
        }
    }

    /// Signals and disarms the places that fire; returns the others, whose memory stays mapped as
    /// long as they are held.
    fn signal(&self) -> Vec<Armed> {
        let (mut sleeping, mut wakers) = (Vec::new(), Vec::new());
        for place in lock(&self.places).iter_mut() {
            let Some(armed) = &mut place.armed else { continue };
            if armed.fires() {
                wakers.extend(armed.waker.take());
                place.armed = None;
                // Fails only if the counter is at its end, when it is readable anyway.
                let _ = place.fd.write(1);
            } else {
                sleeping.push(armed.clone());
            }
        }
        // Without the lock: a task that is woken may poll at once.
        wakers.into_iter().for_each(Waker::wake);
        sleeping
    }
}
