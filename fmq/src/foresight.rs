//! Foresight: when the next message of a regular peer is due.
//!
//! To be woken by the kernel takes longer than anything else between two processes. Cameras, sound
//! cards and networks are regular, so an end that has to sleep need not be asleep when the message
//! comes: it sleeps on a timer until shortly before, and polls for a moment.
//!
//! ```text
//!   wait begins            timer set    fires, late          due
//!   ├──────────────────────┼───────────┼────────────────────┼──────────┤ asleep again
//!          asleep            lateness    polls for the early   and late
//! ```
//!
//! Two habits are learned side by side, and the steadier one is believed: messages at a fixed
//! period ([`Rhythm`]: requests of a camera), and waits of one length ([`Length`]: results of a
//! network). Where both vary much, none is, and the wait is slept through.

use std::time::{Duration, Instant};

/// The time to poll in: a message is expected between both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The time to set the timer to.
    pub(crate) from: Instant,
    /// The time to give up polling.
    pub(crate) until: Instant,
}

/// A wait that has ended with a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

/// Observations of a peer's messages and of this machine's timers.
#[derive(Debug)]
pub(crate) struct Foresight {
    rhythm: Rhythm,
    length: Length,
    /// The upper end of how late timers fire, in ns.
    lateness: i64,
    /// True if the message of this wait came before its timer.
    was_early: bool,
}

impl Default for Foresight {
    fn default() -> Self {
        Self {
            rhythm: Rhythm::default(),
            length: Length::default(),
            lateness: FIRST_LATENESS,
            was_early: false,
        }
    }
}

/// The lateness assumed of timers before one has fired, in ns.
const FIRST_LATENESS: i64 = 200_000;
/// The most that a timer is thought to be late: longer pauses are accidents.
const MOST_LATENESS: i64 = 500_000;
/// Longer times count as this one, a hundred days in ns.
const LONGEST: i64 = 1 << 53;
/// Of a wait at most one part in so many is polled.
const SHARE: i64 = 4;
/// Samples in agreement before a habit is believed.
const FEW: u32 = 4;

impl Foresight {
    /// Returns when the message of a wait that begins now is due; `None` if that is not known well
    /// enough to be worth polling for.
    pub(crate) fn expect(&mut self, start: Instant) -> Option<Due> {
        self.was_early = false;
        // In a model every wait is foreseen, and its timer fires at once.
        if cfg!(loom) {
            return Some(Due { from: start, until: start });
        }
        let both = [self.rhythm.next(start), self.length.next(start)];
        let best = both.into_iter().flatten().min_by_key(|next| next.spread.whole())?;
        let lead = self.lateness + best.spread.early;
        let wait = nanos(best.at.checked_duration_since(start)?);
        if lead + best.spread.late > wait / SHARE {
            return None;
        }
        Some(Due { from: shift(best.at, -lead)?, until: shift(best.at, best.spread.late)? })
    }

    /// Learns when a timer fired that was set to `set`.
    pub(crate) fn fired(&mut self, set: Instant, now: Instant) {
        let late = nanos(now.saturating_duration_since(set));
        self.lateness = upper(self.lateness, late).min(MOST_LATENESS);
    }

    /// Learns that a message came before the timer that was to be before it.
    pub(crate) fn came_early(&mut self) {
        self.was_early = true;
    }

    /// Learns from a wait.
    pub(crate) fn learn(&mut self, waited: Waited) {
        // An accident is forgotten also while no timer is set.
        self.lateness = upper(self.lateness, 0);
        self.rhythm.learn(waited);
        self.length.learn(waited);
        if std::mem::take(&mut self.was_early) {
            for spread in [&mut self.rhythm.spread, &mut self.length.spread] {
                spread.early = (spread.early + spread.early / 2 + Spread::LEAST).min(LONGEST);
            }
        }
    }
}

/// A habit's next message.
#[derive(Clone, Copy, Debug)]
struct Next {
    at: Instant,
    spread: Spread,
}

