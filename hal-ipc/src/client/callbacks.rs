//! Callbacks that the driver still owes a word, and those it may ask.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nnburst_hal::{
    BurstCallback, ExecutionCallback, ExecutionResult, HalError, Memory, PreparedModel,
    PreparedModelCallback, Result,
};

use super::link::Link;

/// A callback waits for the end of what it was given for; the link stays up for it.
pub(super) struct Owed<C: ?Sized> {
    callback: Arc<C>,
    _link: Arc<Link>,
}

impl Owed<dyn PreparedModelCallback> {
    pub(super) fn tell(self, result: Result<Arc<dyn PreparedModel>>) {
        self.callback.notify(result);
    }
}

impl Owed<dyn ExecutionCallback> {
    pub(super) fn tell(self, result: ExecutionResult) {
        self.callback.notify(result);
    }
}

type Table<C> = Mutex<HashMap<u64, C>>;

/// By the numbers that the driver knows them by. Whoever takes one out tells it, so each is told once.
#[derive(Default)]
pub(super) struct Callbacks {
    /// Relaxed: only uniqueness matters.
    next: AtomicU64,
    prepared: Table<Owed<dyn PreparedModelCallback>>,
    executed: Table<Owed<dyn ExecutionCallback>>,
    bursts: Table<Arc<dyn BurstCallback>>,
}

impl Callbacks {
    fn add<C>(&self, table: &Table<C>, callback: C) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(table).insert(id, callback);
        id
    }

    pub(super) fn add_prepared(
        &self,
        callback: Arc<dyn PreparedModelCallback>,
        link: &Arc<Link>,
    ) -> u64 {
        self.add(&self.prepared, Owed { callback, _link: Arc::clone(link) })
    }

    pub(super) fn take_prepared(&self, id: u64) -> Option<Owed<dyn PreparedModelCallback>> {
        lock(&self.prepared).remove(&id)
    }

    pub(super) fn add_executed(
        &self,
        callback: Arc<dyn ExecutionCallback>,
        link: &Arc<Link>,
    ) -> u64 {
        self.add(&self.executed, Owed { callback, _link: Arc::clone(link) })
    }

    pub(super) fn take_executed(&self, id: u64) -> Option<Owed<dyn ExecutionCallback>> {
        lock(&self.executed).remove(&id)
    }

    pub(super) fn add_burst(&self, callback: Arc<dyn BurstCallback>) -> u64 {
        self.add(&self.bursts, callback)
    }

    pub(super) fn remove_burst(&self, id: u64) {
        // The lock is let go of before the callback.
        let callback = lock(&self.bursts).remove(&id);
        drop(callback);
    }

    pub(super) fn memories(&self, id: u64, slots: &[i32]) -> Result<Vec<Memory>> {
        let callback = lock(&self.bursts).get(&id).cloned();
        callback
            .ok_or_else(|| HalError::invalid(format!("there is no burst {id}")))?
            .memories(slots)
    }

    /// Whether the driver owes anybody a word.
    pub(super) fn are_owed(&self) -> bool {
        !lock(&self.prepared).is_empty() || !lock(&self.executed).is_empty()
    }

    /// The driver is gone: everybody who waits hears of it.
    pub(super) fn lose(&self, why: &HalError) {
        for (_, waiting) in std::mem::take(&mut *lock(&self.prepared)) {
            waiting.tell(Err(why.clone()));
        }
        for (_, waiting) in std::mem::take(&mut *lock(&self.executed)) {
            waiting.tell(Err(why.clone().into()));
        }
        // Let go of outside of the lock, as above.
        let bursts = std::mem::take(&mut *lock(&self.bursts));
        drop(bursts);
    }
}

impl std::fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

fn lock<C>(table: &Table<C>) -> MutexGuard<'_, HashMap<u64, C>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
