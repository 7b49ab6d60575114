//! One client's session: its objects, its limits, and the way of its calls to the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use nnburst_hal::process;
use nnburst_hal::{Budget, Device, HalError};

use super::fenced::panicked;
use super::objects::{Object, Objects};
use super::peer::Peer;
use super::statistics::{Refusals, Register};
use crate::connection::{Connection, Handler};
use crate::fences::FenceWaiter;
use crate::pool::Pool;
use crate::socket::{MUCH, ReceivedFrame};
use crate::wire::{self, Call, Kind};

/// The longest a release can be: its variant and a 64-bit number.
const RELEASE_BYTES: usize = 16;

/// A client.
pub(super) struct Session {
    pub(super) service: String,
    pub(super) device: Arc<dyn Device>,
    pub(super) objects: Objects,
    /// True if the device charges the client for memory by itself.
    pub(super) charges_memory: bool,
    pub(super) fences: FenceWaiter,
    /// When it began.
    pub(super) since: Instant,
    /// Calls that were answered with an error.
    pub(super) refusals: Refusals,
    peer: Peer,
    register: Arc<Register>,
    /// The threads of its calls.
    pool: Pool,
}

impl Session {
    pub(super) fn new(
        service: String,
        device: Arc<dyn Device>,
        charges_memory: bool,
        peer: Peer,
        connection: u64,
        register: &Arc<Register>,
        pool: Pool,
    ) -> Arc<Self> {
        let objects = Objects::default();
        let known = Arc::clone(register);
        let fences = FenceWaiter::charged_to(peer.budget(), peer.gone());
        let session = Arc::new(Self {
            service,
            device,
            objects,
            charges_memory,
            fences,
            since: Instant::now(),
            refusals: Refusals::default(),
            peer,
            register: known,
            pool,
        });
        register.add(connection, &session);
        session
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the client's budget.
    pub(super) fn budget(&self) -> &Arc<Budget> {
        self.peer.budget()
    }

    /// Counts the error that a call is answered with, if it is one.
    pub(super) fn note(&self, error: Option<&HalError>) {
        if let Some(error) = error {
            self.refusals.count(error.status);
        }
    }

    /// The number of calls that wait for a thread.
    pub(super) fn waiting_calls(&self) -> u64 {
        u64::try_from(self.pool.waiting()).unwrap_or(u64::MAX)
    }

    /// All sessions of the service.
    pub(super) fn register(&self) -> &Register {
        &self.register
    }
}

impl Handler for Session {
    fn handle(self: Arc<Self>, connection: &Arc<Connection>, frame: ReceivedFrame) {
        if frame.kind != Kind::Call {
            // A note other than a release says nothing to a driver.
            return;
        }
        let id = frame.id;
        let is_long = frame.payload.len() > MUCH;
        let answer = || catch_unwind(AssertUnwindSafe(|| self.answer(connection, frame)));
        let answered = if is_long { process::long_work(answer) } else { answer() };
        if answered.is_err() {
            connection.answer_error(id, panicked());
        }
    }

    fn release(
        self: Arc<Self>,
        connection: &Arc<Connection>,
        frame: ReceivedFrame,
    ) -> Option<ReceivedFrame> {
        if frame.payload.len() <= RELEASE_BYTES
            && let Ok(Call::Release { object }) = wire::decode_all(&frame.payload)
        {
            match self.objects.remove(object) {
                // Its allowance is there for the client's next message.
                Some(buffer) if matches!(buffer.object(), Object::Buffer(_)) => drop(buffer),
                // Not here: letting go of a burst waits for its thread, which may wait for us.
                Some(held) => {
                    connection.pool().submit_always(move || self.let_go(held));
                }
                None => {}
            }
            return None;
        }
        Some(frame)
    }

    fn hung_up(&self, _why: &HalError) {
        self.peer.set_gone();
        let held = self.objects.close();
        self.register.remove(self);
        drop(held);
    }
}
