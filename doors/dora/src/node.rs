//! dora's node with its events, as all roles use them.

use std::io::Write;
use std::time::{Duration, Instant};

use dora_node_api::dora_core::config::DataId;
use dora_node_api::{DoraArray, DoraNode, Event, EventStream, IntoArrow, Metadata};
use dora_node_api::{MetadataParameters, TryRecvError};
use nnburst_doors_common::{Level, Log, Sink, Stderr, Verbosity};

use crate::Failure;

/// The log of a node: dora shows its standard output, and its standard error once it has failed.
pub(crate) fn log() -> Log {
    Log::new("dora", Verbosity::Summary, Output)
}

struct Output;

impl Sink for Output {
    fn write(&self, door: &str, level: Level, text: &str) {
        let level = match level {
            Level::Error => return Stderr.write(door, level, text),
            Level::Warning => "warning: ",
            Level::Info => "",
        };
        // In one write, so that lines of several threads stay whole. A daemon may be gone.
        let _ = std::io::stdout().write_all(format!("{level}{text}\n").as_bytes());
    }
}

/// An event, as the roles see it.
#[derive(Debug)]
pub(crate) enum Happened {
    /// A message came.
    Message(Message),
    /// An input's sender has ended, or is no more to be reached.
    Closed(String),
    /// An input's sender is back.
    Back(String),
    /// The time was up, or something else came that is no concern of the roles.
    Nothing,
    /// The dataflow ends: at once where it was stopped, else because all inputs were closed.
    End { is_stopped: bool },
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) input: String,
    pub(crate) metadata: Metadata,
    pub(crate) data: DoraArray,
}

/// A node and its events.
pub(crate) struct Node {
    node: DoraNode,
    events: EventStream,
    log: Log,
    /// The end of the events was seen.
    has_ended: bool,
    /// A file stands for the dataflow, which then declares no outputs.
    is_tested: bool,
}

impl Node {
    /// The node of this process, as dora's daemon or a test described it.
    ///
    /// # Errors
    /// Neither did.
    pub(crate) fn open(log: &Log) -> Result<Self, Failure> {
        let (node, events) = DoraNode::init_from_env()?;
        let is_tested = std::env::var_os("DORA_TEST_WITH_INPUTS").is_some();
        Ok(Self { node, events, log: log.clone(), has_ended: false, is_tested })
    }

    /// The name of the node in its dataflow.
    pub(crate) fn name(&self) -> String {
        self.node.id().to_string()
    }

    /// The outputs that the dataflow gives the node.
    pub(crate) fn outputs(&self) -> Vec<String> {
        self.node.node_config().outputs.iter().map(ToString::to_string).collect()
    }

    /// The inputs that the dataflow gives the node.
    pub(crate) fn inputs(&self) -> Vec<String> {
        self.node.node_config().inputs.keys().map(ToString::to_string).collect()
    }

    /// An event that is there already.
    pub(crate) fn poll(&mut self) -> Option<Happened> {
        if self.has_ended {
            return None;
        }
        match self.events.try_recv() {
            Ok(event) => Some(self.translate(event)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(self.end(false)),
        }
    }

    /// The event that comes until a moment.
    pub(crate) fn wait_until(&mut self, end: Instant) -> Happened {
        let left = end.saturating_duration_since(Instant::now());
        if self.has_ended {
            std::thread::sleep(left);
            return Happened::Nothing;
        }
        // The stream tells a time that is up as an error.
        match self.events.recv_timeout(left) {
            Some(Event::Error(text)) if text.starts_with("Timeout") => Happened::Nothing,
            Some(event) => self.translate(event),
            None => self.end(false),
        }
    }

    fn end(&mut self, is_stopped: bool) -> Happened {
        self.has_ended = true;
        Happened::End { is_stopped }
    }

    fn translate(&mut self, event: Event) -> Happened {
        match event {
            Event::Input { id, metadata, data } => {
                Happened::Message(Message { input: id.to_string(), metadata, data })
            }
            Event::InputClosed { id } => Happened::Closed(id.to_string()),
            Event::InputRecovered { id } => Happened::Back(id.to_string()),
            Event::NodeFailed { source_node_id, error, .. } => {
                self.log.warning(&format!("node {source_node_id} failed: {error}"));
                Happened::Nothing
            }
            Event::Stop(cause) => self.end(matches!(cause, dora_node_api::StopCause::Manual)),
            Event::Error(text) => {
                self.log.warning(&text);
                Happened::Nothing
            }
            _ => Happened::Nothing,
        }
    }

    /// The messages that dora dropped in front of this node since the last call.
    pub(crate) fn dropped(&mut self) -> impl Iterator<Item = (String, u64)> + use<> {
        let counts = self.events.drain_drop_counts();
        counts.into_iter().map(|(input, count)| (input.to_string(), count))
    }

    /// Sends a message by an output; one that the dataflow doesn't give the node takes none.
    ///
    /// # Errors
    /// dora can't take it.
    pub(crate) fn send(
        &mut self,
        output: &str,
        parameters: MetadataParameters,
        data: impl IntoArrow,
    ) -> Result<(), Failure> {
        let output = DataId::from(output.to_owned());
        if !self.node.node_config().outputs.contains(&output) && !self.is_tested {
            return Ok(());
        }
        Ok(self.node.send_output(output, parameters, data)?)
    }
}

/// The processor time that this process has taken.
pub(crate) fn processor_time() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let time = |value: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(value.tv_sec()).unwrap_or_default();
        let micros = u64::try_from(value.tv_usec()).unwrap_or_default();
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    time(usage.user_time()) + time(usage.system_time())
}
