//! The result of a run as JSON: schema 1. Readers ignore fields that they don't know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the schema.
pub const SCHEMA: u32 = 1;

/// A run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program and its version.
    pub tool: String,
    /// When the run began: UTC, RFC 3339.
    pub started: String,
    /// The duration.
    pub seconds: f64,
    /// The seed of every random choice.
    pub seed: u64,
    /// `quick`, `default` or `full`.
    pub budget: String,
    /// The command line.
    pub command: Vec<String>,
    /// `PASS`, `FAIL`, `INCOMPLETE` (the budget ended), `UNREACHABLE` or `ABORTED`.
    pub verdict: String,
    /// Failures, the worst first.
    pub reasons: Vec<String>,
    /// One line to quote.
    pub summary: String,
    /// The machine.
    pub host: Host,
    /// The drivers under test.
    pub targets: Vec<TargetReport>,
    /// The name of the reference device; empty without one.
    pub reference: String,
    /// The tier that decided: `exact`, `close` or `task`.
    pub accept: String,
    /// The call modes in which latency was measured.
    pub calls: CallSettings,
    /// Per model the results of each target.
    pub models: Vec<ModelReport>,
    /// The crash tests.
    pub crash: Vec<CrashReport>,
    /// Tests that were left out, and the reason.
    pub skipped: Vec<Skipped>,
    /// Estimates and durations.
    pub plan: Vec<PlanItem>,
}

/// The call mode in which latency is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallSettings {
    /// The wait strategy of bursts, by its name; `None` for that of the settings.
    pub wait: Option<String>,
    /// The processors of the calling thread in bursts; empty for all.
    pub cpus: Vec<u32>,
    /// The processors of the driver's thread in bursts; empty for all.
    pub driver_cpus: Vec<u32>,
    /// True if bursts ask for real-time scheduling and locked memory.
    pub realtime: bool,
    /// Microseconds from one paced call to the next; `None` where calls are not paced.
    pub period_us: Option<u64>,
    /// Numbers of clients at a time whose throughput is measured.
    pub clients: Vec<usize>,
}

/// The machine before and after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// The processor's model.
    pub cpu: String,
    /// Processors that may be used.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The governor of processor 0; empty where there is none to choose.
    pub governor: String,
    /// Megahertz of processor 0, before and after.
    pub mhz: [f64; 2],
    /// Load average of a minute, before and after.
    pub load1: [f64; 2],
    /// Processor time that the hypervisor kept, in per cent of the run.
    pub steal_pct: f64,
    /// Degrees Celsius of each thermal zone, after the run.
    pub thermal_c: Vec<f64>,
    /// Complaints of `nnburst doctor`.
    pub doctor: Vec<String>,
}

/// A driver under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetReport {
    /// `t0`, `t1`, ..: the key in the other tables.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `embedded`, `spawn`, `service`, `served` or `library`.
    pub how: String,
    /// Its command; empty where the suite didn't start it.
    pub command: Vec<String>,
    /// Its answers about itself.
    pub about: About,
    /// Why it could not be reached; empty where it was.
    pub unreachable: String,
}

/// A driver's answers about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The device's own name.
    pub device: String,
    /// The driver's version.
    pub version: String,
    /// The kind of device.
    pub kind: String,
    /// The API level: 27 to 30.
    pub level: i64,
    /// Names of the extensions.
    pub extensions: Vec<String>,
    /// Execution time and power of float tensors, relative to the reference CPU.
    pub float_figures: [f64; 2],
    /// Cache files of a model, of both kinds; 0 where it caches nothing.
    pub cache_files: u32,
}

/// A model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelReport {
    /// Its name.
    pub id: String,
    /// Of its file; empty for built-in networks.
    pub sha256: String,
    /// Its licence.
    pub licence: String,
    /// Its source.
    pub origin: String,
    /// A description.
    pub what: String,
    /// Multiply-accumulates of one inference, where known.
    pub macs: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
    /// By the targets' ids.
    pub per_target: BTreeMap<String, ModelResult>,
    /// Other engines' latencies, measured elsewhere.
    pub peers: Vec<PeerLatency>,
}

