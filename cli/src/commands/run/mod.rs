//! `nnburst run`: a model on raw tensors or on a photo.

mod photos;

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use nnburst::hal::Operand;
use nnburst_mlts::photo::Picture;
use serde::Serialize;

use crate::args::RunArgs;
use crate::failure::{Failure, not_made, not_writable};
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
    let photos = args.image.as_deref().filter(|path| path.is_dir());
    let photos = photos.map(|dir| photos::find(dir, args)).transpose()?;
    let mut inputs = if photos.is_some() { Vec::new() } else { open_inputs(args, &source)? };
    let labels = match &args.labels {
        Some(path) => Some(read_labels(path, &source)?),
        None => source.labels.clone().filter(|labels| fits(labels, &source)),
    };
    if let Some(dir) = &args.output {
        // Before the run, which may take long.
        std::fs::create_dir_all(dir).map_err(|error| {
            let failure = not_made(dir, &error);
            Failure::usage(format!("--output {}", failure.message))
        })?;
    }
    let session = ModelSession::open(&device, &source, &args.engine)?;
    for warning in session.warnings() {
        crate::failure::warn(&warning);
    }
    let labels = labels.unwrap_or_default();
    let device = device.name().to_owned();
    let mut series = Series::new(args, &source, &labels, device, session)?;
    if let Some(photos) = &photos {
        return photos::classify(&mut series, photos, out);
    }
    let reset_every =
        args.reset_every.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    for step in 0..usize::try_from(args.steps).unwrap_or(usize::MAX) {
        if step > 0 && step.is_multiple_of(reset_every) {
            series.session.reset()?;
        }
        for input in &mut inputs {
            series.session.write(input.at, &input.next()?)?;
        }
        series.step()?;
    }
    series.write_outputs()?;
    let report = series.report(None);
    write_report(args, &report, out)?;
    series.verdict()
}

/// A model that is run step by step, and what came out.
struct Series<'a> {
    args: &'a RunArgs,
    source: &'a ModelSource,
    /// The names of the first output's classes; empty where none are known.
    labels: &'a [String],
    device: String,
    session: ModelSession,
    pacer: Pacer,
    latencies: Latencies,
    /// Steps that took longer than the deadline.
    late: u64,
    /// The outputs of all steps, where they are to be written.
    files: Vec<Vec<u8>>,
    /// Those of the last step.
    last: Vec<Vec<u8>>,
    shapes: Vec<Vec<u32>>,
}

impl<'a> Series<'a> {
    fn new(
        args: &'a RunArgs,
        source: &'a ModelSource,
        labels: &'a [String],
        device: String,
        session: ModelSession,
    ) -> Result<Self, Failure> {
        let files: Vec<Vec<u8>> = source.outputs().map(|_| Vec::new()).collect();
        Ok(Self {
            args,
            source,
            labels,
            device,
            session,
            pacer: Pacer::new(args.pace.period),
            latencies: Latencies::new()?,
            late: 0,
            last: files.clone(),
            files,
            shapes: Vec::new(),
        })
    }

    /// Computes what was written to the inputs; returns the time that it took.
    fn step(&mut self) -> Result<Duration, Failure> {
        self.pacer.wait();
        let latency = self.session.step()?.latency;
        self.latencies.record(latency);
        self.late += u64::from(self.args.engine.deadline.is_some_and(|most| latency > most));
        self.shapes.clear();
        let outputs = self.source.outputs().zip(&mut self.files).zip(&mut self.last);
        for (((at, _), file), last) in outputs {
            *last = self.session.read(at)?;
            self.shapes.push(self.session.output_shape(at)?);
            if self.args.output.is_none() {
                continue;
            }
            match self.source.wide.outputs.contains(&at) {
                true => file.extend(widened(last)),
                false => file.extend_from_slice(last),
            }
        }
        Ok(latency)
    }

