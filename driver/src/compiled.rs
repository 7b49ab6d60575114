//! Compiled models, with what their executions share.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;
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
use crate::processor::{Processor, Running};
use crate::shared::DriverState;

/// Sessions that wait for the next execution; more are dropped.
const SPARE_SESSIONS: usize = 4;

/// Looks of the watchdog that a session may wait through: it looks twice in the time that one may
/// be idle for.
pub(crate) const PATIENCE: u8 = 2;

/// Memory that an execution works in.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) session: Session,
    pub(crate) copies: Copies,
    /// Looks of the watchdog while it is spare. Since when it is isn't noted: every call would look
    /// at the clock.
    seen: u8,
}

impl Scratch {
    fn new(session: Session) -> Box<Self> {
        Box::new(Self { session, copies: Copies::default(), seen: 0 })
    }
}

/// In boxes, which go from hand to hand and are not made anew.
type Spare = Vec<Box<Scratch>>;

/// A model, compiled, with what its executions share.
pub(crate) struct Compiled {
    id: u64,
    /// Without its constants: what requests are held against.
    model: Model,
    plan: Plan,
    /// What the last execution worked in: one that is taken up alone takes no lock for it.
    latest: AtomicCell<Option<Box<Scratch>>>,
    /// Looks of the watchdog since the last execution. Relaxed: it hands nothing over.
    latest_seen: AtomicU8,
    /// What executions beside each other worked in.
    spare: Mutex<Spare>,
    pub(crate) shared: Arc<DriverState>,
    client: Arc<Client>,
    priority: Priority,
    /// Where executions take their turns: that of the process that prepared the model.
    processor: &'static Processor,
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
        let scratch = Scratch::new(plan.try_session()?);
        let (latest, spare) = (AtomicCell::new(Some(scratch)), Mutex::default());
        let (quickest, origin) = (Quickest::default(), Origin::here());
        let processor = Processor::of_process();
        let figures = client.budget().map(|_| Arc::default());
        Ok(Self {
            id,
            model,
            plan,
            latest,
            latest_seen: AtomicU8::new(0),
            spare,
            shared,
            client,
            priority,
            processor,
            quickest,
            figures,
            origin,
        })
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
        self.client.begin_at(self.processor, self.priority, deadline)
    }

    /// The clock, where it matters how long an execution takes: to whoever asks, has a deadline, or
    /// is the first. Of a small model's call each look at it is a tenth.
    pub(crate) fn clock(&self, options: &ExecutionOptions) -> Option<Instant> {
        let matters = options.measure == MeasureTiming::Yes
            || options.deadline.is_some()
            || self.quickest.is_unknown();
        matters.then(Instant::now)
    }

    /// Memory for an execution.
    pub(crate) fn scratch(&self) -> Box<Scratch> {
        self.take_spare().unwrap_or_else(|| Scratch::new(self.plan.session()))
    }

    /// A session with all its memory, for whoever keeps it.
    ///
    /// # Errors
    /// The client has no memory left for it.
    pub(crate) fn kept_session(&self) -> Result<Box<Session>> {
        match self.take_spare() {
            Some(scratch) => Ok(Box::new(scratch.session)),
            None => Ok(Box::new(self.plan.try_session()?)),
        }
    }

    fn take_spare(&self) -> Option<Box<Scratch>> {
        self.latest.take().or_else(|| self.lock_spare().pop())
    }

    fn lock_spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look of the watchdog, which gives back the scratch memory that has waited through some of
    /// them. What may be used at any moment is not taken for a look: an execution that began
    /// meanwhile would make its own.
    pub(crate) fn release_idle(&self) {
        self.lock_spare().retain_mut(|scratch| {
            scratch.seen += 1;
            scratch.seen <= PATIENCE
        });
        let seen = self.latest_seen.load(Ordering::Relaxed);
        if seen >= PATIENCE {
            drop(self.latest.take());
        }
        self.latest_seen.store(seen.saturating_add(1), Ordering::Relaxed);
    }

    /// Keeps memory that an execution worked in for the next.
    pub(crate) fn give_back(&self, mut scratch: Box<Scratch>) {
        scratch.seen = 0;
        self.latest_seen.store(0, Ordering::Relaxed);
        if let Some(other) = self.latest.swap(Some(scratch)) {
            let mut spare = self.lock_spare();
            if spare.len() + 1 < SPARE_SESSIONS {
                spare.push(other);
            }
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

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("id", &self.id).finish_non_exhaustive()
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
        let latest = self.latest.take();
        let count = self.lock_spare().len() + usize::from(latest.is_some());
        self.latest.store(latest);
        count
    }
}
