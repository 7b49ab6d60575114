//! `nnburst bench`: the latency of models, and what of it is overhead.

use std::io::Write;
use std::time::Duration;

use nnburst::hal::{Operand, OperandType};
use serde::Serialize;

use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::pace::{Missed, Pacer};
use crate::process::memory_bytes;
use crate::progress::Progress;
use crate::session::{ModelSession, Sample, open_device};
use crate::source::ModelSource;
use crate::stats::{Latencies, Summary};
use crate::table::TextTable;
use crate::values::byte_len;

/// Measures each model in turn, or where its time goes, or this machine.
pub(crate) fn bench(args: &BenchArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if args.profile || args.ceiling {
        return super::profile::profile(args, out);
    }
    let mut table = TextTable::new(&["us", "p50", "p90", "p99", "p99.9", "max", "overhead"]);
    let mut verdict = Ok(());
    for source in sources(args) {
        let source = source?;
        let (report, missed) =
            measure(args, &source).map_err(|failure| failure.during(&source.name))?;
        if args.json {
            let line = serde_json::to_string(&report)
                .map_err(|error| Failure::check(format!("the report: {error}")))?;
            writeln!(out, "{line}")?;
        } else if let Some(latency) = report.latency_us {
            table.latency_row(&source.name, latency, report.overhead_us);
        } else {
            table.row([source.name.clone()]);
        }
        let missed = missed.verdict(&source.name, args.pace.period, args.engine.deadline);
        verdict = verdict.and(missed);
    }
    if !args.json {
        write!(out, "{table}")?;
    }
    verdict
}

/// The models that are asked for, those of files first.
pub(super) fn sources(args: &BenchArgs) -> impl Iterator<Item = Result<ModelSource, Failure>> {
    let opened = args.models.iter().map(|path| ModelSource::open(path, &args.import, true));
    let all = opened.chain(args.builtin.iter().map(|name| ModelSource::builtin(name)));
    all.map(|source| Ok(source?.with_hint(args.engine.hint)))
}

/// The object that `--json` prints of a model.
#[derive(Debug, Serialize)]
struct Report {
    model: String,
    device: String,
    mode: &'static str,
    period_ms: Option<f64>,
    /// Measured calls that were not done when the next was due.
    periods_missed: Option<u64>,
    deadline_ms: Option<f64>,
    /// Measured calls that took longer, or that the driver gave up for it.
    deadlines_missed: Option<u64>,
    wait: &'static str,
    threads: u16,
    runs: u32,
    /// Of the calls that have a result.
    latency_us: Option<Summary>,
    driver_us: Option<Summary>,
    overhead_us: Option<Summary>,
    load_ms: f64,
    compile_ms: f64,
    /// Of this process and the driver's together.
    peak_rss_mib: f64,
    driver_peak_rss_mib: Option<f64>,
}

