//! The receiving end of either queue: packets out of elements, and how to wait for them.
//!
//! A packet is published with one store, so whoever sees its first element sees all of it. What can
//! be read is read at once, into private storage of the queue's size. With one request in flight
//! that is one packet, whatever it says; with several the packets' own sizes separate them, and a
//! size that can't be true turns all that was read into one malformed packet.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytemuck::Pod;
#[cfg(not(loom))]
use nnburst_fmq::Readiness;
use nnburst_fmq::{
    Bits, Cancel, Consumer, Descriptor, NOT_EMPTY, NOT_FULL, PeerWatch, Queue, QueueError,
    SetupError, Wait, WaitOptions,
};
use nnburst_hal::{ErrorStatus, ExecutionPreference, HalError};

use crate::packet::{RequestDatum, RequestItem, ResultDatum, ResultItem};
use crate::processor::{self, Processor, Whereabouts};

/// Most elements that a queue of a burst may have: what is read goes into private storage of that
/// size. Android's have 1024.
pub const MAX_QUEUE_ELEMENTS: usize = 1 << 16;

/// The time that Android's bursts poll before they sleep.
const ANDROID_WINDOW: Duration = Duration::from_micros(50);

/// The longest time of polling while nothing comes, before a side sleeps: an idle burst costs no
/// core. (No time passes in a model.)
const LONGEST_POLL: Duration = Duration::from_secs(if cfg!(loom) { 0 } else { 1 });

/// The interval at which a polling side checks that it does not keep the other from running: the
/// scheduler may have moved it.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// A client that sends one request after the other sends the next in less than this.
const SOON: Duration = Duration::from_millis(1);

/// The interval at which a polling side uses its processor for something else; see
/// [`BurstExecutor::keep_warm`](crate::BurstExecutor::keep_warm).
const IDLE_INTERVAL: Duration = Duration::from_millis(1);

/// The most calls of it in a row: one that never ends is interrupted, to check whether the other
/// side still lives.
const MOST_IDLE_CALLS: u32 = 1 << 14;

/// The way to wait for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollingWindow {
    /// Sleeps at once.
    Zero,
    /// Polls, for this long at most, and less where recent waits were long; then sleeps.
    UpTo(Duration),
    /// Polls; sleeps only after a second without a packet.
    Unlimited,
}

impl PollingWindow {
    /// The window of this length. [`Duration::MAX`] has no limit.
    pub fn of(length: Duration) -> Self {
        match length {
            Duration::ZERO => Self::Zero,
            Duration::MAX => Self::Unlimited,
            length => Self::UpTo(length),
        }
    }

    /// The window of Android's bursts where none is given: 50 microseconds, none with `LOW_POWER`.
    pub fn for_preference(preference: ExecutionPreference) -> Self {
        match preference {
            ExecutionPreference::LowPower => Self::Zero,
            _ => Self::UpTo(ANDROID_WINDOW),
        }
    }

    /// This window, or none where the machine has one processor: there, nobody answers while
    /// somebody polls.
    fn on_this_machine(self) -> Self {
        if processor::is_the_only_one() { Self::Zero } else { self }
    }
}

/// An element that may be a packet's first.
pub(crate) trait PacketElement: Pod {
    /// The size of the packet that starts here, in elements.
    fn packet_size(&self) -> Option<u32>;
}

impl PacketElement for RequestDatum {
    fn packet_size(&self) -> Option<u32> {
        match self.item() {
            Some(RequestItem::PacketInformation { packet_size, .. }) => Some(packet_size),
            _ => None,
        }
    }
}

impl PacketElement for ResultDatum {
    fn packet_size(&self) -> Option<u32> {
        match self.item() {
            Some(ResultItem::PacketInformation { packet_size, .. }) => Some(packet_size),
            _ => None,
        }
    }
}

