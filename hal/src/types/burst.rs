//! Options of a burst beyond the interface, the driver's terms, and figures of what it executes.
//!
//! The interface's `configureExecutionBurst` takes a callback and two queues. A driver that knows
//! no more ignores the rest and answers [`BurstTerms::default`]: the original protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::codes::{ExecutionPreference, Priority};
use crate::diagnostics::Latencies;

/// The options that the client of a burst asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstOptions {
    /// Packets may carry deadlines, loop timeouts, driver-managed buffers, the statuses of 1.3 and
    /// the driver's clock.
    pub extended: bool,
    /// Most requests in flight at a time; at least 1, which is all that the original protocol
    /// allows.
    pub depth: u32,
    /// The time that the driver's thread polls for a packet before it sleeps: zero sleeps at once,
    /// [`Duration::MAX`] polls on. `None`: as the preference says.
    pub polling_window: Option<Duration>,
    /// The user's execution preference; `LOW_POWER` sleeps at once.
    pub preference: ExecutionPreference,
    /// The real-time profile of the driver's thread.
    pub real_time: RealTimeProfile,
}

impl Default for BurstOptions {
    /// The original protocol with its polling window.
    fn default() -> Self {
        Self {
            extended: false,
            depth: 1,
            polling_window: None,
            preference: ExecutionPreference::FastSingleAnswer,
            real_time: RealTimeProfile::default(),
        }
    }
}

/// The scheduling of a thread that nothing is to come between it and its work. What the system
/// refuses is said in a warning and does no further harm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealTimeProfile {
    /// The processors it may run on; empty for all.
    pub cpus: Vec<u32>,
    /// Its priority under `SCHED_FIFO`, 1 to 99.
    pub fifo_priority: Option<u8>,
    /// True if the process's memory is to stay in RAM.
    pub lock_memory: bool,
    /// The time that the kernel may postpone its timers.
    pub timer_slack: Option<Duration>,
}

/// The terms that a driver agreed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstTerms {
    /// As [`BurstOptions::extended`].
    pub extended: bool,
    /// As [`BurstOptions::depth`]; not more than was asked for.
    pub depth: u32,
    /// The parts of the real-time profile that the system refused, in words.
    pub warnings: Vec<String>,
}

impl Default for BurstTerms {
    /// The original protocol.
    fn default() -> Self {
        Self { extended: false, depth: 1, warnings: Vec::new() }
    }
}

/// The figures of a driver's end of a burst: figures for people who watch a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstFigures {
    /// Requests answered, failures included.
    pub executions: u64,
    /// Of these, answered with a status other than `NONE`.
    pub failures: u64,
    /// Of these, because the deadline was missed.
    pub missed_deadlines: u64,
    /// Requests taken or waiting, as of the last one taken; 0 while the burst is idle.
    pub queue_depth: u32,
    /// The time that the burst has been open.
    pub age: Duration,
    /// Time in the driver of half of the requests is at most this.
    pub p50: Duration,
    /// As [`Self::p50`], of 99 in 100.
    pub p99: Duration,
    /// As [`Self::p50`], of 999 in 1000.
    pub p999: Duration,
    /// The longest time in the driver.
    pub max: Duration,
}

/// The figures of a prepared model's executions outside bursts: for people who watch a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFigures {
    /// The priority that it was prepared with.
    pub priority: Priority,
    /// Executions that ended with a status other than `NONE`.
    pub failures: u64,
    /// Of these, because the deadline was missed.
    pub missed_deadlines: u64,
    /// Executions that were asked for and have not ended.
    pub queue_depth: u32,
    /// Memory that its client is charged for it, in bytes: constants, packed weights, and what its
    /// executions and bursts work in.
    pub memory_bytes: u64,
    /// The time since it was prepared.
    pub age: Duration,
    /// The times in the driver of executions that ended, failures included.
    pub times: Latencies,
}
