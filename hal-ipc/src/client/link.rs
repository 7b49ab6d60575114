//! A client's connection: what all proxies of one service share.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use nnburst_hal::process::{self, PerProcess};
use nnburst_hal::{
    Budget, ErrorStatus, ExecutionFailure, HalError, Layer, Memory, Phase, Result, TimePoint,
    bound, setting, trace_span,
};
use serde::de::DeserializeOwned;

use super::callbacks::Callbacks;
use super::prepared_model::RemotePreparedModel;
use crate::connection::{Answer, Connection, Expects, Handler, Late, Limit};
use crate::limits::ConnectionLimits;
use crate::pool::Pool;
use crate::socket::{ReceivedFrame, Socket};
use crate::wire::{
    self, CallRef, CallbackEvent, DescriptorsIn, DescriptorsOut, Kind, Made, Question,
};

/// Threads for a driver's events and questions, and how many of those may wait.
const THREADS: usize = 4;
const WAITING: usize = 4096;

/// The time that a service may take to accept a connection, to greet and to answer a query, where
/// the setting says nothing else.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the time that a service may take to accept a connection, to greet and to answer a query,
/// and the period at which one that computes is asked whether it is still there: the setting
/// `service-timeout`, in milliseconds.
pub(crate) fn service_timeout() -> Duration {
    let set = setting("service-timeout").and_then(|value| value.to_str()?.parse().ok());
    set.filter(|&ms| ms > 0).map_or(TIMEOUT, Duration::from_millis)
}

/// The connection as the proxies hold it; it ends with the last of them.
#[derive(Debug)]
pub(super) struct Link {
    connection: Arc<Connection>,
    pub(super) callbacks: Arc<Callbacks>,
}

/// The connections of this process as a client.
static CONNECTIONS: PerProcess<Vec<Weak<Connection>>> = PerProcess::new();

/// Disconnects from every service, for whoever is about to end the process, or to unload a library,
/// and wants to leave nothing behind: the threads that read the connections end. To whoever still
/// uses a device it is as if its driver had died.
pub fn hang_up_on_all() {
    let connections = CONNECTIONS.get().lock().unwrap_or_else(PoisonError::into_inner);
    connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.close());
}

impl Link {
    pub(super) fn start(socket: Socket) -> std::io::Result<Arc<Self>> {
        let connection = {
            let pool = Pool::new("nnburst-events", THREADS, WAITING);
            let limits = ConnectionLimits::default().amounts();
            let patience = Some(service_timeout());
            Connection::with_patience(socket, pool, Budget::root("service", limits), patience)
        };
        {
            let mut all = CONNECTIONS.get().lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|connection| connection.strong_count() > 0);
            all.push(Arc::downgrade(&connection));
        }
        let callbacks = Arc::new(Callbacks::default());
        let link = Arc::new(Self {
            connection: Arc::clone(&connection),
            callbacks: Arc::clone(&callbacks),
        });
        let listener = Arc::new(Listener { link: Arc::downgrade(&link), callbacks });
        process::spawn("nnburst-reader", move || connection.read_on(&listener))?;
        Ok(link)
    }

    /// Fails in a child of the process that connected.
    pub(super) fn check_origin(&self) -> Result<()> {
        self.connection.check_origin()
    }

    pub(super) fn lost(&self) -> Option<HalError> {
        self.connection.lost()
    }

    /// Asks whether the driver is there; the connection ends if it is silent.
    pub(super) fn check_peer(&self) -> Result<()> {
        self.connection.check_peer()
    }

    pub(super) fn watch(&self) -> Result<OwnedFd> {
        self.connection.watch()
    }

    /// A call without descriptors or tail, of no execution.
    pub(super) fn call<T: DeserializeOwned>(&self, call: &CallRef<'_>) -> Result<T> {
        self.call_with(call, &[], &DescriptorsOut::default())
            .map(|answer| answer.value)
            .map_err(|failure| failure.error)
    }

    /// A call that any service answers at once: one that doesn't is not waited for.
    pub(super) fn query<T: DeserializeOwned>(&self, call: &CallRef<'_>) -> Result<T> {
        let within = Some(service_timeout());
        let limit = Limit { deadline: limit(call), within, late: None };
        match self.call_within(call, &[], &DescriptorsOut::default(), limit) {
            Ok(answer) => Ok(answer.value),
            Err(failure) => Err(named(call, failure.error)),
        }
    }

    pub(super) fn call_with<T: DeserializeOwned>(
        &self,
        call: &CallRef<'_>,
        tail: &[u8],
        fds: &DescriptorsOut<'_>,
    ) -> std::result::Result<Answer<T>, ExecutionFailure> {
        self.call_within(call, tail, fds, Limit { deadline: limit(call), ..Limit::default() })
    }

    /// As [`Self::call_with`], for a call that makes an object: one that is made too late is
    /// released.
    pub(super) fn call_making<T: DeserializeOwned + Made>(
        &self,
        call: &CallRef<'_>,
        fds: &DescriptorsOut<'_>,
    ) -> std::result::Result<Answer<T>, ExecutionFailure> {
        let late = Some(release::<T> as Late);
        self.call_within(call, &[], fds, Limit { deadline: limit(call), late, within: None })
    }

    /// As [`Self::call`], without waiting for longer than `patience`.
    pub(super) fn call_for<T: DeserializeOwned>(
        &self,
        call: &CallRef<'_>,
        patience: Duration,
    ) -> Result<T> {
        let deadline = bound::earlier(limit(call), Some(TimePoint::after(patience)));
        let limit = Limit { deadline, ..Limit::default() };
        self.call_within(call, &[], &DescriptorsOut::default(), limit)
            .map(|answer| answer.value)
            .map_err(|failure| failure.error)
    }

    fn call_within<T: DeserializeOwned>(
        &self,
        call: &CallRef<'_>,
        tail: &[u8],
        fds: &DescriptorsOut<'_>,
        limit: Limit,
    ) -> std::result::Result<Answer<T>, ExecutionFailure> {
        let _span = trace_span(Layer::Ipc, phase(call), call.name());
        self.connection.call(call, tail, fds.as_slice(), limit)
    }

    /// Returns whether the driver has left a call without an answer, and has said nothing since.
    pub(super) fn is_silent(&self) -> bool {
        self.connection.is_silent()
    }

    /// Tells the driver that nobody here holds the object any more.
    pub(super) fn release(&self, object: u64) {
        // If the driver is gone, so is its object.
        let _ = self.connection.note(&CallRef::Release { object });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.connection.close();
    }
}

