//! What is at work or held up: it takes its turns, and is counted to its user.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use nnburst_hal::process;
use nnburst_hal::{Priority, TimePoint};

use super::super::sync::{Condvar, Mutex, MutexGuard, elapsed};
use super::queue::{HeldUp, TurnPlace, TurnQueue};
use super::user::{User, UserCounts};
use super::{LONG_TURN, ONE_ABOVE, PATIENCE, Processor, STUCK, TURN};

/// An execution or a preparation.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    pub(super) processor: &'a Processor,
    pub(super) user: &'a Arc<User>,
    pub(super) priority: Priority,
    pub(super) gone: &'a AtomicBool,
    pub(super) deadline: Option<TimePoint>,
    /// True if it counts among those at work. Relaxed, as the following: this thread's alone.
    pub(super) is_at_work: AtomicBool,
    /// Nanoseconds from the processor's start to that of the turn; 0 where it wasn't noted.
    pub(super) began: AtomicU64,
    /// And to when it was counted last.
    pub(super) counted: AtomicU64,
    pub(super) was_held_up: AtomicBool,
    /// True once its thread goes behind those that wake for something short.
    pub(super) has_stepped_back: AtomicBool,
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

    /// Goes on without a look at who else is held up, where it may; its user had `before` when it
    /// began.
    pub(super) fn goes_on_at_once(&self, before: UserCounts) -> bool {
        let processor = self.processor;
        // A user's first waits for nobody: those at work may have lost their cores to whatever else
        // the system has to do, and pass no poll meanwhile.
        if processor.is_shared() && before.is_idle() {
            processor.word.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        let left = u64::from(processor.cores > 1 && self.is_beside_others());
        let go_on = |word: u64| (word + left < processor.cores).then_some(word + 1);
        processor.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, go_on).is_ok()
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

    pub(super) fn set_at_work(&self, is_at_work: bool) {
        self.is_at_work.store(is_at_work, Ordering::Relaxed);
        self.user.set_at_work(is_at_work);
    }

    /// No more at work.
    fn leave(&self) {
        self.processor.word.fetch_sub(1, Ordering::SeqCst);
        self.set_at_work(false);
    }

    #[cold]
    fn take_turns(&self) {
        let now = self.processor.note_seen();
        if !self.is_at_work.load(Ordering::Relaxed) {
            return self.wait(self.processor.lock(), false);
        }
        if self.user.has_higher(self.priority) {
            // It gives way even where it must wait for the lock: a short step's polls would all
            // pass while the lock's holder has lost its core.
            self.count_turn();
            self.leave();
            return self.wait(self.processor.lock(), false);
        }
        let began = self.began.load(Ordering::Relaxed);
        let looked = began.max(self.counted.load(Ordering::Relaxed));
        if looked != 0 && Duration::from_nanos(now.saturating_sub(looked)) < TURN {
            return; // nobody takes over within a turn
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
    fn yields(&self, queue: &TurnQueue, turn: Duration) -> bool {
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
    pub(super) fn wait(&self, mut queue: MutexGuard<'_, TurnQueue>, is_new: bool) {
        self.was_held_up.store(true, Ordering::Relaxed);
        let place = Arc::new(TurnPlace { may_go_on: Mutex::new(false), told: Condvar::new() });
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
    fn is_told(&self, place: &TurnPlace) -> bool {
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
        let is_at_work = self.is_at_work.load(Ordering::Relaxed);
        self.user.end(self.priority, is_at_work);
        if self.has_stepped_back.load(Ordering::Relaxed) {
            process::end_long_work();
        }
        let processor = self.processor;
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
