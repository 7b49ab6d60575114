//! The processor: which of all users' executions and preparations are at work.
//!
//! ```text
//!   user A  run ═══╪══ held up ══╪═══ run ...          as many at work as there are cores
//!   user B         └═ run ═ end ─┘                     who has had least goes first
//! ```
//!
//! One for all clients of the process. While there are no more executions than cores, and none of a
//! higher priority of the same user, everybody just runs: beginning and ending take an exchange on
//! a word each, and a poll within two loads. When there are more, they take turns at their polls, a
//! millisecond or so apart:
//!
//! - Users share alike, however many executions each has: each user's time is counted, and the one
//!   who has had least goes on next. A user who comes back begins with no more credit than the
//!   others have.
//! - Among executions of one user, over all its clients, a higher priority holds up lower ones;
//!   alike take turns.
//! - What a user begins while it has nothing at work goes on at once: the system shares the cores
//!   until the next polls.
//! - While a user who ran something lately has nothing at work, the others leave a core to it: it
//!   goes on at once when it comes back, instead of behind the next poll of somebody else and the
//!   system's slice of time. Helpers of a step count like executions here.
//! - Nobody starves: what was held up by a priority for [`PATIENCE`] takes a turn all the same.
//!   Where nobody at work was seen at a poll for [`STUCK`], one more goes on beside them.
//! - Nobody at work waits for the lock of those who are held up: its holder may have lost its core.
//!   What gives way to a higher priority is no more at work once it waits. One that ends while the
//!   lock is taken [asks](Processor::let_others_go_on) the holder to see who goes on now.
//!
//! What comes through `sync` decides who is at work, and is checked by models; std's atomics here
//! are hints, or one thread's own.

mod latest;
mod queue;
mod running;
#[cfg(all(test, not(loom)))]
mod tests;
mod user;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use nnburst_hal::{Priority, TimePoint};

use super::sync::{Flag, Mutex, MutexGuard, Word, elapsed, fence};
use latest::Latest;
use queue::{HeldUp, TurnQueue};
pub(crate) use running::Running;
pub(crate) use user::User;

/// The time that a higher priority may hold up the next turn of a lower one.
const PATIENCE: Duration = Duration::from_millis(50);

/// The time that those at work may be without a poll before others go on beside them.
const STUCK: Duration = Duration::from_millis(200);

/// A turn takes at least this long, lest more time goes into taking turns than into work.
const TURN: Duration = Duration::from_micros(500);

/// A turn beside others of the same user and priority; the credit of a user who comes back.
const LONG_TURN: Duration = Duration::from_millis(1);

/// The time for which a core is left to a user who has nothing at work: a few periods of the
/// slowest camera.
const LATELY: Duration = Duration::from_millis(250);

/// In [`Processor::word`]: below it those at work, from it on those held up.
const HALF: u32 = 32;
const ONE_ABOVE: u64 = 1 << HALF;
const BELOW: u64 = ONE_ABOVE - 1;

/// The executions at work, and the users they are for.
#[derive(Debug)]
pub(crate) struct Processor {
    cores: u64,
    /// The number at work, and above it the number held up. While nobody is held up it alone says
    /// what there is; what changes otherwise is changed under the lock.
    word: Word,
    queue: Mutex<TurnQueue>,
    /// True if somebody ended while the queue's lock was taken: there may be room.
    has_room: Flag,
    /// The number of users who have clients. What several need is looked at only from two on.
    users: AtomicUsize,
    latest: Latest,
    /// When somebody at work was seen last, in nanoseconds from the start. Relaxed: a time, which
    /// hands nothing over.
    seen: AtomicU64,
    /// The start that the times of turns are counted from.
    start: Instant,
}

impl Processor {
    /// Of so many cores.
    pub(crate) fn new(cores: u64) -> Self {
        let (word, queue) = (Word::new(0), Mutex::new(TurnQueue::default()));
        let has_room = Flag::new(false);
        let (users, latest, seen) = (AtomicUsize::new(0), Latest::default(), AtomicU64::new(0));
        let cores = cores.clamp(1, BELOW / 2);
        Self { cores, word, queue, has_room, users, latest, seen, start: Instant::now() }
    }

    /// A user, who is the same for all its clients.
    pub(crate) fn user(&self, uid: u32) -> Arc<User> {
        let mut queue = self.lock();
        queue.users.retain(|_, user| user.strong_count() > 0);
        let known = queue.users.get(&uid).and_then(Weak::upgrade);
        let user = known.unwrap_or_else(|| Arc::new(User::new(uid, queue.now)));
        queue.users.insert(uid, Arc::downgrade(&user));
        // Relaxed: whoever begins before it sees the number takes one turn as before.
        self.users.store(queue.users.len(), Ordering::Relaxed);
        self.unlock(queue);
        user
    }

