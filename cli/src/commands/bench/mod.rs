//! `nnburst bench`: the latency of models, and what of it is overhead.

mod csv;
mod series;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use nnburst::hal::{Operand, OperandType};
use serde::Serialize;

use crate::args::BenchArgs;
use crate::failure::{Failure, not_writable};
use crate::pace::Missed;
use crate::process::memory_bytes;
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
    let several = args.models.len() + args.builtin.len() > 1;
    if several && args.hgrm.is_some() {
        return Err(Failure::usage("--hgrm: a file is for one model; measure one after the other"));
    }
    if args.csv {
        csv::heading(out)?;
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
        } else if args.csv {
            csv::row(&report, out)?;
        } else {
            rows(&mut table, &report);
        }
        let missed = missed.verdict(&source.name, args.pace.period, args.engine.deadline);
        verdict = verdict.and(missed);
    }
    if !args.json && !args.csv {
        write!(out, "{table}")?;
    }
    verdict
}

/// A row of a model, and where calls are paced and some were late, one as if none had been held
/// back by those before it.
fn rows(table: &mut TextTable, report: &Report) {
    let Some(latency) = report.latency_us else {
        table.row([report.model.clone()]);
        return;
    };
    table.latency_row(&report.model, latency, report.overhead_us);
    if let (Some(corrected), Some(1..)) = (report.corrected_us, report.periods_missed) {
        table.latency_row("  as it was due", corrected, None);
    }
    if report.streams > 1 {
        let (streams, rate) = (report.streams, report.calls_per_s);
        table.row([format!("  {streams} streams, {rate:.0} calls a second")]);
    }
    if let Some(rate) = report.results_per_s {
        table.row([format!("  batches of {}, {rate:.0} results a second", report.batch)]);
    }
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
    /// Callers at the same time.
    streams: usize,
    /// Requests of a call.
    batch: u32,
    priority: &'static str,
    preference: &'static str,
    /// Measured calls of all streams.
    runs: u64,
    /// The time that these took.
    duration_s: f64,
    calls_per_s: f64,
    /// Requests, where calls have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    results_per_s: Option<f64>,
    /// Of the calls that have a result.
    latency_us: Option<Summary>,
    /// From when each call was due, with or without a result: a late call counts also for those
    /// that were due while it ran and that nobody could begin (coordinated omission). Of paced
    /// calls alone.
    corrected_us: Option<Summary>,
    driver_us: Option<Summary>,
    overhead_us: Option<Summary>,
    load_ms: f64,
    compile_ms: f64,
    /// Of this process and the driver's together.
    peak_rss_mib: f64,
    driver_peak_rss_mib: Option<f64>,
    /// Processor time per call, of this process and the driver's together, with all that they do
    /// between calls.
    processor_us: Option<f64>,
    /// The driver's part of it, where it has a process of its own for this one.
    driver_processor_us: Option<f64>,
    /// Each stream for itself, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    per_stream: Vec<StreamReport>,
}

#[derive(Debug, Serialize)]
struct StreamReport {
    runs: u64,
    periods_missed: Option<u64>,
    deadlines_missed: Option<u64>,
    latency_us: Option<Summary>,
}

