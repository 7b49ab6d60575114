//! [`BurstController`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_fmq::{PeerWatch, Producer, Queue, QueueError, SetupError};
use nnburst_hal::{
    BurstCallback, BurstContext, BurstOptions, ErrorStatus, ExecutionFailure, ExecutionOptions,
    ExecutionOutcome, ExecutionResult, HalError, Memory, PreparedModel, Request, RequestPool,
    Result, TimePoint,
};

use super::frame::Inner;
use super::scratch::{LastRequest, Scratch};
use super::slots::Slots;
use super::{BurstError, Closed, Fallback, Frame, SubmitError};
use crate::channel::{MAX_QUEUE_ELEMENTS, PollingWindow, Receiver};
use crate::packet::{
    BurstAnswer, BurstPool, Dialect, RequestDatum, ResultDatum, deserialize_answer,
    serialize_request,
};
use crate::server::MAX_SLOTS;
use crate::stats::BurstStats;

/// Elements of either queue in Android, and here where nothing else is said.
const QUEUE_ELEMENTS: usize = 1024;

/// Elements of either queue at least: 1.5 KiB.
const SHORTEST_QUEUE: usize = 64;

/// How long an answer tells where the driver's thread runs: later it may have slept, and be woken elsewhere.
const FRESH_NS: u64 = 1_000_000;

/// What a burst is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// Elements of either queue: the longest packet. Android's have 1024.
    pub queue_elements: usize,
    /// How long this side polls for an answer before it sleeps: zero sleeps at once, [`Duration::MAX`] polls
    /// on. `None`: as the preference says.
    pub polling_window: Option<Duration>,
    /// What is asked of the driver.
    pub burst: BurstOptions,
}

impl Default for ControllerOptions {
    /// Android's sizes and windows; extended packets if the driver takes them, one request in flight.
    fn default() -> Self {
        let burst = BurstOptions { extended: true, ..BurstOptions::default() };
        Self { queue_elements: QUEUE_ELEMENTS, polling_window: None, burst }
    }
}

impl ControllerOptions {
    /// Elements of a queue for requests on arguments of these ranks, as short as serves so many in flight: packets
    /// that go round a short ring meet cache lines that are at hand.
    #[must_use]
    pub fn queue_elements_for(ranks: impl IntoIterator<Item = usize>, depth: u32) -> usize {
        // An argument has its extents and at most a pool of its own; information, limits and timing go round them.
        let arguments = ranks.into_iter().map(|rank| rank.saturating_add(2));
        let packet = arguments.fold(3usize, usize::saturating_add);
        let in_flight = usize::try_from(depth.max(1)).unwrap_or(usize::MAX);
        // Twice over, so that a packet is written behind the one that is being read.
        let elements = packet.saturating_mul(in_flight).saturating_mul(2);
        elements.clamp(SHORTEST_QUEUE, MAX_QUEUE_ELEMENTS).next_power_of_two()
    }
}

/// The client's end of a burst.
///
/// One thread drives it (`&mut self`); it may move between threads. Requests are answered in the order in which
/// they were sent. Three ways to execute, from convenient to quick:
///
/// - [`execute`](Self::execute) takes any request;
/// - [`execute_frame`](Self::execute_frame) takes one made ready by [`frame`](Self::frame), and allocates nothing;
/// - [`try_submit`](Self::try_submit) and [`poll`](Self::poll) never wait, and keep several frames in flight.
///
/// Dropping it ends the burst.
pub struct BurstController {
    // First, hence dropped first: the driver's end goes before the memories of requests underway.
    _context: Arc<dyn BurstContext>,
    requests: Producer<RequestDatum>,
    results: Receiver<ResultDatum>,
    peer: Option<PeerWatch>,
    slots: Arc<Slots>,
    /// The slots of memories met so far, by [`Memory::id`]: what is in here needs no lock.
    known: HashMap<u64, i32>,
    dialect: Dialect,
    depth: usize,
    warnings: Vec<String>,
    /// Sent and not answered, the oldest first.
    in_flight: VecDeque<InFlight>,
    /// Answered and not taken, the oldest first.
    done: VecDeque<Frame>,
    closed: Option<Closed>,
    /// Storage for [`Self::execute`]; absent only while that runs.
    scratch: Option<Scratch>,
    stats: BurstStats,
    /// When the last answer was taken, nanoseconds of `CLOCK_MONOTONIC`.
    last_taken: u64,
}

