//! `nnburst run`: a model on raw tensors or on a photo.

use std::io::Write;
use std::path::Path;

use nnburst::hal::Operand;
use serde::Serialize;

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::pace::Pacer;
use crate::photo::Picture;
use crate::session::{Session, open_device_for};
use crate::source::Source;
use crate::stats::{Latencies, Summary};
use crate::table::figure;
use crate::values::{real_values, top};

/// Runs and prints what came out.
pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let source = Source::choose(args.model.as_deref(), args.builtin.as_deref())?;
    let source = source.wishing(args.engine.wish);
    let inputs = read_inputs(args, &source)?;
    let device = open_device_for(&source.model, &args.engine)?;
    let mut session = Session::open(&device, &source, &args.engine)?;
    for warning in session.warnings() {
        crate::warn(&warning);
    }
    let mut files: Vec<Vec<u8>> = source.outputs().map(|_| Vec::new()).collect();
    let mut latencies = Latencies::new()?;
    let mut pacer = Pacer::new(args.pace.period);
    let reset_every =
        args.reset_every.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    for step in 0..usize::try_from(args.steps).unwrap_or(usize::MAX) {
        if step > 0 && step.is_multiple_of(reset_every) {
            session.reset()?;
        }
        for (at, length, bytes) in &inputs {
            let start = step.saturating_mul(*length);
            let part = bytes.get(start..start.saturating_add(*length));
            session.write(*at, part.unwrap_or_default())?;
        }
        pacer.wait();
        latencies.record(session.step()?.latency);
        for ((at, _), file) in source.outputs().zip(&mut files) {
            file.extend(session.read(at)?);
        }
    }
    if let Some(dir) = &args.output {
        write_outputs(dir, &files)?;
    }
    let labels = match &args.labels {
        Some(path) => read_labels(path)?,
        None => Vec::new(),
    };
    let report = report(args, &source, device.name(), &files, &labels, latencies.summary());
    if args.json {
        let line = serde_json::to_string(&report)
            .map_err(|error| Failure::check(format!("the report: {error}")))?;
        writeln!(out, "{line}")?;
    } else {
        print(&report, out)?;
    }
    Ok(())
}

/// Position, bytes of one step, and the bytes of all steps.
type Input = (usize, usize, Vec<u8>);

fn read_inputs(args: &RunArgs, source: &Source) -> Result<Vec<Input>, Failure> {
    let inputs: Vec<(usize, &Operand)> = source.inputs().collect();
    if let Some((index, _)) = args.input.iter().find(|(index, _)| *index >= inputs.len()) {
        return Err(Failure::usage(format!(
            "--input {index}: {} has inputs 0 to {}",
            source.name,
            inputs.len().saturating_sub(1)
        )));
    }
    let steps = usize::try_from(args.steps).unwrap_or(usize::MAX);
    inputs
        .iter()
        .enumerate()
        .map(|(number, &(at, operand))| {
            let length = operand.data_size().ok_or_else(|| {
                Failure::usage(format!("input {number} has no known size: {:?}", operand.dimensions))
            })?;
            let bytes = if let (Some(image), 0) = (&args.image, number) {
                Picture::open(image)?.to_input(operand)?.repeat(steps)
            } else if let Some((_, file)) = args.input.iter().find(|(index, _)| *index == number) {
                std::fs::read(file)
                    .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?
            } else {
                vec![0; length.saturating_mul(steps)]
            };
            if bytes.len() != length.saturating_mul(steps) {
                return Err(Failure::usage(format!(
                    "input {number} takes {length} bytes a step, {steps} steps take {}, the file has {}",
                    length.saturating_mul(steps),
                    bytes.len()
                )));
            }
            Ok((at, length, bytes))
        })
        .collect()
}

fn write_outputs(dir: &Path, files: &[Vec<u8>]) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::check(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for (number, bytes) in files.iter().enumerate() {
        let path = dir.join(format!("out{number}.bin"));
        std::fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

#[derive(Debug, Serialize)]
struct Report {
    model: String,
    device: String,
    mode: &'static str,
    steps: u32,
    latency_us: Option<Summary>,
    outputs: Vec<OutputReport>,
    /// The classes of the last step, where classes were asked for.
    top: Vec<Class>,
}

#[derive(Debug, Serialize)]
struct OutputReport {
    r#type: &'static str,
    dimensions: Vec<u32>,
    /// The first real values of the last step.
    first: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Class {
    index: usize,
    value: f64,
    label: String,
}

fn report(
    args: &RunArgs,
    source: &Source,
    device: &str,
    files: &[Vec<u8>],
    labels: &[String],
    latency_us: Option<Summary>,
) -> Report {
    const SHOWN: usize = 8;
    let steps = usize::try_from(args.steps).unwrap_or(usize::MAX);
    let mut outputs = Vec::new();
    let mut classes = Vec::new();
    for ((number, (_, operand)), bytes) in source.outputs().enumerate().zip(files) {
        let last = bytes.get(bytes.len() - bytes.len() / steps..).unwrap_or_default();
        let values = real_values(operand, last);
        if number == 0 && (args.image.is_some() || args.labels.is_some()) {
            classes = top(&values, args.top)
                .into_iter()
                .map(|index| Class {
                    index,
                    value: values.get(index).copied().unwrap_or(0.0),
                    label: labels.get(index).cloned().unwrap_or_default(),
                })
                .collect();
        }
        outputs.push(OutputReport {
            r#type: operand.kind.name(),
            dimensions: operand.dimensions.clone(),
            first: values.into_iter().take(SHOWN).collect(),
        });
    }
    Report {
        model: source.name.clone(),
        device: device.to_owned(),
        mode: args.engine.mode.name(),
        steps: args.steps,
        latency_us,
        outputs,
        top: classes,
    }
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    for class in &report.top {
        writeln!(out, "{:>9.5}  {:>4}  {}", class.value, class.index, class.label)?;
    }
    if report.top.is_empty() {
        for (number, output) in report.outputs.iter().enumerate() {
            let values: Vec<_> = output.first.iter().map(|value| format!("{value:.6}")).collect();
            writeln!(
                out,
                "output {number}: {} {:?}: {} ...",
                output.r#type,
                output.dimensions,
                values.join(" ")
            )?;
        }
    }
    if let Some(latency) = report.latency_us {
        let (device, mode, latency) = (&report.device, report.mode, figure(latency.p50));
        writeln!(out, "{latency} us on {device}, {mode}")?;
    }
    Ok(())
}