/// Another engine's latency of a model, measured elsewhere, without copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerLatency {
    /// The engine's name.
    pub engine: String,
    /// The threads that it computed with.
    pub threads: u32,
    /// The median in microseconds.
    pub p50_us: f64,
    /// The 99th percentile, where it is known.
    pub p99_us: Option<f64>,
}

/// A target's results with a model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelResult {
    /// Why there are no results; empty where there are.
    pub skipped: String,
    /// `SUCCESS`, `FAILURE`, `HANG`, `CRASH` or `SKIPPED`.
    pub outcome: String,
    /// The process at fault; `None` where all went well.
    pub process: Option<String>,
    /// The reason of an outcome that is no success.
    pub reason: String,
    /// The operations that the driver takes.
    pub support: Option<Support>,
    /// Compile times in milliseconds.
    pub compile_ms: Option<CompileTimes>,
    /// Goldens and task.
    pub accuracy: Option<Accuracy>,
    /// The first wrong operation, where it was looked for.
    pub bisection: Option<Bisection>,
    /// By mode; `paced` where calls came at a period.
    pub latency: BTreeMap<String, Latency>,
    /// Calls a second of so many clients at a time, each in a thread of its own.
    pub throughput: BTreeMap<usize, f64>,
    /// What of the burst's settings (processors, real-time scheduling) was refused.
    pub refused_settings: Vec<String>,
    /// Of the reference device, measured in turns with the target.
    pub reference_latency: Option<Latency>,
    /// The largest resident memory in MiB.
    pub rss_mib: BothProcesses,
    /// Processor seconds of the pass, of both processes.
    pub cpu_s: BothProcesses,
    /// The driver's last lines on standard error, where something is wrong.
    pub stderr_tail: String,
}

/// A figure of the driver's process and of the client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BothProcesses {
    /// The driver's; 0 where it is in the client's process.
    pub driver: f64,
    /// The client's.
    pub client: f64,
}

/// The operations of a model that a driver takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Support {
    /// Operations taken.
    pub taken: usize,
    /// All operations.
    pub of: usize,
    /// Steps of the model where the reference device has the rest; 1 where all is taken, 0 where
    /// nothing is.
    pub partitions: usize,
    /// Each operation.
    pub ops: Vec<OpSupport>,
}

impl Support {
    /// Returns whether the driver takes the whole model.
    pub fn is_whole(&self) -> bool {
        self.taken == self.of
    }
}

/// An operation of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpSupport {
    /// Its place in the model.
    pub i: usize,
    /// NNAPI's name.
    pub op: String,
    /// The operator of the model's file that it stems from.
    pub source: String,
    /// The types of its tensors.
    pub types: Vec<String>,
    /// The shapes of its tensors, inputs and outputs: `1x8x8x2 2x3x3x2 2 -> 1x8x8x2`.
    pub shapes: String,
    /// True if the driver takes it.
    pub taken: bool,
    /// Why not; `refused` where the driver gives no reason.
    pub why: String,
    /// The device that computes it.
    pub device: String,
}

/// The first operation whose values differ from the reference device's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bisection {
    /// Values that were compared.
    pub compared: usize,
    /// The operation's place in the model; `None` where none differs.
    pub operation: Option<usize>,
    /// NNAPI's name.
    pub op: String,
    /// The operator of the model's file that it stems from.
    pub source: String,
    /// Values that differ.
    pub differ: usize,
    /// All values of the output.
    pub of: usize,
    /// The first value that is wrong; its output is the operation's.
    pub first: Option<WrongValue>,
    /// Why there is none.
    pub note: String,
}