    fn write_outputs(&self) -> Result<(), Failure> {
        let Some(dir) = &self.args.output else { return Ok(()) };
        for (number, bytes) in self.files.iter().enumerate() {
            let path = dir.join(format!("out{number}.bin"));
            std::fs::write(&path, bytes).map_err(|error| not_writable(&path, &error))?;
        }
        Ok(())
    }

    /// Says whether calls were late.
    fn verdict(&mut self) -> Result<(), Failure> {
        let (periods, of) = (self.pacer.finish(), self.latencies.len());
        let missed = Missed { deadlines: self.late, periods, of };
        missed.verdict(&self.source.name, self.args.pace.period, self.args.engine.deadline)
    }
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
    let numbers: Vec<usize> = source.input_numbers().take(inputs.len()).collect();
    let mut given = Vec::new();
    for (input, file) in &args.input {
        let Some(number) = source.input_number(input) else {
            let (name, known) = (&source.name, source.input_list());
            return Err(Failure::usage(format!("--input {input}: {name} has inputs {known}")));
        };
        if given.iter().any(|(known, _)| *known == number) {
            return Err(Failure::usage(format!("--input {input}: given more than once")));
        }
        given.push((number, file));
    }
    numbers
        .into_iter()
        .zip(inputs)
        .map(|(number, (at, operand))| {
            let length = byte_len(operand).ok_or_else(|| {
                Failure::usage(format!(
                    "input {number} has no known size: {:?}",
                    operand.dimensions
                ))
            })?;
            let is_wide = source.wide.inputs.contains(&at);
            let length = if is_wide { length.saturating_mul(2) } else { length };
            let file = given.iter().find(|(known, _)| *known == number);
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

/// Bytes of the largest file that is taken for labels.
const LABELS_LIMIT: usize = 16 << 20;

/// The names of the classes, one for each element of the first output.
fn read_labels(path: &Path, source: &ModelSource) -> Result<Vec<String>, Failure> {
    let shown = path.display();
    let text = String::from_utf8(read_at_most(path, LABELS_LIMIT)?).map_err(|_| {
        Failure::usage(format!("{shown}: no text in UTF-8; give names of classes, one a line"))
    })?;
    let labels: Vec<_> = text.trim_end().lines().map(|line| line.trim().to_owned()).collect();
    if !fits(&labels, source) {
        return Err(Failure::usage(format!(
            "{shown}: {} labels, expected {}: output 0 of {} has as many classes; give the file of \
             labels that belongs to this model, one name a line",
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
    /// Of a folder, the photo.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    steps: u32,
    latency_us: Option<Summary>,
    outputs: Vec<OutputReport>,
    /// The classes of the last step, where classes were asked for.
    top: Vec<Class>,
}

#[derive(Debug, Serialize)]
struct OutputReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
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

impl Series<'_> {
    /// The outcome of the last step, of this photo.
    fn report(&self, image: Option<String>) -> Report {
        const SHOWN: usize = 8;
        let Self { args, source, labels, .. } = self;
        let mut outputs = Vec::new();
        let mut classes = Vec::new();
        for ((number, (_, operand)), last) in source.outputs().enumerate().zip(&self.last) {
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
                name: source.output_name(number).map(str::to_owned),
                r#type: type_name(operand.kind),
                dimensions: self.shapes.get(number).cloned().unwrap_or_default(),
                first: values.into_iter().take(SHOWN).collect(),
            });
        }
        Report {
            model: source.name.clone(),
            device: self.device.clone(),
            mode: args.engine.mode.name(),
            image,
            steps: args.steps,
            latency_us: self.latencies.summary(),
            outputs,
            top: classes,
        }
    }
}

fn write_report(args: &RunArgs, report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    if !args.json {
        return print(report, out);
    }
    let line = serde_json::to_string(report)
        .map_err(|error| Failure::check(format!("the report: {error}")))?;
    Ok(writeln!(out, "{line}")?)
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(image) = &report.image {
        writeln!(out, "{image}")?;
    }
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
    if let Some(latency) = report.latency_us
        && report.image.is_none()
    {
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
