//! [`BurstController`].

mod exchange;
mod fill;
mod flight;
mod options;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use nnburst_fmq::{PeerWatch, Producer, Queue, SetupError};
use nnburst_hal::process::Origin;
use nnburst_hal::{
    BurstCallback, BurstContext, ErrorStatus, ExecutionFailure, ExecutionOptions, ExecutionOutcome,
    ExecutionResult, HalError, Memory, PreparedModel, Request, RequestPool, Result, TimePoint,
};

use super::scratch::{LastRequest, Scratch};
use super::slots::Slots;
use super::{BurstError, BurstFrame, Closed, Fallback, SubmitError};
use crate::channel::{PollingWindow, Receiver, status_of};
use crate::packet::{BurstAnswer, Dialect, RequestDatum, ResultDatum};
use crate::stats::BurstStats;

pub use options::ControllerOptions;

/// The client's end of a burst.
///
/// One thread drives it (`&mut self`); it may move between threads. Requests are answered in the
/// order in which they were sent. Three ways to execute, from convenient to quick:
///
/// - [`execute`](Self::execute) takes any request;
/// - [`execute_frame`](Self::execute_frame) takes one made ready by [`frame`](Self::frame), and
///   allocates nothing;
/// - [`try_submit`](Self::try_submit) and [`poll`](Self::poll) never wait, and keep several frames
///   in flight.
///
/// Dropping it ends the burst. In a forked child it is [`Closed::Forked`] from the start, and
/// dropping it does nothing.
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
    done: VecDeque<BurstFrame>,
    closed: Option<Closed>,
    /// Storage for [`Self::execute`]; absent only while that runs.
    scratch: Option<Scratch>,
    stats: BurstStats,
    /// The time at which the last answer was taken, nanoseconds of `CLOCK_MONOTONIC`.
    last_taken: u64,
    /// Storage for answers that nobody waits for.
    late: BurstAnswer,
    /// A child of this process has the queues mapped as well, and must not touch them.
    origin: Origin,
}

/// The owner of an answer that is due.
#[derive(Debug)]
enum InFlight {
    Submitted(BurstFrame),
    /// Nobody waits for it any more. It keeps its memories until the driver is done with them.
    Forgotten(BurstFrame),
    /// The frame that [`BurstController::execute_frame`] borrows.
    Borrowed,
    /// Such a frame whose deadline has passed. Its memories stay until the driver is done with
    /// them.
    GivenUp {
        _memories: Vec<Memory>,
    },
}

