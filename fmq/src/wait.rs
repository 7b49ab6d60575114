//! Waiting: [`Wait`] for the strategy, [`WaitOptions`] with a deadline; and the one loop that does
//! it.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::event_flag::{self, Notify};
use crate::foresight::{Foresight, Waited};
use crate::interrupt::Interrupts;
use crate::memory::{Flag, QueueMemory};
use crate::ring::{Cursor, Quantum, Side};
use crate::stream::StreamBackoff;
use crate::sync::{FutexWord, Ordering, POLLS_PER_CLOCK_READING, clock, spin_loop};
use crate::{EventFlag, QueueError};

/// The behaviour of a waiting side until its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "polling, sleeping, and one after the other: there is no fourth"
)]
pub enum Wait {
    /// Polls the counter: answers within a cache miss, keeps a core busy, makes no system call.
    Spin,
    /// Sleeps in the kernel at once; needs an event flag.
    Block,
    /// Polls for about as long as recent waits lasted, while that is short, then sleeps; needs an
    /// event flag. Where messages come regularly, it polls again from shortly before the next one
    /// is due, for a quarter of the wait at most, and sleeps again if none comes.
    Adaptive {
        /// From the beginning of a wait never polls longer than this. Waits that have lately been
        /// longer are not polled from the beginning, but for a trial every now and then. Zero:
        /// sleeps at once, as [`Wait::Block`].
        limit: Duration,
    },
}

impl Wait {
    /// [`Wait::Adaptive`] that at first polls at most `micros` microseconds. Android's bursts use
    /// 50.
    #[must_use]
    pub const fn adaptive(micros: u64) -> Self {
        Self::Adaptive { limit: Duration::from_micros(micros) }
    }

    /// This strategy, until `deadline` at most.
    #[must_use]
    pub fn until(self, deadline: Instant) -> WaitOptions {
        WaitOptions { strategy: self, deadline: Some(deadline) }
    }

    /// This strategy, for `time` from now at most.
    #[must_use]
    pub fn within(self, time: Duration) -> WaitOptions {
        WaitOptions { strategy: self, deadline: Instant::now().checked_add(time) }
    }
}

impl Default for Wait {
    fn default() -> Self {
        Self::adaptive(50)
    }
}

/// A strategy and a deadline. A bare [`Wait`] converts into it, without a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "meant to be written as a literal")]
pub struct WaitOptions {
    /// The strategy.
    pub strategy: Wait,
    /// The time at which to give up, on the monotonic clock. `None`: never. In the past: try once.
    pub deadline: Option<Instant>,
}

impl From<Wait> for WaitOptions {
    fn from(strategy: Wait) -> Self {
        Self { strategy, deadline: None }
    }
}

/// The event-flag bits that a side waits for and sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "meant to be written as a literal")]
pub struct Bits {
    /// The bits to wait for; 0 forbids sleeping.
    pub wait: u32,
    /// The bits to set after each publication; 0 announces nothing.
    pub wake: u32,
}

/// The waiting half of an endpoint: whom to look at, and what was learnt about how long waits take.
#[derive(Debug)]
pub(crate) struct Waiter {
    flag: Option<Flag>,
    interrupts: Interrupts,
    bits: Bits,
    notify: Notify,
    recent: Recent,
    foresight: Foresight,
    /// `None`: streams are not looked for.
    stream: Option<StreamBackoff>,
    /// `true` if publications are announced: there is an event flag, and there are bits to set.
    announces: bool,
}

impl Waiter {
    pub(crate) fn new(memory: &QueueMemory, bits: Bits, notify: Notify) -> Self {
        let flag = memory.flag();
        Self {
            announces: flag.is_some() && bits.wake != 0,
            flag,
            interrupts: Interrupts::default(),
            bits,
            notify,
            recent: Recent::default(),
            foresight: Foresight::default(),
            stream: Some(StreamBackoff::default()),
        }
    }

    pub(crate) fn set_bits(&mut self, bits: Bits) {
        self.bits = bits;
        self.announces = self.flag.is_some() && bits.wake != 0;
    }

    /// Looks for streams from now on, or no more.
    pub(crate) fn set_stream_backoff(&mut self, is_on: bool) {
        self.stream = is_on.then(StreamBackoff::default);
    }

    /// From now on this end sleeps and announces on another word.
    pub(crate) fn set_event_flag(&mut self, flag: &EventFlag) {
        self.flag = Some(flag.word().clone());
        // Of those on the other side of this word nothing is known.
        self.notify = Notify::UNKNOWN_PEER;
        self.set_bits(self.bits);
    }

    /// A handle to the word, with what ends the waits of this end.
    pub(crate) fn event_flag(&self) -> Option<EventFlag> {
        self.flag.clone().map(|flag| EventFlag::new(flag, self.interrupts.clone()))
    }

    pub(crate) fn interrupts(&mut self) -> &mut Interrupts {
        &mut self.interrupts
    }

    /// Announces a publication, if the queue has an event flag and there are bits to set.
    #[inline(always)]
    pub(crate) fn announce(&self) {
        if self.announces {
            self.wake_peer();
        }
    }

