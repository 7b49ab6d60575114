//! One connection: calls, answers and notes of both sides over one socket, many at a time.
//!
//! A thread of its own reads the socket. Answers go straight to whoever waits for them; calls and
//! notes of the peer go to a bounded pool. When the peer is gone, every call that waits and every
//! later one fails at once.

mod place;
mod writer;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nnburst_hal::process::{self, Origin};
use nnburst_hal::{
    Budget, ErrorStatus, ExecutionFailure, FlowEnd, HalError, Result, TimePoint, bound, trace_flow,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pool::Pool;
use crate::socket::{ReceivedFrame, Sent, Socket, SocketError};
use crate::wire::{self, DescriptorsIn, Failure, Kind, WireError};
use place::{CallOutcome, CallPlace, Waiter};
use writer::Writer;

/// The receiver of a peer's requests and of its disconnection. Runs on the connection's pool.
pub(crate) trait Handler: Send + Sync + 'static {
    /// A call or note; calls are to be answered with [`Connection::answer`].
    fn handle(self: Arc<Self>, connection: &Arc<Connection>, frame: ReceivedFrame);

    /// A note that releases something is taken at once, so that it isn't lost among refused calls.
    /// Gives the frame back if it is anything else.
    fn release(
        self: Arc<Self>,
        connection: &Arc<Connection>,
        frame: ReceivedFrame,
    ) -> Option<ReceivedFrame> {
        let _ = connection;
        Some(frame)
    }

    /// Returns what the peer owes us that comes by itself: then we make sure that it is there.
    fn expects(&self) -> Expects {
        Expects::Nothing
    }

    /// The peer is gone; told once, on the reading thread.
    fn hung_up(&self, why: &HalError);
}

/// The number of this process's next call: of all connections, so that a timeline tells their
/// calls apart.
static NEXT_CALL: AtomicU64 = AtomicU64::new(1);

/// The number of a call's arrow on a timeline: the caller's process, and the call's own.
pub(crate) fn flow_of(pid: u32, call: u64) -> u64 {
    const CALL_BITS: u32 = 40;
    (u64::from(pid) << CALL_BITS) | (call & ((1 << CALL_BITS) - 1))
}

/// An expectation of a peer besides answers to calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expects {
    Something,
    /// Nothing now; what begins to be expected doesn't show on the connection.
    MaybeSoon,
    Nothing,
}

/// An answer, and the descriptors that came with it.
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) fds: DescriptorsIn,
}

#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    writer: Writer,
    waiting: Mutex<Waiting>,
    /// Frames that the peer has sent. Relaxed: a count, which hands nothing over.
    heard: AtomicU64,
    /// The time that the peer may be silent while we wait for it; `None` for a peer that may be as
    /// slow as it likes.
    patience: Option<Duration>,
    /// True if a call was given up and nothing has come since.
    is_silent: AtomicBool,
    pool: Pool,
    /// The budget that the peer's messages are charged to as they arrive.
    budget: Arc<Budget>,
    /// In a child of this process the socket is the parent's: nothing is sent, locked or shut down
    /// there.
    origin: Origin,
}

#[derive(Debug, Default)]
struct Waiting {
    gone: Option<HalError>,
    calls: HashMap<u64, Waiter>,
}

/// The handler of an answer that comes after its call was given up.
pub(crate) type Late = fn(&Connection, &ReceivedFrame);

/// The time that a call may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    /// `None` for as long as it takes.
    pub(crate) deadline: Option<TimePoint>,
    /// The time that a live peer may take: one that takes longer is `DEVICE_UNAVAILABLE`.
    pub(crate) within: Option<Duration>,
    /// The handler of an answer that comes later, if any.
    pub(crate) late: Option<Late>,
}

impl Connection {
    /// A connection to a peer that may be silent for as long as it likes, as clients may.
    pub(crate) fn new(socket: Socket, pool: Pool, budget: Arc<Budget>) -> Arc<Self> {
        Self::with_patience(socket, pool, budget, None)
    }

    /// A connection to a peer that, while it is waited for, is lost if it is silent for twice as
    /// long as this.
    pub(crate) fn with_patience(
        socket: Socket,
        pool: Pool,
        budget: Arc<Budget>,
        patience: Option<Duration>,
    ) -> Arc<Self> {
        Arc::new(Self {
            socket,
            writer: Writer::default(),
            waiting: Mutex::default(),
            heard: AtomicU64::new(0),
            patience,
            is_silent: AtomicBool::new(false),
            pool,
            budget,
            origin: Origin::here(),
        })
    }