fn measure(args: &BenchArgs, source: &ModelSource) -> Result<(Report, Missed), Failure> {
    let device = open_device(&args.engine)?;
    let instead = source.instead_for(&device)?;
    let source = instead.as_ref().unwrap_or(source);
    let open = if args.cache { ModelSession::open_cached } else { ModelSession::open };
    let mut session = open(&device, source, &args.engine)?;
    for warning in session.warnings() {
        crate::failure::warn(&warning);
    }
    fill_inputs(&mut session, source)?;
    let mut pacer = Pacer::new(args.pace.period);
    let deadline = args.engine.deadline;
    for _ in 0..(args.runs / 10).clamp(3, 1000) {
        pacer.wait();
        in_time(session.step(), deadline)?;
    }
    pacer.finish();
    let mut figures = Figures::new()?;
    let mut missed = Missed { deadlines: 0, periods: 0, of: args.runs.into() };
    let progress = Progress::new(u64::from(args.runs), &source.name);
    for _ in 0..args.runs {
        pacer.wait();
        let (sample, is_late) = in_time(session.step(), deadline)?;
        if let Some(sample) = sample {
            figures.record(sample);
        }
        missed.deadlines += u64::from(is_late);
        progress.step();
    }
    missed.periods = pacer.finish();
    progress.finish();
    let own = peak_rss_mib("self").unwrap_or(0.0);
    let driver = device.driver_process().and_then(|id| peak_rss_mib(&id.to_string()));
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let report = Report {
        model: source.name.clone(),
        device: device.name().to_owned(),
        mode: args.engine.mode.name(),
        period_ms: args.pace.period.map(millis),
        periods_missed: args.pace.period.map(|_| missed.periods),
        deadline_ms: deadline.map(millis),
        deadlines_missed: deadline.map(|_| missed.deadlines),
        wait: args.engine.wait.name(),
        threads: args.engine.threads,
        runs: args.runs,
        latency_us: figures.latency.summary(),
        driver_us: figures.driver.summary(),
        overhead_us: figures.overhead.summary(),
        load_ms: millis(source.load),
        compile_ms: millis(session.compile),
        peak_rss_mib: own + driver.unwrap_or(0.0),
        driver_peak_rss_mib: driver,
    };
    Ok((report, missed))
}

/// Returns the time of a step, unless it was late; nothing where the driver gave it up for that.
fn in_time(
    step: Result<Sample, Failure>,
    deadline: Option<Duration>,
) -> Result<(Option<Sample>, bool), Failure> {
    match step {
        Ok(sample) => {
            let is_late = deadline.is_some_and(|deadline| sample.latency > deadline);
            Ok((Some(sample), is_late))
        }
        Err(failure) if deadline.is_some() && failure.is_deadline() => Ok((None, true)),
        Err(failure) => Err(failure),
    }
}

/// The three figures of every call.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) latency: Latencies,
    pub(crate) driver: Latencies,
    pub(crate) overhead: Latencies,
}

impl Figures {
    pub(crate) fn new() -> Result<Self, Failure> {
        let (latency, driver, overhead) = (Latencies::new()?, Latencies::new()?, Latencies::new()?);
        Ok(Self { latency, driver, overhead })
    }

    pub(crate) fn record(&mut self, sample: Sample) {
        self.latency.record(sample.latency);
        if let Some(driver) = sample.driver {
            self.driver.record(driver);
            self.overhead.record(sample.latency.saturating_sub(driver));
        }
    }
}

/// Fills all inputs but the states.
pub(crate) fn fill_inputs(session: &mut ModelSession, source: &ModelSource) -> Result<(), Failure> {
    for (at, operand) in source.inputs() {
        session.write(at, &sample(operand))?;
    }
    Ok(())
}

/// Bytes that are neither zero nor all alike, and that are finite small numbers in every float
/// type.
pub(crate) fn sample(operand: &Operand) -> Vec<u8> {
    let length = byte_len(operand).unwrap_or(0);
    let unit = |at: usize| f32::from(u8::try_from(at % 251).unwrap_or(0)) / 125.5 - 1.0;
    match operand.kind {
        OperandType::TensorFloat32 => {
            (0..length / 4).flat_map(|at| unit(at).to_le_bytes()).collect()
        }
        OperandType::TensorFloat16 => {
            (0..length / 2).flat_map(|at| half::f16::from_f32(unit(at)).to_le_bytes()).collect()
        }
        // Often an index or a size: zero is valid most often.
        OperandType::TensorInt32 | OperandType::TensorBool8 | OperandType::Extension(_) => {
            vec![0; length]
        }
        _ => (0..length).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect(),
    }
}

/// The most memory that a process ever held.
fn peak_rss_mib(process: &str) -> Option<f64> {
    let bytes = memory_bytes(process, "VmHWM:")?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for the eye")]
    let mib = bytes as f64 / 1024.0 / 1024.0;
    Some((mib * 10.0).round() / 10.0)
}
