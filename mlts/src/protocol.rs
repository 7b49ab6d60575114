//! The conversation of coordinator and worker: a job in a file, events as lines on a pipe.
//!
//! A worker is the suite's own program again. What a driver's library prints into the same pipe is
//! told from events by [`MARK`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use nnburst::hal::TimePoint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::CallSettings;
use crate::target::Target;

/// The environment variable that names the file of a worker's job.
pub(crate) const JOB: &str = "NNBURST_MLTS_JOB";

/// The beginning of a line that is an event.
pub(crate) const MARK: &str = "@mlts ";

/// The kind of call that executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallMode {
    /// A packet through a queue in shared memory.
    Burst,
    /// One call over the control connection.
    Sync,
    /// A call that returns at once and a callback.
    Async,
    /// A call that returns a sync fence.
    Fenced,
}

impl CallMode {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Burst, Self::Sync, Self::Async, Self::Fenced];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Sync => "sync",
            Self::Async => "async",
            Self::Fenced => "fenced",
        }
    }
}

/// The work of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) target: Target,
    /// The way to the driver, where the coordinator started it.
    pub(crate) via: Via,
    pub(crate) seed: u64,
    pub(crate) work: Task,
    /// The driver's process, where it has one of its own.
    #[serde(default)]
    pub(crate) driver_pid: Option<u32>,
}

/// The connection to the driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Via {
    /// The worker's standard input is the socket.
    Stdin,
    /// The service's name, in this directory or the user's.
    Name { dir: Option<PathBuf> },
    /// The worker makes the device itself.
    Own,
}

/// The kinds of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// The driver's answers about itself.
    About,
    /// One model: support, compilation, accuracy, latency.
    Model(Box<ModelWork>),
    /// A crash test's part in a process of its own.
    Crash(CrashWork),
}

/// The measurements of one model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ModelWork {
    pub(crate) model: crate::data::ModelEntry,
    pub(crate) modes: Vec<CallMode>,
    /// Whom latency is compared with.
    pub(crate) reference: Option<Target>,
    pub(crate) support: bool,
    pub(crate) compile: bool,
    pub(crate) accuracy: bool,
    pub(crate) latency: bool,
    /// Milliseconds of latency measurement of each mode.
    pub(crate) latency_ms: u64,
    /// Milliseconds of each kind of compilation.
    pub(crate) compile_ms: u64,
    /// The largest number of labelled pictures.
    pub(crate) photos: usize,
    pub(crate) relaxed: bool,
    /// Whether the first wrong operation is looked for, and whether only where answers are wrong.
    pub(crate) bisect: bool,
    pub(crate) bisect_wrong: bool,
    pub(crate) calls: CallSettings,
}

/// Milliseconds of throughput measurement of a number of clients, beside so many of latency.
pub(crate) fn throughput_ms(latency_ms: u64) -> u64 {
    (latency_ms / 4).clamp(250, 2000)
}

/// A crash test's part: what it is and how much.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CrashWork {
    pub(crate) part: String,
    /// Milliseconds.
    pub(crate) ms: u64,
    /// Rounds, threads or cases, by the test.
    pub(crate) count: usize,
    /// Models in turn; a built-in network where there is none.
    pub(crate) models: Vec<crate::data::ModelEntry>,
    /// Further parameters of the part.
    pub(crate) extra: BTreeMap<String, String>,
}

/// A report of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum WorkerEvent {
    /// The worker has come to a point that the coordinator waits for.
    Ready { what: String },
    /// Steps so far, and the call of the driver that the main thread sits in.
    Pulse { steps: u64, call: Option<String> },
    /// A finished part of the result.
    Part { name: String, value: Value },
    /// The end of the work: a wrong answer or broken limit.
    Failed { reason: String, detail: Value },
    /// The end of the work: the driver doesn't offer what it needs.
    Skipped { reason: String },
    /// The end of the work, as it should be.
    Done { value: Value },
}

/// The monotonic clock in nanoseconds: the same in all processes of the machine.
pub(crate) fn monotonic_ns() -> u64 {
    TimePoint::now().nanoseconds
}