/// Compile times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompileTimes {
    /// Without a cache.
    pub none: Times,
    /// Into an empty cache; `None` where the driver caches nothing.
    pub to_cache: Option<Times>,
    /// From a filled cache.
    pub from_cache: Option<Times>,
    /// Bytes in the cache.
    pub cache_bytes: u64,
}

/// A few durations in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// Their number, without the first.
    pub n: usize,
    /// The first, on its own.
    pub first: f64,
    /// The median of the others.
    pub p50: f64,
    /// The largest of the others.
    pub max: f64,
}

/// A model's answers against its goldens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accuracy {
    /// The best tier that all cases reach: `exact`, `close`, `task` or `none`.
    pub tier: String,
    /// True if the tier that decides is reached, and the evaluator's limits hold.
    pub ok: bool,
    /// Each case.
    pub cases: Vec<CaseReport>,
    /// The task's figures.
    pub evaluators: Vec<EvaluatorReport>,
    /// True if the same inputs gave the same bits again.
    pub deterministic: bool,
    /// True if all modes gave the same bits.
    pub modes_agree: bool,
    /// The fault, in words.
    pub reason: String,
}

/// A golden case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// Its best tier.
    pub tier: String,
    /// The largest difference from the golden, in the output's own units.
    pub max_abs: f64,
    /// The mean of the squared differences.
    pub mse: f64,
    /// The mean of the differences' magnitudes.
    pub mae: f64,
    /// Values that differ.
    pub differ: usize,
    /// All values.
    pub of: usize,
    /// The first value beyond the exact tier.
    pub first: Option<WrongValue>,
    /// What explains wrong values, where anything does: outputs that are exchanged, or all zeros.
    pub hint: String,
}

/// A value that is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrongValue {
    /// Position among the outputs.
    pub output: usize,
    /// Row-major position in the output, all steps one after the other.
    pub index: usize,
    /// The golden.
    #[serde(with = "any_float")]
    pub expected: f64,
    /// The driver's value.
    #[serde(with = "any_float")]
    pub actual: f64,
}

/// Floats that may be no numbers, for which JSON has no literals: they are strings there.
mod any_float {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(String),
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() {
            return Written::Number(*value).serialize(out);
        }
        Written::Word(value.to_string()).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(value) => Ok(value),
            Written::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }

    #[cfg(test)]
    mod tests {
        use crate::report::WrongValue;

        #[test]
        fn values_that_are_no_numbers_survive_json() {
            for value in [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let wrong = WrongValue { actual: value, ..WrongValue::default() };
                let text = serde_json::to_string(&wrong).unwrap();
                let back: WrongValue = serde_json::from_str(&text).unwrap();
                assert!(back.actual.to_bits() == value.to_bits() || value.is_nan(), "{text}");
                assert_eq!(back.actual.is_nan(), value.is_nan(), "{text}");
            }
        }
    }
}

/// A task's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluatorReport {
    /// `TopK`, `MelCepLogF0`, `PhoneErrorRate`, ..
    pub name: String,
    /// The figures.
    pub values: BTreeMap<String, f64>,
    /// The accuracy of the reference kernels.
    pub expected: BTreeMap<String, f64>,
    /// Limits, by the names of the figures.
    pub limits: BTreeMap<String, f64>,
    /// The names of figures that are beyond their limits.
    pub beyond: Vec<String>,
    /// Cases or pictures.
    pub n: usize,
    /// True if all limits hold.
    pub ok: bool,
    /// Figures that are worse than they should be and within the limits.
    pub warnings: Vec<String>,
    /// The wrong answers.
    pub wrong: Vec<WrongAnswer>,
}

/// A case or picture with another answer than expected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrongAnswer {
    /// Its name.
    pub name: String,
    /// The expected answer: a class.
    pub expected: String,
    /// The driver's answer.
    pub actual: String,
    /// The picture's author and licence; empty for what is no picture.
    pub credit: String,
    /// A small picture as a data URI; empty for what is no picture.
    pub thumbnail: String,
}

