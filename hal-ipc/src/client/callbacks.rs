//! Callbacks that the driver still owes a word, and those it may ask.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nnburst_hal::process::{self, Origin};
use nnburst_hal::{
    BurstCallback, ExecutionCallback, ExecutionResult, HalError, Memory, PreparedModel,
    PreparedModelCallback, Result, TimePoint, bound,
};

use super::link::Link;

/// A callback waits for the end of what it was given for; the link stays up for it.
pub(super) struct Owed<C: ?Sized> {
    callback: Arc<C>,
    /// When it is told that the driver has not answered in time.
    deadline: Option<TimePoint>,
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

/// The time that the clock's thread waits for the next deadline before it ends.
const LINGER: Duration = Duration::from_secs(1);

type Table<C> = Mutex<HashMap<u64, C>>;

/// By the numbers that the driver knows them by. Whoever takes one out tells it, so each is told
/// once.
#[derive(Default)]
pub(super) struct Callbacks {
    /// Relaxed: only uniqueness matters.
    next: AtomicU64,
    prepared: Table<Owed<dyn PreparedModelCallback>>,
    executed: Table<Owed<dyn ExecutionCallback>>,
    bursts: Table<Arc<dyn BurstCallback>>,
    clock: Clock,
    /// In a child of this process nobody calls back, and nothing is locked.
    origin: Origin,
}

/// The thread that ends what has a deadline. It comes with the first and goes when there is none.
#[derive(Default)]
struct Clock {
    is_running: Mutex<bool>,
    changed: Condvar,
}

impl Callbacks {
    fn add<C>(&self, table: &Table<C>, callback: C) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if self.origin.is_here() {
            lock(table).insert(id, callback);
        }
        id
    }

    pub(super) fn add_prepared(
        &self,
        callback: Arc<dyn PreparedModelCallback>,
        link: &Arc<Link>,
        deadline: Option<TimePoint>,
    ) -> u64 {
        let id = self.add(&self.prepared, Owed { callback, deadline, _link: Arc::clone(link) });
        link.callbacks.heed(deadline);
        id
    }

    pub(super) fn take_prepared(&self, id: u64) -> Option<Owed<dyn PreparedModelCallback>> {
        self.origin.is_here().then(|| lock(&self.prepared).remove(&id))?
    }

    pub(super) fn add_executed(
        &self,
        callback: Arc<dyn ExecutionCallback>,
        link: &Arc<Link>,
        deadline: Option<TimePoint>,
    ) -> u64 {
        let id = self.add(&self.executed, Owed { callback, deadline, _link: Arc::clone(link) });
        link.callbacks.heed(deadline);
        id
    }

    pub(super) fn take_executed(&self, id: u64) -> Option<Owed<dyn ExecutionCallback>> {
        self.origin.is_here().then(|| lock(&self.executed).remove(&id))?
    }

    pub(super) fn add_burst(&self, callback: Arc<dyn BurstCallback>) -> u64 {
        self.add(&self.bursts, callback)
    }

    pub(super) fn remove_burst(&self, id: u64) {
        if !self.origin.is_here() {
            return;
        }
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

    /// Returns whether the driver owes anybody a word.
    pub(super) fn are_owed(&self) -> bool {
        !lock(&self.prepared).is_empty() || !lock(&self.executed).is_empty()
    }

    /// Has the clock know of a deadline.
    fn heed(self: &Arc<Self>, deadline: Option<TimePoint>) {
        if deadline.is_none() {
            return;
        }
        let mut is_running = self.clock.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_running {
            self.clock.changed.notify_one();
            return;
        }
        let callbacks = Arc::clone(self);
        // Without a thread the driver's own word is all there is.
        *is_running = process::spawn("nnburst-clock", move || callbacks.keep_time()).is_ok();
    }

    /// Ends what is due until there is nothing more with a deadline.
    fn keep_time(&self) {
        let mut is_running = self.clock.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_idle = false;
        loop {
            // Whoever adds one has done so before it takes the lock.
            let next = self.next_deadline();
            if next.is_none() && is_idle {
                *is_running = false;
                return;
            }
            is_idle = next.is_none();
            if next.is_some_and(TimePoint::has_passed) {
                // A callback may launch the next execution.
                drop(is_running);
                self.end_late();
                is_running = self.clock.is_running.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // What was answered has its deadline no more: the thread need not stay for that.
            let pause = next.map_or(LINGER, |next| next.remaining().min(LINGER));
            let waited = self.clock.changed.wait_timeout(is_running, pause);
            is_running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn next_deadline(&self) -> Option<TimePoint> {
        let prepared = lock(&self.prepared).values().filter_map(|owed| owed.deadline).min();
        let executed = lock(&self.executed).values().filter_map(|owed| owed.deadline).min();
        bound::earlier(prepared, executed)
    }

    fn end_late(&self) {
        let late = |deadline: Option<TimePoint>| deadline.is_some_and(TimePoint::has_passed);
        let prepared: Vec<_> =
            lock(&self.prepared).extract_if(|_, owed| late(owed.deadline)).collect();
        for (_, owed) in prepared {
            owed.tell(Err(bound::missed("preparation")));
        }
        let executed: Vec<_> =
            lock(&self.executed).extract_if(|_, owed| late(owed.deadline)).collect();
        for (_, owed) in executed {
            owed.tell(Err(bound::missed("execution").into()));
        }
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
