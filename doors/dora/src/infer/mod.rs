//! The role `infer`: a model's results for the newest frame of each source.
//!
//! ```text
//!   inputs ─► newest of each source ─► models, side by side ─► NAME, NAME-0, NAME-1 ..
//!                └ older ones: dropped      └ driver died: restarted
//!                                           ├─► done: each frame's end
//!                                           └─► status: counts, and what went wrong
//! ```

mod engine;
mod incoming;
mod input;
mod memory;
mod model;
mod newest;
mod output;
mod settings;
mod status;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dora_node_api::{Parameter, get_bool_param};
use nnburst::DriverOptions;
use nnburst_doors_common::Log;

pub(crate) use input::{ENCODING, HEIGHT, WIDTH};
pub(crate) use settings::{GRAMMAR, names};
pub(crate) use status::{CPU, DONE, EVENT, FrameEnd, OUTCOME, STATUS};

use self::incoming::Incoming;
use self::model::{Recovered, ServedModel, Trouble};
use self::newest::Newest;
use self::settings::InferSettings;
use self::status::Reporter;
use crate::Failure;
use crate::node::{Happened, Node};
use crate::stamp::{Stamp, set};

/// The parameter that has a source begin anew: its states, with this frame.
const RESET: &str = "reset";
/// The longest wait for a driver between two looks at the time.
const LOOK: Duration = Duration::from_millis(20);

/// Plays the role until the dataflow ends.
///
/// # Errors
/// The settings or a model can't be used, or dora is gone.
pub(crate) fn run(args: &[String], log: &Log) -> Result<(), Failure> {
    let settings = InferSettings::parse(args)?;
    // dora begins when all nodes have opened, so no frame comes before the models can take it.
    let mut models = Vec::new();
    for model in settings.models {
        models.push(ServedModel::open(model, settings.sources, log)?);
    }
    let mut node = Node::open(log)?;
    let known: Vec<_> = models.iter().map(|model| model.name().to_owned()).collect();
    warn_of_missing(&node, &known, log);
    let mut inference = Inference {
        newest: Newest::new(settings.sources),
        reporter: Reporter::new(log, settings.status),
        models,
        counts: BTreeMap::new(),
        end: End::Open,
    };
    for model in &inference.models {
        let text = match model.driver() {
            Some(process) => format!("{}, driver {process}", model.describe()),
            None => model.describe(),
        };
        log.summary(&text);
        inference.reporter.tell(&mut node, "ready", &text)?;
    }
    inference.run(&mut node)?;
    inference.reporter.tell(&mut node, "ended", "")?;
    log.summary(&inference.reporter.summary());
    Ok(())
}

/// Serves a driver to the process that started this one.
///
/// # Errors
/// There is no such driver or descriptor.
pub(crate) fn serve(args: &[String]) -> Result<(), Failure> {
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).map(String::as_str)
    };
    let missing = |name: &str| format!("serve: {name} is missing");
    let driver = value("--driver").ok_or_else(|| missing("--driver"))?;
    let fd = value("--fd").and_then(|fd| fd.parse().ok()).ok_or_else(|| missing("--fd"))?;
    let options = DriverOptions {
        threads: value("--threads").and_then(|count| count.parse().ok()).unwrap_or(1),
        ..DriverOptions::default()
    };
    Ok(nnburst::serve_inherited(driver, fd, &options)?)
}

/// Warns of outputs that the dataflow declares and no model has.
fn warn_of_missing(node: &Node, models: &[String], log: &Log) {
    let is_known = |output: &String| {
        let model = output.rsplit_once('-').filter(|(_, index)| index.parse::<usize>().is_ok());
        let name = model.map_or(output.as_str(), |(name, _)| name);
        [STATUS, DONE].contains(&output.as_str()) || models.iter().any(|model| model == name)
    };
    for output in node.outputs().iter().filter(|output| !is_known(output)) {
        let names = models.join(", ");
        log.warning(&format!(
            "output {output} will stay silent: there are {names} and NAME-0 .., status, done"
        ));
    }
}

struct Inference {
    models: Vec<ServedModel>,
    newest: Newest<Incoming>,
    reporter: Reporter,
    /// The messages of each input, which are the numbers of frames that have none.
    counts: BTreeMap<String, i64>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// Frames that wait are still inferred.
    Closed,
    Stopped,
}

impl Inference {
    fn run(&mut self, node: &mut Node) -> Result<(), Failure> {
        loop {
            self.drain(node)?;
            if self.end == End::Stopped {
                return Ok(());
            }
            if let Some(frame) = self.newest.take() {
                self.infer(frame, node)?;
            } else if self.end == End::Closed {
                return Ok(());
            } else {
                let happened = node.wait_until(self.reporter.next());
                self.handle(happened, node)?;
            }
            self.reporter.beat(node)?;
        }
    }

