//! Threads that stand by to share a step with the one that runs a session.
//!
//! Whoever runs the session always works, and never waits for a helper to begin: it opens a job,
//! takes pieces of it like everybody else, closes it, and waits only for those who are still
//! inside. A helper whose core is busy comes too late, finds the job closed, and costs nothing.
//!
//! Helpers poll for [`HOT`] after the last job and then park. A job opens with one store; parked
//! helpers cost a system call to wake, polling ones none.
//!
//! A helper may also be held up within a job, where something else wants its core: the owner then
//! waits for as long as the system gives that to others, which is many times the job. Whoever was
//! made to wait like that works alone for a while, for longer each time it happens again.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use nnburst_hal::Budget;
use nnburst_hal::process::{self, Origin};

/// The time that a worker polls before it parks: longer than the pause between the steps of a plan
/// and than the time a client takes to send the next frame back to back, shorter than what a
/// battery notices.
const HOT: Duration = Duration::from_millis(2);

/// A helper that keeps the owner waiting for so much longer than the owner itself worked is held
/// up: pieces are alike, so it is not its work that takes it so long.
const HELD_UP: Duration = Duration::from_micros(200);

/// The time that the owner then works alone, at first and at most.
const ALONE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Polls between two looks at the clock.
const CHECK_EVERY: u32 = 256;

/// Set while helpers may enter; below it is how many are inside, above it the number of the job.
const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;
const JOB: u32 = 32;

type Job = dyn Fn(usize) + Sync;

/// The state that the workers share with the owner.
struct Shared {
    state: AtomicU64,
    /// Written by the owner while the state is closed and nobody is inside; read by those inside.
    job: UnsafeCell<Option<*const Job>>,
    asleep: Box<[AtomicBool]>,
    over: AtomicBool,
}

// SAFETY: the job is a `Sync` closure, and `state` orders who writes and who reads its address.
unsafe impl Send for Shared {}
// SAFETY: as for Send.
unsafe impl Sync for Shared {}

/// A session's helpers; they end with it.
pub(super) struct Team {
    shared: Arc<Shared>,
    helpers: Vec<(JoinHandle<()>, Thread)>,
    /// The owner works alone until then.
    alone: Option<Instant>,
    /// For how long when a helper is held up next.
    next_alone: Duration,
    origin: Origin,
}

impl std::fmt::Debug for Team {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Team of {}", self.size())
    }
}

impl Team {
    /// A team of `size` threads, the caller's included. Fewer where the system gives no more.
    pub(super) fn new(size: usize, budget: Option<&Arc<Budget>>) -> Self {
        let asleep = (1..size).map(|_| AtomicBool::new(false)).collect();
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            asleep,
            over: AtomicBool::new(false),
        });
        let mut helpers = Vec::new();
        let owner = sched_getcpu().ok();
        for helper in 0..size.saturating_sub(1) {
            let theirs = Arc::clone(&shared);
            let charge = budget.map(Budget::take_thread).transpose();
            let spawned = charge.map_err(std::io::Error::other).and_then(|charge| {
                process::spawn("nnburst-helper", move || {
                    help(&theirs, helper, owner);
                    drop(charge);
                })
            });
            match spawned {
                Ok(handle) => {
                    let thread = handle.thread().clone();
                    helpers.push((handle, thread));
                }
                Err(error) => {
                    tracing::warn!(%error, "steps are shared among fewer threads than asked for");
                    break;
                }
            }
        }
        Self { shared, helpers, alone: None, next_alone: ALONE.0, origin: Origin::here() }
    }

    /// Returns the number of threads that work on a job at most, the owner included.
    pub(super) fn size(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs `job(0)` here and `job(1..)` on whichever helpers come in time. Returns when all that
    /// began have ended: `job` must share its work out by itself. `idle` is called now and then
    /// while this waits for helpers.
    pub(super) fn share(&mut self, job: &(dyn Fn(usize) + Sync), idle: &dyn Fn()) {
        let begun = Instant::now();
        if self.alone.is_some_and(|until| begun < until) {
            return job(0);
        }
        // SAFETY: `job` is borrowed until all have left.
        unsafe { self.open(job) };
        // Also when `job` unwinds: helpers may be in it.
        let closing = Closing(&self.shared, idle);
        job(0);
        let worked = begun.elapsed();
        drop(closing);
        let waited = begun.elapsed().saturating_sub(worked);
        if waited > worked + HELD_UP {
            self.alone = Some(Instant::now() + self.next_alone);
            self.next_alone = (self.next_alone * 2).min(ALONE.1);
        } else {
            // Forgotten after some dozens of jobs.
            self.next_alone = (self.next_alone - self.next_alone / 32).max(ALONE.0);
        }
    }

    /// Lets helpers in.
    ///
    /// # Safety
    /// `job` stays until [`Closing`] has ended what this begins.
    unsafe fn open(&self, job: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        let begun = shared.state.load(Ordering::Relaxed) >> JOB;
        let job_address: *const (dyn Fn(usize) + Sync + '_) = job;
        // SAFETY: the same fat pointer; it is followed only before `Closing` returns, as the caller
        // promises.
        let erased: *const Job = unsafe { std::mem::transmute(job_address) };
        // SAFETY: closed and empty, so nobody reads.
        unsafe { *shared.job.get() = Some(erased) };
        // Release: pairs with the acquire of a helper's entry, which then sees the job.
        shared.state.store(((begun + 1) & 0xffff_ffff) << JOB | OPEN, Ordering::Release);
        // SeqCst with the fence of a helper that goes to sleep: one of the two sees the other.
        fence(Ordering::SeqCst);
        for (asleep, (_, thread)) in shared.asleep.iter().zip(&self.helpers) {
            if asleep.load(Ordering::Relaxed) {
                thread.unpark();
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // Threads of the process that this one was forked from: here nobody would ever end.
            self.helpers.drain(..).for_each(std::mem::forget);
            return;
        }
        // Release: nothing but the flag; unpark orders the rest.
        self.shared.over.store(true, Ordering::Release);
        for (handle, thread) in self.helpers.drain(..) {
            thread.unpark();
            // A helper that panicked cost its run the result: the bands it had taken were missed.
            let _ = handle.join();
        }
    }
}

/// Closes the job and waits until nobody is inside.
struct Closing<'a>(&'a Shared, &'a dyn Fn());

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // Acquire here and below: pairs with the release of those who leave, whose results are then
        // seen.
        let mut state = self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut polls = 0u32;
        while state & INSIDE != 0 {
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(CHECK_EVERY) {
                // Whoever is inside may need this very core.
                self.1();
                std::thread::yield_now();
            }
            std::hint::spin_loop();
            state = self.0.state.load(Ordering::Acquire);
        }
    }
}