/// Latency in one mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Calls that count.
    pub n: usize,
    /// Blocks that count.
    pub blocks: usize,
    /// Blocks that something else on the machine disturbed.
    pub dropped: usize,
    /// True if so many blocks were disturbed that they count all the same.
    pub disturbed: bool,
    /// The first call after compiling.
    pub first_us: f64,
    /// Calls of the warm-up.
    pub warm_up: usize,
    /// The call.
    pub us: Percentiles,
    /// Input copied, call, output copied.
    pub end_to_end_us: Percentiles,
    /// The driver's own measurement, where it gives one.
    pub driver_us: Option<Percentiles>,
    /// The call less the driver's share.
    pub overhead_us: Option<Percentiles>,
    /// Processor seconds of 1000 calls, with the copies of their inputs and outputs.
    pub cpu_s_per_1000: BothProcesses,
    /// The histogram of the calls in nanoseconds: HdrHistogram V2, deflated, base64.
    pub hdr: String,
    /// False if the last quarter's median is more than 15 % above the first's.
    pub steady: bool,
    /// Seconds and median of each block.
    pub over_time: Vec<[f64; 2]>,
    /// Why the driver's latency is not its own: `partly` where it takes a part of the model only.
    pub note: String,
}

/// A distribution in microseconds. A percentile is `None` where there are too few samples for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub min: f64,
    pub p50: f64,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: f64,
    pub mean: f64,
    pub sd: f64,
}

/// A crash test on a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrashReport {
    /// `c01` to `c22`.
    pub id: String,
    /// The test's short name.
    pub name: String,
    /// The part of the test; empty where it has one only.
    pub variant: String,
    /// The target's id.
    pub target: String,
    /// `SUCCESS`, `FAILURE`, `HANG`, `CRASH` or `SKIPPED`.
    pub outcome: String,
    /// The process at fault; `None` where all went well.
    pub process: Option<String>,
    /// The reason of an outcome that is no success.
    pub reason: String,
    /// The duration.
    pub seconds: f64,
    /// Answers checked, kills, graphs: what the test counts.
    pub events: u64,
    /// Further figures of the test, by their names.
    pub figures: BTreeMap<String, f64>,
    /// From the disturbing event to the next right answer.
    pub recovery_ms: Option<Recovery>,
    /// Resources of the driver before and after.
    pub rest: Option<Rest>,
    /// The other client beside the test, where the driver serves several.
    pub probe: Option<Probe>,
    /// The file of the failing case, for `replay`.
    pub kept: String,
    /// Threads of the processes where they hung, with their states.
    pub threads: String,
    /// The last lines of the driver's and the worker's standard error.
    pub stderr_tail: String,
}

/// Recovery times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// Events.
    pub n: usize,
    /// The median.
    pub p50: f64,
    /// The largest.
    pub max: f64,
    /// The limit.
    pub limit: f64,
    /// The part of the median that the program took to start; 0 where it was not started.
    pub start: f64,
}

/// Resources of a driver's process before and after a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rest {
    /// Resident MiB.
    pub rss_mib: [f64; 2],
    /// Descriptors.
    pub fds: [usize; 2],
    /// Threads.
    pub threads: [usize; 2],
}

/// A client of its own that executes twenty times a second beside a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Executions.
    pub calls: u64,
    /// Those that failed or gave another answer.
    pub failed: u64,
    /// Those that were refused with `RESOURCE_EXHAUSTED`: of the failed ones none.
    pub refused: u64,
    /// The longest time between two answers.
    pub longest_gap_ms: f64,
    /// Of its executions before the test.
    pub p99_before_us: f64,
    /// Of its executions beside the test.
    pub p99_during_us: f64,
}

/// The test that was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Skipped {
    /// The model, test or target.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// An item of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanItem {
    /// The model or test, behind the target's id.
    pub id: String,
    /// Seconds that it was to take.
    pub estimate_s: f64,
    /// Seconds that it took.
    pub took_s: f64,
}