/// Attaches to a queue of a burst.
///
/// # Errors
/// The descriptor can't be used, has no event flag, or is larger than [`MAX_QUEUE_ELEMENTS`].
pub(crate) fn attach<D: Pod>(descriptor: Descriptor) -> Result<Queue<D>, ChannelError> {
    let queue = Queue::attach(descriptor)?;
    let elements = queue.capacity();
    if elements > MAX_QUEUE_ELEMENTS {
        return Err(ChannelError::TooLarge { elements, limit: MAX_QUEUE_ELEMENTS });
    }
    if queue.event_flag().is_none() {
        return Err(ChannelError::NoEventFlag);
    }
    Ok(queue)
}

/// The reason why a queue is of no use to a burst.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("a queue of {elements} elements is larger than the limit of {limit}")]
    TooLarge { elements: usize, limit: usize },
    #[error("a burst's queue needs an event flag")]
    NoEventFlag,
    #[error("no memory for packets of {elements} elements")]
    NoMemory { elements: usize },
}

impl ChannelError {
    /// The error of the call that was to open a burst with the queue called `which`.
    pub(crate) fn of_queue(self, which: &str) -> HalError {
        let status = match &self {
            Self::Setup(error) => status_of(error),
            Self::NoMemory { .. } => ErrorStatus::ResourceExhaustedTransient,
            Self::TooLarge { .. } | Self::NoEventFlag => ErrorStatus::GeneralFailure,
        };
        HalError::new(status, format!("{which}: {self}"))
    }
}

/// The status of a queue that can't be made or attached to.
pub(crate) fn status_of(error: &SetupError) -> ErrorStatus {
    match error {
        SetupError::System { source, .. } => HalError::status_of_errno(*source as i32),
        _ => ErrorStatus::GeneralFailure,
    }
}

/// Storage for packets of at most `elements` elements.
///
/// # Errors
/// [`ChannelError::NoMemory`]: the other side chose the queue's size, so it must not end the
/// process.
pub(crate) fn packet_storage<D>(elements: usize) -> Result<Vec<D>, ChannelError> {
    let mut storage = Vec::new();
    storage.try_reserve_exact(elements).map_err(|_| ChannelError::NoMemory { elements })?;
    Ok(storage)
}

/// Takes packets out of a queue.
#[derive(Debug)]
pub(crate) struct Receiver<D> {
    consumer: Consumer<D>,
    /// Elements that were read; those of `unread` are still to be parsed.
    storage: Box<[D]>,
    unread: Range<usize>,
    /// The packet that was taken last; nothing once more was read.
    last: Range<usize>,
    window: PollingWindow,
    /// The processor that this side runs on.
    whereabouts: Whereabouts,
    /// The processor that it ran on when it last sent something.
    here: Processor,
    /// The processor that the other side ran on when it last sent something.
    peer: Processor,
    /// `true` if the other side may have moved since then.
    peer_may_have_moved: bool,
    /// `true` if the last wait was slept through from the start.
    has_slept: bool,
    /// `true` if waits are slept through, whatever the window.
    sleeps: bool,
    /// `true` if more than one packet may be underway.
    pipelined: bool,
    /// `true` if what is waited for is due: an answer is, another request need not be.
    is_due: bool,
    /// `true` if the other side is going to say where it runs, and hasn't yet.
    is_unheard: bool,
}

impl<D: PacketElement> Receiver<D> {
    /// # Errors
    /// [`ChannelError::NoMemory`] for a packet of the queue's size.
    pub(crate) fn new(
        queue: Queue<D>,
        window: PollingWindow,
        pipelined: bool,
    ) -> Result<Self, ChannelError> {
        let mut storage = packet_storage(queue.capacity())?;
        storage.resize(queue.capacity(), D::zeroed());
        let mut consumer = queue.into_consumer();
        // With one request in flight no sender ever waits for room, so making some is nobody's
        // news.
        let wake = if pipelined { NOT_FULL } else { 0 };
        consumer.set_bits(Bits { wait: NOT_EMPTY, wake });
        // With one request in flight there are no streams: what comes together is one packet.
        consumer.set_stream_backoff(pipelined);
        Ok(Self {
            consumer,
            storage: storage.into_boxed_slice(),
            unread: 0..0,
            last: 0..0,
            window: window.on_this_machine(),
            whereabouts: Whereabouts::default(),
            here: Processor::UNKNOWN,
            peer: Processor::UNKNOWN,
            peer_may_have_moved: false,
            has_slept: false,
            sleeps: false,
            pipelined,
            is_due: false,
            is_unheard: false,
        })
    }

