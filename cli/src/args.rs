//! The command line: what is asked for, as types.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::session::DEFAULT_DRIVER;

/// Neural networks through the Android Neural Networks HAL, on Linux.
///
/// Exit codes: 0 success, 1 a check failed, 2 bad usage, 3 the device was lost, 4 a deadline was
/// missed.
#[derive(Debug, Parser)]
#[command(name = "nnburst", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a burst is worth: a driver in a process of its own, a built-in network, a table of
    /// latencies.
    Demo(DemoArgs),
    /// Run a model on raw tensors, or classify a photo.
    Run(RunArgs),
    /// Measure the latency of models.
    Bench(BenchArgs),
    /// List the devices and what they say of themselves.
    Devices(DevicesArgs),
    /// Say for each operation of a model whether a device takes it, and why not.
    Check(CheckArgs),
    /// Say whether this machine lets bursts be quick, what to do where not, and what is set.
    Doctor(DoctorArgs),
    /// Print a model as a graph for Graphviz.
    Dot(DotArgs),
    /// Serve a sample driver until stopped.
    Serve(ServeArgs),
    /// Run a folder of conformance cases.
    Vts(VtsArgs),
    /// Watch the bursts of the services that run: a table that renews itself.
    Top(TopArgs),
    /// Print the bursts of the services that run, once.
    Dump(DumpArgs),
    /// Run the acceptance suite on a driver: accuracy, latency, support, crash tests, report.
    Mlts(MltsArgs),
}

/// The device, and the way it is called.
#[derive(Args, Clone, Debug)]
pub(crate) struct Engine {
    /// `embedded` (the driver in this process), `spawn:NAME` (a driver in a process of its own),
    /// `nnapi-reference`, or the name of a service [default: spawn:nnburst-cpu, embedded with
    /// --mode inproc; `run` prefers a service that takes all of the model]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// The kind of call that executes.
    #[arg(long, value_enum, default_value_t = ModeArg::Burst)]
    pub(crate) mode: ModeArg,
    /// Threads that compute one execution.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// A precision hint: the model is computed faster and less exactly. It is taken for one that
    /// allows relaxed precision; a service that runs already follows its own hint.
    #[arg(long, alias = "wish", value_enum)]
    pub(crate) hint: Option<Hint>,
    /// The strategy by which both ends of a burst wait for each other.
    #[arg(long, value_enum, default_value_t = WaitArg::Adaptive)]
    pub(crate) wait: WaitArg,
    /// Milliseconds that each execution may take. Those that take longer are counted, and the exit
    /// code is 4.
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) deadline: Option<Duration>,
    /// Processors to run on: one for this process and one for the driver's burst thread.
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    pub(crate) cpus: Vec<u32>,
    /// Ask for real-time scheduling and locked memory; what is refused is said.
    #[arg(long)]
    pub(crate) realtime: bool,
}

/// The way in which a model's file becomes a model.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImportArgs {
    /// The shape of an input, such as image=1x320x320x3, where the model's file leaves it open or
    /// has another.
    #[arg(long, value_name = "NAME=DIMS", value_parser = named_shape)]
    pub(crate) shape: Vec<(String, Vec<u32>)>,
    /// The arithmetic of float layers with compressed weights.
    #[arg(long, value_enum, default_value_t = Hybrid::Tflite)]
    pub(crate) hybrid: Hybrid,
}

/// The arithmetic of float layers with compressed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hybrid {
    /// Activations are quantised on the fly, as TFLite does, where the device can.
    Tflite,
    /// Weights are widened to floats.
    Widened,
}

/// The precision hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hint {
    /// Factors of float convolutions and products are rounded to 8 bits of precision (16-bit
    /// numbers).
    Bf16,
}

/// The interface that the cases go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// The Rust interface of this program.
    Rust,
    /// The C interface: libneuralnetworks.so, loaded at run time.
    Ndk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// The plan in this process, without any queue or socket.
    Inproc,
    /// One call over the control connection.
    Sync,
    /// A call that returns at once and a callback.
    Async,
    /// A call that returns a sync fence.
    Fenced,
    /// A packet through a queue in shared memory.
    Burst,
}

impl ModeArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inproc => "inproc",
            Self::Sync => "sync",
            Self::Async => "async",
            Self::Fenced => "fenced",
            Self::Burst => "burst",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitArg {
    /// Poll; the shortest latency, a core each.
    Spin,
    /// Poll as long as recent waits were short, then sleep.
    Adaptive,
    /// Sleep at once.
    Block,
}

