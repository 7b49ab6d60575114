//! Callbacks that the driver still owes a word, and those it may ask.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nnburst_hal::process::{self, Origin};
use nnburst_hal::{
    BurstCallback, ExecutionCallback, ExecutionResult, HalError, Memory, PreparedModel,
    PreparedModelCallback, Result, TimePoint, bound,
};

use super::link::Link;
use crate::connection::Expects;

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
    state: Mutex<ClockState>,
    changed: Condvar,
}

#[derive(Default)]
struct ClockState {
    /// The thread, from its start until it is joined.
    thread: Option<JoinHandle<()>>,
    is_running: bool,
    /// The connection has ended: nobody is owed a word any more.
    is_over: bool,
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

    /// Returns what the driver owes: a word to a callback, or an answer in a burst.
    pub(super) fn expect(&self) -> Expects {
        if !lock(&self.prepared).is_empty() || !lock(&self.executed).is_empty() {
            return Expects::Something;
        }
        let bursts = lock(&self.bursts);
        if bursts.values().any(|burst| burst.awaits_answer()) {
            Expects::Something
        } else if bursts.is_empty() {
            Expects::Nothing
        } else {
            Expects::MaybeSoon
        }
    }

    /// Has the clock know of a deadline.
    fn heed(self: &Arc<Self>, deadline: Option<TimePoint>) {
        if deadline.is_none() {
            return;
        }
        let mut clock = self.clock.lock();
        if clock.is_running || clock.is_over {
            self.clock.changed.notify_one();
            return;
        }
        let callbacks = Arc::clone(self);
        // Without a thread the driver's own word is all there is.
        let thread = process::spawn("nnburst-clock", move || callbacks.keep_time());
        clock.is_running = thread.is_ok();
        // The one before has said that it ends: that takes no time.
        let before = std::mem::replace(&mut clock.thread, thread.ok());
        drop(clock);
        join(before);
    }

    /// Ends what is due until there is nothing more with a deadline.
    fn keep_time(&self) {
        let mut clock = self.clock.lock();
        let mut is_idle = false;
        loop {
            // Whoever adds one has done so before it takes the lock.
            let next = self.next_deadline();
            if clock.is_over || next.is_none() && is_idle {
                clock.is_running = false;
                return;
            }
            is_idle = next.is_none();
            if next.is_some_and(TimePoint::has_passed) {
                // A callback may launch the next execution.
                drop(clock);
                self.end_late();
                clock = self.clock.lock();
                continue;
            }
            // What was answered has its deadline no more: the thread need not stay for that.
            let pause = next.map_or(LINGER, |next| next.remaining().min(LINGER));
            let waited = self.clock.changed.wait_timeout(clock, pause);
            clock = waited.unwrap_or_else(PoisonError::into_inner).0;
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

    /// The driver is gone: everybody who waits is told, and the clock's thread has ended when this
    /// returns.
    pub(super) fn lose(&self, why: &HalError) {
        let clock = {
            let mut clock = self.clock.lock();
            clock.is_over = true;
            clock.thread.take()
        };
        self.clock.changed.notify_one();
        for (_, waiting) in std::mem::take(&mut *lock(&self.prepared)) {
            waiting.tell(Err(why.clone()));
        }
        for (_, waiting) in std::mem::take(&mut *lock(&self.executed)) {
            waiting.tell(Err(why.clone().into()));
        }
        // Let go of outside of the lock, as above.
        let bursts = std::mem::take(&mut *lock(&self.bursts));
        drop(bursts);
        join(clock);
    }
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of a clock's thread, unless this is it: it tells callbacks, which may launch
/// the next execution or drop the last handle of the connection.
fn join(thread: Option<JoinHandle<()>>) {
    let Some(thread) = thread else { return };
    if thread.thread().id() != std::thread::current().id() {
        // A callback that panicked has ended the thread all the same.
        let _ = thread.join();
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
