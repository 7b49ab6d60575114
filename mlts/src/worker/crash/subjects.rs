//! Models that a driver takes whole, with inputs and the answers that are right.

use std::time::Duration;

use nnburst::hal::Operand;
use nnburst::{Device, ModelBuilder, PrepareOptions};
use serde_json::{Value, json};

use super::part::{CrashPart, events};
use crate::data::{Loaded, ModelEntry};
use crate::evaluators::{ElementType, difference, shown};
use crate::protocol::{CallMode, monotonic_ns};
use crate::worker::client::{Client, Prepared, Result as Called};
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::pulse::Pulse;
use crate::worker::sequence::{Feed, Sequence};

/// Networks that are asked for, smallest first.
const BUILT_IN: [&str; 4] = ["add1", "sine", "add_plane_quant", "mobilenet_v1_0.25_128"];
/// Inputs of each model.
const FEEDS: u64 = 3;
/// The time in which a driver that writes after it has answered gives itself away.
const LATER: Duration = Duration::from_millis(20);
/// The distance from the reference device's floats, as a share of the largest one, or absolutely.
const CLOSE: f64 = 1e-3;

/// A model, inputs, and what has to come out to the bit.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) loaded: Loaded,
    pub(super) feeds: Vec<Feed>,
    pub(super) expected: Vec<Vec<Vec<u8>>>,
}

/// The models that the driver takes: built-in ones and those of the job. Their answers are taken
/// from the driver itself, undisturbed, and compared with the reference device's.
pub(super) fn subjects(part: &CrashPart<'_>) -> Outcome<Vec<Subject>> {
    let mut all = Vec::new();
    for (name, loaded) in candidates(&part.work.models) {
        let taken =
            part.pulse.during("supported operations", || part.client.supported(&loaded.model));
        if !taken?.iter().all(|&taken| taken) {
            continue;
        }
        all.push(judge(part, name, loaded)?);
    }
    if all.is_empty() {
        return Err(Stopped::Skipped("the driver takes none of the models whole".to_owned()));
    }
    Ok(all)
}

/// The smallest model that the driver takes.
pub(super) fn smallest(part: &CrashPart<'_>) -> Outcome<Subject> {
    first_of(part, candidates(&[]))
}

/// The largest built-in model that the driver takes.
pub(super) fn largest(part: &CrashPart<'_>) -> Outcome<Subject> {
    let mut all = candidates(&[]);
    all.reverse();
    first_of(part, all)
}

fn first_of(part: &CrashPart<'_>, all: Vec<(String, Loaded)>) -> Outcome<Subject> {
    for (name, loaded) in all {
        let taken =
            part.pulse.during("supported operations", || part.client.supported(&loaded.model));
        if taken?.iter().all(|&taken| taken) {
            return judge(part, name, loaded);
        }
    }
    Err(Stopped::Skipped("the driver takes none of the models whole".to_owned()))
}

fn candidates(models: &[ModelEntry]) -> Vec<(String, Loaded)> {
    let mut all = Vec::new();
    all.extend(relu().map(|loaded| ("relu".to_owned(), loaded)));
    all.extend(convolution().map(|loaded| ("conv".to_owned(), loaded)));
    let built_in =
        BUILT_IN.iter().map(|name| ModelEntry { id: (*name).to_owned(), ..ModelEntry::default() });
    for entry in built_in.chain(models.iter().cloned()) {
        if let Ok(loaded) = Loaded::open(&entry, false, false) {
            all.push((entry.id, loaded));
        }
    }
    all
}

/// The smallest network of all: drivers that take nothing else take one RELU.
fn relu() -> Option<Loaded> {
    let mut graph = ModelBuilder::new();
    let input = graph.input(Operand::float32([64]));
    let output = graph.relu(input).done();
    graph.output(output);
    let model = graph.build().ok()?;
    Some(Loaded { model, states: Vec::new(), origins: Vec::new() })
}

/// One convolution of 8 by 8 pixels, for drivers that do little else.
fn convolution() -> Option<Loaded> {
    let mut graph = ModelBuilder::new();
    let input = graph.input(Operand::float32([1, 8, 8, 2]));
    let weights: Vec<f32> = (0..36_u8).map(|at| f32::from(at % 7) * 0.25 - 0.75).collect();
    let filter = graph.constant_of(Operand::float32([2, 3, 3, 2]), &weights);
    let bias = graph.constant_of(Operand::float32([2]), &[0.5_f32, -0.5]);
    let output = graph.conv_2d(input, filter, bias).done();
    graph.output(output);
    let model = graph.build().ok()?;
    Some(Loaded { model, states: Vec::new(), origins: Vec::new() })
}