    /// Reads until the peer is gone. The caller's thread is the connection's reader from here on.
    pub(crate) fn read_on(self: &Arc<Self>, handler: &Arc<impl Handler>) {
        let error = loop {
            self.expect(handler);
            match self.socket.receive(&self.budget) {
                Ok(frame) => {
                    self.heard.fetch_add(1, Ordering::Relaxed);
                    self.dispatch(handler, frame);
                }
                Err(error) => break error,
            }
        };
        if !matches!(error, SocketError::HungUp) {
            tracing::warn!(%error, "connection ended");
        }
        let gone = lost(&error);
        self.lose(&gone);
        handler.hung_up(&gone);
    }

    /// Waits for the next frame if the peer owes us something, and ends the connection if it is
    /// silent meanwhile.
    fn expect(&self, handler: &Arc<impl Handler>) {
        let Some(patience) = self.patience else { return };
        let mut pinged = None;
        while handler.expects() != Expects::Nothing && !self.socket.is_readable_within(patience) {
            if handler.expects() == Expects::MaybeSoon {
                pinged = None;
            } else if self.probe(&mut pinged).is_err() {
                return;
            }
        }
    }

    /// Asks whether the peer is there, and ends the connection if it says nothing for as long as it
    /// may be silent.
    pub(crate) fn check_peer(&self) -> Result<()> {
        /// The time between two looks whether something came.
        const POLL_INTERVAL: Duration = Duration::from_millis(10);
        self.check_origin()?;
        let mut pinged = None;
        self.probe(&mut pinged)?;
        let end = self.patience.map(TimePoint::after);
        while pinged == Some(self.heard.load(Ordering::Relaxed)) {
            if let Some(gone) = self.lost() {
                return Err(gone);
            }
            if end.is_none_or(TimePoint::has_passed) {
                return self.probe(&mut pinged);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Pings the peer; ends the connection if nothing has come since the last ping.
    fn probe(&self, pinged: &mut Option<u64>) -> Result<()> {
        let heard = self.heard.load(Ordering::Relaxed);
        if *pinged == Some(heard) {
            let silent = HalError::unavailable("the peer is silent: no answer to a ping");
            self.lose(&silent);
            return Err(silent);
        }
        *pinged = Some(heard);
        self.send(Kind::Ping, 0, [&[], &[]], &[])
    }

    fn dispatch(self: &Arc<Self>, handler: &Arc<impl Handler>, frame: ReceivedFrame) {
        // Relaxed: a hint about the peer.
        self.is_silent.store(false, Ordering::Relaxed);
        match frame.kind {
            Kind::Answer => {
                let waiter = self.waiting().calls.remove(&frame.id);
                match waiter {
                    Some(Waiter::Call(call)) => call.tell(CallOutcome::Answered(frame)),
                    Some(Waiter::Nobody(late)) => late(self, &frame),
                    // Nobody waits: a peer that invents answers is ignored.
                    None => {}
                }
            }
            Kind::Note => {
                if let Some(frame) = Arc::clone(handler).release(self, frame) {
                    self.hand_over(handler, frame);
                }
            }
            Kind::Call => self.hand_over(handler, frame),
            Kind::Ping => {
                // If it can't be sent, the next read finds the connection at its end.
                let _ = self.send(Kind::Pong, frame.id, [&[], &[]], &[]);
            }
            // That it came is all there is to it.
            Kind::Pong => {}
        }
    }

    fn hand_over(self: &Arc<Self>, handler: &Arc<impl Handler>, frame: ReceivedFrame) {
        let (kind, id) = (frame.kind, frame.id);
        if let Err(error) = self.try_hand_over(handler, frame)
            && kind == Kind::Call
        {
            self.answer_error(id, error);
        }
    }

    /// To the pool, if what waits there is not too much already.
    fn try_hand_over(
        self: &Arc<Self>,
        handler: &Arc<impl Handler>,
        frame: ReceivedFrame,
    ) -> Result<()> {
        if let Some(error) = frame.refused {
            return Err(error);
        }
        let (connection, handler) = (Arc::clone(self), Arc::clone(handler));
        let handled = move || handler.handle(&connection, frame);
        if self.pool.submit(handled) { Ok(()) } else { Err(too_busy()) }
    }

    /// Returns the budget that the peer's messages are charged to.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the pool of this connection, for work besides calls.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Ends the connection from this side.
    pub(crate) fn close(&self) {
        if !self.origin.is_here() {
            return;
        }
        self.lose(&HalError::unavailable("the connection was closed"));
    }

    fn lose(&self, why: &HalError) {
        let calls = {
            let mut waiting = self.waiting();
            waiting.gone.get_or_insert_with(|| why.clone());
            std::mem::take(&mut waiting.calls)
        };
        self.socket.shut_down();
        self.pool.close();
        for waiter in calls.into_values() {
            if let Waiter::Call(call) = waiter {
                call.tell(CallOutcome::Lost);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails in a child of the process that made the connection.
    pub(crate) fn check_origin(&self) -> Result<()> {
        self.origin.check()
    }

    /// Why the peer is gone, if it is; nothing is known in a child of the process that made the
    /// connection.
    pub(crate) fn lost(&self) -> Option<HalError> {
        if !self.origin.is_here() {
            return None;
        }
        self.waiting().gone.clone()
    }

    /// A descriptor of the socket, for those who watch it by themselves.
    pub(crate) fn watch(&self) -> Result<OwnedFd> {
        self.check_origin()?;
        self.socket
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| HalError::failure(format!("fcntl(F_DUPFD_CLOEXEC): {error}")))
    }

    /// Calls the peer and waits for the answer, as long as `limit` says.
    pub(crate) fn call<T: DeserializeOwned>(
        self: &Arc<Self>,
        message: &impl Serialize,
        tail: &[u8],
        fds: &[BorrowedFd<'_>],
        limit: Limit,
    ) -> std::result::Result<Answer<T>, ExecutionFailure> {
        let (payload, fds) = self.answer_of(wire::encode(message), tail, fds, limit)?;
        let answer: std::result::Result<T, Failure> =
            wire::decode_all(&payload).map_err(|error| malformed(&error))?;
        answer.map(|value| Answer { value, fds })
    }

    /// The part of [`Self::call`] that is the same for all types of messages.
    fn answer_of(
        self: &Arc<Self>,
        head: std::result::Result<Vec<u8>, WireError>,
        tail: &[u8],
        fds: &[BorrowedFd<'_>],
        limit: Limit,
    ) -> Result<(Vec<u8>, DescriptorsIn)> {
        let head = head.map_err(|error| not_encodable(&error))?;
        let frame = self.ask([&head, tail], fds, limit)?;
        match frame.refused {
            Some(error) => Err(error),
            None => Ok((frame.payload, DescriptorsIn::new(frame.fds, &self.budget))),
        }
    }

    fn ask(
        self: &Arc<Self>,
        message: [&[u8]; 2],
        fds: &[BorrowedFd<'_>],
        limit: Limit,
    ) -> Result<ReceivedFrame> {
        self.check_origin()?;
        // Relaxed: only uniqueness matters.
        let id = NEXT_CALL.fetch_add(1, Ordering::Relaxed);
        trace_flow(FlowEnd::Sent, "call", flow_of(std::process::id(), id), TimePoint::now());
        let place = Arc::new(CallPlace::default());
        {
            let mut waiting = self.waiting();
            if let Some(gone) = &waiting.gone {
                return Err(gone.clone());
            }
            waiting.calls.insert(id, Waiter::Call(Arc::clone(&place)));
        }
        if let Err(error) = self.send_until(Kind::Call, id, message, fds, limit.deadline) {
            self.waiting().calls.remove(&id);
            return Err(error);
        }
        let ends = limit.within.map(TimePoint::after);
        let has_passed = |end: Option<TimePoint>| end.is_some_and(TimePoint::has_passed);
        let mut pinged = None;
        loop {
            let patience = self.patience.map(TimePoint::after);
            let until = bound::earlier(bound::earlier(limit.deadline, ends), patience);
            match place.wait(until) {
                CallOutcome::Answered(frame) => return Ok(frame),
                CallOutcome::Lost => return Err(self.lost().unwrap_or_else(unanswered)),
                CallOutcome::Open => {}
            }
            if has_passed(limit.deadline) {
                return self.give_up(id, &place, limit.late);
            }
            if let (Some(bound), true) = (limit.within, has_passed(ends)) {
                self.waiting().calls.remove(&id);
                return Err(HalError::unavailable(format!("the peer gave no answer in {bound:?}")));
            }
            self.probe(&mut pinged)?;
        }
    }

    /// Stops waiting for an answer, unless it has come in this moment.
    fn give_up(&self, id: u64, place: &CallPlace, late: Option<Late>) -> Result<ReceivedFrame> {
        let mut waiting = self.waiting();
        if waiting.calls.remove(&id).is_none() {
            drop(waiting);
            // Whoever took the call out of the table tells it.
            return match place.wait(None) {
                CallOutcome::Answered(frame) => Ok(frame),
                _ => Err(self.lost().unwrap_or_else(unanswered)),
            };
        }
        if let Some(late) = late {
            waiting.calls.insert(id, Waiter::Nobody(late));
        }
        drop(waiting);
        // Relaxed: a hint about the peer.
        self.is_silent.store(true, Ordering::Relaxed);
        Err(bound::missed("call"))
    }

    /// Returns whether the peer has left a call without an answer, and has said nothing since.
    pub(crate) fn is_silent(&self) -> bool {
        // Relaxed: a hint about the peer.
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Tells the peer something; it doesn't answer.
    pub(crate) fn note(&self, message: &impl Serialize) -> Result<()> {
        let head = wire::encode(message).map_err(|error| not_encodable(&error))?;
        self.send(Kind::Note, 0, [&head, &[]], &[])
    }

    /// Answers a call of the peer. An answer that can't be sent turns into an error, if that can
    /// be.
    pub(crate) fn answer<T: Serialize>(
        &self,
        id: u64,
        answer: &std::result::Result<T, Failure>,
        fds: &[BorrowedFd<'_>],
    ) {
        if let Err(error) = self.send_answer(id, wire::encode(answer), fds)
            && answer.is_ok()
        {
            self.answer_error(id, error);
        }
    }

    fn send_answer(
        &self,
        id: u64,
        answer: std::result::Result<Vec<u8>, WireError>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let head = answer.map_err(|error| not_encodable(&error))?;
        self.send(Kind::Answer, id, [&head, &[]], fds)
    }

    pub(crate) fn answer_error(&self, id: u64, error: HalError) {
        self.answer::<()>(id, &Err(error.into()), &[]);
    }

    fn send(&self, kind: Kind, id: u64, message: [&[u8]; 2], fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.check_origin()?;
        if let Some(gone) = self.lost() {
            return Err(gone);
        }
        self.writer.take(None);
        let sent = self.socket.send(kind, id, message, fds);
        self.writer.give_back();
        sent.map_err(|error| self.not_sent(&error))
    }

    /// As [`Self::send`], until a deadline at most: a peer that is stopped reads nothing. What is
    /// left of a frame that has begun is sent by a thread of its own.
    fn send_until(
        self: &Arc<Self>,
        kind: Kind,
        id: u64,
        message: [&[u8]; 2],
        fds: &[BorrowedFd<'_>],
        deadline: Option<TimePoint>,
    ) -> Result<()> {
        if deadline.is_none() {
            return self.send(kind, id, message, fds);
        }
        if let Some(gone) = self.lost() {
            return Err(gone);
        }
        if !self.writer.take(deadline) {
            return Err(bound::missed("sending"));
        }
        let rest = match self.socket.send_until(kind, id, message, fds, deadline) {
            Ok(Sent::InPart(rest)) => rest,
            sent => {
                self.writer.give_back();
                return match sent {
                    Ok(Sent::Nothing) => Err(bound::missed("sending")),
                    sent => sent.map(drop).map_err(|error| self.not_sent(&error)),
                };
            }
        };
        let connection = Arc::clone(self);
        let send = move || {
            if let Err(error) = connection.socket.send_rest(&rest) {
                connection.not_sent(&error);
            }
            connection.writer.give_back();
        };
        let thread = process::spawn("nnburst-writer", send);
        thread.map(drop).map_err(|error| {
            let gone = HalError::unavailable(format!("no thread to send the rest: {error}"));
            self.lose(&gone);
            self.writer.give_back();
            gone
        })
    }

    fn not_sent(&self, error: &SocketError) -> HalError {
        match error {
            SocketError::Wire(error) => HalError::invalid(error.to_string()),
            // Half a frame may be out: nothing sensible can follow it.
            error => {
                let gone = lost(error);
                self.lose(&gone);
                gone
            }
        }
    }
}

fn malformed(error: &WireError) -> HalError {
    HalError::failure(format!("the answer is malformed: {error}"))
}

fn not_encodable(error: &WireError) -> HalError {
    HalError::invalid(error.to_string())
}

fn lost(error: &SocketError) -> HalError {
    HalError::unavailable(format!("the connection to the peer is lost: {error}"))
}

fn unanswered() -> HalError {
    HalError::unavailable("the peer gave up the call")
}

/// Why a call of the peer is not taken up.
pub(crate) fn too_busy() -> HalError {
    HalError::new(
        ErrorStatus::ResourceExhaustedTransient,
        "as many calls of this client wait already as may",
    )
}
