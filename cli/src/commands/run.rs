//! `nnburst run`: a model on raw tensors or on a photo.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use nnburst::hal::Operand;
use nnburst_mlts::photo::Picture;
use serde::Serialize;

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::files::{Feed, read_at_most};
use crate::pace::{Missed, Pacer};
use crate::session::{ModelSession, open_device_for};
use crate::source::ModelSource;
use crate::stats::{Latencies, Summary};
use crate::table::figure;
use crate::values::{byte_len, narrowed, real_values, top, type_name, widened};

/// Runs and prints what came out.
pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let source = ModelSource::choose(&args.model, &args.import)?;
    let source = source.with_hint(args.engine.hint);
    let device = open_device_for(&source.model, &args.engine)?;
    let source = source.instead_for(&device)?.unwrap_or(source);
    let mut inputs = open_inputs(args, &source)?;
    let labels = match &args.labels {
        Some(path) => Some(read_labels(path, &source)?),
        None => source.labels.clone().filter(|labels| fits(labels, &source)),
    };
    if let Some(dir) = &args.output {
        // Before the run, which may take long.
        std::fs::create_dir_all(dir)
            .map_err(|error| Failure::usage(format!("--output {}: {error}", dir.display())))?;
    }
    let mut session = ModelSession::open(&device, &source, &args.engine)?;
    for warning in session.warnings() {
        crate::failure::warn(&warning);
    }
    let mut files: Vec<Vec<u8>> = source.outputs().map(|_| Vec::new()).collect();
    let mut last = files.clone();
    let mut shapes = Vec::new();
    let mut latencies = Latencies::new()?;
    let mut pacer = Pacer::new(args.pace.period);
    let mut late = 0;
    let reset_every =
        args.reset_every.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    for step in 0..usize::try_from(args.steps).unwrap_or(usize::MAX) {
        if step > 0 && step.is_multiple_of(reset_every) {
            session.reset()?;
        }
        for input in &mut inputs {
            session.write(input.at, &input.next()?)?;
        }
        pacer.wait();
        let latency = session.step()?.latency;
        latencies.record(latency);
        late += u64::from(args.engine.deadline.is_some_and(|deadline| latency > deadline));
        shapes.clear();
        for (((at, _), file), last) in source.outputs().zip(&mut files).zip(&mut last) {
            *last = session.read(at)?;
            shapes.push(session.output_shape(at)?);
            if args.output.is_none() {
                continue;
            }
            match source.wide.outputs.contains(&at) {
                true => file.extend(widened(last)),
                false => file.extend_from_slice(last),
            }
        }
    }
    if let Some(dir) = &args.output {
        write_outputs(dir, &files)?;
    }
    let missed = Missed { deadlines: late, periods: pacer.finish(), of: latencies.len() };
    let labels = labels.unwrap_or_default();
    let outputs = Computed { last: &last, shapes: &shapes, labels: &labels };
    let report = report(args, &source, device.name(), &outputs, latencies.summary());
    if args.json {
        let line = serde_json::to_string(&report)
            .map_err(|error| Failure::check(format!("the report: {error}")))?;
        writeln!(out, "{line}")?;
    } else {
        print(&report, out)?;
    }
    missed.verdict(&source.name, args.pace.period, args.engine.deadline)
}

/// An input, and where its bytes come from.
struct Input {
    at: usize,
    feed: Feed,
    /// True if the bytes are 64-bit integers, as they are in the model's file.
    is_wide: bool,
}

impl Input {
    /// The next step's bytes, in the type of the operand.
    fn next(&mut self) -> Result<Cow<'_, [u8]>, Failure> {
        let bytes = self.feed.next()?;
        if !self.is_wide {
            return Ok(Cow::Borrowed(bytes));
        }
        narrowed(bytes).map(Cow::Owned).map_err(|failure| failure.during("an input"))
    }
}