fn measure(args: &BenchArgs, source: &ModelSource) -> Result<(Report, Missed), Failure> {
    let device = open_device(&args.engine)?;
    let instead = source.instead_for(&device)?;
    let source = instead.as_ref().unwrap_or(source);
    let open = if args.cache { ModelSession::open_cached } else { ModelSession::open };
    let mut sessions = Vec::new();
    for _ in 0..args.streams {
        let mut session = open(&device, source, &args.engine)?;
        if sessions.is_empty() {
            for warning in session.warnings() {
                crate::failure::warn(&warning);
            }
        }
        fill_inputs(&mut session, source, args.amplitude)?;
        sessions.push(session);
    }
    let measured = series::measure(args, &mut sessions, device.driver_process(), &source.name)?;
    let own = peak_rss_mib("self").unwrap_or(0.0);
    let driver = device.driver_process().and_then(|id| peak_rss_mib(&id.to_string()));
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let series::SeriesFigures { figures, missed, took, processor, streams } = &measured;
    let (period, deadline) = (args.pace.period, args.engine.deadline);
    let corrected = period.map(|period| figures.waiting.corrected(period));
    if let Some(path) = &args.hgrm {
        write_hgrm(path, &corrected.as_ref().unwrap_or(&figures.waiting).hgrm())?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
    let calls_per_s = missed.of as f64 / took.as_secs_f64().max(1e-9);
    let batch = source.batch();
    #[expect(clippy::cast_precision_loss, reason = "a figure for the eye")]
    let per_call = |time: Duration| time.as_secs_f64() * 1e6 / missed.of.max(1) as f64;
    let of_stream = |stream: &series::Stream| StreamReport {
        runs: stream.missed.of,
        periods_missed: period.map(|_| stream.missed.periods),
        deadlines_missed: deadline.map(|_| stream.missed.deadlines),
        latency_us: stream.figures.latency.summary(),
    };
    let several = streams.iter().filter(|_| streams.len() > 1);
    let report = Report {
        model: source.name.clone(),
        device: device.name().to_owned(),
        mode: args.engine.mode.name(),
        period_ms: period.map(millis),
        periods_missed: period.map(|_| missed.periods),
        deadline_ms: deadline.map(millis),
        deadlines_missed: deadline.map(|_| missed.deadlines),
        wait: args.engine.wait().name(),
        threads: args.engine.threads,
        streams: streams.len(),
        batch,
        priority: args.engine.priority.name(),
        preference: args.engine.preference.name(),
        runs: missed.of,
        duration_s: took.as_secs_f64(),
        calls_per_s: (calls_per_s * 10.0).round() / 10.0,
        results_per_s: (batch > 1).then(|| (calls_per_s * f64::from(batch)).round()),
        latency_us: figures.latency.summary(),
        corrected_us: corrected.and_then(|latencies| latencies.summary()),
        driver_us: figures.driver.summary(),
        overhead_us: figures.overhead.summary(),
        load_ms: millis(source.load),
        compile_ms: sessions.first().map_or(0.0, |session| millis(session.compile)),
        peak_rss_mib: own + driver.unwrap_or(0.0),
        driver_peak_rss_mib: driver,
        processor_us: processor.own.map(|own| per_call(own + processor.driver.unwrap_or_default())),
        driver_processor_us: processor.driver.map(per_call),
        per_stream: several.map(of_stream).collect(),
    };
    Ok((report, *missed))
}

fn write_hgrm(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| not_writable(path, &error))
}

/// The figures of every call.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) latency: Latencies,
    /// The times that callers waited: latencies, and until a driver gave a call up for its
    /// deadline.
    waiting: Latencies,
    pub(crate) driver: Latencies,
    pub(crate) overhead: Latencies,
}

impl Figures {
    pub(crate) fn new() -> Result<Self, Failure> {
        let [latency, waiting, driver, overhead] = [(); 4].map(|()| Latencies::new());
        Ok(Self { latency: latency?, waiting: waiting?, driver: driver?, overhead: overhead? })
    }

    fn add(&mut self, others: &Self) {
        self.latency.add(&others.latency);
        self.waiting.add(&others.waiting);
        self.driver.add(&others.driver);
        self.overhead.add(&others.overhead);
    }

    pub(crate) fn record(&mut self, sample: Sample) {
        self.latency.record(sample.latency);
        self.waiting.record(sample.latency);
        if let Some(driver) = sample.driver {
            self.driver.record(driver);
            self.overhead.record(sample.latency.saturating_sub(driver));
        }
    }

    /// Records a call that the driver gave up.
    fn record_given_up(&mut self, waited: Duration) {
        self.waiting.record(waited);
    }
}

/// Fills all inputs but the states.
pub(crate) fn fill_inputs(
    session: &mut ModelSession,
    source: &ModelSource,
    amplitude: f32,
) -> Result<(), Failure> {
    for (at, operand) in source.inputs() {
        session.write(at, &sample(operand, amplitude))?;
    }
    Ok(())
}

/// Bytes that are neither zero nor all alike, and that are numbers between plus and minus the
/// amplitude in every float type.
pub(crate) fn sample(operand: &Operand, amplitude: f32) -> Vec<u8> {
    let length = byte_len(operand).unwrap_or(0);
    let unit =
        |at: usize| (f32::from(u8::try_from(at % 251).unwrap_or(0)) / 125.5 - 1.0) * amplitude;
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
