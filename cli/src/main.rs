//! The `nnburst` command: run, measure and check neural networks on NNAPI drivers.
//!
//! ```text
//!   args ─► commands::{demo, run, bench, vts, ..} ─► session ─► nnburst
//!             │ source: file or built-in network    │ one compiled model, one mode, all frames
//!             └ photo, values: in and out           └ stats, table: what it took
//! ```
//!
//! Standard output carries results, standard error one line on what went wrong. The exit code says
//! what kind of failure it was; see [`failure`].
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a command line tool talks")]

mod args;
mod cached;
mod commands;
mod failure;
mod files;
mod pace;
mod process;
mod progress;
mod serving;
mod session;
mod source;
mod stats;
mod table;
mod values;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use nnburst::{LogOptions, LoggingError, Settings};
use signal_hook::consts::SIGXFSZ;

use args::{Cli, Command};
use failure::{Failure, warn};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // What doesn't fit the limit of file sizes is an error (EFBIG) of the one who wanted it, not
    // the end of a driver and all its clients. Nobody looks at the flag.
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, Arc::default()) {
        warn(&format!("SIGXFSZ: {error}"));
    }
    let mut out = std::io::stdout().lock();
    let result = begin_logging(&cli.command)
        .inspect(|()| warn_of_settings(&cli.command))
        .and_then(|()| dispatch(&cli.command, &mut out))
        .and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.message.is_empty() => ExitCode::from(failure.code),
        Err(failure) => {
            eprintln!("nnburst: {}", failure.message.replace('\n', " "));
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(command: &Command, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => commands::demo::demo(args, out),
        Command::Run(args) => commands::run::run(args, out),
        Command::Bench(args) => commands::bench::bench(args, out),
        Command::Devices(args) => commands::devices::devices(args, out),
        Command::Check(args) => commands::check::check(args, out),
        Command::Doctor(args) => commands::doctor::doctor(args, out),
        Command::Dot(args) => commands::dot::dot(args, out),
        Command::Serve(args) => commands::serve::serve(args, out),
        Command::Vts(args) => commands::vts::vts(args, out),
        Command::Top(args) => commands::watch::top(args, out),
        Command::Dump(args) => commands::watch::dump(args, out),
        Command::Metrics(args) => commands::metrics::metrics(args, out),
        Command::Trace(args) => commands::trace::trace(args, out),
        Command::Mlts(args) => commands::mlts::mlts(args, out),
    }
}

/// Begins to log as the settings ask. Spans that can't be written don't end the command.
fn begin_logging(command: &Command) -> Result<(), Failure> {
    let mut options = LogOptions { process: "nnburst", ..LogOptions::default() };
    if let Command::Serve(args) = command {
        options.format = args.log_format.map(Into::into);
        // A service has nobody else to report to; a driver that is spawned has its client.
        options.events = args.fd.is_none().then_some("warn,nnburst::serve=info");
    }
    match nnburst::start_logging_with(&options) {
        Err(error @ LoggingError::UnknownTags(_)) => Err(Failure::usage(error.to_string())),
        Err(error) => {
            warn(&error.to_string());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Reports settings that have no effect. `doctor` lists them itself, and a spawned driver has those
/// of the command that spawned it.
fn warn_of_settings(command: &Command) {
    let is_spawned = matches!(command, Command::Serve(args) if args.fd.is_some());
    if is_spawned || matches!(command, Command::Doctor(_)) {
        return;
    }
    for mistake in Settings::mistakes() {
        warn(&format!("settings: {mistake}"));
    }
}
