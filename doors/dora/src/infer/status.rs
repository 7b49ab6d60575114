//! The state of a node, as it tells it: counts, and causes of trouble.

use std::time::{Duration, Instant};

use dora_node_api::{MetadataParameters, Parameter};
use nnburst_doors_common::Log;

use crate::Failure;
use crate::node::{Node, processor_time};
use crate::stamp::{integer, set};

/// The output for a node's state: its data is a text, its parameters are the counts.
pub(crate) const STATUS: &str = "status";
/// The output that has a message for each frame that is over, without data.
pub(crate) const DONE: &str = "done";
/// The parameter of `done` that tells how the frame ended.
pub(crate) const OUTCOME: &str = "outcome";
/// The parameter of `status` that is the node's processor time in milliseconds.
pub(crate) const CPU: &str = "cpu_ms";
/// The parameter of `status` that tells what happened.
pub(crate) const EVENT: &str = "event";

/// The end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameEnd {
    /// Its results went out.
    Inferred,
    /// A newer one of its source took its place.
    Dropped,
    /// It was older than the deadline before it had its turn.
    Late,
    /// The driver did not answer before the deadline.
    Missed,
    /// The driver failed, or is not there.
    Failed,
    /// It is no input of the model.
    Refused,
}

impl FrameEnd {
    const ALL: [Self; 6] =
        [Self::Inferred, Self::Dropped, Self::Late, Self::Missed, Self::Failed, Self::Refused];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inferred => "inferred",
            Self::Dropped => "dropped",
            Self::Late => "late",
            Self::Missed => "missed",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// The counts, and the times at which they are told.
#[derive(Debug)]
pub(crate) struct Reporter {
    log: Log,
    counts: [u64; FrameEnd::ALL.len()],
    restarts: u64,
    every: Duration,
    next: Instant,
    /// Complaints of a kind are told once in a second.
    complained: Option<Instant>,
}

const COMPLAINTS: Duration = Duration::from_secs(1);

impl Reporter {
    /// Tells the counts so often.
    pub(crate) fn new(log: &Log, every: Duration) -> Self {
        let (counts, restarts, next) = ([0; FrameEnd::ALL.len()], 0, Instant::now());
        Self { log: log.clone(), counts, restarts, every, next, complained: None }
    }

    /// Counts the ends of frames.
    pub(crate) fn count(&mut self, outcome: FrameEnd, frames: u64) {
        for (count, kind) in self.counts.iter_mut().zip(FrameEnd::ALL) {
            *count += if kind == outcome { frames } else { 0 };
        }
    }

    /// The time of the next message.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Tells the counts, if it is time to.
    ///
    /// # Errors
    /// dora can't take the message.
    pub(crate) fn beat(&mut self, node: &mut Node) -> Result<(), Failure> {
        if Instant::now() < self.next {
            return Ok(());
        }
        self.tell(node, "counts", "")
    }

    /// Tells of a driver's death and of what became of it.
    ///
    /// # Errors
    /// dora can't take the message.
    pub(crate) fn death(
        &mut self,
        node: &mut Node,
        event: &str,
        text: &str,
    ) -> Result<(), Failure> {
        self.restarts += u64::from(event == "restarted");
        self.tell(node, event, text)
    }

    /// Tells why a frame has no results, unless it did within the last second.
    ///
    /// # Errors
    /// dora can't take the message.
    pub(crate) fn complain(
        &mut self,
        node: &mut Node,
        outcome: FrameEnd,
        text: &str,
    ) -> Result<(), Failure> {
        if self.complained.is_some_and(|last| last.elapsed() < COMPLAINTS) {
            return Ok(());
        }
        self.complained = Some(Instant::now());
        self.log.warning(text);
        self.tell(node, outcome.name(), text)
    }

    /// Tells an event, with a text and the counts.
    ///
    /// # Errors
    /// dora can't take the message.
    pub(crate) fn tell(&mut self, node: &mut Node, event: &str, text: &str) -> Result<(), Failure> {
        self.next = Instant::now() + self.every;
        let mut parameters = MetadataParameters::new();
        set(&mut parameters, EVENT, Parameter::String(event.to_owned()));
        for (count, outcome) in self.counts.iter().zip(FrameEnd::ALL) {
            set(&mut parameters, outcome.name(), integer(*count));
        }
        set(&mut parameters, "restarts", integer(self.restarts));
        set(&mut parameters, CPU, integer(processor_time().as_millis()));
        let text = if text.is_empty() { event.to_owned() } else { format!("{event}: {text}") };
        node.send(STATUS, parameters, text)
    }

    /// Has the counts told at the next beat.
    pub(crate) fn hurry(&mut self) {
        self.next = Instant::now();
    }

    /// The counts in words.
    pub(crate) fn summary(&self) -> String {
        let counts = self.counts.iter().zip(FrameEnd::ALL);
        let counts: Vec<_> =
            counts.map(|(count, outcome)| format!("{count} {}", outcome.name())).collect();
        format!("{}; the driver was restarted {} times", counts.join(", "), self.restarts)
    }
}
