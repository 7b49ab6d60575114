//! For people who watch a service: its clients, what they hold and execute, and what was refused.
//!
//! ```text
//!   Call::Statistics ─► Register ─► Session ─► Objects: models, bursts, the driver's figures
//!                          │           └ refused calls by status; its budget: uses and refusals
//!                          └ counts of clients that are gone
//! ```
//!
//! Counters only grow while the service lives: what a client that is gone has counted stays in the
//! sums. A user sees its own clients; root and the driver's user see all.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nnburst_hal::{Budget, ErrorStatus, Latencies, Model, Operand, Priority, Resource};
use serde::{Deserialize, Serialize};

use super::session::Session;

/// Models and bursts that are told of at most; what one tells takes up to 6 KiB.
const MOST_WORKS: usize = 1024;

/// A service as one user may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatistics {
    /// The service's process.
    pub pid: u32,
    /// The time that the service has been there.
    pub age: Duration,
    /// True if the rest is about clients of all users.
    pub is_whole: bool,
    /// The resources of the whole process, where all may be seen.
    pub uses: Vec<ResourceUse>,
    /// The sums over the clients that are seen; where all may be seen, over those that are gone
    /// too.
    pub counts: Counts,
    /// The clients.
    pub clients: Vec<ClientStatistics>,
    /// Models and bursts that are left out, since there are too many.
    pub left_out: u64,
}

/// A holder's use of a kind of resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Its name ([`Resource::name`]).
    pub resource: String,
    /// The amount in use.
    pub used: u64,
    /// The limit, where there is one.
    pub limit: Option<u64>,
    /// Times that more was refused.
    pub refused: u64,
}

/// Sums of what ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Executions that ended with a status other than `NONE`.
    pub failures: u64,
    /// Of these, because the deadline was missed.
    pub missed_deadlines: u64,
    /// The times in the driver of all executions.
    pub times: Latencies,
    /// Calls that were answered with an error, by its status; packets of bursts apart.
    pub refused: Vec<(ErrorStatus, u64)>,
}

impl Counts {
    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        self.failures = self.failures.saturating_add(others.failures);
        self.missed_deadlines = self.missed_deadlines.saturating_add(others.missed_deadlines);
        self.times.add(&others.times);
        for &(status, count) in &others.refused {
            match self.refused.iter_mut().find(|(known, _)| *known == status) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => self.refused.push((status, count)),
            }
        }
    }
}

/// A client of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatistics {
    /// The number of its connection.
    pub connection: u64,
    /// Its process, when it connected.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// The name that its process has now; empty if that can't be read.
    pub name: String,
    /// The time that it has been connected.
    pub age: Duration,
    /// Its resources, of those that are limited or in use.
    pub uses: Vec<ResourceUse>,
    /// The sums over all that it ever held.
    pub counts: Counts,
    /// Calls that wait for a thread of the connection.
    pub waiting_calls: u64,
    /// Its prepared models and its bursts.
    pub works: Vec<WorkStatistics>,
}

/// A kind of object that executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkKind {
    /// A prepared model, and its executions outside bursts.
    Model,
    /// A burst.
    Burst,
}

/// A prepared model or a burst, and how it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkStatistics {
    /// The kind.
    pub kind: WorkKind,
    /// The number of the object among the client's.
    pub object: u64,
    /// The model: operations, the first input's and output's shapes. Models have no names.
    pub model: String,
    /// The priority that the model was prepared with, where the driver tells.
    pub priority: Option<Priority>,
    /// Requests that are taken or wait.
    pub queue_depth: u32,
    /// Memory that the client is charged for the model, its bursts included; `None` for a burst.
    pub memory_bytes: Option<u64>,
    /// The time that it has been there.
    pub age: Duration,
    /// Executions that ended with a status other than `NONE`.
    pub failures: u64,
    /// Of these, because the deadline was missed.
    pub missed_deadlines: u64,
    /// The times of all in the driver.
    pub times: Latencies,
}

/// Calls that were answered with an error, by the number of its status.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; ErrorStatus::ALL.len()]);

impl Refusals {
    pub(super) fn count(&self, status: ErrorStatus) {
        let at = ErrorStatus::ALL.iter().position(|&known| known == status);
        if let Some(count) = at.and_then(|at| self.0.get(at)) {
            // Relaxed: a figure, which hands nothing over.
            count.fetch_add(1, Relaxed);
        }
    }

    fn look(&self) -> Vec<(ErrorStatus, u64)> {
        let counts = self.0.iter().map(|count| count.load(Relaxed));
        let counts = ErrorStatus::ALL.iter().copied().zip(counts);
        counts.filter(|&(_, count)| count > 0).collect()
    }
}

/// The sessions of a service, and the sums of those that are gone.
pub(super) struct Register {
    since: Instant,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    sessions: Vec<(u64, Weak<Session>)>,
    past: Counts,
}

impl Default for Register {
    fn default() -> Self {
        Self { since: Instant::now(), table: Mutex::default() }
    }
}