/// Until when a call is waited for: its own deadline and some time for the driver to report that it
/// was missed, or the calling thread's bound.
fn limit(call: &CallRef<'_>) -> Option<TimePoint> {
    bound::earlier(call.deadline().map(bound::answered_by), bound::bound())
}

/// The error of a query, with the query's name where the driver gave no answer.
fn named(call: &CallRef<'_>, error: HalError) -> HalError {
    // What the driver itself answered stays as it is.
    if error.status != ErrorStatus::DeviceUnavailable {
        return error;
    }
    HalError::new(error.status, format!("{}: {}", call.name(), error.reason))
}

/// Releases what an answer made that nobody waits for.
fn release<T: DeserializeOwned + Made>(connection: &Connection, frame: &ReceivedFrame) {
    let made: std::result::Result<std::result::Result<T, wire::Failure>, _> =
        wire::decode_all(&frame.payload);
    if let Ok(Ok(made)) = made {
        // If the driver is gone, so is its object.
        let _ = connection.note(&CallRef::Release { object: made.object() });
    }
}

/// Returns the phase of a call, for a timeline.
fn phase(call: &CallRef<'_>) -> Phase {
    match call {
        CallRef::PrepareModel { .. } | CallRef::PrepareModelFromCache { .. } => Phase::Preparation,
        CallRef::ExecuteSynchronously { .. }
        | CallRef::Execute { .. }
        | CallRef::ExecuteFenced { .. } => Phase::Execution,
        CallRef::ConfigureBurst { .. } => Phase::Initialization,
        CallRef::CopyTo { .. } | CallRef::CopyFrom { .. } => Phase::InputsAndOutputs,
        _ => Phase::Unspecified,
    }
}

/// Hears what the driver says by itself.
struct Listener {
    link: Weak<Link>,
    callbacks: Arc<Callbacks>,
}

impl Handler for Listener {
    fn handle(self: Arc<Self>, connection: &Arc<Connection>, frame: ReceivedFrame) {
        match frame.kind {
            Kind::Note => match wire::decode_all(&frame.payload) {
                Ok(event) => self.event(event),
                Err(error) => tracing::warn!(%error, "an event of the driver is malformed"),
            },
            Kind::Call => self.question(connection, &frame),
            Kind::Answer | Kind::Ping | Kind::Pong => {}
        }
    }

    fn expects(&self) -> Expects {
        self.callbacks.expect()
    }

    fn hung_up(&self, why: &HalError) {
        self.callbacks.lose(why);
    }
}

impl Listener {
    fn event(&self, event: CallbackEvent) {
        match event {
            CallbackEvent::Prepared { callback, result } => {
                let model = result.and_then(|object| {
                    let link = self.link.upgrade();
                    let link =
                        link.ok_or_else(|| HalError::unavailable("the device was dropped"))?;
                    Ok(Arc::new(RemotePreparedModel::new(link, object)))
                });
                // An unknown callback drops the model, which releases it in the driver.
                if let Some(waiting) = self.callbacks.take_prepared(callback) {
                    waiting.tell(model.map(|model| model as _));
                }
            }
            CallbackEvent::Executed { callback, result } => {
                if let Some(waiting) = self.callbacks.take_executed(callback) {
                    waiting.tell(result);
                }
            }
        }
    }

    fn question(&self, connection: &Connection, frame: &ReceivedFrame) {
        let question =
            wire::decode_all(&frame.payload).map_err(|error| HalError::invalid(error.to_string()));
        let answer = question.and_then(|question| match question {
            Question::Memories { callback, slots } => self.callbacks.memories(callback, &slots),
        });
        match answer {
            Ok(memories) => send_memories(connection, frame.id, &memories),
            Err(error) => connection.answer_error(frame.id, error),
        }
    }
}

fn send_memories(connection: &Connection, id: u64, memories: &[Memory]) {
    let mut fds = DescriptorsOut::default();
    let bodies: Result<Vec<_>> = memories.iter().map(|memory| fds.memory(memory)).collect();
    match bodies {
        Ok(bodies) => connection.answer(id, &Ok(bodies), fds.as_slice()),
        Err(error) => connection.answer_error(id, error),
    }
}

/// The fence of an answer, if there is one.
pub(super) fn fence(fds: &mut DescriptorsIn, at: Option<u16>) -> Result<Option<OwnedFd>> {
    at.map(|at| fds.take(at)).transpose()
}

/// Descriptors of ours in the order given.
pub(super) fn places<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    out: &mut DescriptorsOut<'a>,
) -> Result<Vec<u16>> {
    fds.map(|fd| out.push(fd)).collect()
}
