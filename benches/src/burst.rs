//! The burst part: what a call costs on the way to a driver in another process, by every road.
//!
//! Each block opens one road, warms it up, makes its calls between two probes (1 KiB copied there and back by polling),
//! and closes it; roads take turns over several rounds. The driver is a child process of this program, on the other CPU.
//!
//! Paced calls are due at fixed times. A call that is still running when the next one is due delays that one, and the
//! delay counts: its latency begins when it was due, not when it was made. (Counting from when it was made would leave
//! out the frames that waited, which is called coordinated omission.)

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nnburst::{
    Burst, BurstOptions, Compilation, Device, DriverOptions, Frame, PrepareOptions, Wait, builtin,
};

use crate::figures::{Placement, Spread, histogram};
use crate::lab::{Bench, Plan};
use crate::machine::Busy;
use crate::transport::Probe;
use crate::{Error, Result};

/// The driver that answers.
const DRIVER: &str = "nnapi-sample_all";

/// How a call reaches the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// A burst, both ends waiting so.
    Burst(Wait),
    /// A synchronous call over the control socket.
    Sync,
    /// The driver in this process, no road at all.
    InProcess,
}

impl Road {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Burst(Wait::Spin),
        Self::Burst(Wait::Adaptive),
        Self::Burst(Wait::Block),
        Self::Sync,
        Self::InProcess,
    ];

    /// As in the figures: transport and strategy.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Burst(Wait::Spin) => ("burst", "spin"),
            Self::Burst(Wait::Adaptive) => ("burst", "adaptive"),
            Self::Burst(Wait::Block) => ("burst", "block"),
            Self::Sync => ("sync", "block"),
            Self::InProcess => ("in-process", "none"),
        }
    }
}

/// One line of the result.
#[derive(Debug)]
pub struct Row {
    /// A built-in network.
    pub model: &'static str,
    /// The road.
    pub road: Road,
    /// Milliseconds from call to call; 0: back to back.
    pub period_ms: u64,
    /// Whether an ordinary thread computes on the driver's CPU all the while.
    pub busy: bool,
    /// From when the call was due until its outputs were there, in nanoseconds.
    pub latency: Histogram<u64>,
    /// The same, less what the driver says it took: nanoseconds through a burst, else whole microseconds.
    pub overhead: Histogram<u64>,
    /// Overhead of each block (median) as a multiple of the probe around it.
    ratios: Vec<f64>,
    /// The probe, in nanoseconds.
    probes: Vec<f64>,
    /// Blocks by placement: near, far.
    pub placements: [u32; 2],
    /// Calls that were due before the last one had ended.
    pub late: u64,
    /// What of the real-time profile was refused.
    pub warnings: Vec<String>,
}

impl Row {
    /// The median overhead as a multiple of the probe, block by block.
    #[must_use]
    pub fn ratio(&self) -> Option<Spread> {
        Spread::of(self.ratios.iter().copied())
    }

    /// The probe around the blocks, in nanoseconds.
    #[must_use]
    pub fn probe(&self) -> Option<Spread> {
        Spread::of(self.probes.iter().copied())
    }
}

/// Runs every road over every model, pace and neighbour.
///
/// # Errors
/// If the machine or the driver refuses something.
pub fn run(plan: &Plan) -> Result<Vec<Row>> {
    let mut bench = Bench::probes_only(plan)?;
    let busy = Busy::new(plan.cpus.far);
    let (mut rows, rounds) = (table(plan.quick), if plan.quick { 1 } else { 3 });
    for round in 0..rounds {
        for row in &mut rows {
            busy.set(row.busy);
            block(plan, &mut bench, round, row)?;
        }
    }
    busy.set(false);
    bench.finish()?;
    Ok(rows)
}

fn table(quick: bool) -> Vec<Row> {
    let periods: &[u64] = if quick { &[0] } else { &[0, 8, 33] };
    let mut rows = Vec::new();
    for model in ["add1", "mobilenet_v1_0.25_128"] {
        for &period_ms in periods {
            for busy in [false, true] {
                for road in Road::ALL {
                    rows.push(Row {
                        model,
                        road,
                        period_ms,
                        busy,
                        latency: histogram(),
                        overhead: histogram(),
                        ratios: Vec::new(),
                        probes: Vec::new(),
                        placements: [0; 2],
                        late: 0,
                        warnings: Vec::new(),
                    });
                }
            }
        }
    }
    rows
}

