//! The arguments of `nnburst mlts`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::engine::{ModeArg, WaitArg, milliseconds, time};

/// The acceptance suite.
///
/// Exit codes of `run`: 0 all passed, 1 something failed, 2 bad usage or data, 3 a driver out of
/// reach, 4 the budget ended first, 130 stopped with Ctrl-C (JSON and HTML are written all the
/// same).
#[derive(Args, Debug)]
pub(crate) struct MltsArgs {
    #[command(subcommand)]
    pub(crate) command: MltsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MltsCommand {
    /// Run the suite.
    Run(Box<MltsRunArgs>),
    /// List models, data and crash tests, with ids and estimated seconds.
    List(MltsListArgs),
    /// Compare two runs; exits with 1 where the newer one is worse.
    Compare(MltsCompareArgs),
    /// Write the page of one run, or of several beside each other.
    Report(MltsReportArgs),
    /// Run a kept failing case alone.
    Replay(MltsReplayArgs),
    /// The process that a test runs in; started by the suite.
    #[command(hide = true)]
    Worker,
}

#[derive(Args, Debug)]
pub(crate) struct MltsRunArgs {
    /// A device as for the other commands: `embedded`, `spawn:NAME`, `nnapi-reference`, or a
    /// service's name; repeatable [default: spawn:nnburst-cpu].
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// A program that serves one client on its standard input (descriptor 0).
    #[arg(long, value_name = "COMMAND")]
    pub(crate) driver_cmd: Option<String>,
    /// A program that serves the name of --device in the directory `NNBURST_SERVICE_DIR`.
    #[arg(long, value_name = "COMMAND", requires = "device", conflicts_with = "driver_cmd")]
    pub(crate) service_cmd: Option<String>,
    /// A libneuralnetworks.so; --device names one of its devices [default: its first].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["driver_cmd", "service_cmd"])]
    pub(crate) library: Option<PathBuf>,
    /// A folder of models with a manifest.json; repeatable [default: built-in networks].
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Vec<PathBuf>,
    /// A minute: a few models, the most telling crash tests.
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Most of an hour: all modes, paced, several clients, the largest crash tests.
    #[arg(long)]
    pub(crate) full: bool,
    /// The time of the whole run, as 90s or 5m; what doesn't fit is left out and said.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) budget: Option<Duration>,
    /// Rest for so long before each item, as 5s, on top of the budget: machines heat up.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) rest: Option<Duration>,
    /// Add the endurance test (c22) for this long, as 10m or 2h, on top of the budget.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) soak: Option<Duration>,
    /// Only these kinds of items.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<MltsWhat>,
    /// Only items whose id this regular expression finds.
    #[arg(long, value_name = "REGEX")]
    pub(crate) filter: Option<String>,
    /// Leave out items whose id this regular expression finds.
    #[arg(long, value_name = "REGEX")]
    pub(crate) skip: Option<String>,
    /// The kinds of calls [default: burst,sync; with --full all four].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) modes: Vec<ModeArg>,
    /// The device that latency is compared with; `none` saves the time.
    #[arg(long, value_name = "NAME", default_value = "nnapi-reference")]
    pub(crate) reference: String,
    /// The tier that decides [default: exact for the drivers of this program, else task].
    #[arg(long, value_enum)]
    pub(crate) accept: Option<MltsAccept>,
    /// The seed of every random choice.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep failing cases in this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Seconds without any progress that count as a hang.
    #[arg(long, value_name = "S", default_value_t = 10)]
    pub(crate) patience: u64,
    /// Tests may kill a service that the suite didn't start.
    #[arg(long)]
    pub(crate) allow_kill: bool,
    /// Allow floats to be computed with the precision of half floats.
    #[arg(long)]
    pub(crate) relaxed: bool,
    /// Look for the first wrong operation of this model: every value becomes an output.
    #[arg(long, value_name = "MODEL")]
    pub(crate) bisect: Option<String>,
    /// The wait strategy of both ends of bursts [default: the settings'].
    #[arg(long, value_enum)]
    pub(crate) wait: Option<WaitArg>,
    /// Threads of a driver that is embedded, or spawned by name.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Processors of the calling thread and of the driver's, in bursts; one is for both.
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1..=2)]
    pub(crate) cpus: Vec<u32>,
    /// Ask for real-time scheduling of both ends of bursts, and locked memory.
    #[arg(long)]
    pub(crate) realtime: bool,
    /// Measure calls at this period too, in milliseconds: as from a camera or sound card [default
    /// with --full: 33.3].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) period: Option<Duration>,
    /// Measure the throughput of so many clients at a time [default with --full: 1,2,4].
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) clients: Vec<usize>,
    /// Other engines' latencies, as lines of JSON with model, engine, threads, ok, `median_us` and
    /// `p99_us`: a column of the page.
    #[arg(long, value_name = "FILE")]
    pub(crate) peers: Option<PathBuf>,
    /// A previous run; differences go to standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// With --baseline: fail where p50 or p99 are so many per cent above it.
    #[arg(long, value_name = "PCT", requires = "baseline")]
    pub(crate) fail_on_regression: Option<f64>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write latencies as CSV.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct MltsListArgs {
    /// A folder of models with a manifest.json; repeatable.
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Vec<PathBuf>,
    /// The tests of the quick budget.
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// The tests of the full budget.
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MltsCompareArgs {
    /// The older run.
    pub(crate) old: PathBuf,
    /// The newer run.
    pub(crate) new: PathBuf,
    /// Per cent by which p50 or p99 may grow.
    #[arg(long, value_name = "PCT", default_value_t = 10.0)]
    pub(crate) limit: f64,
    /// Write the page of both.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct MltsReportArgs {
    /// One to six runs.
    #[arg(required = true, num_args = 1..=6)]
    pub(crate) runs: Vec<PathBuf>,
    /// The page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct MltsReplayArgs {
    /// A file that `run --keep` wrote.
    pub(crate) case: PathBuf,
}

/// Kinds of items of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MltsWhat {
    /// Goldens and tasks.
    Accuracy,
    /// Latency.
    Latency,
    /// Compile times.
    Compile,
    /// The operations that are taken.
    Support,
    /// Crash tests.
    Crash,
}

/// Tiers of accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MltsAccept {
    /// Bits of the goldens or of NNAPI's reference; floats within rounding.
    Exact,
    /// A step or so.
    Close,
    /// The rules of the tasks.
    Task,
}