/// The jitter of messages around their due time, in ns: about the worst of a hundred.
#[derive(Clone, Copy, Debug)]
struct Spread {
    early: i64,
    late: i64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { early: Self::FIRST, late: Self::FIRST }
    }
}

impl Spread {
    const FIRST: i64 = 50_000;
    const LEAST: i64 = 5_000;

    fn learn(&mut self, error: i64) {
        self.early = upper(self.early, -error).max(Self::LEAST);
        self.late = upper(self.late, error).max(Self::LEAST);
    }

    fn whole(&self) -> i64 {
        self.early.saturating_add(self.late)
    }

    /// Returns whether an error is out of proportion to what was seen.
    fn is_broken_by(&self, error: i64, length: i64) -> bool {
        error.saturating_abs() > (4 * self.whole()).max(length / 8)
    }
}

/// Messages at a fixed period, each a little early or late: a phase-locked loop.
#[derive(Debug, Default)]
struct Rhythm {
    last: Option<Instant>,
    /// The time at which the next message is due, once the period is known.
    due: Option<Instant>,
    /// In ns.
    period: i64,
    spread: Spread,
    /// Intervals in a row that agreed with the period, before there is a due time.
    agreed: u32,
    /// Messages in a row that were far from their due times.
    strikes: u32,
}

impl Rhythm {
    fn next(&self, start: Instant) -> Option<Next> {
        let due = self.due?;
        // Messages that came while nobody waited are past.
        let behind = nanos(start.saturating_duration_since(due));
        let missed = behind / self.period + i64::from(behind > 0);
        let at = shift(due, missed.checked_mul(self.period)?)?;
        Some(Next { at, spread: self.spread })
    }

    fn learn(&mut self, waited: Waited) {
        let interval = self
            .last
            .replace(waited.end)
            .map(|last| nanos(waited.end.saturating_duration_since(last)));
        let Some(interval) = interval else { return };
        match self.due {
            Some(due) => self.follow(due, waited.end),
            None => self.acquire(interval, waited.end),
        }
    }

    fn acquire(&mut self, interval: i64, end: Instant) {
        let agrees = (interval - self.period).abs() <= self.period / 4;
        self.agreed = if agrees { self.agreed + 1 } else { 0 };
        self.period = if agrees { (self.period + interval) / 2 } else { interval };
        if self.agreed >= FEW && self.period > 0 {
            self.due = shift(end, self.period);
            self.spread = Spread::default();
        }
    }

    fn follow(&mut self, due: Instant, end: Instant) {
        let error = signed(end, due);
        // Messages that were left out, or came while nobody waited.
        let skipped = ((error + self.period / 2).div_euclid(self.period)).max(0);
        let error = error - skipped * self.period;
        let is_far = self.spread.is_broken_by(error, self.period);
        self.strikes = if is_far { self.strikes + 1 } else { 0 };
        if self.strikes >= FEW {
            *self = Self { last: self.last, ..Self::default() };
            return;
        }
        let (mut phase, mut period) = (0, self.period);
        if !is_far {
            self.spread.learn(error);
            phase = error / 4;
            // Over a pause of many periods the error is that of all of them.
            period += error / 32 / (skipped + 1);
        }
        let steps = (skipped + 1).saturating_mul(self.period);
        self.period = period.max(1);
        self.due = shift(due, steps.saturating_add(phase));
    }
}

/// Waits of one length, each a little shorter or longer.
#[derive(Debug, Default)]
struct Length {
    /// In ns.
    mean: i64,
    samples: u32,
    spread: Spread,
    strikes: u32,
}

impl Length {
    fn next(&self, start: Instant) -> Option<Next> {
        (self.samples >= FEW)
            .then(|| Some(Next { at: shift(start, self.mean)?, spread: self.spread }))
            .flatten()
    }

