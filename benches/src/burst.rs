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

/// What stands beside a call, and how much longer than usual: its tail is compared too.
const PROBE: (Probe, u32) = (Probe::Copy, 10);

/// Bursts that are open and have nothing to do, in the rows that are about them.
const IDLE_BURSTS: u32 = 64;

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
    /// The probe's round trips around the blocks, in nanoseconds.
    pub probed: Histogram<u64>,
    /// Other bursts that are open on the same driver and have nothing to do.
    pub idle_bursts: u32,
    /// What one of these takes of a core.
    pub idle_share: Option<f64>,
    /// Calls that were due before the last one had ended.
    pub late: u64,
    /// What of the real-time profile was refused.
    pub warnings: Vec<String>,
}

impl Row {
    /// Model, road, pace and neighbour.
    #[must_use]
    pub fn title(&self) -> String {
        let (transport, wait) = self.road.names();
        let pace = match self.period_ms {
            0 => "back to back".into(),
            period => format!("every {period} ms"),
        };
        let neighbour = match (self.busy, self.idle_bursts) {
            (true, _) => "busy".into(),
            (false, 0) => "idle".into(),
            (false, bursts) => format!("{bursts} idle bursts"),
        };
        format!("{} {transport} {wait}, {pace}, {neighbour}", self.model)
    }

    /// How much further the overhead's tail reaches than the probe's: p99.9 over p50 of one, as a multiple of the
    /// same of the other. `None` where there are too few calls to speak of one in a thousand.
    #[must_use]
    pub fn tail_ratio(&self) -> Option<f64> {
        let reach = |histogram: &Histogram<u64>| {
            let at = |quantile| u32::try_from(histogram.value_at_quantile(quantile)).ok();
            Some(f64::from(at(0.999)?) / f64::from(at(0.5)?.max(1)))
        };
        let enough = self.overhead.len().min(self.probed.len()) >= 2000;
        enough.then(|| Some(reach(&self.overhead)? / reach(&self.probed)?)).flatten()
    }

    /// What the probe takes as seldom, by the clock, as one call in a thousand takes its p99.9, in nanoseconds: an
    /// interruption that comes so often a second meets few of many short round trips and more of the longer calls.
    /// `None` where that has not been seen three times.
    #[must_use]
    pub fn probe_as_seldom(&self) -> Option<u64> {
        let median = |histogram: &Histogram<u64>| {
            u32::try_from(histogram.value_at_quantile(0.5)).ok().map(f64::from)
        };
        let seldom = 0.001 * median(&self.probed)? / median(&self.latency)?.max(1.0);
        let seen = f64::from(u32::try_from(self.probed.len()).ok()?) * seldom;
        (seen >= 3.0).then(|| self.probed.value_at_quantile(1.0 - seldom))
    }

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

fn table(quick: bool) -> Vec<Row> {
    let periods: &[u64] = if quick { &[0] } else { &[0, 8, 33] };
    let mut rows = Vec::new();
    for model in ["add1", "mobilenet_v1_0.5_128"] {
        for &period_ms in periods {
            for busy in [false, true] {
                for road in Road::ALL {
                    rows.push(row(model, road, period_ms, busy, 0));
                }
            }
        }
    }
    for wait in [Wait::Spin, Wait::Adaptive] {
        rows.push(row("add1", Road::Burst(wait), 0, false, IDLE_BURSTS));
    }
    rows
}

fn row(model: &'static str, road: Road, period_ms: u64, busy: bool, idle_bursts: u32) -> Row {
    Row {
        model,
        road,
        period_ms,
        busy,
        latency: histogram(),
        overhead: histogram(),
        ratios: Vec::new(),
        probes: Vec::new(),
        placements: [0; 2],
        probed: histogram(),
        idle_bursts,
        idle_share: None,
        late: 0,
        warnings: Vec::new(),
    }
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
    let before = bench.probe_into(plan, round, PROBE, &mut row.probed)?;
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
    let after = bench.probe_into(plan, round, PROBE, &mut row.probed)?;
    row.warnings = path.warnings();
    row.idle_share = path.idle_share(if plan.quick { 50 } else { 500 })?.or(row.idle_share);
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
    /// Open and without work.
    idle: Vec<Burst>,
    driver: Option<u32>,
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
        let mut path = Self {
            burst,
            idle: Vec::new(),
            driver: device.driver_process(),
            compilation,
            frame,
            timed,
        };
        for _ in 0..row.idle_bursts {
            let mut idle = path.compilation.burst(&BurstOptions::default())?;
            idle.compute(&mut path.frame)?;
            path.idle.push(idle);
        }
        Ok(path)
    }

    /// What each idle burst takes of a core: the driver's processor time over so many milliseconds, when the working
    /// burst has nothing to do either and its window is over.
    fn idle_share(&self, ms: u64) -> Result<Option<f64>> {
        let (Some(driver), false) = (self.driver, self.idle.is_empty()) else { return Ok(None) };
        std::thread::sleep(Duration::from_millis(1100));
        let before = processor_time(driver)?;
        std::thread::sleep(Duration::from_millis(ms));
        let used = processor_time(driver)?.saturating_sub(before);
        let bursts = f64::from(u32::try_from(self.idle.len())?);
        Ok(Some(used.as_secs_f64() / Duration::from_millis(ms).as_secs_f64() / bursts))
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

/// Processor time that all threads of a process have taken.
fn processor_time(process: u32) -> Result<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let figures = std::fs::read_to_string(task?.path().join("schedstat"))?;
        total += figures.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
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