/// A frame that could not be submitted, handed back.
#[derive(Debug)]
pub struct Rejected {
    /// The frame.
    pub frame: BurstFrame,
    /// The reason.
    pub why: SubmitError,
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
    /// `peer` watches the driver's process or the connection to it; without one, as within one
    /// process, the death of the driver is not noticed.
    ///
    /// # Errors
    /// The queues can't be made, or the driver's answer.
    pub fn configure(
        prepared: &dyn PreparedModel,
        options: &ControllerOptions,
        peer: Option<PeerWatch>,
    ) -> Result<Self> {
        let setup = |error: SetupError| {
            HalError::new(status_of(&error), format!("queue of a burst: {error}"))
        };
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
        let results = Receiver::new(results, window, depth > 1);
        let mut results = results.map_err(|error| error.of_queue("result queue"))?;
        results.set_due();
        if let Some(peer) = &peer {
            results.set_peer(peer);
        }
        let dialect = if extended { Dialect::Extended } else { Dialect::Android };
        if extended {
            results.expect_processor();
        }
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
            in_flight: of_depth(depth)?,
            done: of_depth(depth)?,
            closed: None,
            scratch: Some(Scratch::new(dialect)),
            stats: BurstStats::new().map_err(|error| HalError::failure(error.to_string()))?,
            last_taken: 0,
            late: BurstAnswer::default(),
            origin: Origin::here(),
        })
    }

    /// Frames that may be in flight.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns whether deadlines, loop timeouts and driver-managed buffers travel.
    pub fn is_extended(&self) -> bool {
        self.dialect == Dialect::Extended
    }

    /// Parts of the driver's real-time profile that were refused.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The reason of the burst's end, if it has ended.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Latencies of the executions so far.
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

    /// Has the driver forget a memory, before it goes. Requests underway and frames must not use it
    /// any more. Dropping a memory's last handle does the same by itself.
    pub fn free_memory(&mut self, memory: &Memory) {
        if !self.origin.is_here() {
            return;
        }
        self.known.remove(&memory.id());
        // Its packet may have the memory's slot.
        self.scratch.iter_mut().for_each(Scratch::forget);
        self.slots.release(memory.id());
    }

    /// Executes a request and waits for the answer. The request that was executed last costs less
    /// than another one, with other memories too. An error without fallback comes as
    /// `GENERAL_FAILURE`; [`closed`](Self::closed) then tells whether the driver is gone. Where the
    /// deadline of `options` passes first, the result is `MISSED_DEADLINE_TRANSIENT`, whatever the
    /// driver does, and the burst goes on.
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
            Err(error @ BurstError::DeadlineMissed) => {
                let status = ErrorStatus::MissedDeadlineTransient;
                Ok(Err(HalError::new(status, error.to_string()).into()))
            }
            Err(error) => Ok(Err(HalError::failure(error.to_string()).into())),
        };
        self.scratch = Some(scratch);
        result
    }

    /// Stands for the request that [`execute`](Self::execute) executed last, until that executes
    /// another one, or one with other memories.
    pub fn last_request(&self) -> Option<LastRequest> {
        self.scratch.as_ref()?.written()
    }

    /// Executes the last request again, without looking at it: with the same arguments and options,
    /// but for the deadline, which is `deadline`, in the same memories. Those have to be there
    /// still; otherwise the driver answers an error, or takes others. `None` where it is not the
    /// last one any more.
    ///
    /// # Errors
    /// As for [`execute_frame`](Self::execute_frame).
    pub fn execute_last(
        &mut self,
        last: LastRequest,
        deadline: Option<TimePoint>,
    ) -> Option<std::result::Result<&BurstAnswer, BurstError>> {
        let mut scratch = self.scratch.take_if(|scratch| scratch.written() == Some(last))?;
        scratch.frame.set_deadline(deadline);
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
    ) -> std::result::Result<BurstFrame, Fallback> {
        let mut frame = BurstFrame::new(self.dialect);
        self.fill(&mut frame, request, options)?;
        frame.inner().kept.extend_from_slice(&request.pools);
        Ok(frame)
    }

    /// Exchanges the pool at this place of a frame's request for another. It costs a look at what
    /// is known of the memory, and the first time a slot; nothing is allocated after that.
    ///
    /// # Errors
    /// [`Fallback`]: the frame is as before.
    pub fn set_pool(
        &mut self,
        frame: &mut BurstFrame,
        at: usize,
        pool: &RequestPool,
    ) -> std::result::Result<(), Fallback> {
        let stands = self.burst_pool(pool)?;
        frame.set_pool(at, stands).map_err(Fallback::Inexpressible)?;
        if let Some(kept) = frame.inner().kept.get_mut(at) {
            kept.clone_from(pool);
        }
        Ok(())
    }

    /// Writes a frame anew, for another request, into the storage that it has.
    ///
    /// # Errors
    /// [`Fallback`]: this request can't travel in this burst, and the frame is of no use until it
    /// is written with one that can.
    pub fn rewrite(
        &mut self,
        frame: &mut BurstFrame,
        request: &Request,
        options: &ExecutionOptions,
    ) -> std::result::Result<(), Fallback> {
        self.fill(frame, request, options)?;
        frame.inner().kept.clone_from(&request.pools);
        Ok(())
    }

    /// Executes a frame and waits for its answer, and so for those of all frames submitted before;
    /// until the frame's deadline at most ([`BurstFrame::set_deadline`]), whatever the driver does.
    ///
    /// # Errors
    /// There is no answer; [`BurstError::NotSent`] leaves the ordinary path open.
    pub fn execute_frame<'f>(
        &mut self,
        frame: &'f mut BurstFrame,
    ) -> std::result::Result<&'f BurstAnswer, BurstError> {
        let inner = frame.inner();
        inner.outcome = self.run(inner);
        frame.answer()
    }
}

/// Room for the frames of a burst of this depth, which the driver has had a say in.
fn of_depth<T>(depth: usize) -> Result<VecDeque<T>> {
    let mut frames = VecDeque::new();
    let no_memory = |_| HalError::exhausted(format!("no memory for {depth} frames in flight"));
    frames.try_reserve(depth).map_err(no_memory)?;
    Ok(frames)
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