    /// From now on whoever waits here has asked for what comes.
    pub(crate) fn set_due(&mut self) {
        self.is_due = true;
    }

    /// From now on the packets that come say where the other side runs. Until the first has come,
    /// waits are slept through.
    pub(crate) fn expect_processor(&mut self) {
        self.is_unheard = true;
    }

    pub(crate) fn set_cancel(&mut self, cancel: &Cancel) {
        self.consumer.set_cancel(cancel);
    }

    pub(crate) fn set_peer(&mut self, peer: &PeerWatch) {
        self.consumer.set_peer(peer);
    }

    pub(crate) fn set_window(&mut self, window: PollingWindow) {
        self.window = window.on_this_machine();
    }

    /// Has waits from now on be slept through or, again, be as the window says.
    #[inline]
    pub(crate) fn sleep_next(&mut self, sleeps: bool) {
        self.sleeps = sleeps;
    }

    /// Returns the processor that this side runs on just now, for the packet that it is about to
    /// send.
    #[inline]
    pub(crate) fn here(&mut self, now_ns: u64) -> Processor {
        self.here = self.whereabouts.at(now_ns, self.has_slept);
        self.here
    }

    /// Takes note of where the other side ran when it sent the last packet.
    #[inline]
    pub(crate) fn set_peer_processor(&mut self, processor: Processor) {
        (self.peer, self.peer_may_have_moved, self.is_unheard) = (processor, false, false);
    }

    /// Takes note that the other side may have slept since its last packet, and been woken
    /// elsewhere.
    #[inline]
    pub(crate) fn let_peer_move(&mut self) {
        self.peer_may_have_moved = !self.peer.is_pinned();
    }

    /// Waits until there is a packet to take. If it polls, every [`IDLE_INTERVAL`] it calls
    /// `idle` until that returns `false`, or a packet comes. `idle` gets the packet that was taken
    /// last, and may ask whether another has come.
    pub(crate) fn wait(
        &mut self,
        deadline: Option<Instant>,
        idle: impl FnMut(&[D], &mut dyn FnMut() -> bool) -> bool,
    ) -> Result<(), QueueError> {
        if !self.unread.is_empty() {
            return Ok(());
        }
        self.has_slept = false;
        if self.is_unheard || self.sleeps {
            return self.sleep(deadline);
        }
        let shares = self.peer.is(self.here);
        if shares && !self.peer_may_have_moved && self.window != PollingWindow::Zero {
            // Who polls on the processor of the other side keeps it from sending.
            if self.keeps_peer_from_running() {
                return self.sleep(deadline);
            }
            match self.sleep_for_a_moment(deadline) {
                Err(QueueError::TimedOut)
                    if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
                other => return other,
            }
        }
        let polled = match self.window {
            PollingWindow::Zero => Err(QueueError::TimedOut),
            PollingWindow::UpTo(limit) if !shares => {
                let strategy = Wait::Adaptive { limit };
                return self.consumer.wait_readable(1, WaitOptions { strategy, deadline });
            }
            PollingWindow::UpTo(limit) => self.poll(limit, deadline, idle),
            PollingWindow::Unlimited => self.poll(LONGEST_POLL, deadline, idle),
        };
        match polled {
            Err(QueueError::TimedOut) => self.sleep(deadline),
            other => other,
        }
    }

    /// Returns whether nothing can come while this side polls, given that both sides were on one
    /// processor: what is due comes from there. Of a client that doesn't send at once nothing is
    /// known: it may have gone, or wait for something else.
    fn keeps_peer_from_running(&self) -> bool {
        self.is_due || self.peer.is_pinned()
    }

    fn sleep(&mut self, deadline: Option<Instant>) -> Result<(), QueueError> {
        self.has_slept = true;
        self.consumer.wait_readable(1, WaitOptions { strategy: Wait::Block, deadline })
    }

