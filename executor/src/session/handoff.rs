//! Jobs from the owner of a thread pool to its helpers.
//!
//! The owner always works, and never waits for a helper to begin: it opens a job, takes pieces of
//! it like everybody else, closes it, and waits only for those who are still inside. A helper whose
//! core is busy comes too late, finds the job closed, and costs nothing.
//!
//! Helpers poll for a while after the last job and then sleep, each on a word of its own. A job
//! opens with one store; sleeping helpers cost a system call to wake, polling ones none.
//!
//! | edge | release | acquire | hands over |
//! |---|---|---|---|
//! | `open` | [`Handoff::open`] | a helper's entry | the job |
//! | `leave` | [`Leaving`] | [`Opened`]'s drop | what the helper did |
//!
//! Going to sleep is the one case of a store and a load that must not pass each other, on both
//! sides: a helper says that it sleeps and then looks for a job, the owner opens a job and then
//! looks for sleepers. A `SeqCst` fence between the two has one of them see the other.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_utils::CachePadded;

use super::sync::{
    AtomicBool, AtomicU64, CHECK_EVERY, Sleeper, UnsafeCell, fence, is_hot, spin_loop, yield_now,
};

/// Set while helpers may enter; below it is how many are inside, above it the number of the job.
const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;
const JOB: u32 = 32;

type Job = dyn Fn(usize) + Sync;

/// The state that helpers share with the owner.
pub(crate) struct Handoff {
    /// On a cache line of its own: helpers poll it while the owner writes to what lies around.
    state: CachePadded<AtomicU64>,
    /// Written by the owner while the state is closed and nobody is inside; read by those inside.
    job: UnsafeCell<Option<*const Job>>,
    sleepers: Box<[CachePadded<Sleeper>]>,
    over: AtomicBool,
}

// SAFETY: the job is a `Sync` closure, and `state` orders who writes and who reads its address.
unsafe impl Send for Handoff {}
// SAFETY: as for Send.
unsafe impl Sync for Handoff {}

impl Handoff {
    /// For so many helpers.
    pub(crate) fn new(helpers: usize) -> Self {
        Self {
            state: CachePadded::new(AtomicU64::new(0)),
            job: UnsafeCell::new(None),
            sleepers: (0..helpers).map(|_| CachePadded::new(Sleeper::new())).collect(),
            over: AtomicBool::new(false),
        }
    }

    /// Lets helpers into `job`, until what this returns is dropped, and wakes those that sleep.
    /// `idle` is called now and then while the owner waits for those inside.
    ///
    /// # Safety
    /// One thread alone opens jobs, one at a time; `job` stays until the drop has ended, which must
    /// happen.
    pub(crate) unsafe fn open<'a>(
        &'a self,
        job: &(dyn Fn(usize) + Sync),
        idle: &'a dyn Fn(),
    ) -> Opened<'a> {
        let begun = self.state.load(Ordering::Relaxed) >> JOB;
        let address: *const (dyn Fn(usize) + Sync + '_) = job;
        // SAFETY: the same fat pointer; it is followed only until the drop, as the caller promises.
        let erased: *const Job = unsafe { std::mem::transmute(address) };
        // SAFETY: closed and empty, so nobody reads.
        self.job.with_mut(|job| unsafe { *job = Some(erased) });
        // edge open (release): whoever enters sees the job.
        self.state.store(((begun + 1) & 0xffff_ffff) << JOB | OPEN, Ordering::Release);
        // Pairs with the fence of a helper that goes to sleep.
        fence(Ordering::SeqCst);
        self.wake_sleepers();
        Opened { handoff: self, idle }
    }

    fn wake_sleepers(&self) {
        for sleeper in self.sleepers.iter().filter(|sleeper| sleeper.is_asleep()) {
            sleeper.wake();
        }
    }

    /// Has helpers end.
    pub(crate) fn end(&self) {
        // Relaxed: the flag hands over nothing.
        self.over.store(true, Ordering::Relaxed);
        // Pairs with the fence of a helper that goes to sleep.
        fence(Ordering::SeqCst);
        self.wake_sleepers();
    }

    /// Returns whether a helper sleeps, or is about to.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_asleep(&self, helper: usize) -> bool {
        self.sleepers.get(helper).is_some_and(|sleeper| sleeper.is_asleep())
    }

    /// The life of a helper: enters each job that it finds open, until the end.
    pub(crate) fn help(&self, helper: usize) {
        let Some(sleeper) = self.sleepers.get(helper) else { return };
        let mut last = 0;
        let mut since = Instant::now();
        let mut polls = 0u32;
        while !self.over.load(Ordering::Relaxed) {
            let state = self.state.load(Ordering::Relaxed);
            if state & OPEN != 0 && state >> JOB != last {
                if self.enter(state, helper) {
                    last = state >> JOB;
                }
                since = Instant::now();
                continue;
            }
            polls = polls.wrapping_add(1);
            if !polls.is_multiple_of(CHECK_EVERY) || is_hot(since) {
                spin_loop();
                continue;
            }
            sleeper.announce();
            // Pairs with the fence of an owner that has opened a job, or ends.
            fence(Ordering::SeqCst);
            let now = self.state.load(Ordering::Relaxed);
            let is_wanted = now & OPEN != 0 && now >> JOB != last;
            if !is_wanted && !self.over.load(Ordering::Relaxed) {
                sleeper.sleep();
            }
            sleeper.stay_awake();
            since = Instant::now();
        }
    }

    /// Does the job that was seen open in `state`, unless it was closed or others entered
    /// meanwhile.
    fn enter(&self, state: u64, helper: usize) -> bool {
        // edge open (acquire): the job is visible from here on. Relaxed where it fails: nothing is
        // touched then.
        let entered = self.state.compare_exchange_weak(
            state,
            state + 1,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if entered.is_err() {
            return false;
        }
        let _leaving = Leaving(self);
        // SAFETY: written before the job was opened, and not again before we leave.
        if let Some(job) = self.job.with(|job| unsafe { *job }) {
            // SAFETY: the owner keeps the closure alive until we leave.
            unsafe { (*job)(helper + 1) };
        }
        true
    }
}

/// An open job: closes it and waits until nobody is inside.
#[must_use]
pub(crate) struct Opened<'a> {
    handoff: &'a Handoff,
    idle: &'a dyn Fn(),
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // edge leave (acquire), here and below: what those did who left is visible from here on.
        let mut state = self.handoff.state.fetch_and(!OPEN, Ordering::Acquire);
        let mut polls = 0u32;
        while state & INSIDE != 0 {
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(CHECK_EVERY) {
                // Whoever is inside may need this very core.
                (self.idle)();
                yield_now();
            }
            spin_loop();
            state = self.handoff.state.load(Ordering::Acquire);
        }
    }
}

/// Leaves the job, also when it unwinds.
struct Leaving<'a>(&'a Handoff);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::Release); // edge leave
    }
}