fn open_inputs(args: &RunArgs, source: &ModelSource) -> Result<Vec<Input>, Failure> {
    let inputs: Vec<(usize, &Operand)> = source.inputs().collect();
    if let Some((index, _)) = args.input.iter().find(|(index, _)| *index >= inputs.len()) {
        return Err(Failure::usage(format!(
            "--input {index}: {} has inputs 0 to {}",
            source.name,
            inputs.len().saturating_sub(1)
        )));
    }
    let given = args.input.iter().map(|(index, _)| index);
    if let Some(twice) =
        given.clone().find(|&index| given.clone().filter(|&it| it == index).count() > 1)
    {
        return Err(Failure::usage(format!("--input {twice}: given more than once")));
    }
    inputs
        .iter()
        .enumerate()
        .map(|(number, &(at, operand))| {
            let length = byte_len(operand).ok_or_else(|| {
                Failure::usage(format!(
                    "input {number} has no known size: {:?}",
                    operand.dimensions
                ))
            })?;
            let is_wide = source.wide.inputs.contains(&at);
            let length = if is_wide { length.saturating_mul(2) } else { length };
            let file = args.input.iter().find(|(index, _)| *index == number);
            let feed = match (&args.image, file) {
                (Some(image), _) if number == 0 => Feed::constant(picture(image, operand)?),
                (_, Some((_, file))) => Feed::file(file, length, args.steps)
                    .map_err(|failure| failure.during(format!("--input {number}")))?,
                _ => Feed::constant(vec![0; length]),
            };
            Ok(Input { at, feed, is_wide })
        })
        .collect()
}

fn write_outputs(dir: &Path, files: &[Vec<u8>]) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::check(format!("{}: {error}", path.display()));
    for (number, bytes) in files.iter().enumerate() {
        let path = dir.join(format!("out{number}.bin"));
        std::fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Bytes of the largest file that is taken for labels.
const LABELS_LIMIT: usize = 16 << 20;

/// The names of the classes, one for each element of the first output.
fn read_labels(path: &Path, source: &ModelSource) -> Result<Vec<String>, Failure> {
    let shown = path.display();
    let text = String::from_utf8(read_at_most(path, LABELS_LIMIT)?)
        .map_err(|_| Failure::usage(format!("{shown}: not UTF-8")))?;
    let labels: Vec<_> = text.trim_end().lines().map(|line| line.trim().to_owned()).collect();
    if !fits(&labels, source) {
        return Err(Failure::usage(format!(
            "{shown}: {} labels, expected {}: output 0 of {} has as many classes",
            labels.len(),
            classes(source),
            source.name
        )));
    }
    Ok(labels)
}

/// Elements of the first output; 0 where its shape isn't known before the run.
fn classes(source: &ModelSource) -> u32 {
    let elements = |operand: &Operand| operand.dimensions.iter().product::<u32>();
    source.outputs().next().map_or(0, |(_, operand)| elements(operand))
}

/// Returns whether there are as many labels as classes. Where the shape isn't known before the run,
/// no count is wrong.
fn fits(labels: &[String], source: &ModelSource) -> bool {
    let classes = classes(source);
    classes == 0 || usize::try_from(classes) == Ok(labels.len())
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

/// The outputs of the last step.
struct Computed<'a> {
    last: &'a [Vec<u8>],
    shapes: &'a [Vec<u32>],
    /// The names of the first one's classes; empty where none are known.
    labels: &'a [String],
}

fn report(
    args: &RunArgs,
    source: &ModelSource,
    device: &str,
    computed: &Computed<'_>,
    latency_us: Option<Summary>,
) -> Report {
    const SHOWN: usize = 8;
    let Computed { last, shapes, labels } = computed;
    let mut outputs = Vec::new();
    let mut classes = Vec::new();
    for ((number, (_, operand)), last) in source.outputs().enumerate().zip(*last) {
        let values = real_values(operand, last);
        if number == 0 && (args.image.is_some() || !labels.is_empty()) {
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
            r#type: type_name(operand.kind),
            dimensions: shapes.get(number).cloned().unwrap_or_default(),
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

/// Bytes of the largest file that is taken for a photo.
const LARGEST_PHOTO: usize = 64 << 20;

/// The bytes of an input that is a photo in a file.
fn picture(path: &Path, operand: &Operand) -> Result<Vec<u8>, Failure> {
    let bytes = read_at_most(path, LARGEST_PHOTO)?;
    let input = Picture::decode(&bytes).and_then(|picture| picture.to_input(operand));
    input.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
