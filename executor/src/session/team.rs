//! Threads that stand by to share a step with the one that runs a session; [`super::handoff`] is
//! how jobs come to them.
//!
//! A helper may be held up within a job, where something else wants its core: the owner then waits
//! for as long as the system gives that to others, which is many times the job. Whoever was made to
//! wait like that works alone for a while, for longer each time it happens again.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use nnburst_hal::Budget;
use nnburst_hal::process::{self, Origin};

use super::handoff::Handoff;

/// A helper that keeps the owner waiting for so much longer than the owner itself worked is held
/// up: pieces are alike, so it is not its work that takes it so long.
const HELD_UP: Duration = Duration::from_micros(200);

/// The time that the owner then works alone, at first and at most.
const ALONE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A session's helpers; they end with it.
pub(super) struct Team {
    shared: Arc<Handoff>,
    helpers: Vec<JoinHandle<()>>,
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
        let shared = Arc::new(Handoff::new(size.saturating_sub(1)));
        let mut helpers = Vec::new();
        let owner = sched_getcpu().ok();
        for helper in 0..size.saturating_sub(1) {
            let theirs = Arc::clone(&shared);
            let charge = budget.map(Budget::take_thread).transpose();
            let spawned = charge.map_err(std::io::Error::other).and_then(|charge| {
                process::spawn("nnburst-helper", move || {
                    spread_out(owner);
                    theirs.help(helper);
                    drop(charge);
                })
            });
            match spawned {
                Ok(handle) => helpers.push(handle),
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
        // SAFETY: `job` is borrowed until what this returns is dropped, also when `job` unwinds.
        let opened = unsafe { self.shared.open(job, idle) };
        job(0);
        let worked = begun.elapsed();
        drop(opened);
        let waited = begun.elapsed().saturating_sub(worked);
        if waited > worked + HELD_UP {
            self.alone = Some(Instant::now() + self.next_alone);
            self.next_alone = (self.next_alone * 2).min(ALONE.1);
        } else {
            // Forgotten after some dozens of jobs.
            self.next_alone = (self.next_alone - self.next_alone / 32).max(ALONE.0);
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
        self.shared.end();
        for handle in self.helpers.drain(..) {
            // A helper that panicked cost its run the result: the bands it had taken were missed.
            let _ = handle.join();
        }
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
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
        while !team.shared.is_asleep(0) {
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