fn judge(part: &CrashPart<'_>, name: String, loaded: Loaded) -> Outcome<Subject> {
    let prepared = part.client.prepare(&loaded.model, part.pulse)?;
    let mut own = Sequence::new(&loaded, prepared.session(CallMode::Sync)?);
    let feeds: Vec<_> =
        (0..FEEDS).map(|seed| Feed::random(&loaded, seed + part.job.seed)).collect();
    let mut expected = Vec::new();
    for feed in &feeds {
        expected.push(own.run(feed, part.pulse)?);
    }
    let reference = Device::reference().compile(&loaded.model, PrepareOptions::default());
    if let Ok(reference) = reference {
        let mut sequence =
            Sequence::new(&loaded, Prepared::Runtime(reference).session(CallMode::Sync)?);
        let mut before: Option<Vec<Vec<u8>>> = None;
        for (feed, got) in feeds.iter().zip(&expected) {
            let want = sequence.run(feed, part.pulse)?;
            if let Err(why) = close(&loaded, got, &want) {
                let hint = hint(part, &mut own, feed, got, &want, before.as_deref());
                return Err(Stopped::failed(format!(
                    "{name}, undisturbed, against the reference device: {why}{hint}"
                )));
            }
            before = Some(want);
        }
    }
    Ok(Subject { name, loaded, feeds, expected })
}

/// What explains a wrong answer, if anything: it is that to the request before, or the right one
/// comes after the call.
fn hint(
    part: &CrashPart<'_>,
    own: &mut Sequence<'_>,
    feed: &Feed,
    got: &[Vec<u8>],
    want: &[Vec<u8>],
    before: Option<&[Vec<u8>]>,
) -> &'static str {
    if before.is_some_and(|before| close(own.loaded, got, before).is_ok()) {
        return ", which is the answer to the request before";
    }
    let mut late = || {
        own.run(feed, part.pulse)?;
        std::thread::sleep(LATER);
        own.read()
    };
    match late() {
        Ok(late) if close(own.loaded, &late, want).is_ok() => {
            "; the right answer came after the end of the call"
        }
        _ => "",
    }
}

/// Compares with the reference device: floats within a thousandth, integers within a step.
fn close(loaded: &Loaded, got: &[Vec<u8>], want: &[Vec<u8>]) -> Result<(), String> {
    for (output, (got, want)) in got.iter().zip(want).enumerate() {
        let kind = kind(loaded, output);
        let scale = difference(kind, want, want, 0.0).scale;
        let allowed = if kind.is_float() { CLOSE * scale.max(1.0) } else { 1.0 };
        if let Some((at, want, got)) = difference(kind, got, want, allowed).first {
            let (got, want) = (shown(got), shown(want));
            return Err(format!("output {output} element {at} is {got}, expected {want}"));
        }
    }
    Ok(())
}

fn kind(loaded: &Loaded, output: usize) -> ElementType {
    let position = loaded.outputs().get(output).copied();
    let operand = position.and_then(|position| loaded.output(position));
    operand.map_or(ElementType::Uint8, |operand| ElementType::of_name(operand.kind.name()))
}

impl Subject {
    /// Checks an answer to the bit.
    pub(super) fn check(&self, feed: usize, got: &[Vec<u8>], mode: CallMode) -> Outcome<()> {
        let Some(want) = self.expected.get(feed) else { return Ok(()) };
        if got == want {
            return Ok(());
        }
        for (output, (got, want)) in got.iter().zip(want).enumerate() {
            let found = difference(kind(&self.loaded, output), got, want, 0.0);
            let Some((at, want, got)) = found.first else { continue };
            let (name, mode, got, want) = (&self.name, mode.name(), shown(got), shown(want));
            let reason = format!(
                "{name} in {mode}: output {output} element {at} is {got}, expected {want}; {} of {} differ",
                found.differ, found.of
            );
            let detail = json!({
                "model": name, "mode": mode, "feed": feed, "output": output, "element": at,
                "actual": got, "expected": want,
            });
            return Err(Stopped::Failed(reason, detail));
        }
        let (got, want) = (got.len(), want.len());
        Err(Stopped::failed(format!("{}: {got} outputs, expected {want}", self.name)))
    }

    /// Prepares the model on another connection and checks one answer.
    pub(super) fn answer_on(&self, client: &Client, pulse: &Pulse) -> Outcome<()> {
        let prepared = client.prepare(&self.loaded.model, pulse)?;
        let got = self.run_on(&prepared, 0, CallMode::Sync, pulse)?;
        self.check(0, &got, CallMode::Sync)
    }

    fn run_on(
        &self,
        prepared: &Prepared,
        feed: usize,
        mode: CallMode,
        pulse: &Pulse,
    ) -> Called<Vec<Vec<u8>>> {
        let mut sequence = Sequence::new(&self.loaded, prepared.session(mode)?);
        match self.feeds.get(feed) {
            Some(feed) => sequence.run(feed, pulse),
            None => Ok(Vec::new()),
        }
    }
}

/// A new client's first right answer, and when it was there.
pub(super) fn answer(part: &CrashPart<'_>) -> Outcome<Value> {
    smallest(part)?;
    send_time();
    Ok(events(1))
}

fn send_time() {
    let value = json!(monotonic_ns());
    super::part::note("answered_ns", value);
}
