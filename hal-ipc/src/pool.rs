//! A bounded pool of threads for the work of one peer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nnburst_hal::Budget;
use nnburst_hal::process::{self, Origin, PerProcess};

/// A thread without work for this long ends.
const IDLE: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;

/// A bounded number of threads that come with the work and go without it; clones are the same pool.
///
/// For drivers too: what a client launches runs on threads of the client's, and there are so many
/// of them.
///
/// ```
/// let pool = nnburst_hal_ipc::Pool::new("example", 2, 10);
/// assert!(pool.submit(|| ()));
/// pool.close();
/// assert!(!pool.submit(|| ()), "no more");
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    name: String,
    max_threads: usize,
    max_waiting: usize,
    budget: Option<Arc<Budget>>,
    /// Threads that are charged to nobody.
    free: usize,
    state: Mutex<State>,
    /// In a child of this process there are no threads, and nothing is locked.
    origin: Origin,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Those without work, who rested last at the end: they get the next job, so that those beyond
    /// what is needed end.
    resting: Vec<Arc<Condvar>>,
    closed: bool,
    /// Threads without work end, until there is work again.
    unwanted: bool,
}

/// All pools of this process.
static POOLS: PerProcess<Vec<Weak<Shared>>> = PerProcess::new();

impl Pool {
    /// A pool of at most `max_threads` (at least one), which carry `name`; `max_waiting` jobs may
    /// wait.
    pub fn new(name: impl Into<String>, max_threads: usize, max_waiting: usize) -> Self {
        Self::make(name.into(), max_threads, max_waiting, None, usize::MAX)
    }

    /// As [`Pool::new`], of a client: each thread but the first `free` ones is charged to its
    /// budget. Those are to be charged with whatever the pool belongs to, so that they can be had
    /// at any time.
    pub fn charged_to(
        budget: &Arc<Budget>,
        free: usize,
        name: impl Into<String>,
        max_threads: usize,
        max_waiting: usize,
    ) -> Self {
        Self::make(name.into(), max_threads, max_waiting, Some(Arc::clone(budget)), free)
    }

    fn make(
        name: String,
        max_threads: usize,
        max_waiting: usize,
        budget: Option<Arc<Budget>>,
        free: usize,
    ) -> Self {
        let shared = Arc::new(Shared {
            name,
            max_threads: max_threads.max(1),
            max_waiting,
            budget,
            free,
            state: Mutex::default(),
            origin: Origin::here(),
        });
        let mut pools = POOLS.get().lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&shared));
        Self(shared)
    }

    /// Ends the threads of all pools of this process that have no work, for whoever is about to end
    /// it and wants to leave nothing behind. Pools go on working.
    pub fn end_idle_threads() {
        let pools = POOLS.get().lock().unwrap_or_else(PoisonError::into_inner);
        for pool in pools.iter().filter_map(Weak::upgrade) {
            let mut state = pool.lock();
            state.unwanted = true;
            state.wake_all();
        }
    }

    /// Runs the job as soon as a thread is free; false, and the job is dropped, if too many wait
    /// already, if there is no thread to be had, after [`Pool::close`], or in a child of the
    /// process that made the pool.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        if !self.0.origin.is_here() || self.0.lock().jobs.len() >= self.0.max_waiting {
            return false;
        }
        self.submit_always(job)
    }

    /// The number of jobs that wait for a thread; of none in a child of the process that made the
    /// pool.
    pub(crate) fn waiting(&self) -> usize {
        if self.0.origin.is_here() { self.0.lock().jobs.len() } else { 0 }
    }

    /// Runs the job however many wait: for what there is a bounded number of anyway.
    pub(crate) fn submit_always(&self, job: impl FnOnce() + Send + 'static) -> bool {
        if !self.0.origin.is_here() {
            return false;
        }
        let mut state = self.0.lock();
        if state.closed {
            return false;
        }
        state.jobs.push_back(Box::new(job));
        state.unwanted = false;
        if state.wake_one() || state.threads >= self.0.max_threads {
            return true;
        }
        match self.0.spawn(state.threads) {
            Ok(()) => state.threads = state.threads.saturating_add(1),
            // No thread to be had: those there are get to it, or else nobody does.
            Err(error) if state.threads == 0 => {
                tracing::warn!(%error, "no thread for a peer's work");
                let job = state.jobs.pop_back();
                drop(state);
                drop(job);
                return false;
            }
            Err(_) => {}
        }
        true
    }

    /// Drops what waits and takes no more; the threads end after what they are at.
    pub fn close(&self) {
        if !self.0.origin.is_here() {
            return;
        }
        let mut state = self.0.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        state.wake_all();
        drop(state);
        drop(jobs);
    }
}

impl State {
    /// Has the one who rested last look for work; false if nobody rests.
    fn wake_one(&mut self) -> bool {
        let last = self.resting.pop();
        last.inspect(|place| place.notify_one()).is_some()
    }

    fn wake_all(&mut self) {
        while self.wake_one() {}
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more thread than so many.
    fn spawn(self: &Arc<Self>, threads: usize) -> std::io::Result<()> {
        let budget = self.budget.as_ref().filter(|_| threads >= self.free);
        let charge = budget.map(Budget::take_thread).transpose();
        let charge = charge.map_err(std::io::Error::other)?;
        let shared = Arc::clone(self);
        let run = move || {
            shared.run();
            drop(charge);
        };
        process::spawn(self.name.clone(), run).map(drop)
    }

    fn run(&self) {
        let place = Arc::new(Condvar::new());
        // When it last had work: who is woken in vain, since another was faster, goes on resting.
        let mut rests = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // A driver's panic costs its caller an answer, not the peer its threads.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                    tracing::error!(thread = self.name, "a call panicked");
                }
                state = self.lock();
                rests = Instant::now();
                continue;
            }
            let left = IDLE.saturating_sub(rests.elapsed());
            if state.closed || state.unwanted || left.is_zero() {
                break;
            }
            state.resting.push(Arc::clone(&place));
            let waited = place.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            // Still there unless somebody woke it.
            state.resting.retain(|other| !Arc::ptr_eq(other, &place));
        }
        state.threads = state.threads.saturating_sub(1);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("name", &self.0.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_and_too_many_are_refused() {
        let pool = Pool::new("test", 1, 1);
        let (go, wait) = mpsc::channel::<()>();
        let (done, results) = mpsc::channel();
        let first = done.clone();
        assert!(pool.submit(move || {
            first.send(1).unwrap();
            wait.recv().unwrap();
        }));
        assert_eq!(results.recv().unwrap(), 1, "the only thread is at work now");
        assert!(pool.submit(move || done.send(2).unwrap()), "one may wait");
        assert!(!pool.submit(|| {}), "two may not");
        go.send(()).unwrap();
        assert_eq!(results.recv().unwrap(), 2);
    }

    #[test]
    fn idle_threads_end_when_asked_and_come_back_with_work() {
        let pool = Pool::new("test", 1, 4);
        for round in 0..3 {
            let (done, results) = mpsc::channel();
            assert!(pool.submit(move || done.send(()).unwrap()), "round {round}");
            results.recv().unwrap();
            Pool::end_idle_threads();
            while pool.0.lock().threads > 0 {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_panic_leaves_the_pool_working() {
        let pool = Pool::new("test", 1, 4);
        let (done, results) = mpsc::channel();
        assert!(pool.submit(|| panic!("a driver's mistake")));
        assert!(pool.submit(move || done.send(()).unwrap()));
        results.recv().unwrap();
    }
}
