//! Blocks that something else on the machine disturbed: the hypervisor took time, or a cache line
//! needs longer from one processor to the other and back than before.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::conditions::stolen_jiffies;
use crate::num::{median, real_u64};

/// Ticks (of 10 ms) that the hypervisor may take in a block before it counts as disturbed.
const STOLEN: u64 = 2;
/// How many times the usual round trip of a line counts as disturbed.
const JUMPED: f64 = 3.0;
/// Probes before there is a usual one.
const KNOWN: usize = 4;
/// Round trips of a batch, and batches of a probe, of which the median counts: a batch that was
/// interrupted is not the line's doing.
const TRIPS: u32 = 25;
const BATCHES: usize = 9;
/// The longest probe: where every processor is busy, its other thread may get none for long.
const LONGEST: Duration = Duration::from_millis(20);

/// The machine's usual figures so far.
#[derive(Debug, Default)]
pub(super) struct Disturbance {
    round_trips_ns: Vec<f64>,
}

impl Disturbance {
    /// The state before a block.
    pub(super) fn before() -> u64 {
        stolen_jiffies()
    }

    /// Returns whether the block that began in the state `before` was disturbed.
    pub(super) fn is_disturbed(&mut self, before: u64) -> bool {
        let stolen = stolen_jiffies().saturating_sub(before) >= STOLEN;
        self.has_jumped(round_trip_ns()) || stolen
    }

    /// Returns whether a probe is far from the usual one; `None` is one that did not end.
    fn has_jumped(&mut self, probe: Option<f64>) -> bool {
        let usual = median(&self.round_trips_ns);
        self.round_trips_ns.extend(probe);
        let is_known = self.round_trips_ns.len() > KNOWN;
        is_known && probe.is_none_or(|ns| ns > usual * JUMPED)
    }
}

/// A cache line of its own.
#[repr(align(128))]
struct Line(AtomicU32);

/// The time that a cache line takes to another thread and back, in nanoseconds; `None` where the
/// other thread got no processor in time. There is nobody to answer on a single processor.
fn round_trip_ns() -> Option<f64> {
    let line = Line(AtomicU32::new(0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| answer(&line, &is_over));
        let end = Instant::now() + LONGEST;
        let mut turn = 0;
        // The first one waits for the thread to begin.
        let mut times = exchange(&line, &mut turn, 1, end).map(|_| Vec::new());
        for _ in 0..BATCHES {
            let took = exchange(&line, &mut turn, TRIPS, end);
            times = times.zip(took).map(|(mut times, took)| {
                times.push(took);
                times
            });
        }
        // Relaxed: a switch, nothing is handed over.
        is_over.store(true, Ordering::Relaxed);
        times.map(|times| median(&times) / f64::from(TRIPS))
    })
}

/// Makes every odd number the even one behind it.
fn answer(line: &Line, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        // Acquire and Release, here and in `exchange`: they pair as those of a message would, whose
        // way is what is measured. The number alone is handed over.
        let seen = line.0.load(Ordering::Acquire);
        if seen % 2 == 1 {
            line.0.store(seen.wrapping_add(1), Ordering::Release);
        }
        std::hint::spin_loop();
    }
}

/// The nanoseconds of so many round trips; `None` once the time is over.
fn exchange(line: &Line, turn: &mut u32, trips: u32, end: Instant) -> Option<f64> {
    let begun = Instant::now();
    for _ in 0..trips {
        line.0.store(turn.wrapping_add(1), Ordering::Release);
        *turn = turn.wrapping_add(2);
        while line.0.load(Ordering::Acquire) != *turn {
            if Instant::now() > end {
                return None;
            }
            std::hint::spin_loop();
        }
    }
    Some(real_u64(crate::num::nanos(begun.elapsed())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_far_from_the_usual_one_is_a_disturbance() {
        let mut known = Disturbance::default();
        for ns in [100.0, 400.0, 90.0, 110.0] {
            assert!(!known.has_jumped(Some(ns)), "nothing is usual yet");
        }
        assert!(!known.has_jumped(Some(250.0)));
        assert!(known.has_jumped(Some(500.0)));
        assert!(known.has_jumped(None), "nobody answered");
    }

    #[test]
    fn a_line_comes_back() {
        // On a busy machine the other thread may get no processor in time, now and then.
        let found = (0..100).find_map(|_| round_trip_ns());
        assert!(found.is_some_and(|ns| ns > 0.0), "{found:?}");
    }
}