    /// Out of line: its fence takes ten times as long as the call.
    #[inline(never)]
    fn wake_peer(&self) {
        if let (Some(word), Some(mask)) = (&self.flag, NonZeroU32::new(self.bits.wake)) {
            event_flag::wake(word, mask, self.notify);
        }
    }

    /// [`QueueError::Cancelled`] or [`QueueError::PeerDied`], if one is the case.
    #[inline(always)]
    pub(crate) fn interrupted(&self) -> Result<(), QueueError> {
        self.interrupts.check()
    }

    /// Waits until `bytes` are usable at `cursor`, where they were not a moment ago.
    pub(crate) fn wait_for<S: Side, Q: Quantum>(
        &mut self,
        cursor: &mut Cursor<S, Q>,
        bytes: usize,
        options: WaitOptions,
    ) -> Result<(), QueueError> {
        self.interrupts.follow_fork();
        if let Some(stream) = &self.stream {
            stream.hang_back();
        }
        let waited = self.wait(options, || cursor.ready(bytes));
        if let Some(stream) = &mut self.stream {
            stream.learn(cursor.remembered(), bytes, cursor.ring_bytes());
        }
        waited
    }

    /// Waits until `ready` says so. `ready` is asked at least once, and once more after a death or
    /// the deadline: what came before those counts.
    pub(crate) fn wait(
        &mut self,
        options: WaitOptions,
        mut ready: impl FnMut() -> Result<bool, QueueError>,
    ) -> Result<(), QueueError> {
        let WaitOptions { strategy, deadline } = options;
        let waited = match strategy {
            Wait::Spin => self.poll(None, deadline, &mut ready).map(drop),
            Wait::Block => self.sleep(deadline, &mut ready),
            Wait::Adaptive { limit } => self.adapt(limit, deadline, &mut ready),
        };
        match waited {
            Err(QueueError::PeerDied | QueueError::TimedOut) if ready()? => Ok(()),
            other => other,
        }
    }

    /// Polls until ready (`true`), or until `window` has passed (`false`).
    #[inline]
    fn poll(
        &self,
        window: Option<Duration>,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Result<bool, QueueError>,
    ) -> Result<bool, QueueError> {
        let timed = window.is_some() || deadline.is_some();
        let mut start = None;
        loop {
            for _ in 0..POLLS_PER_CLOCK_READING {
                // First the pause: the caller has just looked, and each look takes the counter's
                // line from the peer.
                spin_loop();
                if ready()? {
                    return Ok(true);
                }
            }
            self.interrupted()?;
            if timed {
                let now = clock::now();
                if deadline.is_some_and(|deadline| now >= deadline) {
                    return Err(QueueError::TimedOut);
                }
                let start = *start.get_or_insert(now);
                if window.is_some_and(|window| clock::since(start) >= window) {
                    return Ok(false);
                }
            }
        }
    }

    fn adapt(
        &mut self,
        limit: Duration,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Result<bool, QueueError>,
    ) -> Result<(), QueueError> {
        let window = self.recent.window(limit);
        // The commonest wait is over within a few turns: it is neither timed nor does it ask for
        // the time.
        let turns = if window.is_zero() { 1 } else { POLLS_PER_CLOCK_READING };
        for _ in 0..turns {
            if ready()? {
                return Ok(());
            }
            spin_loop();
        }
        self.interrupted()?;
        let start = clock::now();
        let mut is_polled = !window.is_zero() && self.poll(Some(window), deadline, ready)?;
        if !is_polled && !limit.is_zero() {
            is_polled = self.poll_when_due(start, deadline, ready)?;
        }
        if !is_polled {
            self.sleep(deadline, ready)?;
        }
        let waited = clock::since(start);
        self.recent.learn(waited, limit);
        // Short waits are polled through anyway, and what follows would make them longer.
        if waited > limit
            && let Some(end) = start.checked_add(waited)
        {
            self.foresight.learn(Waited { start, end });
        }
        Ok(())
    }

