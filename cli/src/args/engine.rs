//! The device, the way it is called, and how models are read for it.

use std::time::Duration;

use clap::{Args, ValueEnum};

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
        Ok(0) | Err(_) => Err(format!("{extent:?} is no extent: {expected}")),
        Ok(extent) => Ok(extent),
    });
    Ok((name.to_owned(), dims.collect::<Result<_, _>>()?))
}
