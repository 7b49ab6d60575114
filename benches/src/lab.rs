//! The schedule: two sides, blocks in turn, each between two probes.

use std::time::Duration;

use crate::Result;
use crate::clock::Clock;
use crate::far::{FarProcess, FarThread};
use crate::figures::{Bracket, Probes, Series, typical};
use crate::machine::{self, Cpus, KeepAwake};
use crate::transport::{Near, Probe, Row, Way, rows};

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The CPUs of the two sides.
    pub cpus: Cpus,
    /// Blocks of every row of the queue part.
    pub rounds: u32,
    /// Blocks of every row of the burst part.
    pub burst_rounds: u32,
    /// Only transports, or rows of the burst part, whose name contains this; all if empty.
    pub only: String,
    /// Short blocks, for a look whether everything works.
    pub quick: bool,
    /// Leave the cores their sleep states while blocking transports are measured.
    pub let_doze: bool,
}

impl RunPlan {
    fn block(&self, row: &Row) -> Block {
        let divisor = if self.quick { 10 } else { 1 };
        match (row.is_throughput(), row.probe.sleeps()) {
            (true, _) => Block { warm_up: 20_000 / divisor, rounds: 200_000 / divisor },
            (false, false) => Block { warm_up: 300, rounds: 3000 / divisor },
            (false, true) => Block { warm_up: 20, rounds: 200 / divisor },
        }
    }

    fn probe_block(&self, probe: Probe) -> Block {
        let divisor = if self.quick { 4 } else { 1 };
        match probe {
            Probe::Atomic | Probe::Copy => Block { warm_up: 200, rounds: 1000 / divisor },
            Probe::Futex => Block { warm_up: 20, rounds: 120 / divisor },
        }
    }
}

/// The rows of a run, in both processes the same: the probes first, in the order of [`Probe::ALL`].
pub(crate) fn rows_of(only: &str) -> Vec<Row> {
    let is_probe = |row: &Row| Probe::ALL.iter().any(|probe| probe.name() == row.transport);
    rows().into_iter().filter(|row| is_probe(row) || row.transport.contains(only)).collect()
}

/// Length of a block, in operations.
#[derive(Clone, Copy, Debug)]
struct Block {
    warm_up: u32,
    rounds: u32,
}

/// The figures of a run.
#[derive(Debug)]
pub struct Outcome {
    /// One series per row, in the order of the table.
    pub series: Vec<Series>,
    /// `true` if both sides had real-time priority.
    pub real_time: bool,
    /// The smallest step of the clock.
    pub step_ns: f64,
}

/// Runs the plan in this process and a child of it.
///
/// # Errors
/// If the machine refuses something, or a transport failed.
pub fn run(plan: &RunPlan) -> Result<Outcome> {
    let clock = Clock::calibrate();
    machine::pin(plan.cpus.near)?;
    let mut bench = Bench::set_up(plan, clock)?;
    for round in 0..plan.rounds {
        bench.round(plan, round)?;
    }
    let Bench { far, sides, probes, real_time, .. } = bench;
    far.finish()?;
    let series = probes.into_iter().chain(sides).map(|side| side.series).collect();
    Ok(Outcome { series, real_time, step_ns: clock.step_ns() })
}

/// The measuring side.
pub(crate) struct Bench {
    clock: Clock,
    real_time: bool,
    awake: KeepAwake,
    far: FarProcess,
    probes: Vec<Side>,
    sides: Vec<Side>,
}

/// A row, ready to run.
struct Side {
    /// Its place in the table, by which the far process knows it.
    index: u32,
    near: Box<dyn Near>,
    /// Of rows whose far side is a thread.
    thread: Option<FarThread>,
    series: Series,
}

impl Bench {
    fn set_up(plan: &RunPlan, clock: Clock) -> Result<Self> {
        // Before this thread becomes a real-time one: threads inherit that.
        let awake = KeepAwake::new(plan.cpus);
        let far = FarProcess::start(plan.cpus.far, &plan.only)?;
        let mut sides = Vec::new();
        for (index, row) in (0..).zip(rows_of(&plan.only)) {
            let (near, thread) = match row.way {
                Way::Processes { open, .. } => {
                    let near = open(far.link())?;
                    far.joined()?;
                    (near, None)
                }
                Way::Threads(pair) => {
                    let (near, there) = pair()?;
                    (near, Some(FarThread::start(there, plan.cpus.far)))
                }
            };
            sides.push(Side { index, near, thread, series: Series::new(row) });
        }
        let real_time = far.is_real_time()? && machine::real_time();
        let rest = sides.split_off(Probe::ALL.len());
        Ok(Self { clock, real_time, awake, far, probes: sides, sides: rest })
    }