/// Whose answer is due.
#[derive(Debug)]
enum InFlight {
    Submitted(Frame),
    /// Nobody waits for it any more. It keeps its memories until the driver is done with them.
    Forgotten(Frame),
    /// The frame that [`BurstController::execute_frame`] borrows.
    Borrowed,
}

/// A frame that could not be submitted, handed back.
#[derive(Debug)]
pub struct Rejected {
    /// The frame.
    pub frame: Frame,
    /// Why.
    pub why: SubmitError,
}

/// What a look at the result queue brought.
#[derive(PartialEq, Eq)]
enum Came {
    Nothing,
    Answer,
    BorrowedAnswer,
}

impl std::fmt::Debug for BurstController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BurstController")
            .field("dialect", &self.dialect)
            .field("depth", &self.depth)
            .field("slots", &self.slots)
            .field("in_flight", &self.in_flight.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl BurstController {
    /// Makes the queues and opens a burst on `prepared`.
    ///
    /// `peer` watches the driver's process or the connection to it; without one, as within one process, the
    /// death of the driver is not noticed.
    ///
    /// # Errors
    /// The queues can't be made, or the driver's answer.
    pub fn configure(
        prepared: &dyn PreparedModel,
        options: &ControllerOptions,
        peer: Option<PeerWatch>,
    ) -> Result<Self> {
        let setup = |error: SetupError| HalError::failure(format!("queue of a burst: {error}"));
        let elements = options.queue_elements;
        let requests = Queue::builder(elements).event_flag(true).create().map_err(setup)?;
        let results = Queue::builder(elements).event_flag(true).create().map_err(setup)?;
        let slots = Arc::<Slots>::default();
        let context = prepared.configure_execution_burst(
            Arc::<Slots>::clone(&slots) as Arc<dyn BurstCallback>,
            requests.descriptor().map_err(setup)?,
            results.descriptor().map_err(setup)?,
            options.burst.clone(),
        )?;
        slots.set_context(&context);

        // A driver may agree to less than was asked for, never to more.
        let terms = context.terms();
        let extended = terms.extended && options.burst.extended;
        let depth = if extended { terms.depth.min(options.burst.depth).max(1) } else { 1 };
        let depth = usize::try_from(depth).unwrap_or(1);
        let window = options.polling_window.map_or_else(
            || PollingWindow::for_preference(options.burst.preference),
            PollingWindow::of,
        );
        let mut results = Receiver::new(results, window, depth > 1);
        if let Some(peer) = &peer {
            results.set_peer(peer);
        }
        let dialect = if extended { Dialect::Extended } else { Dialect::Android };
        Ok(Self {
            _context: context,
            requests: requests.into_producer(),
            results,
            peer,
            slots,
            known: HashMap::new(),
            dialect,
            depth,
            warnings: terms.warnings,
            in_flight: VecDeque::with_capacity(depth),
            done: VecDeque::with_capacity(depth),
            closed: None,
            scratch: Some(Scratch::new(dialect)),
            stats: BurstStats::new().map_err(|error| HalError::failure(error.to_string()))?,
            last_taken: 0,
        })
    }

    /// Frames that may be in flight.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether deadlines, loop timeouts and driver-managed buffers travel.
    pub fn is_extended(&self) -> bool {
        self.dialect == Dialect::Extended
    }

    /// What of the driver's real-time profile was refused.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What ended the burst, if something did.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// How long executions took so far.
    pub fn stats(&self) -> &BurstStats {
        &self.stats
    }

    /// Begins to count anew.
    pub fn reset_stats(&mut self) {
        self.stats.reset();
    }

    /// Changes how long this side polls for an answer.
    pub fn set_polling_window(&mut self, window: PollingWindow) {
        self.results.set_window(window);
    }

    /// Has the driver forget a memory, before it goes. Requests underway and frames must not use it any more.
    /// Dropping a memory's last handle does the same by itself.
    pub fn free_memory(&mut self, memory: &Memory) {
        self.known.remove(&memory.id());
        // Its packet may have the memory's slot.
        self.scratch.iter_mut().for_each(Scratch::forget);
        self.slots.release(memory.id());
    }

    /// Executes a request and waits for the answer. The request that was executed last costs less than another one, with
    /// other memories too. An error without fallback comes as `GENERAL_FAILURE`;
    /// [`closed`](Self::closed) then tells whether the driver is gone.
    ///
    /// # Errors
    /// [`Fallback`]: it was not sent, take the ordinary path.
    pub fn execute(
        &mut self,
        request: &Request,
        options: &ExecutionOptions,
    ) -> std::result::Result<ExecutionResult, Fallback> {
        let mut scratch = self.scratch.take().unwrap_or_else(|| Scratch::new(self.dialect));
        let outcome = self
            .refill(&mut scratch, request, options)
            .map_err(BurstError::NotSent)
            .and_then(|()| self.run(scratch.frame.inner()));
        let result = match outcome {
            Ok(()) => Ok(execution_result(&scratch.frame.inner().answer)),
            Err(BurstError::NotSent(why)) => Err(why),
            Err(error) => Ok(Err(HalError::failure(error.to_string()).into())),
        };
        self.scratch = Some(scratch);
        result
    }

    /// Stands for the request that [`execute`](Self::execute) executed last, until that executes another one, or one with
    /// other memories.
    pub fn last_request(&self) -> Option<LastRequest> {
        self.scratch.as_ref()?.written()
    }

    /// Executes the last request again, without looking at it: with the same arguments and options, but for a deadline, in
    /// the same memories. Those have to be there still; otherwise the driver answers an error, or takes others. `None`
    /// where it is not the last one any more.
    ///
    /// # Errors
    /// As for [`execute_frame`](Self::execute_frame).
    pub fn execute_last(
        &mut self,
        last: LastRequest,
    ) -> Option<std::result::Result<&BurstAnswer, BurstError>> {
        let mut scratch = self.scratch.take_if(|scratch| scratch.written() == Some(last))?;
        scratch.frame.set_deadline(None);
        let inner = scratch.frame.inner();
        inner.outcome = self.run(inner);
        Some(self.scratch.insert(scratch).frame.answer())
    }

    /// Makes a request ready: its memories get slots, its packet is written.
    ///
    /// # Errors
    /// [`Fallback`]: this request can't travel in this burst.
    pub fn frame(
        &mut self,
        request: &Request,
        options: &ExecutionOptions,
    ) -> std::result::Result<Frame, Fallback> {
        let mut frame = Frame::new(self.dialect);
        self.fill(&mut frame, request, options)?;
        frame.inner().memories.extend(request.pools.iter().filter_map(|pool| match pool {
            RequestPool::Memory(memory) => Some(memory.clone()),
            RequestPool::Token(_) => None,
        }));
        Ok(frame)
    }

    /// Executes a frame and waits for its answer, and so for those of all frames submitted before.
    ///
    /// # Errors
    /// There is no answer; [`BurstError::NotSent`] leaves the ordinary path open.
    pub fn execute_frame<'f>(
        &mut self,
        frame: &'f mut Frame,
    ) -> std::result::Result<&'f BurstAnswer, BurstError> {
        let inner = frame.inner();
        inner.outcome = self.run(inner);
        frame.answer()
    }

    /// Sends a frame and returns at once; [`poll`](Self::poll) hands it back with its answer.
    ///
    /// # Errors
    /// The frame, with why it was not sent.
    pub fn try_submit(&mut self, mut frame: Frame) -> std::result::Result<(), Rejected> {
        let depth = self.depth;
        if self.in_flight.len().saturating_add(self.done.len()) >= depth {
            return Err(Rejected { frame, why: SubmitError::Busy { depth } });
        }
        if let Err(why) = self.send(frame.inner()) {
            return Err(Rejected { frame, why: why.into() });
        }
        self.in_flight.push_back(InFlight::Submitted(frame));
        Ok(())
    }

    /// The oldest submitted frame, if its answer is here. Never waits, and makes no system call.
    pub fn poll(&mut self) -> Option<Frame> {
        while self.done.is_empty() && self.receive(None) != Came::Nothing {}
        self.done.pop_front()
    }

    /// Waits for the oldest submitted frame, until `deadline` at most. `None` at the deadline, the frame then
    /// being in flight still, and where nothing is in flight.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<Frame> {
        self.wait_for_frame(Some(deadline))
    }

    /// Waits for the oldest submitted frame. `None` where nothing is in flight.
    pub fn wait(&mut self) -> Option<Frame> {
        self.wait_for_frame(None)
    }

    /// Frames in flight whose answers are awaited.
    pub fn in_flight(&self) -> usize {
        let awaited = |entry: &&InFlight| matches!(entry, InFlight::Submitted(_));
        self.in_flight.iter().filter(awaited).count()
    }

    /// Gives up all frames in flight. Their answers will be thrown away when they come; until then they count
    /// towards the depth and keep their memories, for the driver may be at work on them.
    pub fn forget(&mut self) {
        for entry in &mut self.in_flight {
            *entry = match std::mem::replace(entry, InFlight::Borrowed) {
                InFlight::Submitted(frame) => InFlight::Forgotten(frame),
                other => other,
            };
        }
    }

    fn wait_for_frame(&mut self, deadline: Option<Instant>) -> Option<Frame> {
        loop {
            if let Some(frame) = self.poll() {
                return Some(frame);
            }
            if self.in_flight() == 0 || !self.await_answer(deadline) {
                return self.done.pop_front();
            }
        }
    }

    /// Gives the request's memories slots and writes its packet.
    fn fill(
        &mut self,
        frame: &mut Frame,
        request: &Request,
        options: &ExecutionOptions,
    ) -> std::result::Result<(), Fallback> {
        let inner = frame.inner();
        inner.pools.clear();
        for pool in &request.pools {
            inner.pools.push(self.burst_pool(pool)?);
        }
        // The limits are always there in an extended frame, so that `Frame::set_deadline` has their place.
        let mut options = *options;
        if self.dialect == Dialect::Extended {
            options.deadline.get_or_insert(TimePoint { nanoseconds: u64::MAX });
        }
        inner.loop_timeout = options.loop_timeout;
        serialize_request(request, &inner.pools, &options, self.dialect, &mut inner.packet)
            .map_err(Fallback::Inexpressible)?;
        let (elements, free) = (inner.packet.len(), self.requests.capacity());
        if elements > free {
            return Err(Fallback::TooLong { elements, free });
        }
        Ok(())
    }

    /// As [`Self::fill`], as far as the request is another than the last one.
    fn refill(
        &mut self,
        scratch: &mut Scratch,
        request: &Request,
        options: &ExecutionOptions,
    ) -> std::result::Result<(), Fallback> {
        if !scratch.says(request, options) {
            scratch.forget();
            self.fill(&mut scratch.frame, request, options)?;
            scratch.note(request, options);
            return Ok(());
        }
        for (at, pool) in request.pools.iter().enumerate() {
            if !scratch.has_pool(at, pool) {
                let stands = self.burst_pool(pool)?;
                scratch.frame.set_pool(at, stands).map_err(Fallback::Inexpressible)?;
                scratch.note_pool(at, pool);
            }
        }
        scratch.frame.set_deadline(options.deadline);
        Ok(())
    }

    /// What stands for a pool in packets.
    fn burst_pool(&mut self, pool: &RequestPool) -> std::result::Result<BurstPool, Fallback> {
        Ok(match pool {
            RequestPool::Token(token) => BurstPool::Token(*token),
            RequestPool::Memory(memory) => BurstPool::Slot(self.slot(memory)?),
        })
    }

    fn slot(&mut self, memory: &Memory) -> std::result::Result<i32, Fallback> {
        if let Some(&slot) = self.known.get(&memory.id()) {
            return Ok(slot);
        }
        self.slots.tell_put_off();
        for id in self.slots.take_gone() {
            self.known.remove(&id);
        }
        let full = Fallback::TooManyMemories { limit: MAX_SLOTS };
        let slot = self.slots.bind(memory).ok_or(full)?;
        self.known.insert(memory.id(), slot);
        Ok(slot)
    }

    /// Sends a packet, whole or not at all.
    fn send(&mut self, inner: &mut Inner) -> std::result::Result<(), Fallback> {
        self.slots.tell_put_off();
        if self.peer.as_ref().is_some_and(PeerWatch::is_dead) {
            self.close(Closed::DriverDied);
        }
        if self.in_flight.is_empty()
            && self.closed.is_none()
            // Nothing is due, so what lies there is no answer to anything.
            && let Err(error) = self.results.discard()
        {
            self.close(Closed::Queue(error));
        }
        if let Some(why) = self.closed {
            return Err(Fallback::Closed(why));
        }
        inner.sent = TimePoint::now().nanoseconds;
        if inner.sent.saturating_sub(self.last_taken) > FRESH_NS {
            self.results.set_peer_processor(None);
        }
        let elements = inner.packet.len();
        match self.requests.try_write(&inner.packet) {
            Ok(()) => Ok(()),
            Err(QueueError::Full { free, .. }) => Err(Fallback::TooLong { elements, free }),
            Err(QueueError::TooLarge { capacity, .. }) => {
                Err(Fallback::TooLong { elements, free: capacity })
            }
            Err(error) => {
                self.close(Closed::Queue(error));
                Err(Fallback::Closed(Closed::Queue(error)))
            }
        }
    }

    /// Sends a packet and waits for its answer.
    fn run(&mut self, inner: &mut Inner) -> std::result::Result<(), BurstError> {
        while self.in_flight.len() >= self.depth {
            if self.receive(None) == Came::Nothing {
                self.await_answer(None);
            }
        }
        self.send(inner).map_err(BurstError::NotSent)?;
        self.in_flight.push_back(InFlight::Borrowed);
        loop {
            match self.receive(Some(inner)) {
                Came::BorrowedAnswer => return inner.outcome,
                Came::Answer => {}
                Came::Nothing => {
                    self.await_answer(None);
                    if let Some(why) = self.closed {
                        return Err(BurstError::Closed(why));
                    }
                }
            }
        }
    }

    /// Waits until an answer can be received: `true`; or until the deadline or the end of the burst.
    fn await_answer(&mut self, deadline: Option<Instant>) -> bool {
        if self.closed.is_some() {
            return false;
        }
        match self.results.wait(deadline, || false) {
            Ok(()) => true,
            Err(QueueError::TimedOut) => false,
            Err(QueueError::PeerDied) => {
                self.close(Closed::DriverDied);
                false
            }
            Err(error) => {
                self.close(Closed::Queue(error));
                false
            }
        }
    }

    /// Takes one answer, if one is here, to whom it belongs. `borrowed` is the frame of
    /// [`InFlight::Borrowed`], if there is one in flight.
    fn receive(&mut self, borrowed: Option<&mut Inner>) -> Came {
        if self.closed.is_some() {
            return Came::Nothing;
        }
        let packet = match self.results.take() {
            Ok(Some((packet, _))) => packet,
            Ok(None) => return Came::Nothing,
            Err(error) => {
                self.close(Closed::Queue(error));
                return Came::Nothing;
            }
        };
        // An answer that nobody is due is passed over.
        let Some(mut entry) = self.in_flight.pop_front() else { return Came::Answer };
        let inner = match (&mut entry, borrowed) {
            (InFlight::Submitted(frame) | InFlight::Forgotten(frame), _) => frame.inner(),
            (InFlight::Borrowed, Some(inner)) => inner,
            (InFlight::Borrowed, None) => return Came::Answer,
        };
        let taken = deserialize_answer(packet, self.dialect, &mut inner.answer);
        inner.outcome = taken.map_err(BurstError::Malformed);
        if taken.is_ok() {
            inner.taken = self.stats.record(inner.sent, &inner.answer);
            self.last_taken = inner.taken;
            let times = inner.answer.driver_times;
            self.results.set_peer_processor(times.map(|times| times.processor));
        }
        let came = match entry {
            InFlight::Submitted(frame) => {
                self.done.push_back(frame);
                Came::Answer
            }
            InFlight::Forgotten(_) => Came::Answer,
            InFlight::Borrowed => Came::BorrowedAnswer,
        };
        if let Err(error) = taken
            && !self.in_flight.is_empty()
        {
            self.close(Closed::OutOfStep(error));
        }
        came
    }

    /// Ends the burst: what is in flight has no answer.
    fn close(&mut self, why: Closed) {
        let why = *self.closed.get_or_insert(why);
        while let Some(entry) = self.in_flight.pop_front() {
            if let InFlight::Submitted(mut frame) = entry {
                frame.inner().outcome = Err(BurstError::Closed(why));
                self.done.push_back(frame);
            }
        }
    }
}

/// The answer as the ordinary path would have given it.
fn execution_result(answer: &BurstAnswer) -> ExecutionResult {
    let output_shapes = answer.output_shapes.clone();
    match answer.status {
        ErrorStatus::None => Ok(ExecutionOutcome { output_shapes, timing: answer.timing }),
        status => {
            let error = HalError::new(status, "the driver's answer in the burst");
            Err(ExecutionFailure { error, output_shapes })
        }
    }
}