    fn learn(&mut self, waited: Waited) {
        let length = nanos(waited.end.saturating_duration_since(waited.start));
        let error = length - self.mean;
        let is_far = self.samples > 0 && self.spread.is_broken_by(error, self.mean);
        self.strikes = if is_far { self.strikes + 1 } else { 0 };
        if self.samples == 0 || self.strikes >= FEW {
            *self = Self { mean: length, samples: 1, ..Self::default() };
        } else if !is_far {
            self.samples = self.samples.saturating_add(1);
            self.spread.learn(error);
            self.mean += error / 8;
        }
    }
}

/// The upper end of values of which `value` is one: rises at once, falls slowly.
fn upper(end: i64, value: i64) -> i64 {
    if value > end { end + (value - end) / 2 } else { end - (end - value.max(0)) / 256 }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(LONGEST).min(LONGEST)
}

/// How long `time` is after `other`, in ns.
fn signed(time: Instant, other: Instant) -> i64 {
    match time.checked_duration_since(other) {
        Some(after) => nanos(after),
        None => -nanos(other.saturating_duration_since(time)),
    }
}

fn shift(time: Instant, by: i64) -> Option<Instant> {
    let duration = Duration::from_nanos(by.unsigned_abs());
    if by < 0 { time.checked_sub(duration) } else { time.checked_add(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const US: i64 = 1_000;
    /// The time that the kernel takes to wake a sleeper.
    const WAKE: i64 = 80 * US;

    /// Random numbers that are the same each time.
    struct Random(u64);

    impl Random {
        /// A number from 0 to `most`.
        fn below(&mut self, most: i64) -> i64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::try_from(self.0 >> 33).unwrap() % (most + 1)
        }
    }

    /// A side that waits for messages, with timers that fire 60 to 200 us late.
    struct Side {
        foresight: Foresight,
        random: Random,
        base: Instant,
        /// The time at which it waits next.
        now: i64,
        waits: i64,
        caught: i64,
        polled: i64,
        waited: i64,
    }

    impl Side {
        fn new() -> Self {
            Self {
                foresight: Foresight::default(),
                random: Random(7),
                base: Instant::now() + Duration::from_secs(3600),
                now: 0,
                waits: 0,
                caught: 0,
                polled: 0,
                waited: 0,
            }
        }

        fn time(&self, at: i64) -> Instant {
            shift(self.base, at).unwrap()
        }

        /// Waits for a message that comes at a time, and works for a while.
        fn wait(&mut self, message: i64, work: i64) {
            let start = self.now;
            let (seen, polled, is_caught) = self.wait_for(message.max(start));
            let (start, end) = (self.time(start), self.time(seen));
            self.waited += seen - self.now;
            self.foresight.learn(Waited { start, end });
            self.now = seen + work;
            self.waits += 1;
            self.polled += polled;
            self.caught += i64::from(is_caught);
        }

        /// When the message is seen, how long it was polled for, and whether that caught it.
        fn wait_for(&mut self, message: i64) -> (i64, i64, bool) {
            let start = self.time(self.now);
            let Some(due) = self.foresight.expect(start) else {
                return (message + WAKE, 0, false);
            };
            let (from, until) = (signed(due.from, self.base), signed(due.until, self.base));
            assert!(from > self.now && from < until && until - from < until - self.now);
            let fires = from + 60 * US + self.random.below(140 * US);
            if message < fires {
                self.foresight.came_early();
                return (message + WAKE, 0, false);
            }
            let (set, fired) = (self.time(from), self.time(fires));
            self.foresight.fired(set, fired);
            if message <= until {
                return (message, message - fires, true);
            }
            (message + WAKE, (until - fires).max(0), false)
        }

        /// Begins to count anew.
        fn count(&mut self) {
            (self.waits, self.caught, self.polled, self.waited) = (0, 0, 0, 0);
        }

        /// Of a hundred messages, those that were caught by polling.
        fn caught(&self) -> i64 {
            self.caught * 100 / self.waits
        }

        /// Of a thousandth of the time, the part that was polled.
        fn polled(&self) -> i64 {
            self.polled * 1000 / self.waited
        }
    }

    /// Messages every `period`, with jitter to both sides; every `drop`th is left out.
    fn periodic(side: &mut Side, count: i64, period: i64, jitter: i64, drop: i64) {
        let first = side.now + period;
        for number in 0..count {
            let jitter = side.random.below(2 * jitter) - jitter;
            if number % drop != drop - 1 {
                side.wait(first + number * period + jitter, 100 * US);
            }
        }
    }

    #[test]
    fn regular_messages_are_caught_and_little_is_polled() {
        for (period, jitter, most) in [
            (8 * MS, 0, 40),
            (8 * MS, 100 * US, 40),
            (8 * MS, 500 * US, 100),
            (33 * MS, 500 * US, 30),
            (3 * MS, 20 * US, 100),
        ] {
            let mut side = Side::new();
            periodic(&mut side, 100, period, jitter, i64::MAX);
            side.count();
            periodic(&mut side, 2000, period, jitter, i64::MAX);
            let (caught, polled) = (side.caught(), side.polled());
            assert!(caught >= 97, "{period} +- {jitter}: {caught} of 100 caught");
            assert!(polled <= most, "{period} +- {jitter}: {polled} of 1000 polled");
        }
    }

    #[test]
    fn waits_of_one_length_are_caught_whatever_comes_between() {
        let mut side = Side::new();
        for number in 0..1000 {
            if number == 100 {
                side.count();
            }
            let pause = side.random.below(20 * MS);
            let jitter = side.random.below(100 * US);
            side.wait(side.now + 4 * MS + jitter, pause);
        }
        assert!(side.caught() >= 95, "{} of 100", side.caught());
    }

    #[test]
    fn messages_that_are_left_out_cost_one_window_each() {
        let mut side = Side::new();
        periodic(&mut side, 100, 8 * MS, 50 * US, 10);
        side.count();
        periodic(&mut side, 2000, 8 * MS, 50 * US, 10);
        assert!(side.caught() >= 85, "{} of 100", side.caught());
        assert!(side.polled() <= 40, "{} of 1000", side.polled());
    }

    #[test]
    fn another_period_is_learned_within_twenty_messages() {
        let mut side = Side::new();
        for period in [8 * MS, 5 * MS, 33 * MS, 16 * MS, 8 * MS] {
            periodic(&mut side, 20, period, 20 * US, i64::MAX);
            side.count();
            periodic(&mut side, 200, period, 20 * US, i64::MAX);
            assert!(side.caught() >= 95, "{period}: {} of 100", side.caught());
        }
    }

    #[test]
    fn irregular_messages_are_slept_through() {
        let mut side = Side::new();
        for _ in 0..3000 {
            // From a fifth to four times the mean, much of it short.
            let (one, two) = (side.random.below(1000), side.random.below(1000));
            side.wait(side.now + MS + one * two * 30, 100 * US);
        }
        assert!(side.polled() <= 10, "{} of 1000 polled", side.polled());
    }

    #[test]
    fn an_accident_is_forgotten() {
        let mut side = Side::new();
        periodic(&mut side, 100, 8 * MS, 20 * US, i64::MAX);
        side.wait(side.now + 3000 * MS, 50 * MS);
        periodic(&mut side, 30, 8 * MS, 20 * US, i64::MAX);
        side.count();
        periodic(&mut side, 100, 8 * MS, 20 * US, i64::MAX);
        assert!(side.caught() >= 95, "{} of 100", side.caught());
    }

    #[test]
    fn extreme_times_do_no_harm() {
        let mut foresight = Foresight::default();
        let base = Instant::now();
        let times = [0, 1, i64::MAX / 2, i64::MAX / 2 + 1, 1 << 40, 0];
        for (start, end) in times.into_iter().zip(times.into_iter().skip(1)).cycle().take(100) {
            let (start, end) = (shift(base, start), shift(base, end));
            let (Some(start), Some(end)) = (start, end) else { continue };
            foresight.expect(start);
            foresight.fired(start, end);
            foresight.came_early();
            foresight.learn(Waited { start, end });
        }
    }
}
