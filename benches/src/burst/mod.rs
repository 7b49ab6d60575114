//! The burst part: what a call costs on the way to a driver in another process, by every route.
//!
//! Each block opens one route, warms it up, makes its calls in windows, each between two probes (1
//! KiB copied there and back by polling), and closes it; routes take turns over several rounds. The
//! driver is a child process of this program, on the other CPU.
//!
//! Paced calls are due at fixed times. A call that is still running when the next one is due delays
//! that one, and the delay counts: its latency begins when it was due, not when it was made.
//! (Counting from when it was made would leave out the frames that waited, which is called
//! coordinated omission.)

mod path;
mod row;

use std::time::{Duration, Instant};

use nnburst::Wait;

use crate::Result;
use crate::figures::Bracket;
use crate::lab::{Bench, Probing, RunPlan};
use crate::machine::Busy;
use crate::transport::Probe;

use path::Path;
use row::CallWindow;
pub use row::{CallRow, Route};

/// The probe beside a call, and how much longer than usual it runs: its tail is compared too.
const PROBE: Probing = Probing { matching: Probe::Copy, times: 10 };

/// Bursts that are open and have nothing to do, in the rows that are about them.
const IDLE_BURSTS: u32 = 64;

/// Runs every route over every model, pace and neighbour.
///
/// # Errors
/// If the machine or the driver refuses something.
pub fn run(plan: &RunPlan) -> Result<Vec<CallRow>> {
    let mut bench = Bench::probes_only(plan)?;
    let busy = Busy::new(plan.cpus.far);
    let mut rows = table(plan.quick);
    rows.retain(|row| row.title().contains(&plan.only));
    for round in 0..plan.burst_rounds {
        for row in &mut rows {
            busy.set(row.busy);
            block(plan, &mut bench, round, row)?;
        }
    }
    busy.set(false);
    bench.finish()?;
    Ok(rows)
}

fn table(quick: bool) -> Vec<CallRow> {
    let periods: &[u64] = if quick { &[0] } else { &[0, 8, 33] };
    let mut rows = Vec::new();
    for model in ["add1", "mobilenet_v1_0.5_128"] {
        for &period_ms in periods {
            for busy in [false, true] {
                rows.extend(Route::ALL.map(|route| CallRow::new(model, route, period_ms, busy)));
            }
        }
    }
    for wait in [Wait::Spin, Wait::Adaptive] {
        let mut row = CallRow::new("add1", Route::Burst(wait), 0, false);
        row.idle_bursts = IDLE_BURSTS;
        rows.push(row);
    }
    for wait in [Wait::Spin, Wait::Adaptive, Wait::Block] {
        let mut row = CallRow::new("add1", Route::Burst(wait), 0, false);
        row.one_cpu = true;
        rows.push(row);
    }
    rows
}

/// Calls per window.
fn calls(plan: &RunPlan, row: &CallRow) -> u32 {
    let calls = match (row.period_ms, row.model) {
        (0, "add1") => 3000,
        (0, _) => 200,
        (8, _) => 40,
        _ => 12,
    };
    if plan.quick { calls / 10 } else { calls }
}

/// Windows per block: where calls are short, there are enough of them to compare the tail of each
/// window with its probe's.
fn windows(plan: &RunPlan, row: &CallRow) -> u32 {
    match (row.period_ms, row.model, row.route) {
        _ if plan.quick => 1,
        (0, "add1", Route::Burst(Wait::Spin | Wait::Adaptive)) if row.idle_bursts == 0 => 8,
        (0, "add1", Route::Burst(Wait::Spin | Wait::Adaptive)) => 4,
        _ => 1,
    }
}

fn block(plan: &RunPlan, bench: &mut Bench, round: u32, row: &mut CallRow) -> Result<()> {
    let mut path = Path::open(plan, row)?;
    let mut due = Pace::new(row.period_ms);
    for _ in 0..calls(plan, row) / 4 + 3 {
        due.next();
        path.call()?;
    }
    for number in 0..windows(plan, row) {
        let this = window(plan, bench, round, row, &mut path)?;
        if row.idle_bursts == 0 {
            row.add(&this);
            continue;
        }
        path.open_idle(row.idle_bursts)?;
        let beside = window(plan, bench, round, row, &mut path)?;
        row.compare(&this, &beside);
        row.add(&beside);
        if (round, number) == (0, 0) {
            let share = path.idle_share(if plan.quick { 50 } else { 500 })?;
            row.idle_share = share.or(row.idle_share);
        }
        path.close_idle();
    }
    row.warnings = path.warnings();
    Ok(())
}

/// Makes calls between two probes.
fn window(
    plan: &RunPlan,
    bench: &mut Bench,
    round: u32,
    row: &CallRow,
    path: &mut Path,
) -> Result<CallWindow> {
    let calls = calls(plan, row);
    let mut latencies = Vec::with_capacity(usize::try_from(calls)?);
    let mut overheads = Vec::with_capacity(latencies.capacity());
    let (mut probed, mut late) = (Vec::new(), 0);
    let before = bench.probe_into(plan, round, PROBE, &mut probed)?;
    // Mostly idle, not dead: they are called now and then.
    path.call_idle()?;
    // The probe has warmed what pacing lets go cold.
    let mut due = Pace::new(row.period_ms);
    path.call()?;
    for _ in 0..calls {
        let (start, was_late) = due.next();
        path.call()?;
        let latency = start.elapsed();
        late += u64::from(was_late);
        latencies.push(ns(latency));
        overheads.push(ns(latency.saturating_sub(path.time_in_driver())));
    }
    let after = bench.probe_into(plan, round, PROBE, &mut probed)?;
    Ok(CallWindow { latencies, overheads, late, probed, bracket: Bracket { before, after } })
}

fn ns(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Due times of calls.
struct Pace {
    period: Duration,
    due: Instant,
}

impl Pace {
    fn new(period_ms: u64) -> Self {
        Self { period: Duration::from_millis(period_ms), due: Instant::now() }
    }

    /// Waits for the next call's time, if it has one and that is to come. Returns from when its
    /// latency counts, and whether it is late.
    fn next(&mut self) -> (Instant, bool) {
        if self.period.is_zero() {
            return (Instant::now(), false);
        }
        self.due += self.period;
        let now = Instant::now();
        if now >= self.due {
            return (self.due, true);
        }
        std::thread::sleep(self.due - now);
        // The timer's own lateness is the machine's, not the route's.
        (Instant::now(), false)
    }
}