impl WaitArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Adaptive => "adaptive",
            Self::Block => "block",
        }
    }
}

/// The pace of the calls.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Milliseconds from call to call, as a camera or sound card would pace them [default: back to
    /// back]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) period: Option<Duration>,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is no number of milliseconds"))?;
    if value > 0.0 && value <= 60_000.0 {
        Ok(Duration::from_secs_f64(value / 1e3))
    } else {
        Err(format!("{text} is not within 0 to 60000 milliseconds"))
    }
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// A tenth of the frames, for a quick look.
    #[arg(long)]
    pub(crate) quick: bool,
    /// One JSON object per row instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A .tflite file, or a folder with a model.tflite in it.
    #[arg(required_unless_present = "builtin")]
    pub(crate) model: Option<PathBuf>,
    /// Run a network that needs no file instead.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) builtin: Option<String>,
    /// A JPEG or PNG to classify.
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    pub(crate) image: Option<PathBuf>,
    /// Raw little-endian bytes of an input, in the type that the model's file gives it, such as
    /// 0=frame.bin; inputs left out are zeros. Of a device or a FIFO as many are read as the input
    /// takes.
    #[arg(long, value_name = "I=FILE", value_parser = numbered_file)]
    pub(crate) input: Vec<(usize, PathBuf)>,
    /// Names of the classes, one a line, as many as the first output has elements [default: those
    /// that the model's file packs].
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// The number of classes to show.
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) top: usize,
    /// Write the outputs to out0.bin, out1.bin and so on in this folder, in the types of the
    /// model's file.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Run on N consecutive inputs of each file, the model's state kept in between.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: u32,
    /// Start anew, the model's state as before the first step, every N steps.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reset_every: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

fn named_shape(text: &str) -> Result<(String, Vec<u32>), String> {
    let expected = "expected NAME=DIMS, such as image=1x320x320x3";
    let (name, dims) = text.rsplit_once('=').ok_or(expected)?;
    let dims = dims.split('x').map(|extent| match extent.parse() {
        Ok(0) | Err(_) => Err(format!("{extent:?} is no extent: {expected}")),
        Ok(extent) => Ok(extent),
    });
    Ok((name.to_owned(), dims.collect::<Result<_, _>>()?))
}

fn numbered_file(text: &str) -> Result<(usize, PathBuf), String> {
    let (index, file) = text.split_once('=').ok_or("expected I=FILE, such as 0=frame.bin")?;
    let index = index.parse().map_err(|_| format!("{index:?} is no number of an input"))?;
    Ok((index, PathBuf::from(file)))
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// .tflite files, or folders with a model.tflite in them.
    #[arg(required_unless_present_any = ["builtin", "ceiling"])]
    pub(crate) models: Vec<PathBuf>,
    /// Measure networks that need no file.
    #[arg(long, value_name = "NAME")]
    pub(crate) builtin: Vec<String>,
    /// Calls to measure, after a tenth as many (1000 at most) to warm up.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Say where the time goes instead: a row per step of the plan, computed in this process, with
    /// its share of what this machine could do.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Measure this machine instead: the arithmetic and the memory of one core.
    #[arg(long)]
    pub(crate) ceiling: bool,
    /// Prepare each model into a cache, and measure what is loaded from there; `compile_ms` is then
    /// the loading.
    #[arg(long)]
    pub(crate) cache: bool,
    /// Print one JSON object per model.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Args, Debug)]
pub(crate) struct DevicesArgs {
    /// Print one JSON object per device.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `nnburst doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// A .tflite file, or a folder with a model.tflite in it.
    #[arg(required_unless_present = "builtin")]
    pub(crate) model: Option<PathBuf>,
    /// Check a network that needs no file.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) builtin: Option<String>,
    /// The device to ask [default: embedded]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Say how the model would be spread over these devices, and why
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "device")]
    pub(crate) devices: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
}