    /// Takes all that came, so that what is inferred next is the newest.
    fn drain(&mut self, node: &mut Node) -> Result<(), Failure> {
        while let Some(happened) = node.poll() {
            self.handle(happened, node)?;
        }
        for (_, count) in node.dropped() {
            self.reporter.count(FrameEnd::Dropped, count);
        }
        Ok(())
    }

    fn handle(&mut self, happened: Happened, node: &mut Node) -> Result<(), Failure> {
        match happened {
            Happened::Message(message) => {
                // dora takes some 20 ms for an output's first message once the dataflow runs: no
                // later frame is to wait for that.
                if self.counts.is_empty() {
                    self.reporter.hurry();
                }
                let count = self.counts.entry(message.input.clone()).or_default();
                let stamp = Stamp::of(&message.input, &message.metadata, *count);
                *count += 1;
                let source = stamp.source.clone();
                let frame = Incoming { stamp, message, again: None };
                if let Some(older) = self.newest.put(&source, frame) {
                    self.finish(&older, FrameEnd::Dropped, node)?;
                }
            }
            Happened::Closed(input) | Happened::Back(input) => {
                self.models.iter_mut().for_each(|model| model.forget(&input));
            }
            Happened::End { is_stopped } => {
                self.end = if is_stopped { End::Stopped } else { End::Closed };
            }
            Happened::Nothing => {}
        }
        Ok(())
    }

    /// Infers a frame by all models that take its input.
    fn infer(&mut self, frame: Incoming, node: &mut Node) -> Result<(), Failure> {
        let is_reset = get_bool_param(&frame.message.metadata.parameters, RESET) == Some(true);
        let mut running = Vec::new();
        let mut troubles = Vec::new();
        for (index, model) in self.models.iter_mut().enumerate() {
            let takes = match &frame.again {
                Some(again) => again.contains(&index),
                None => model.takes(&frame.message.input),
            };
            if !takes {
                continue;
            }
            if is_reset {
                model.forget(&frame.stamp.source);
            }
            match model.submit(&frame) {
                Ok(()) => running.push(index),
                Err(trouble) => troubles.push((index, trouble)),
            }
        }
        for index in running {
            match self.wait(index, &frame, node)? {
                Ok(()) => {
                    if let Some(model) = self.models.get_mut(index) {
                        model.send(&frame, node)?;
                    }
                }
                Err(trouble) => troubles.push((index, trouble)),
            }
        }
        if troubles.is_empty() {
            return self.finish(&frame, FrameEnd::Inferred, node);
        }
        self.settle(frame, troubles, node)
    }

    /// Waits for a model's results, and goes on telling the counts.
    fn wait(
        &mut self,
        index: usize,
        frame: &Incoming,
        node: &mut Node,
    ) -> Result<Result<(), Trouble>, Failure> {
        loop {
            let Some(model) = self.models.get_mut(index) else { return Ok(Ok(())) };
            if let Some(result) = model.wait_until(frame, Instant::now() + LOOK) {
                return Ok(result);
            }
            self.reporter.beat(node)?;
        }
    }

    /// Tells why a frame has not all its results, and restarts drivers that died. The frame has
    /// another try then, if it is still its source's newest.
    fn settle(
        &mut self,
        frame: Incoming,
        troubles: Vec<(usize, Trouble)>,
        node: &mut Node,
    ) -> Result<(), Failure> {
        let mut again = Vec::new();
        let mut outcome = FrameEnd::Failed;
        for (index, trouble) in troubles {
            outcome = trouble.outcome;
            let Some(model) = self.models.get_mut(index) else { continue };
            let recovered = trouble.error.as_ref().and_then(|error| model.recover(error));
            match recovered {
                Some(Recovered { is_back: true, text }) => {
                    again.push(index);
                    let process = model.driver().map(|process| format!(", driver {process}"));
                    let text = format!("{text}{}", process.unwrap_or_default());
                    self.reporter.death(node, "restarted", &text)?;
                }
                Some(Recovered { is_back: false, text }) => {
                    self.reporter.death(node, "died", &text)?;
                }
                None => self.reporter.complain(node, outcome, &trouble.why)?,
            }
        }
        if !again.is_empty() && frame.again.is_none() {
            self.drain(node)?;
            let source = frame.stamp.source.clone();
            let frame = Incoming { again: Some(again), ..frame };
            return match self.newest.put_back(&source, frame) {
                Some(frame) => self.finish(&frame, FrameEnd::Dropped, node),
                None => Ok(()),
            };
        }
        self.finish(&frame, outcome, node)
    }

    /// Tells that a frame is over.
    fn finish(
        &mut self,
        frame: &Incoming,
        outcome: FrameEnd,
        node: &mut Node,
    ) -> Result<(), Failure> {
        self.reporter.count(outcome, 1);
        let mut parameters = frame.parameters();
        set(&mut parameters, OUTCOME, Parameter::String(outcome.name().to_owned()));
        node.send(DONE, parameters, ())
    }
}