/// Leaves the job, also when it unwinds.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire of the owner that waits for it.
        self.0.state.fetch_sub(1, Ordering::Release);
    }
}

/// The life of a helper of one who was on the core `owner`.
fn help(shared: &Shared, helper: usize, owner: Option<usize>) {
    spread_out(owner);
    let mut last = 0;
    let mut since = Instant::now();
    let mut polls = 0u32;
    // Acquire: pairs with the release in `Team::drop`.
    while !shared.over.load(Ordering::Acquire) {
        let state = shared.state.load(Ordering::Relaxed);
        if state & OPEN != 0 && state >> JOB != last {
            // Acquire on success: pairs with the release that opened the job.
            let entered = shared.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if entered.is_ok() {
                last = state >> JOB;
                let _leaving = Leaving(shared);
                // SAFETY: written before the job was opened, and not again before we leave.
                if let Some(job) = unsafe { *shared.job.get() } {
                    // SAFETY: the owner keeps the closure alive until we leave.
                    unsafe { (*job)(helper + 1) };
                }
            }
            since = Instant::now();
            continue;
        }
        polls = polls.wrapping_add(1);
        if !polls.is_multiple_of(CHECK_EVERY) || since.elapsed() < HOT {
            std::hint::spin_loop();
            continue;
        }
        let Some(asleep) = shared.asleep.get(helper) else { return };
        asleep.store(true, Ordering::Relaxed);
        // SeqCst with the fence of an owner that has opened a job: one of the two sees the other.
        fence(Ordering::SeqCst);
        let now = shared.state.load(Ordering::Relaxed);
        let wanted = now & OPEN != 0 && now >> JOB != last;
        if !wanted && !shared.over.load(Ordering::Acquire) {
            std::thread::park();
        }
        asleep.store(false, Ordering::Relaxed);
        since = Instant::now();
    }
}

/// Returns the number of cores that the process as a whole may run on. More threads than that wait
/// for each other.
pub(super) fn cores() -> usize {
    sched_getaffinity(Pid::this()).map_or(usize::MAX, |cores| count(&cores))
}

/// A thread inherits the cores of the one that made it, which may be pinned to the one it polls on;
/// a helper goes where the process as a whole may go, but not there. Nor to the core that the owner
/// is on: the system would move one of the two away in the end, but until then each waits for the
/// other's slice of time.
fn spread_out(owner: Option<usize>) {
    let (Ok(inherited), Ok(mut allowed)) =
        (sched_getaffinity(THIS_THREAD), sched_getaffinity(Pid::this()))
    else {
        return;
    };
    let pinned = count(&inherited) == 1;
    for cpu in 0..CpuSet::count() {
        let taken = Some(cpu) == owner || pinned && has(&inherited, cpu);
        if taken && count(&allowed) > 1 {
            // The set has room for as many processors.
            let _ = allowed.unset(cpu);
        }
    }
    // Where that is refused the helper stays where it is, and helps less.
    let _ = sched_setaffinity(THIS_THREAD, &allowed);
}

/// The calling thread, for calls that take a thread's number.
const THIS_THREAD: Pid = Pid::from_raw(0);

fn has(set: &CpuSet, cpu: usize) -> bool {
    set.is_set(cpu).unwrap_or(false)
}

fn count(set: &CpuSet) -> usize {
    (0..CpuSet::count()).filter(|&cpu| has(set, cpu)).count()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Every piece is taken exactly once, whoever comes and whoever does not.
    #[test]
    fn each_piece_is_done_once() {
        for size in [1, 2, 4] {
            let mut team = Team::new(size, None);
            for round in 0..if cfg!(miri) { 5 } else { 500 } {
                let next = AtomicUsize::new(0);
                let done: Vec<AtomicUsize> = (0..17).map(|_| AtomicUsize::new(0)).collect();
                team.share(
                    &|worker| {
                        assert!(worker < size);
                        while let Some(piece) = done.get(next.fetch_add(1, Ordering::Relaxed)) {
                            piece.fetch_add(1, Ordering::Relaxed);
                        }
                    },
                    &|| (),
                );
                assert!(
                    done.iter().all(|piece| piece.load(Ordering::Relaxed) == 1),
                    "round {round} of {size}"
                );
            }
        }
    }

    #[test]
    fn parked_helpers_are_woken_and_end_with_the_team() {
        let mut team = Team::new(2, None);
        let asleep = || team.shared.asleep[0].load(Ordering::Relaxed);
        while !asleep() {
            std::thread::yield_now();
        }
        // The owner holds the job open until the helper has come.
        let came = AtomicBool::new(false);
        let job = |worker| {
            if worker == 1 {
                came.store(true, Ordering::Relaxed);
            }
            while !came.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        team.share(&job, &|| ());
        drop(team);
    }
}
