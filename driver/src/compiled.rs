//! Compiled models, with what their executions share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nnburst_executor::{Plan, Session};
use nnburst_hal::process::Origin;
use nnburst_hal::{
    ExecutionOptions, MeasureTiming, Model, ModelFigures, Priority, Resource, Result, TimePoint,
};

use crate::buffer::Buffers;
use crate::client::Client;
use crate::copied::Copies;
use crate::estimate::Quickest;
use crate::figures::{Asked, Figures};
use crate::processor::Running;
use crate::shared::DriverState;

/// Sessions that wait for the next execution; more are dropped.
const SPARE_SESSIONS: usize = 4;

/// Looks of the watchdog that a session may wait through: it looks twice in the time that one may
/// be idle for.
pub(crate) const PATIENCE: u8 = 2;

/// A session that waits for the next execution. When it began to isn't noted: every call would look
/// at the clock.
#[derive(Debug)]
struct Spare {
    scratch: Scratch,
    /// Times that the watchdog has seen it since.
    seen: u8,
}

/// Memory that an execution works in.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) session: Box<Session>,
    pub(crate) copies: Copies,
}

impl From<Session> for Scratch {
    fn from(session: Session) -> Self {
        Self { session: Box::new(session), copies: Copies::default() }
    }
}

/// A model, compiled, with what its executions share.
#[derive(Debug)]
pub(crate) struct Compiled {
    id: u64,
    /// Without its constants: what requests are held against.
    model: Model,
    plan: Plan,
    /// The latest at the end.
    spare: Mutex<Vec<Spare>>,
    pub(crate) shared: Arc<DriverState>,
    client: Arc<Client>,
    priority: Priority,
    pub(crate) quickest: Quickest,
    /// Those of a client of the service.
    figures: Option<Arc<Figures>>,
    /// Threads and locks of a model are of the process that prepared it.
    origin: Origin,
}

impl Compiled {
    pub(crate) fn new(
        id: u64,
        model: Model,
        plan: Plan,
        shared: Arc<DriverState>,
        client: Arc<Client>,
        priority: Priority,
    ) -> Result<Self> {
        // The first execution finds its memory made.
        let scratch = plan.try_session()?.into();
        let spare = Mutex::new(vec![Spare { scratch, seen: 0 }]);
        let (quickest, origin) = (Quickest::default(), Origin::here());
        let figures = client.budget().map(|_| Arc::default());
        Ok(Self { id, model, plan, spare, shared, client, priority, quickest, figures, origin })
    }

    /// Counts an execution that is asked for, bursts apart.
    pub(crate) fn asked(&self) -> Asked {
        Asked::new(self.figures.as_ref())
    }

    /// Its figures, where it is a client's of the service.
    pub(crate) fn figures(&self) -> Option<ModelFigures> {
        let memory = self.plan.budget().map_or(0, |budget| budget.used(Resource::Memory));
        self.figures.as_ref().map(|figures| figures.look(self.priority, memory))
    }

    /// Fails in a child of the process that prepared the model.
    pub(crate) fn check_origin(&self) -> Result<()> {
        self.origin.check()
    }

    /// Tells models of a driver apart.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.shared.buffers
    }

    /// Returns whether bursts touch what the next request needs.
    pub(crate) fn keeps_warm(&self) -> bool {
        self.shared.keeps_warm()
    }

    /// Whose model it is.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Set when nobody waits for results any more.
    pub(crate) fn gone(&self) -> &AtomicBool {
        &self.client.gone
    }

    /// Takes a place for an execution among what all users have at work.
    pub(crate) fn begin(&self, deadline: Option<TimePoint>) -> Running<'_> {
        self.client.begin(self.priority, deadline)
    }

    /// The clock, where it matters how long an execution takes: to whoever asks, has a deadline, or
    /// is the first. Of a small model's call each look at it is a tenth.
    pub(crate) fn clock(&self, options: &ExecutionOptions) -> Option<Instant> {
        let matters = options.measure == MeasureTiming::Yes
            || options.deadline.is_some()
            || self.quickest.is_unknown();
        matters.then(Instant::now)
    }

    pub(crate) fn scratch(&self) -> Scratch {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(|| self.plan.session().into(), |spare| spare.scratch)
    }

    /// A session with all its memory, for whoever keeps it.
    ///
    /// # Errors
    /// The client has no memory left for it.
    pub(crate) fn kept_session(&self) -> Result<Box<Session>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare {
            Some(spare) => Ok(spare.scratch.session),
            None => Ok(Box::new(self.plan.try_session()?)),
        }
    }

    /// A look of the watchdog, which gives back the scratch memory that has waited through some of
    /// them.
    pub(crate) fn release_idle(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.retain_mut(|spare| {
            spare.seen += 1;
            spare.seen <= PATIENCE
        });
    }

    pub(crate) fn give_back(&self, scratch: Scratch) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_SESSIONS {
            spare.push(Spare { scratch, seen: 0 });
        }
    }

    /// Returns whether a deadline may be met by an execution that was asked for so long ago.
    ///
    /// # Errors
    /// As for [`Quickest::check`].
    pub(crate) fn check_deadline(
        &self,
        options: &ExecutionOptions,
        waited: Duration,
    ) -> Result<()> {
        self.quickest.check("run", 1, options.deadline, waited)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if self.origin.is_here() {
            self.shared.idle.forget();
        }
    }
}

#[cfg(test)]
impl Compiled {
    /// The number of sessions that wait.
    pub(crate) fn spare_sessions(&self) -> usize {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