impl Register {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, connection: u64, session: &Arc<Session>) {
        self.lock().sessions.push((connection, Arc::downgrade(session)));
    }

    /// A session is over, and its objects are closed: its sums move here, so that no look at all of
    /// them misses any.
    pub(super) fn remove(&self, session: &Session) {
        let mut table = self.lock();
        let is_it = |known: &Weak<Session>| std::ptr::eq(known.as_ptr(), session);
        if let Some(at) = table.sessions.iter().position(|(_, known)| is_it(known)) {
            table.sessions.swap_remove(at);
            table.past.add(&session.works().1);
        }
    }

    fn look(&self) -> (Vec<(u64, Arc<Session>)>, Counts) {
        let table = self.lock();
        let alive = |(id, session): &(u64, Weak<Session>)| Some((*id, session.upgrade()?));
        (table.sessions.iter().filter_map(alive).collect(), table.past.clone())
    }
}

impl Session {
    /// Returns whether what other users do here is no secret to this client: it could look into the
    /// process by itself.
    pub(super) fn sees_all(&self) -> bool {
        let me = self.peer().uid;
        me == 0 || me == nix::unistd::geteuid().as_raw()
    }

    /// The service as this client may see it.
    pub(super) fn statistics(&self) -> ServiceStatistics {
        let (me, is_whole) = (self.peer().uid, self.sees_all());
        let (sessions, past) = self.register().look();
        let mut counts = if is_whole { past } else { Counts::default() };
        let (mut clients, mut room, mut left_out) = (Vec::new(), MOST_WORKS, 0u64);
        for (connection, session) in sessions {
            if !is_whole && me != session.peer().uid {
                continue;
            }
            let mut client = session.look(connection);
            counts.add(&client.counts);
            let kept = client.works.len().min(room);
            room = room.saturating_sub(kept);
            let left = client.works.len().saturating_sub(kept);
            left_out = left_out.saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
            client.works.truncate(kept);
            clients.push(client);
        }
        clients.sort_by_key(|client| client.connection);
        let whole = is_whole.then(|| uses(&[top_of(self.budget())]));
        ServiceStatistics {
            pid: std::process::id(),
            age: self.register().since.elapsed(),
            is_whole,
            uses: whole.unwrap_or_default(),
            counts,
            clients,
            left_out,
        }
    }

    fn look(&self, connection: u64) -> ClientStatistics {
        let peer = self.peer();
        let (works, counts) = self.works();
        ClientStatistics {
            connection,
            pid: peer.pid,
            uid: peer.uid,
            name: process_name(peer.pid),
            age: self.since.elapsed(),
            uses: uses(&levels(self.budget()).collect::<Vec<_>>()),
            counts,
            waiting_calls: self.waiting_calls(),
            works,
        }
    }

    /// Its models and bursts, and the sums over those and all that it held before.
    fn works(&self) -> (Vec<WorkStatistics>, Counts) {
        let (works, mut counts) = self.objects.works();
        for work in &works {
            counts.add(&work.counts());
        }
        counts.refused = self.refusals.look();
        (works, counts)
    }
}

impl WorkStatistics {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            failures: self.failures,
            missed_deadlines: self.missed_deadlines,
            times: self.times.clone(),
            refused: Vec::new(),
        }
    }
}

/// A budget and those above it.
fn levels(budget: &Arc<Budget>) -> impl Iterator<Item = &Arc<Budget>> {
    std::iter::successors(Some(budget), |budget| budget.parent())
}

fn top_of(budget: &Arc<Budget>) -> &Arc<Budget> {
    levels(budget).last().unwrap_or(budget)
}

/// The uses of the first of some levels, whose limit is the least of all.
fn uses(levels: &[&Arc<Budget>]) -> Vec<ResourceUse> {
    let Some(first) = levels.first() else { return Vec::new() };
    let all = Resource::ALL.into_iter().map(|resource| {
        let least = levels.iter().map(|level| level.limit(resource)).min();
        ResourceUse {
            resource: resource.name().to_owned(),
            used: first.used(resource),
            limit: least.filter(|&limit| limit < u64::MAX),
            refused: first.refused(resource),
        }
    });
    all.filter(|it| it.used > 0 || it.limit.is_some() || it.refused > 0).collect()
}

/// Returns the name that a process gives itself.
fn process_name(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// A model in a few words. It has not been validated.
pub(super) fn label(model: &Model) -> String {
    let graph = &model.main;
    let shape = |indexes: &[u32]| {
        let first = indexes.first().and_then(|&index| usize::try_from(index).ok());
        first.and_then(|index| graph.operands.get(index)).map_or_else(|| "?".to_owned(), shape)
    };
    let (input, output) = (shape(&graph.input_indexes), shape(&graph.output_indexes));
    match graph.operations.as_slice() {
        [only] => format!("{:?}, {input} to {output}", only.kind),
        operations => format!("{} operations, {input} to {output}", operations.len()),
    }
}

fn shape(operand: &Operand) -> String {
    /// More than any operation takes.
    const LONGEST: usize = 8;
    let sizes = operand.dimensions.iter().take(LONGEST);
    sizes.map(ToString::to_string).collect::<Vec<_>>().join("x")
}