    /// Returns whether there is a packet to take; if not, `readiness` tells when there is.
    #[cfg(not(loom))]
    pub(crate) fn poll_readable(&mut self, readiness: &mut Readiness) -> Result<bool, QueueError> {
        if !self.unread.is_empty() {
            return Ok(true);
        }
        self.has_slept = true;
        readiness.poll_readable(&mut self.consumer, 1)
    }

    /// Sleeps for as long as it takes a client to send the next request, if it sends one after the
    /// other.
    fn sleep_for_a_moment(&mut self, deadline: Option<Instant>) -> Result<(), QueueError> {
        let soon = Instant::now().checked_add(SOON);
        self.sleep(soon.into_iter().chain(deadline).min())
    }

    /// Polls as long as it is worth it, and for `longest` at most: [`QueueError::TimedOut`] reports
    /// that it is no longer.
    fn poll(
        &mut self,
        longest: Duration,
        deadline: Option<Instant>,
        mut idle: impl FnMut(&[D], &mut dyn FnMut() -> bool) -> bool,
    ) -> Result<(), QueueError> {
        let start = Instant::now();
        let end = start.checked_add(longest).into_iter().chain(deadline).min();
        let mut check = start;
        let mut idle_at = start.checked_add(IDLE_INTERVAL);
        loop {
            check = check.checked_add(CHECK_INTERVAL).into_iter().chain(end).min().unwrap_or(check);
            let polled = WaitOptions { strategy: Wait::Spin, deadline: Some(check) };
            match self.consumer.wait_readable(1, polled) {
                Err(QueueError::TimedOut) if Some(check) < end => {}
                other => return other,
            }
            // The scheduler may have moved this side next to the other.
            if self.peer.is(self.whereabouts.now()) {
                if self.keeps_peer_from_running() {
                    return Err(QueueError::TimedOut);
                }
                match self.sleep_for_a_moment(end) {
                    Err(QueueError::TimedOut) => check = Instant::now(),
                    other => return other,
                }
            }
            if Some(check) >= idle_at {
                let mut more = 0..MOST_IDLE_CALLS;
                let last = self.storage.get(self.last.clone()).unwrap_or_default();
                let consumer = &mut self.consumer;
                // A peer that lied is found out when the packet is taken.
                let mut has_come = || consumer.available_to_read() != Ok(0);
                while more.next().is_some() && idle(last, &mut has_come) && !has_come() {}
                idle_at = check.checked_add(IDLE_INTERVAL);
            }
        }
    }

    /// The next packet, if there is one, and how many of its size have been read behind it.
    pub(crate) fn take(&mut self) -> Result<Option<(&[D], usize)>, QueueError> {
        if self.unread.is_empty() {
            let available = self.consumer.available_to_read()?.min(self.storage.len());
            let Some(space) = self.storage.get_mut(..available) else { return Ok(None) };
            if space.is_empty() {
                return Ok(None);
            }
            self.consumer.try_read(space)?;
            self.unread = 0..available;
        }
        let left = self.storage.get(self.unread.clone()).unwrap_or_default();
        let size = if self.pipelined { first_packet(left) } else { left.len() };
        let end = self.unread.start.saturating_add(size);
        self.last = self.unread.start..end;
        self.unread.start = end;
        let behind = self.unread.len().checked_div(size).unwrap_or(0);
        Ok(left.get(..size).map(|packet| (packet, behind)))
    }

    /// Forgets what has come.
    pub(crate) fn discard(&mut self) -> Result<(), QueueError> {
        self.unread = 0..0;
        while self.take()?.is_some() {
            self.unread = 0..0;
        }
        Ok(())
    }
}

/// Returns the number of elements of the first packet: its own size if that can be true, else all
/// of them.
fn first_packet<D: PacketElement>(elements: &[D]) -> usize {
    let size = elements.first().and_then(PacketElement::packet_size).unwrap_or(0);
    usize::try_from(size)
        .ok()
        .filter(|size| (1..=elements.len()).contains(size))
        .unwrap_or(elements.len())
}