#[derive(Args, Debug)]
pub(crate) struct DotArgs {
    /// A .tflite file, or a folder with a model.tflite in it.
    #[arg(required_unless_present = "builtin")]
    pub(crate) model: Option<PathBuf>,
    /// Draw a network that needs no file.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) builtin: Option<String>,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The driver: nnburst-cpu, or a sample driver such as nnapi-sample_all.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_DRIVER)]
    pub(crate) driver: String,
    /// First measure the driver's figures on this machine; they are kept for its next starts.
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Serve one client on this inherited socket, and end when it disconnects.
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) fd: Option<i32>,
    /// Threads that compute one execution.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// A precision hint: models that allow relaxed precision are computed faster and less exactly.
    #[arg(long, alias = "wish", value_enum)]
    pub(crate) hint: Option<Hint>,
    /// Keep this user's rights while serving: files, sockets, programs. Without them, a client that
    /// takes the driver over by a fault of its code gets no further than the driver.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Only this service [default: all].
    pub(crate) service: Option<String>,
    /// Milliseconds from look to look.
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = milliseconds)]
    pub(crate) interval: Duration,
    /// Ends after so many looks [default: when stopped].
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct DumpArgs {
    /// Only this service [default: all].
    pub(crate) service: Option<String>,
    /// Print one JSON object per burst.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct VtsArgs {
    /// The folder with the cases.
    pub(crate) dir: PathBuf,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "SUBSTR")]
    pub(crate) filter: Option<String>,
    /// Leave the shapes of the outputs open, and expect the driver to report them.
    #[arg(long)]
    pub(crate) dynamic_shapes: bool,
    /// Make the first output's buffer a byte too short, and expect the driver to say so.
    #[arg(long)]
    pub(crate) insufficient_size: bool,
    /// Run the signed twin of each case with unsigned 8-bit operands.
    #[arg(long)]
    pub(crate) signed_twins: bool,
    /// Feed constant tensors (weights, shapes, axes) as inputs.
    #[arg(long)]
    pub(crate) all_tensors_as_inputs: bool,
    /// Have every suitable input made by an ADD in front of the model, so that it is a temporary.
    #[arg(long)]
    pub(crate) all_inputs_as_internal: bool,
    /// Put the arguments into buffers that the driver manages.
    #[arg(long)]
    pub(crate) device_memory: bool,
    /// Prepare each model into a cache, and run what is loaded from there.
    #[arg(long)]
    pub(crate) cache: bool,
    /// Through which interface. With ndk, devices are those of the library: nnapi-reference where
    /// none is named.
    #[arg(long, value_enum, default_value = "rust")]
    pub(crate) api: Api,
    /// Print one JSON object at the end.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

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

/// A time with its unit: s, m or h.
fn time(text: &str) -> Result<Duration, String> {
    let unit = text.chars().next_back().unwrap_or(' ');
    let seconds = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        _ => return Err("a time is a number and s, m or h".to_owned()),
    };
    let number: f64 = text.trim_end_matches(unit).parse().map_err(|_| "no number".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory;
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Generated files below the crate are those of the command line; `NNBURST_WRITE_DOCS=1` writes
    /// them anew.
    fn are_up_to_date(folder: &str, generate: impl Fn(&Path)) {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let made = tempfile::tempdir().unwrap();
        let to = if std::env::var_os("NNBURST_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(&kept).unwrap();
            kept.as_path()
        } else {
            made.path()
        };
        generate(to);
        let list = |dir: &Path| {
            let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
            let mut all: Vec<_> = entries
                .map(|path| (path.file_name().unwrap().to_owned(), std::fs::read(&path).unwrap()))
                .collect();
            all.sort();
            all
        };
        assert!(list(to) == list(&kept), "cargo xtask manual writes cli/{folder} anew");
    }

    #[test]
    fn the_manual_pages_are_those_of_the_command_line() {
        are_up_to_date("man", |dir| clap_mangen::generate_to(Cli::command(), dir).unwrap());
    }

    #[test]
    fn completions_of_the_manual_are_those_of_the_command_line() {
        are_up_to_date("completions", |dir| {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                clap_complete::generate_to(shell, &mut Cli::command(), "nnburst", dir).unwrap();
            }
        });
    }

    #[test]
    fn what_is_given_arrives() {
        let line =
            "nnburst bench a b --runs 20 --mode sync --wait spin --cpus 0,1 --period 33.3 --json";
        let Command::Bench(args) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("bench was asked for");
        };
        assert_eq!(args.models.len(), 2);
        assert_eq!((args.engine.mode, args.engine.wait), (ModeArg::Sync, WaitArg::Spin));
        assert_eq!(args.engine.cpus, [0, 1]);
        assert_eq!(args.pace.period, Some(Duration::from_micros(33_300)));
        for wrong in [
            "nnburst run",
            "nnburst run m --input x",
            "nnburst bench m --period 0",
            "nnburst bench m --threads 0",
        ] {
            assert!(Cli::try_parse_from(wrong.split(' ')).is_err(), "{wrong}");
        }
    }
}
