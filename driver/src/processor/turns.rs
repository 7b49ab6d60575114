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
//!   One that ends while the lock is taken [asks](Processor::let_others_go_on) the holder to see
//!   who goes on now.
//!
//! What comes through `sync` decides who is at work, and is checked by models; std's atomics here
//! are hints, or one thread's own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use nnburst_hal::process;
use nnburst_hal::{Priority, TimePoint};

use super::sync::{Condvar, Flag, Mutex, MutexGuard, Word, elapsed, fence};

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

/// In [`Processor::word`] and [`User::at_work`]: below it one count, from it on another.
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
    queue: Mutex<Queue>,
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

/// A user of the process, for as long as it has clients.
#[derive(Debug)]
pub(crate) struct User {
    uid: u32,
    /// Executions of medium and above of high priority, at work or held up.
    at_work: Word,
    /// Executions of any priority, at work or held up, and those of them at work.
    present: AtomicU64,
    working: AtomicU64,
    /// Nanoseconds at work, and what it began with. Relaxed: an account that hands nothing over.
    had: AtomicU64,
    /// When it began or ended something last, in nanoseconds from [`Processor::start`]; noted while
    /// there are other users.
    seen: AtomicU64,
}

/// The user who began something last, and the last one before that who was another: each as its uid
/// below the milliseconds since the processor's start, which begin anew after 49 days. Relaxed
/// throughout: a hint that hands nothing over.
#[derive(Debug, Default)]
struct Latest {
    user: AtomicU64,
    other: AtomicU64,
}

impl Latest {
    fn note(&self, uid: u32, now: u64) {
        let noted = (Self::milliseconds(now) << HALF) | u64::from(uid);
        let before = self.user.swap(noted, Ordering::Relaxed);
        if before & BELOW != noted & BELOW {
            self.other.store(before, Ordering::Relaxed);
        }
    }

    /// Returns whether somebody else began something lately.
    fn is_another_than(&self, uid: u32, now: u64) -> bool {
        [&self.user, &self.other].into_iter().any(|noted| {
            let noted = noted.load(Ordering::Relaxed);
            let away = Self::milliseconds(now).wrapping_sub(noted >> HALF) & BELOW;
            let is_lately = Duration::from_millis(away) < LATELY;
            noted != 0 && noted & BELOW != u64::from(uid) && is_lately
        })
    }

    /// From 1 on, so that what was noted is never 0.
    fn milliseconds(now: u64) -> u64 {
        ((now / 1_000_000) & BELOW).max(1)
    }
}

#[derive(Debug, Default)]
struct Queue {
    users: BTreeMap<u32, Weak<User>>,
    held_up: Vec<HeldUp>,
    /// The time in nanoseconds that the user who went on last had had: what others begin with.
    now: u64,
}

#[derive(Debug)]
struct HeldUp {
    user: Arc<User>,
    priority: Priority,
    since: Instant,
    /// True if it has had no turn yet.
    is_new: bool,
    place: Arc<Place>,
}