/// Calls per block.
fn calls(plan: &Plan, row: &Row) -> u32 {
    let calls = match (row.period_ms, row.model) {
        (0, "add1") => 3000,
        (0, _) => 200,
        (8, _) => 40,
        _ => 12,
    };
    if plan.quick { calls / 10 } else { calls }
}

fn block(plan: &Plan, bench: &mut Bench, round: u32, row: &mut Row) -> Result<()> {
    let mut path = Path::open(plan, row)?;
    let warm_up = calls(plan, row) / 4 + 3;
    let mut due = Pace::new(row.period_ms);
    for _ in 0..warm_up {
        due.next();
        path.call()?;
    }
    let before = bench.probe(plan, round, Probe::Copy)?;
    // The probe has warmed what pacing lets go cold.
    let mut due = Pace::new(row.period_ms);
    path.call()?;
    let mut overheads = Vec::new();
    for _ in 0..calls(plan, row) {
        let (start, late) = due.next();
        path.call()?;
        let latency = start.elapsed();
        let overhead = latency.saturating_sub(path.frame.time_in_driver().unwrap_or_default());
        row.late += u64::from(late);
        row.latency.saturating_record(ns(latency));
        row.overhead.saturating_record(ns(overhead));
        overheads.push(overhead.as_secs_f64() * 1e9);
    }
    let after = bench.probe(plan, round, Probe::Copy)?;
    row.warnings = path.warnings();
    overheads.sort_by(f64::total_cmp);
    let probe = f64::midpoint(before.matching, after.matching);
    let steady = before.matching.max(after.matching) < 1.5 * before.matching.min(after.matching);
    if let (Some(median), true) = (overheads.get(overheads.len() / 2), steady) {
        row.ratios.push(median / probe);
        row.probes.push(probe);
    }
    let place = Placement::of(f64::midpoint(before.atomic, after.atomic));
    if let Some(count) = row.placements.get_mut(place as usize) {
        *count += 1;
    }
    Ok(())
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An open road.
struct Path {
    burst: Option<Burst>,
    compilation: Compilation,
    frame: Frame,
    /// Not for add1, whose time in the driver is below the microsecond that the ordinary roads tell it in. (Bursts tell
    /// it in nanoseconds, asked or not.)
    timed: bool,
}

impl Path {
    fn open(plan: &Plan, row: &Row) -> Result<Self> {
        let driver = DriverOptions::default();
        let device = match row.road {
            Road::InProcess => Device::embedded_with(DRIVER, &driver)?,
            _ => Device::spawn_with(DRIVER, &driver)?,
        };
        let model = builtin::model(row.model)?;
        let compilation = device.compile(&model, PrepareOptions::default())?;
        let frame = compilation.frame()?;
        let timed = row.model != "add1";
        let burst = match row.road {
            Road::Burst(wait) => {
                let cpu = |cpu: usize| u32::try_from(cpu).map(|cpu| vec![cpu]);
                let (cpus, driver_cpus) = (cpu(plan.cpus.near)?, cpu(plan.cpus.far)?);
                let options = BurstOptions { wait, cpus, driver_cpus, realtime: true };
                Some(compilation.burst(&options)?.measure(timed))
            }
            Road::Sync | Road::InProcess => None,
        };
        Ok(Self { burst, compilation, frame, timed })
    }

    fn call(&mut self) -> Result<()> {
        let done = match &mut self.burst {
            Some(burst) => burst.compute(&mut self.frame),
            None => self.compilation.execution().measure(self.timed).compute(&mut self.frame),
        };
        done.map_err(Error::from)
    }

    fn warnings(&self) -> Vec<String> {
        self.burst.as_ref().map(|burst| burst.warnings().to_vec()).unwrap_or_default()
    }
}

/// When calls are due.
struct Pace {
    period: Duration,
    due: Instant,
}

impl Pace {
    fn new(period_ms: u64) -> Self {
        Self { period: Duration::from_millis(period_ms), due: Instant::now() }
    }

    /// Waits for the next call's time, if it has one and that is to come. Returns from when its latency counts, and
    /// whether it is late.
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
        // The timer's own lateness is the machine's, not the road's.
        (Instant::now(), false)
    }
}
