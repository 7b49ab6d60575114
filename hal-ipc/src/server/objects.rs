//! A client's objects of the driver, by number.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nnburst_hal::{
    Buffer, BurstContext, Charge, FencedExecutionCallback, HalError, PreparedModel, Request,
    RequestPool, Result,
};

use super::fenced::FencedObject;

/// The charges of an object to the client's budget; clones of one are taken once.
pub(super) type Charges = Vec<Arc<Charge>>;

/// An object of the driver.
#[derive(Clone)]
pub(super) enum Object {
    Model(Arc<dyn PreparedModel>),
    Buffer(Arc<dyn Buffer>),
    Fenced(Arc<FencedObject>),
    Burst(Arc<dyn BurstContext>),
}

/// An object and what it takes of the client's allowances.
pub(super) struct Held {
    object: Object,
    /// A description for people: of models, and of their bursts.
    label: String,
    charges: Charges,
}

impl Held {
    pub(super) fn object(&self) -> &Object {
        &self.object
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
}

impl Objects {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an object for the client; its number is never used again.
    pub(super) fn insert(&self, object: Object, charges: Charges) -> Result<u64> {
        self.insert_labelled(object, String::new(), charges)
    }

    /// As [`Self::insert`], with a word on what it is.
    pub(super) fn insert_labelled(
        &self,
        object: Object,
        label: String,
        charges: Charges,
    ) -> Result<u64> {
        let mut table = self.lock();
        if table.closed {
            drop(table);
            return Err(HalError::unavailable("the client is gone"));
        }
        table.last = table.last.saturating_add(1);
        let id = table.last;
        table.held.insert(id, Held { object, label, charges });
        Ok(id)
    }

    /// The client holds it no more. The caller drops it, where that may take a while.
    pub(super) fn remove(&self, id: u64) -> Option<Held> {
        self.lock().held.remove(&id)
    }

    /// The client is gone: everything, for the caller to drop.
    pub(super) fn close(&self) -> Vec<Held> {
        let mut table = self.lock();
        table.closed = true;
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
    pub(super) fn label(&self, id: u64) -> String {
        self.lock().held.get(&id).map(|held| held.label.clone()).unwrap_or_default()
    }

    /// All bursts, with their numbers and what they run.
    pub(super) fn bursts(&self) -> Vec<(u64, String, Arc<dyn BurstContext>)> {
        let table = self.lock();
        let burst = |(&id, held): (&u64, &Held)| match &held.object {
            Object::Burst(burst) => Some((id, held.label.clone(), Arc::clone(burst))),
            _ => None,
        };
        table.held.iter().filter_map(burst).collect()
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