    /// Begins something for a user, until what it returns is dropped; that is also its checkpoint.
    /// Returns when it may go on, or when it need not any more: the client is gone, or the deadline
    /// has passed.
    pub(crate) fn begin<'a>(
        &'a self,
        user: &'a Arc<User>,
        priority: Priority,
        gone: &'a AtomicBool,
        deadline: Option<TimePoint>,
    ) -> Running<'a> {
        let before = user.begin(priority);
        let running = Running {
            processor: self,
            user,
            priority,
            gone,
            deadline,
            is_at_work: AtomicBool::new(true),
            began: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            was_held_up: AtomicBool::new(false),
            has_stepped_back: AtomicBool::new(false),
        };
        if self.is_shared() {
            let now = self.now();
            user.seen.store(now, Ordering::Relaxed);
            self.latest.note(user.uid, now);
            running.began.store(now, Ordering::Relaxed);
        }
        if before.has_higher(priority) || !running.goes_on_at_once(before) {
            running.set_at_work(false);
            running.wait(self.lock(), true);
        }
        running
    }

    /// Returns whether several users have clients.
    fn is_shared(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 1
    }

    /// For [`Self::unlock`] to end.
    fn lock(&self) -> MutexGuard<'_, TurnQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if nobody has it.
    fn try_lock(&self) -> Option<MutexGuard<'_, TurnQueue>> {
        match self.queue.try_lock() {
            Ok(queue) => Some(queue),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Gives the lock back, and does what others have asked its holder for meanwhile.
    fn unlock(&self, queue: MutexGuard<'_, TurnQueue>) {
        drop(queue);
        loop {
            // Pairs with itself in other threads. Either who found the lock taken is seen to have
            // asked here, or else it finds the lock free.
            fence(Ordering::SeqCst);
            if !self.has_room.load(Ordering::Relaxed) {
                return;
            }
            let Some(mut queue) = self.try_lock() else { return };
            // Acquire: pairs with the store in `let_others_go_on`, so that the end is seen.
            if self.has_room.swap(false, Ordering::Acquire) {
                self.let_go_on(&mut queue, false);
            }
        }
    }

    /// Has those go on for whom there is room since one at work ended, without waiting for the
    /// lock: whoever has it does so.
    fn let_others_go_on(&self) {
        // Release: pairs with the exchange in `unlock`.
        self.has_room.store(true, Ordering::Release);
        // As there.
        fence(Ordering::SeqCst);
        if let Some(queue) = self.try_lock() {
            self.unlock(queue);
        }
    }

    /// Nanoseconds from its start; never 0.
    fn now(&self) -> u64 {
        u64::try_from(elapsed(self.start).as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Notes that somebody at work was seen, and returns when.
    fn note_seen(&self) -> u64 {
        let now = self.now();
        self.seen.store(now, Ordering::Relaxed);
        now
    }

    /// Returns whether nobody at work was seen for long.
    fn is_stuck(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        Duration::from_nanos(self.now().saturating_sub(seen)) >= STUCK
    }

    fn at_work(&self) -> u64 {
        self.word.load(Ordering::SeqCst) & BELOW
    }

    /// Lets those go on who may, as long as there are cores; `beside` one more than that.
    fn let_go_on(&self, queue: &mut TurnQueue, beside: bool) {
        let mut room = self.cores.saturating_sub(self.at_work()) + u64::from(beside);
        while room > 0
            && let Some(next) = queue.next()
            && let Some(first) = queue.held_up.get(next)
            && (room > 1 || beside || !self.leaves_a_core(queue, first))
        {
            let next = queue.held_up.remove(next);
            queue.now = queue.now.max(next.user.had());
            // One more at work, one less held up: under the lock, and nobody begins past those who
            // are held up.
            self.word.fetch_sub(ONE_ABOVE - 1, Ordering::SeqCst);
            *next.place.lock() = true;
            next.place.told.notify_one();
            room -= 1;
        }
    }

    /// Returns whether one that is held up leaves the last core to somebody else: unless it is new,
    /// and its user has nothing at work either.
    fn leaves_a_core(&self, queue: &TurnQueue, next: &HeldUp) -> bool {
        let comes = next.is_new && next.user.counts().is_idle();
        !comes && self.is_left(queue, &next.user)
    }

    /// Returns whether a core is left to another user: one who ran something lately, and has
    /// nothing at work or held up.
    fn is_left(&self, queue: &TurnQueue, user: &User) -> bool {
        let now = self.now();
        let is_absent = |other: &Arc<User>| {
            let seen = other.seen.load(Ordering::Relaxed);
            let away = Duration::from_nanos(now.saturating_sub(seen));
            other.counts().is_absent() && seen != 0 && away < LATELY
        };
        let others = queue.users.values().filter_map(Weak::upgrade);
        self.cores > 1 && others.filter(|other| other.uid != user.uid).any(|it| is_absent(&it))
    }
}
