//! `nnburst bench --profile` and `--ceiling`: where a model's time goes, and what this machine
//! could do.

use std::io::Write;
use std::time::Duration;

use nnburst::profile::{Bandwidth, Ceilings, Extent, Peak, Profile, StepTime, ceilings};
use serde::Serialize;

use super::bench::{sample, sources};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::session::driver_options;
use crate::source::ModelSource;
use crate::table::{TextTable, figure};

/// Measures the machine, and then each model against it.
pub(crate) fn profile(args: &BenchArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let ceilings = ceilings()?;
    if args.ceiling {
        write_ceilings(&ceilings, args.json, out)?;
    }
    if !args.profile {
        return Ok(());
    }
    for source in sources(args) {
        let source = source?;
        let profile = measure(args, &source).map_err(|failure| failure.during(&source.name))?;
        if args.json {
            write_json(&ModelReport::new(&source.name, &profile, &ceilings), out)?;
        } else {
            write_table(&source.name, &profile, &ceilings, out)?;
        }
    }
    Ok(())
}

fn measure(args: &BenchArgs, source: &ModelSource) -> Result<Profile, Failure> {
    let mut inputs: Vec<Vec<u8>> = vec![Vec::new(); source.model.main.input_indexes.len()];
    for (at, operand) in source.inputs() {
        if let Some(input) = inputs.get_mut(at) {
            *input = sample(operand, args.amplitude);
        }
    }
    for state in &source.states {
        if let Some(input) = inputs.get_mut(state.input) {
            input.clone_from(&state.initial);
        }
    }
    let runs = Extent::Runs(usize::try_from(args.runs).unwrap_or(usize::MAX));
    let extent = args.duration.map_or(runs, Extent::Time);
    let options = driver_options(args.engine.threads, args.engine.hint);
    Ok(Profile::of(&source.model, &inputs, &options, extent)?)
}

/// The throughput that a step reaches.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// 10^9 operations a second; for steps that only move data, 10^9 bytes.
    rate: f64,
    /// The least time this machine could need, as a share of the step's.
    share: f64,
}

impl Reach {
    fn of(step: &StepTime, ceilings: &Ceilings) -> Self {
        let seconds = step.time.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_precision_loss, reason = "figures of a few digits")]
        let count = if step.label.operations > 0 {
            step.label.operations as f64
        } else {
            step.bytes as f64
        };
        let least = ceilings.least_ns(&step.label, step.bytes) * 1e-9;
        Self { rate: count / seconds / 1e9, share: least / seconds }
    }
}

fn write_table(
    name: &str,
    profile: &Profile,
    ceilings: &Ceilings,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut table = TextTable::new(&[
        "operation",
        "kernel",
        "form",
        "us",
        "of all",
        "rate",
        "",
        "of ceiling",
        "shape",
    ]);
    let sum: Duration = profile.steps.iter().map(|step| step.time).sum();
    let (all, mut least) = (sum.as_secs_f64().max(1e-9), 0.0);
    for step in &profile.steps {
        let reach = Reach::of(step, ceilings);
        least += ceilings.least_ns(&step.label, step.bytes);
        let unit = match (step.label.operations, step.label.is_integer()) {
            (0, _) => "GB/s",
            (_, true) => "GOP/s",
            (_, false) => "GFLOP/s",
        };
        table.row([
            format!("{} {}", step.index, step.name),
            step.label.kernel.to_owned(),
            format!("{:?}", step.label.form).to_lowercase(),
            figure(micros(step.time)),
            percent(step.time.as_secs_f64() / all),
            figure(reach.rate),
            unit.to_owned(),
            percent(reach.share),
            step.label.shape.to_string(),
        ]);
    }
    write!(out, "{table}")?;
    writeln!(
        out,
        "{name}: {} us a call, steps {} us, at the ceiling {} us; prepared in {} us",
        figure(micros(profile.whole)),
        figure(micros(sum)),
        figure(least * 1e-3),
        figure(micros(profile.prepare))
    )?;
    Ok(())
}

fn write_ceilings(ceilings: &Ceilings, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        return write_json(&CeilingReport::from(ceilings), out);
    }
    let mut table = TextTable::new(&["one core", "f32 GFLOP/s", "i8 GOP/s"]);
    for peak in &ceilings.peaks {
        let isa = format!("{:?}", peak.isa).to_lowercase();
        table.row([isa, figure(peak.f32_gflops), figure(peak.i8_gops)]);
    }
    writeln!(out, "{table}")?;
    let mut table = TextTable::new(&["reading from", "GB/s"]);
    for level in &ceilings.bandwidths {
        table.row([level.level.to_owned(), figure(level.gbytes)]);
    }
    write!(out, "{table}")?;
    Ok(())
}

fn write_json(report: &impl Serialize, out: &mut dyn Write) -> Result<(), Failure> {
    let line = serde_json::to_string(report)
        .map_err(|error| Failure::check(format!("the report: {error}")))?;
    Ok(writeln!(out, "{line}")?)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The object that `--profile --json` prints of a model.
#[derive(Debug, Serialize)]
struct ModelReport<'a> {
    model: &'a str,
    prepare_us: f64,
    call_us: f64,
    steps: Vec<StepReport>,
}

#[derive(Debug, Serialize)]
struct StepReport {
    index: usize,
    operation: &'static str,
    kernel: &'static str,
    form: String,
    shape: String,
    us: f64,
    operations: u64,
    bytes: usize,
    /// 10^9 operations a second; for steps that only move data, 10^9 bytes.
    rate: f64,
    share_of_ceiling: f64,
}

impl<'a> ModelReport<'a> {
    fn new(model: &'a str, profile: &'a Profile, ceilings: &Ceilings) -> Self {
        let step = |step: &'a StepTime| {
            let reach = Reach::of(step, ceilings);
            StepReport {
                index: step.index,
                operation: step.name,
                kernel: step.label.kernel,
                form: format!("{:?}", step.label.form).to_lowercase(),
                shape: step.label.shape.to_string(),
                us: micros(step.time),
                operations: step.label.operations,
                bytes: step.bytes,
                rate: reach.rate,
                share_of_ceiling: reach.share,
            }
        };
        let steps = profile.steps.iter().map(step).collect();
        let (prepare_us, call_us) = (micros(profile.prepare), micros(profile.whole));
        Self { model, prepare_us, call_us, steps }
    }
}

/// The object that `--ceiling --json` prints.
#[derive(Debug, Serialize)]
struct CeilingReport {
    peaks: Vec<PeakReport>,
    bandwidths: Vec<BandwidthReport>,
}

#[derive(Debug, Serialize)]
struct PeakReport {
    form: String,
    f32_gflops: f64,
    i8_gops: f64,
}

#[derive(Debug, Serialize)]
struct BandwidthReport {
    level: &'static str,
    gbytes_per_s: f64,
}

impl From<&Ceilings> for CeilingReport {
    fn from(ceilings: &Ceilings) -> Self {
        let peak = |peak: &Peak| PeakReport {
            form: format!("{:?}", peak.isa).to_lowercase(),
            f32_gflops: peak.f32_gflops,
            i8_gops: peak.i8_gops,
        };
        let level =
            |level: &Bandwidth| BandwidthReport { level: level.level, gbytes_per_s: level.gbytes };
        Self {
            peaks: ceilings.peaks.iter().map(peak).collect(),
            bandwidths: ceilings.bandwidths.iter().map(level).collect(),
        }
    }
}