    /// Sleeps until shortly before the peer's next message is due, if that can be foreseen, and
    /// polls for it then: `true` if ready while polling.
    fn poll_when_due(
        &mut self,
        start: Instant,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Result<bool, QueueError>,
    ) -> Result<bool, QueueError> {
        let Some(due) = self.foresight.expect(start) else { return Ok(false) };
        if deadline.is_some_and(|deadline| deadline <= due.from) {
            return Ok(false);
        }
        match self.sleep(Some(due.from), ready) {
            Ok(()) => {
                self.foresight.came_early();
                return Ok(false);
            }
            Err(QueueError::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let now = clock::now();
        self.foresight.fired(due.from, now);
        self.poll(Some(due.until.saturating_duration_since(now)), deadline, ready)
    }

    /// Sleeps until ready, waking whenever the peer or an interruption sets one of our bits.
    fn sleep(
        &self,
        deadline: Option<Instant>,
        ready: &mut impl FnMut() -> Result<bool, QueueError>,
    ) -> Result<(), QueueError> {
        let word = self.flag.as_ref().ok_or(QueueError::NoEventFlag)?;
        let mask = NonZeroU32::new(self.bits.wait).ok_or(QueueError::NoBits)?;
        if ready()? {
            return Ok(());
        }
        let result = loop {
            // Clearing fences (edge sleep): who publishes from here on finds our bits clear, or has
            // done so before we look.
            let before = event_flag::clear(word, mask);
            match ready() {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
            if let Err(error) = self.interrupted() {
                break Err(error);
            }
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                break Err(QueueError::TimedOut);
            }
            // edge rouse: who raises a signal from here on changes a word that is slept on as well.
            self.interrupts.sleep(word, before & !mask.get(), mask, deadline);
        };
        Self::rise(word, mask);
        result
    }

    /// Ends a sleep, or the preparations for one.
    fn rise(word: &FutexWord, mask: NonZeroU32) {
        // Nobody sleeps any more: leave the bits set, so that the peer's next publication costs no
        // system call. Relaxed: a hint to wakers; losing it to a race costs one needless call.
        if word.load(Ordering::Relaxed) & mask.get() != mask.get() {
            word.fetch_or(mask.get(), Ordering::Relaxed);
        }
    }

    /// Does all of a sleep but the sleeping: `None` if ready now, else what to sleep on.
    #[cfg(not(loom))]
    pub(crate) fn prepare_to_sleep(
        &self,
        mut ready: impl FnMut() -> Result<bool, QueueError>,
    ) -> Result<Option<Slept>, QueueError> {
        let word = self.flag.as_ref().ok_or(QueueError::NoEventFlag)?;
        let mask = NonZeroU32::new(self.bits.wait).ok_or(QueueError::NoBits)?;
        self.interrupts.follow_fork();
        let before = event_flag::clear(word, mask);
        let sleepy = ready()
            .and_then(|ready| if ready { Ok(false) } else { self.interrupted().map(|()| true) });
        if !matches!(sleepy, Ok(true)) {
            Self::rise(word, mask);
            return sleepy.map(|_| None);
        }
        let signals = self.interrupts.signals().cloned().collect();
        Ok(Some(Slept { word: word.clone(), expected: before & !mask.get(), mask, signals }))
    }
}

/// The words that an end sleeps on, for others that sleep in its stead.
#[cfg(not(loom))]
#[derive(Clone, Debug)]
pub(crate) struct Slept {
    pub(crate) word: Flag,
    /// The word's value with which its owner went to sleep.
    pub(crate) expected: u32,
    pub(crate) mask: NonZeroU32,
    /// The signals that interrupt the sleep.
    pub(crate) signals: Vec<std::sync::Arc<crate::interrupt::Signal>>,
}

/// Durations of recent waits, and hence the time to poll.
#[derive(Debug, Default)]
struct Recent {
    /// Moving average over about four waits.
    average: Duration,
    /// Waits since the last one that polled for the whole limit.
    since_trial: u32,
}

impl Recent {
    /// Waits between two trials of polling while waits are long: what the trial may cost, spread
    /// over this many.
    const TRIAL_EVERY: u32 = 16;
    /// A wait counts as at most this many limits, so that one long pause is forgotten after a few
    /// short waits.
    const LONGEST: u32 = 4;

    /// Returns how long to poll now.
    fn window(&mut self, limit: Duration) -> Duration {
        if self.average <= limit {
            // Twice the average covers the ordinary spread; a floor keeps a lucky streak from
            // ending in a sleep.
            return self.average.saturating_mul(2).max(limit / 4).min(limit);
        }
        self.since_trial += 1;
        if self.since_trial < Self::TRIAL_EVERY {
            return Duration::ZERO;
        }
        self.since_trial = 0;
        limit
    }

    fn learn(&mut self, waited: Duration, limit: Duration) {
        let waited = waited.min(limit.saturating_mul(Self::LONGEST));
        self.average = self.average.saturating_mul(3).saturating_add(waited) / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    #[test]
    fn short_waits_are_polled_and_long_ones_slept_through() {
        let mut recent = Recent::default();
        for _ in 0..20 {
            recent.learn(Duration::from_micros(10), LIMIT);
        }
        let window = recent.window(LIMIT);
        assert!(window >= Duration::from_micros(12) && window <= LIMIT, "{window:?}");
        for _ in 0..20 {
            recent.learn(Duration::from_millis(8), LIMIT);
        }
        assert_eq!(recent.window(LIMIT), Duration::ZERO);
    }

    #[test]
    fn a_trial_comes_round_and_short_waits_are_soon_polled_again() {
        let mut recent = Recent::default();
        for _ in 0..20 {
            recent.learn(Duration::from_secs(3600), LIMIT);
        }
        let trial = (0..Recent::TRIAL_EVERY).map(|_| recent.window(LIMIT)).filter(|w| !w.is_zero());
        assert_eq!(trial.collect::<Vec<_>>(), [LIMIT]);
        for _ in 0..6 {
            recent.learn(Duration::from_micros(5), LIMIT);
        }
        assert!(!recent.window(LIMIT).is_zero());
    }
}