    /// One that only probes.
    pub(crate) fn probes_only(plan: &RunPlan) -> Result<Self> {
        let plan = RunPlan { only: "\n".into(), ..plan.clone() };
        let clock = Clock::calibrate();
        machine::pin(plan.cpus.near)?;
        Self::set_up(&plan, clock)
    }

    /// Lets the far side go.
    pub(crate) fn finish(self) -> Result<()> {
        self.far.finish()
    }

    /// One block of every row, grouped by probe; each round starts one row later than the last.
    fn round(&mut self, plan: &RunPlan, round: u32) -> Result<()> {
        for probe in Probe::ALL {
            let in_group = |side: &Side| side.series.row.probe == probe;
            let group: Vec<usize> = (0..)
                .zip(&self.sides)
                .filter_map(|(i, side)| in_group(side).then_some(i))
                .collect();
            if group.is_empty() {
                continue;
            }
            self.awake.set(probe.sleeps() && !plan.let_doze);
            self.group(plan, round, probe, &group)?;
        }
        self.awake.set(false);
        Ok(())
    }

    fn group(&mut self, plan: &RunPlan, round: u32, probe: Probe, group: &[usize]) -> Result<()> {
        let first = usize::try_from(round)? % group.len();
        let mut before = self.probe(plan, round, probe)?;
        for &index in group.iter().cycle().skip(first).take(group.len()) {
            // The scheduler stops real-time threads for a while that leave nothing to others for a
            // second.
            std::thread::sleep(Duration::from_millis(1));
            let Some(side) = self.sides.get_mut(index) else { continue };
            let block = plan.block(&side.series.row);
            let operations = side.run(&self.far, block, self.clock)?;
            let after = self.probe(plan, round, probe)?;
            if let Some(side) = self.sides.get_mut(index) {
                side.series.add(round, &operations, Bracket { before, after });
            }
            before = after;
        }
        Ok(())
    }

    /// Runs the bare ping-pong and the matching probe.
    fn probe(&mut self, plan: &RunPlan, round: u32, matching: Probe) -> Result<Probes> {
        self.probe_into(plan, round, Probing { matching, times: 1 }, &mut Vec::new())
    }

    /// Runs the bare ping-pong and the matching probe, the latter so many times as long as usual;
    /// its samples go into `samples`, in nanoseconds.
    pub(crate) fn probe_into(
        &mut self,
        plan: &RunPlan,
        round: u32,
        Probing { matching, times }: Probing,
        samples: &mut Vec<f64>,
    ) -> Result<Probes> {
        let mut probes = Probes { atomic: 0.0, matching: 0.0 };
        for (probe, side) in Probe::ALL.into_iter().zip(&mut self.probes) {
            if probe != Probe::Atomic && probe != matching {
                continue;
            }
            let mut block = plan.probe_block(probe);
            block.rounds *= if probe == matching { times } else { 1 };
            let operations = side.run(&self.far, block, self.clock)?;
            let typical = typical(&operations);
            if probe == Probe::Atomic {
                probes.atomic = typical;
            }
            if probe == matching {
                probes.matching = typical;
                samples.extend_from_slice(&operations);
            }
            let own = Probes { atomic: probes.atomic, matching: typical };
            side.series.add(round, &operations, Bracket { before: own, after: own });
        }
        Ok(probes)
    }
}

/// A probe to run, so many times as long as usual.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    pub(crate) matching: Probe,
    pub(crate) times: u32,
}

impl Side {
    /// Runs a block; returns the time of each operation in nanoseconds.
    fn run(&mut self, far: &FarProcess, block: Block, clock: Clock) -> Result<Vec<f64>> {
        let Block { warm_up, rounds } = block;
        let mut samples = Vec::with_capacity(usize::try_from(rounds)?);
        for rounds in [warm_up, rounds] {
            samples.clear();
            match &self.thread {
                Some(thread) => thread.serve(rounds)?,
                None => far.serve(self.index, rounds)?,
            }
            self.near.run(rounds, &mut samples)?;
        }
        let per = if self.series.row.is_throughput() { f64::from(rounds) } else { 1.0 };
        Ok(samples.iter().map(|&ticks| clock.ns(ticks) / per).collect())
    }
}
