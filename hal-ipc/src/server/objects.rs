//! A client's objects of the driver, by number.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nnburst_hal::{
    Buffer, BurstContext, Charge, FencedExecutionCallback, HalError, PreparedModel, Priority,
    Request, RequestPool, Result, Tracing,
};

use super::fenced::FencedObject;
use super::statistics::{Counts, WorkKind, WorkStatistics};

/// The charges of an object to the client's budget; clones of one are taken once.
pub(super) type Charges = Vec<Arc<Charge>>;

/// An object of the driver.
#[derive(Clone)]
pub(super) enum Object {
    Model(Arc<dyn PreparedModel>),
    Buffer(Arc<dyn Buffer>),
    Fenced(Arc<FencedObject>),
    Burst(Arc<dyn BurstContext>),
    Tracing(#[expect(dead_code, reason = "held for its end")] Arc<Tracing>),
}

/// A description for people.
#[derive(Debug, Default)]
pub(super) struct Label {
    /// Of a model, or of that which a burst runs.
    pub(super) model: String,
    /// Of a burst's model.
    pub(super) priority: Option<Priority>,
}

/// An object and what it takes of the client's allowances.
pub(super) struct Held {
    object: Object,
    /// A description for people: of models, and of their bursts.
    label: String,
    /// The priority of a burst's model.
    priority: Option<Priority>,
    charges: Charges,
}

impl Held {
    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// The driver's figures of what executes.
    fn work(&self, object: u64) -> Option<WorkStatistics> {
        let model = self.label.clone();
        match &self.object {
            Object::Model(prepared) => prepared.figures().map(|figures| WorkStatistics {
                kind: WorkKind::Model,
                object,
                model,
                priority: Some(figures.priority),
                queue_depth: figures.queue_depth,
                memory_bytes: Some(figures.memory_bytes),
                age: figures.age,
                failures: figures.failures,
                missed_deadlines: figures.missed_deadlines,
                times: figures.times,
            }),
            Object::Burst(burst) => burst.figures().map(|figures| WorkStatistics {
                kind: WorkKind::Burst,
                object,
                model,
                priority: self.priority,
                queue_depth: figures.queue_depth,
                memory_bytes: None,
                age: figures.age,
                failures: figures.failures,
                missed_deadlines: figures.missed_deadlines,
                times: burst.times().unwrap_or_default(),
            }),
            Object::Buffer(_) | Object::Fenced(_) | Object::Tracing(_) => None,
        }
    }
}

/// The objects of one client.
#[derive(Default)]
pub(super) struct Objects(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    held: HashMap<u64, Held>,
    closed: bool,
    /// The sums of what was let go of.
    past: Counts,
}

impl Table {
    /// Adds the figures of what is about to be let go of, under the lock that whoever looks takes.
    fn settle(&mut self, id: u64) {
        if let Some(work) = self.held.get(&id).and_then(|held| held.work(id)) {
            self.past.add(&work.counts());
        }
    }
}

impl Objects {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an object for the client; its number is never used again.
    pub(super) fn insert(&self, object: Object, charges: Charges) -> Result<u64> {
        self.insert_labelled(object, Label::default(), charges)
    }

    /// As [`Self::insert`], with a word on what it is.
    pub(super) fn insert_labelled(
        &self,
        object: Object,
        label: Label,
        charges: Charges,
    ) -> Result<u64> {
        let mut table = self.lock();
        if table.closed {
            drop(table);
            return Err(HalError::unavailable("the client is gone"));
        }
        table.last = table.last.saturating_add(1);
        let id = table.last;
        let Label { model: label, priority } = label;
        table.held.insert(id, Held { object, label, priority, charges });
        Ok(id)
    }

    /// The client holds it no more. The caller drops it, where that may take a while.
    pub(super) fn remove(&self, id: u64) -> Option<Held> {
        let mut table = self.lock();
        table.settle(id);
        table.held.remove(&id)
    }

    /// The client is gone: everything, for the caller to drop.
    pub(super) fn close(&self) -> Vec<Held> {
        let mut table = self.lock();
        table.closed = true;
        for id in table.held.keys().copied().collect::<Vec<_>>() {
            table.settle(id);
        }
        std::mem::take(&mut table.held).into_values().collect()
    }

    fn get(&self, id: u64) -> Option<Object> {
        self.lock().held.get(&id).map(|held| held.object.clone())
    }

    pub(super) fn model(&self, id: u64) -> Result<Arc<dyn PreparedModel>> {
        match self.get(id) {
            Some(Object::Model(model)) => Ok(model),
            _ => Err(HalError::invalid(format!("object {id} is no prepared model of this client"))),
        }
    }

    /// Returns the charges of an object to the client's budget, for whatever makes further use of
    /// it.
    pub(super) fn charges(&self, id: u64) -> Charges {
        self.lock().held.get(&id).map(|held| held.charges.clone()).unwrap_or_default()
    }

    /// Returns a model's description for people.
    pub(super) fn label(&self, id: u64) -> Label {
        let table = self.lock();
        let described = table.held.get(&id).map(|held| {
            let priority = held.work(id).and_then(|work| work.priority);
            Label { model: held.label.clone(), priority }
        });
        described.unwrap_or_default()
    }

    /// The figures of all that executes, and the sums of what did before.
    pub(super) fn works(&self) -> (Vec<WorkStatistics>, Counts) {
        let table = self.lock();
        let works = table.held.iter().filter_map(|(&id, held)| held.work(id));
        let mut works: Vec<_> = works.collect();
        works.sort_by_key(|work| work.object);
        (works, table.past.clone())
    }

    pub(super) fn buffer(&self, id: u64) -> Result<Arc<dyn Buffer>> {
        match self.get(id) {
            Some(Object::Buffer(buffer)) => Ok(buffer),
            _ => Err(HalError::invalid(format!("object {id} is no buffer of this client"))),
        }
    }

    pub(super) fn burst(&self, id: u64) -> Result<Arc<dyn BurstContext>> {
        match self.get(id) {
            Some(Object::Burst(burst)) => Ok(burst),
            _ => Err(HalError::invalid(format!("object {id} is no burst of this client"))),
        }
    }

    pub(super) fn fenced(&self, id: u64) -> Result<Arc<dyn FencedExecutionCallback>> {
        match self.get(id) {
            Some(Object::Fenced(fenced)) => Ok(Arc::clone(&fenced.callback)),
            _ => Err(HalError::invalid(format!("object {id} is no execution of this client"))),
        }
    }

    /// A client may use its own buffers only, whatever tokens it guesses.
    pub(super) fn check_tokens(&self, request: &Request) -> Result<()> {
        let mut tokens = request.pools.iter().filter_map(|pool| match pool {
            RequestPool::Token(token) => Some(*token),
            RequestPool::Memory(_) => None,
        });
        let Some(first) = tokens.next() else { return Ok(()) };
        // Gathered once: a request may name millions.
        let own: HashSet<u32> = {
            let table = self.lock();
            let token = |held: &Held| match &held.object {
                Object::Buffer(buffer) => Some(buffer.token()),
                _ => None,
            };
            table.held.values().filter_map(token).collect()
        };
        match std::iter::once(first).chain(tokens).find(|token| !own.contains(token)) {
            None => Ok(()),
            Some(token) => {
                Err(HalError::invalid(format!("token {token} names no buffer of this client")))
            }
        }
    }
}
