//! A client of the driver: its user, its threads, its budget.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nnburst_hal::{Budget, Priority, Result, TimePoint};
use nnburst_hal_ipc::{FenceWaiter, Peer, Pool};

use crate::processor::{Processor, Running, User};

/// Threads that prepare the models of one client, and that run what it launches of one priority.
const PREPARING: usize = 2;
const EXECUTING: usize = 4;

/// The state that the models of one client share.
#[derive(Debug)]
pub(crate) struct Client {
    /// Set when the client is gone: what runs for it stops.
    pub(crate) gone: Arc<AtomicBool>,
    /// Whose it is: priorities and shares of the processor are those of all clients of a user.
    pub(crate) user: Arc<User>,
    /// Its place among those that the service serves, until the last of its work has ended.
    peer: Option<Peer>,
    /// True if it may ask for real-time scheduling and locked memory, which are the whole
    /// machine's: a client of the service, whose limits are looked at there, or the driver's own
    /// user.
    pub(crate) trusted: bool,
    /// The pool that prepares its models; `None`: whoever asks, since in this process threads that
    /// have nothing else to do would but wait for others, and being woken takes as long as a small
    /// model.
    pub(crate) preparations: Option<Pool>,
    fences: FenceWaiter,
    /// For each priority its own, so that none waits behind a lower one.
    executions: [Pool; 3],
    budget: Option<Arc<Budget>>,
}

/// The user of this process.
pub(crate) fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

impl Client {
    /// The program that this driver is embedded in. Nobody bounds what it takes.
    pub(crate) fn new(gone: Arc<AtomicBool>, uid: u32, preparations: Option<Pool>) -> Self {
        let trusted = uid == own_user();
        Self {
            fences: FenceWaiter::new(Arc::clone(&gone)),
            gone,
            trusted,
            peer: None,
            user: Processor::of_process().user(uid),
            preparations,
            executions: [(); 3].map(|()| Pool::new("nnburst-execute", EXECUTING, usize::MAX)),
            budget: None,
        }
    }

    /// A client of the service. The number of what waits is bounded by the service's limits.
    pub(crate) fn of(peer: &Peer) -> Self {
        let (budget, gone, uid) = (peer.budget(), peer.gone(), peer.uid);
        let pool = |name, threads| Pool::charged_to(budget, 0, name, threads, usize::MAX);
        Self {
            fences: FenceWaiter::charged_to(budget, Arc::clone(&gone)),
            gone,
            trusted: true,
            peer: Some(peer.clone()),
            user: Processor::of_process().user(uid),
            preparations: Some(pool("nnburst-prepare", PREPARING)),
            executions: [(); 3].map(|()| pool("nnburst-execute", EXECUTING)),
            budget: Some(Arc::clone(budget)),
        }
    }

    /// Returns the budget that the client's objects are charged to, if there is one.
    pub(crate) fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// Counts an execution of a burst, which the service doesn't see.
    ///
    /// # Errors
    /// The client's user has executed as often as it may.
    pub(crate) fn count_execution(&self) -> Result<()> {
        self.peer.as_ref().map_or(Ok(()), Peer::count_execution)
    }

    /// Takes a place among what all users have at work, for what is done for this client.
    pub(crate) fn begin(&self, priority: Priority, deadline: Option<TimePoint>) -> Running<'_> {
        self.begin_at(Processor::of_process(), priority, deadline)
    }

    /// As [`Client::begin`], for whoever knows the processor of this process.
    pub(crate) fn begin_at(
        &self,
        processor: &'static Processor,
        priority: Priority,
        deadline: Option<TimePoint>,
    ) -> Running<'_> {
        processor.begin(&self.user, priority, &self.gone, deadline)
    }

    /// Returns the waiter for the fences of its executions.
    pub(crate) fn fences(&self) -> &FenceWaiter {
        &self.fences
    }

    /// The threads for executions of this priority.
    pub(crate) fn executions(&self, priority: Priority) -> &Pool {
        let [low, medium, high] = &self.executions;
        match priority {
            Priority::Low => low,
            Priority::Medium => medium,
            Priority::High => high,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.preparations.iter().for_each(Pool::close);
        self.executions.iter().for_each(Pool::close);
    }
}
