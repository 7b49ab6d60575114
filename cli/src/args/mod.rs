//! The command line: what is asked for, as types.

mod engine;
mod mlts;
mod serve;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

pub(crate) use engine::{Api, Engine, Extent, Hint, Hybrid, ImportArgs, ModeArg, Pace, WaitArg};
pub(crate) use mlts::{
    MltsAccept, MltsArgs, MltsCommand, MltsCompareArgs, MltsListArgs, MltsReplayArgs,
    MltsReportArgs, MltsRunArgs, MltsWhat,
};
pub(crate) use serve::ServeArgs;

use engine::{extent, milliseconds, time};

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
    /// Serve a driver to other processes until stopped.
    Serve(ServeArgs),
    /// Run a folder of conformance cases.
    Vts(VtsArgs),
    /// Watch the services that run, their clients, models and bursts: a table that renews itself.
    Top(TopArgs),
    /// Print the clients, models and bursts of the services that run, once.
    Dump(DumpArgs),
    /// Write the spans of a model's requests, or of any program's, in all processes that take part,
    /// to one file for Perfetto.
    Trace(TraceArgs),
    /// Tell Prometheus of the services that run: as a server of its own, or in a file.
    Metrics(MetricsArgs),
    /// Run the acceptance suite on a driver: accuracy, latency, support, crash tests, report.
    Mlts(MltsArgs),
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

/// The one model of a command.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// A .tflite file, or a folder with a model.tflite in it.
    #[arg(required_unless_present = "builtin")]
    pub(crate) model: Option<PathBuf>,
    /// A network that needs no file instead.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) builtin: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// A JPEG or PNG to classify, `-` for standard input; or a folder, whose photos are classified
    /// one after the other, by name.
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "input")]
    pub(crate) image: Option<PathBuf>,
    /// Raw little-endian bytes of an input, by its number or its name, in the type that the model's
    /// file gives it, such as 0=frame.bin; inputs left out are zeros. Of a device, a FIFO or
    /// standard input (`0=-`) as many are read as the input takes.
    #[arg(long, value_name = "I=FILE", value_parser = input_file)]
    pub(crate) input: Vec<(String, PathBuf)>,
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
    /// Print one JSON object; one per photo of a folder.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

fn input_file(text: &str) -> Result<(String, PathBuf), String> {
    let (input, file) = text.split_once('=').ok_or("expected I=FILE, such as 0=frame.bin")?;
    Ok((input.to_owned(), PathBuf::from(file)))
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// .tflite files, or folders with a model.tflite in them.
    #[arg(required_unless_present_any = ["builtin", "ceiling"])]
    pub(crate) models: Vec<PathBuf>,
    /// Measure networks that need no file.
    #[arg(long, value_name = "NAME")]
    pub(crate) builtin: Vec<String>,
    /// Calls to measure, of each stream.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Measure for so long instead, such as 10s or 5m.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "runs")]
    pub(crate) duration: Option<Duration>,
    /// Calls before that, or a time, which count for nothing [default: a tenth of what is
    /// measured, 3 to 1000 calls]
    #[arg(long, value_name = "N|TIME", value_parser = extent)]
    pub(crate) warmup: Option<Extent>,
    /// Callers at the same time, each with a model and a burst of its own on the same device; with
    /// --period each at its own moment of it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) streams: u16,
    /// Float inputs lie between minus this and this; 1e-40 is a signal that has faded away.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) amplitude: f32,
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
    /// Write the distribution of the latencies of the only model, in microseconds, as tools for
    /// HdrHistogram draw it; with --period from when each call was due.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "ceiling"])]
    pub(crate) hgrm: Option<PathBuf>,
    /// Print one JSON object per model.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print comma-separated values, a row per model.
    #[arg(long, conflicts_with_all = ["json", "profile", "ceiling"])]
    pub(crate) csv: bool,
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
    #[command(flatten)]
    pub(crate) model: ModelArgs,
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
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
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
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The format of what is told of services.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormatArgs {
    /// Print one JSON object per service, with its clients, models and bursts in it.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print comma-separated values: a row per service, client, model and burst.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DumpArgs {
    /// Only this service [default: all].
    pub(crate) service: Option<String>,
    /// Look for so many milliseconds, and tell rates and percentiles of these [default: since each
    /// model and burst is there].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) window: Option<Duration>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    /// A .tflite file, or a folder with a model.tflite in it.
    #[arg(required_unless_present_any = ["builtin", "program"])]
    pub(crate) model: Option<PathBuf>,
    /// A network that needs no file instead.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) builtin: Option<String>,
    /// A program instead, which runs until it ends; the drivers that it starts are traced too.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = ["model", "builtin"])]
    pub(crate) program: Vec<OsString>,
    /// The file; one that is there is replaced. ui.perfetto.dev and chrome://tracing open it.
    #[arg(long, short, value_name = "FILE", default_value = "trace.json")]
    pub(crate) output: PathBuf,
    /// Requests, after as many to warm up as `bench` has.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Only this service [default: all]
    pub(crate) service: Option<String>,
    /// Answer `GET /metrics` here, such as 127.0.0.1:9464, until stopped; with neither this nor
    /// --file the metrics are printed once
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Write this file again and again, whole each time: for the textfile collector of
    /// node_exporter, which reads files named *.prom.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Milliseconds from file to file.
    #[arg(long, value_name = "MS", default_value = "15000", value_parser = milliseconds, requires = "file")]
    pub(crate) interval: Duration,
    /// Ends after so many files [default: when stopped]
    #[arg(long, value_name = "N", requires = "file")]
    pub(crate) rounds: Option<u64>,
    /// Leave clients, models and bursts out: where they come and go by the hundred, each is a
    /// series more in Prometheus.
    #[arg(long)]
    pub(crate) without_clients: bool,
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
        assert_eq!((args.engine.mode, args.engine.wait), (ModeArg::Sync, Some(WaitArg::Spin)));
        assert_eq!(args.engine.cpus, [0, 1]);
        assert_eq!(args.pace.period, Some(Duration::from_micros(33_300)));
        let line = "nnburst bench a --duration 1.5m --warmup 250ms --preference low-power";
        let Command::Bench(args) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("bench was asked for");
        };
        assert_eq!(args.duration, Some(Duration::from_secs(90)));
        assert_eq!(args.warmup, Some(Extent::Time(Duration::from_millis(250))));
        assert_eq!(args.engine.wait(), WaitArg::Block);
        for wrong in [
            "nnburst run",
            "nnburst run m --input x",
            "nnburst bench m --period 0",
            "nnburst bench m --threads 0",
            "nnburst bench m --duration 10",
            "nnburst bench m --duration 1s --runs 5",
            "nnburst bench m --streams 0",
            "nnburst bench m --warmup 3x",
            "nnburst bench m --csv --json",
        ] {
            assert!(Cli::try_parse_from(wrong.split(' ')).is_err(), "{wrong}");
        }
    }
}
