//! The device, the way it is called, and how models are read for it.

use std::time::Duration;

use clap::{Args, ValueEnum};
use nnburst::hal::{ExecutionPreference, PrepareOptions, Priority};

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
    /// The strategy by which both ends of a burst wait for each other [default: adaptive, block
    /// with --preference low-power]
    #[arg(long, value_enum)]
    pub(crate) wait: Option<WaitArg>,
    /// The model's priority among all that the device computes for this user.
    #[arg(long, value_enum, default_value_t = PriorityArg::Medium)]
    pub(crate) priority: PriorityArg,
    /// The model's user's execution preference.
    #[arg(long, value_enum, default_value_t = PreferenceArg::FastSingleAnswer)]
    pub(crate) preference: PreferenceArg,
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

impl Engine {
    /// A device called in this way, and nothing else asked for.
    pub(crate) fn plain(device: Option<String>, mode: ModeArg, wait: WaitArg) -> Self {
        Self {
            device,
            mode,
            threads: 1,
            hint: None,
            wait: Some(wait),
            priority: PriorityArg::Medium,
            preference: PreferenceArg::FastSingleAnswer,
            deadline: None,
            cpus: Vec::new(),
            realtime: false,
        }
    }

    pub(crate) fn wait(&self) -> WaitArg {
        let usual = match self.preference {
            PreferenceArg::LowPower => WaitArg::Block,
            _ => WaitArg::Adaptive,
        };
        self.wait.unwrap_or(usual)
    }

    /// The options that a model is prepared with.
    pub(crate) fn prepare(&self) -> PrepareOptions {
        PrepareOptions {
            preference: match self.preference {
                PreferenceArg::LowPower => ExecutionPreference::LowPower,
                PreferenceArg::FastSingleAnswer => ExecutionPreference::FastSingleAnswer,
                PreferenceArg::SustainedSpeed => ExecutionPreference::SustainedSpeed,
            },
            priority: match self.priority {
                PriorityArg::Low => Priority::Low,
                PriorityArg::Medium => Priority::Medium,
                PriorityArg::High => Priority::High,
            },
            ..PrepareOptions::default()
        }
    }
}

/// A model's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriorityArg {
    /// After all others.
    Low,
    /// As usual.
    Medium,
    /// Before all others.
    High,
}

impl PriorityArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// An execution preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreferenceArg {
    /// Little energy.
    LowPower,
    /// One answer as soon as possible.
    FastSingleAnswer,
    /// A lasting rate, such as a camera's frames.
    SustainedSpeed,
}

impl PreferenceArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LowPower => "low-power",
            Self::FastSingleAnswer => "fast-single-answer",
            Self::SustainedSpeed => "sustained-speed",
        }
    }
}

/// A number of calls, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// So many calls.
    Calls(u32),
    /// As many as fit.
    Time(Duration),
}

/// So many calls, or a time with its unit.
pub(super) fn extent(text: &str) -> Result<Extent, String> {
    match text.parse() {
        Ok(calls) => Ok(Extent::Calls(calls)),
        Err(_) => time(text).map(Extent::Time),
    }
}

/// A time with its unit: ms, s, m or h.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let parted =
        units.iter().find_map(|&(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = parted.ok_or("a time is a number and ms, s, m or h, such as 10s")?;
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is no number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// The way in which a model's file becomes a model.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImportArgs {
    /// The signature to compute, where the model's file has several: its graph, whose inputs and
    /// outputs have the signature's names [default: the first graph]
    #[arg(long, value_name = "NAME")]
    pub(crate) signature: Option<String>,
    /// The shape of an input, such as image=1x320x320x3, where the model's file leaves it open or
    /// has another.
    #[arg(long, value_name = "NAME=DIMS", value_parser = named_shape)]
    pub(crate) shape: Vec<(String, Vec<u32>)>,
    /// Requests that the model computes at once, where its file is made for one: the first extent
    /// of all inputs and outputs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: u32,
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

pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is no number of milliseconds"))?;
    if value > 0.0 && value <= 60_000.0 {
        Ok(Duration::from_secs_f64(value / 1e3))
    } else {
        Err(format!("{text} is not within 0 to 60000 milliseconds"))
    }
}

fn named_shape(text: &str) -> Result<(String, Vec<u32>), String> {
    let expected = "expected NAME=DIMS, such as image=1x320x320x3";
    let (name, dims) = text.rsplit_once('=').ok_or(expected)?;
    let dims = dims.split('x').map(|extent| match extent.parse() {
        Err(_) => Err(format!("{extent:?} is no extent: {expected}")),
        Ok(extent) => Ok(extent),
    });
    Ok((name.to_owned(), dims.collect::<Result<_, _>>()?))
}