/// The place in which one that is held up waits.
#[derive(Debug)]
struct Place {
    may_go_on: Mutex<bool>,
    told: Condvar,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.may_go_on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processor {
    /// Of so many cores.
    pub(crate) fn new(cores: u64) -> Self {
        let (word, queue) = (Word::new(0), Mutex::new(Queue::default()));
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
        if let Some(one) = counts_as(priority) {
            // SeqCst, here and below: pairs with the loads of `has_higher`. Nothing is handed over,
            // but one that begins must not find that none of a higher priority sees it.
            user.at_work.fetch_add(one, Ordering::SeqCst);
        }
        let running = Running {
            processor: self,
            user,
            priority,
            gone,
            deadline,
            is_at_work: AtomicBool::new(false),
            began: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            was_held_up: AtomicBool::new(false),
            has_stepped_back: AtomicBool::new(false),
        };
        user.present.fetch_add(1, Ordering::Relaxed);
        if self.is_shared() {
            let now = self.now();
            user.seen.store(now, Ordering::Relaxed);
            self.latest.note(user.uid, now);
            running.began.store(now, Ordering::Relaxed);
        }
        if user.has_higher(priority) || !running.goes_on_at_once() {
            running.wait(self.lock(), true);
        }
        running
    }

    /// Returns whether several users have clients.
    fn is_shared(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 1
    }

    /// For [`Self::unlock`] to end.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if nobody has it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Queue>> {
        match self.queue.try_lock() {
            Ok(queue) => Some(queue),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Gives the lock back, and does what others have asked its holder for meanwhile.
    fn unlock(&self, queue: MutexGuard<'_, Queue>) {
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
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
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
    fn let_go_on(&self, queue: &mut Queue, beside: bool) {
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
    fn leaves_a_core(&self, queue: &Queue, next: &HeldUp) -> bool {
        let comes = next.is_new && next.user.working.load(Ordering::Relaxed) == 0;
        !comes && self.is_left(queue, &next.user)
    }

    /// Returns whether a core is left to another user: one who ran something lately, and has
    /// nothing at work or held up.
    fn is_left(&self, queue: &Queue, user: &User) -> bool {
        let now = self.now();
        let is_absent = |other: &Arc<User>| {
            let seen = other.seen.load(Ordering::Relaxed);
            let away = Duration::from_nanos(now.saturating_sub(seen));
            other.present.load(Ordering::Relaxed) == 0 && seen != 0 && away < LATELY
        };
        let others = queue.users.values().filter_map(Weak::upgrade);
        self.cores > 1 && others.filter(|other| other.uid != user.uid).any(|it| is_absent(&it))
    }
}

impl User {
    fn new(uid: u32, had: u64) -> Self {
        let (at_work, present) = (Word::new(0), AtomicU64::new(0));
        let (working, had, seen) = (AtomicU64::new(0), AtomicU64::new(had), AtomicU64::new(0));
        Self { uid, at_work, present, working, had, seen }
    }

    fn had(&self) -> u64 {
        self.had.load(Ordering::Relaxed)
    }

    /// Returns whether something of a higher priority of the same user is at work.
    fn has_higher(&self, priority: Priority) -> bool {
        let at_work = self.at_work.load(Ordering::SeqCst);
        match priority {
            Priority::Low => at_work > 0,
            Priority::Medium => at_work >= ONE_ABOVE,
            Priority::High => false,
        }
    }
}

/// Returns the amount that one of this priority adds to [`User::at_work`]: nobody is held up by the
/// lowest.
fn counts_as(priority: Priority) -> Option<u64> {
    match priority {
        Priority::Low => None,
        Priority::Medium => Some(1),
        Priority::High => Some(ONE_ABOVE),
    }
}

impl Queue {
    /// Returns the next that goes on, of those that may: of the user who has had least the highest
    /// priority, and of those who waited longest.
    fn next(&self) -> Option<usize> {
        let held_up = self.held_up.iter().enumerate().filter(|(_, it)| it.may_go_on());
        let rank = |it: &HeldUp| {
            // One that lost its patience is no longer behind those of higher priorities.
            let priority = match elapsed(it.since) < PATIENCE {
                true => it.priority,
                false => Priority::High,
            };
            (it.user.had(), std::cmp::Reverse(priority), it.since)
        };
        held_up.min_by_key(|(_, it)| rank(it)).map(|(at, _)| at)
    }
}

impl HeldUp {
    fn may_go_on(&self) -> bool {
        !self.user.has_higher(self.priority) || elapsed(self.since) >= PATIENCE
    }
}

/// An execution or a preparation.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    processor: &'a Processor,
    user: &'a Arc<User>,
    priority: Priority,
    gone: &'a AtomicBool,
    deadline: Option<TimePoint>,
    /// True if it counts among those at work. Relaxed, as the following: this thread's alone.
    is_at_work: AtomicBool,
    /// Nanoseconds from the processor's start to that of the turn; 0 where it wasn't noted.
    began: AtomicU64,
    /// And to when it was counted last.
    counted: AtomicU64,
    was_held_up: AtomicBool,
    /// True once its thread goes behind those that wake for something short.
    has_stepped_back: AtomicBool,
}

impl<'a> Running<'a> {
    /// Goes on, or lets others go first: called at every poll.
    pub(crate) fn pass(&self) {
        let word = self.processor.word.load(Ordering::SeqCst);
        let is_beside_others = self.is_beside_others();
        if is_beside_others {
            self.step_back();
        }
        let is_alone = word < ONE_ABOVE
            && !self.user.has_higher(self.priority)
            && self.is_at_work.load(Ordering::Relaxed)
            && !(word >= self.processor.cores && is_beside_others);
        if !is_alone {
            self.take_turns();
        }
    }

    /// The threads that a step may be shared among now.
    pub(crate) fn most_threads(&self) -> usize {
        if self.processor.word.load(Ordering::SeqCst) >= ONE_ABOVE {
            return 1;
        }
        match self.is_beside_others() {
            true => usize::try_from(self.processor.cores - 1).unwrap_or(usize::MAX).max(1),
            false => usize::MAX,
        }
    }

    /// Ends a turn, as for a step that is over.
    pub(crate) fn rest(&self) {
        if self.is_at_work.load(Ordering::Relaxed) {
            self.processor.note_seen();
            self.count_turn();
            self.leave();
            self.processor.let_others_go_on();
        }
    }

    /// Begins something beside this, for the same user.
    pub(crate) fn beside(&self) -> Self {
        self.processor.begin(self.user, self.priority, self.gone, self.deadline)
    }

    /// Goes on without a look at who else is held up, where it may.
    fn goes_on_at_once(&self) -> bool {
        let (processor, working) = (self.processor, &self.user.working);
        // A user's first waits for nobody: those at work may have lost their cores to whatever else
        // the system has to do, and pass no poll meanwhile.
        let is_first = || working.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        if processor.is_shared() && is_first().is_ok() {
            processor.word.fetch_add(1, Ordering::SeqCst);
            self.is_at_work.store(true, Ordering::Relaxed);
            return true;
        }
        let left = u64::from(processor.cores > 1 && self.is_beside_others());
        let go_on = |word: u64| (word + left < processor.cores).then_some(word + 1);
        let goes_on =
            processor.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, go_on).is_ok();
        if goes_on {
            self.set_at_work(true);
        }
        goes_on
    }

    /// Returns whether others went first at any time.
    pub(crate) fn was_held_up(&self) -> bool {
        self.was_held_up.load(Ordering::Relaxed)
    }

    /// Returns whether another user ran something lately.
    fn is_beside_others(&self) -> bool {
        let processor = self.processor;
        processor.is_shared() && processor.latest.is_another_than(self.user.uid, processor.now())
    }

    /// Has the system, too, let others go first on this core once the execution has taken long.
    fn step_back(&self) {
        let turn = self.processor.now().saturating_sub(self.began.load(Ordering::Relaxed));
        let is_long = Duration::from_nanos(turn) >= LONG_TURN;
        if is_long && !self.has_stepped_back.swap(true, Ordering::Relaxed) {
            process::begin_long_work();
        }
    }

    fn set_at_work(&self, is_at_work: bool) {
        self.is_at_work.store(is_at_work, Ordering::Relaxed);
        let working = &self.user.working;
        match is_at_work {
            true => working.fetch_add(1, Ordering::Relaxed),
            false => working.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// No more at work.
    fn leave(&self) {
        self.processor.word.fetch_sub(1, Ordering::SeqCst);
        self.set_at_work(false);
    }

    #[cold]
    fn take_turns(&self) {
        let now = self.processor.note_seen();
        let began = self.began.load(Ordering::Relaxed);
        let looked = began.max(self.counted.load(Ordering::Relaxed));
        let is_early = looked != 0 && Duration::from_nanos(now.saturating_sub(looked)) < TURN;
        if is_early
            && !self.user.has_higher(self.priority)
            && self.is_at_work.load(Ordering::Relaxed)
        {
            return; // nobody takes over within a turn
        }
        if !self.is_at_work.load(Ordering::Relaxed) {
            return self.wait(self.processor.lock(), false);
        }
        let turn = self.count_turn();
        let Some(queue) = self.processor.try_lock() else {
            return; // the next poll is soon
        };
        if self.yields(&queue, turn) {
            self.leave();
            self.wait(queue, false);
        } else {
            self.processor.unlock(queue);
        }
    }

    /// Adds the time since it was counted last to what the user has had, and returns how long the
    /// turn takes by now.
    fn count_turn(&self) -> Duration {
        let now = self.processor.now();
        let counted = self.counted.swap(now, Ordering::Relaxed);
        // Nobody was held up before it was noted: it took nobody's time then.
        let time = if counted == 0 { 0 } else { now.saturating_sub(counted) };
        self.user.had.fetch_add(time, Ordering::Relaxed);
        Duration::from_nanos(now.saturating_sub(self.began.load(Ordering::Relaxed)))
    }

    /// Returns whether somebody else goes on instead.
    fn yields(&self, queue: &Queue, turn: Duration) -> bool {
        if self.user.has_higher(self.priority) {
            return true;
        }
        let processor = self.processor;
        let is_last_core = processor.at_work() >= processor.cores;
        if is_last_core && turn >= TURN && processor.is_left(queue, self.user) {
            return true;
        }
        let Some(next) = queue.next().and_then(|next| queue.held_up.get(next)) else {
            return false;
        };
        let own = Arc::ptr_eq(&next.user, self.user);
        if own {
            // Those that are behind it in priority have lost their patience.
            return next.priority > self.priority || turn >= LONG_TURN;
        }
        // What both have had differs by a turn or so.
        turn >= TURN && next.user.had() < self.user.had()
    }

    /// Waits until it may go on, or need not any more; `is_new` before its first turn.
    fn wait(&self, mut queue: MutexGuard<'_, Queue>, is_new: bool) {
        self.was_held_up.store(true, Ordering::Relaxed);
        let place = Arc::new(Place { may_go_on: Mutex::new(false), told: Condvar::new() });
        let since = Instant::now();
        if !queue.held_up.iter().any(|it| it.user.uid == self.user.uid) {
            // No credit for the time that it asked for nothing.
            let credit = u64::try_from(LONG_TURN.as_nanos()).unwrap_or(0);
            self.user.had.fetch_max(queue.now.saturating_sub(credit), Ordering::Relaxed);
        }
        queue.held_up.push(HeldUp {
            user: Arc::clone(self.user),
            priority: self.priority,
            since,
            is_new,
            place: Arc::clone(&place),
        });
        let processor = self.processor;
        processor.word.fetch_add(ONE_ABOVE, Ordering::SeqCst);
        processor.let_go_on(&mut queue, false);
        processor.unlock(queue);
        while !self.is_told(&place) {
            let mut queue = processor.lock();
            // Relaxed: the flag hands over nothing but itself.
            let is_over = self.gone.load(Ordering::Relaxed)
                || self.deadline.is_some_and(TimePoint::has_passed);
            if is_over && !*place.lock() {
                queue.held_up.retain(|it| !Arc::ptr_eq(&it.place, &place));
                processor.word.fetch_sub(ONE_ABOVE, Ordering::SeqCst);
                return processor.unlock(queue);
            }
            let goes_beside = processor.is_stuck() && elapsed(since) >= STUCK;
            if goes_beside {
                processor.note_seen();
            }
            processor.let_go_on(&mut queue, goes_beside);
            processor.unlock(queue);
        }
        self.set_at_work(true);
        let now = processor.now();
        self.began.store(now, Ordering::Relaxed);
        self.counted.store(now, Ordering::Relaxed);
    }

    /// Waits at its place for as long as patience is; returns whether it may go on.
    fn is_told(&self, place: &Place) -> bool {
        let may_go_on = place.lock();
        if *may_go_on {
            return true;
        }
        let left = self.deadline.map_or(PATIENCE, TimePoint::remaining).min(PATIENCE);
        let told = place.told.wait_timeout(may_go_on, left);
        *told.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(one) = counts_as(self.priority) {
            self.user.at_work.fetch_sub(one, Ordering::SeqCst);
        }
        if self.has_stepped_back.load(Ordering::Relaxed) {
            process::end_long_work();
        }
        let processor = self.processor;
        let is_at_work = self.is_at_work.load(Ordering::Relaxed);
        if is_at_work {
            self.user.working.fetch_sub(1, Ordering::Relaxed);
        }
        self.user.present.fetch_sub(1, Ordering::Relaxed);
        if processor.is_shared() {
            self.user.seen.store(processor.now(), Ordering::Relaxed);
        }
        let ended = processor.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            (word < ONE_ABOVE).then_some(word - u64::from(is_at_work))
        });
        if ended.is_ok() {
            return;
        }
        processor.note_seen();
        if is_at_work {
            self.count_turn();
            processor.word.fetch_sub(1, Ordering::SeqCst);
        }
        processor.let_others_go_on();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests.rs"]
mod tests;
