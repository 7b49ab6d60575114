//! `nnburst serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nnburst::LogFormat;

use super::Hint;
use crate::session::DEFAULT_DRIVER;

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
    /// Threads that compute one execution [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// A precision hint: models that allow relaxed precision are computed faster and less exactly.
    #[arg(long, alias = "wish", value_enum)]
    pub(crate) hint: Option<Hint>,
    /// Take the name over from a process that serves the driver: it keeps the clients that it has,
    /// and ends when they have gone; those that come from now on come here.
    #[arg(long, conflicts_with = "fd")]
    pub(crate) take_over: bool,
    /// Reload of the service, as its manager runs it (ExecReload=), with the arguments of the
    /// service beside: has its process MAINPID read the file of limits again or, where the program
    /// was replaced since that began, starts the program anew to take the place of that process.
    #[arg(long, conflicts_with = "fd")]
    pub(crate) reload: bool,
    /// Keep this user's rights while serving: files, sockets, programs. Without them, a client that
    /// takes the driver over by a fault of its code gets no further than the driver.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// The file of limits and idle times, which SIGHUP has read again [default:
    /// ~/.config/nnburst/serve.toml, else /etc/nnburst/serve.toml, where there is one].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A setting of that file, such as user.models=16, user.memory=2GiB or
    /// users.camera.realtime-bursts=1; it counts before the file.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// The form of the log [default: journal where standard error is the journal's, else plain].
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormatArg>,
}

/// The forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// Lines for people.
    Plain,
    /// A JSON object per line.
    Json,
    /// Entries of systemd's journal, with fields.
    Journal,
}

impl From<LogFormatArg> for LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Plain => Self::Plain,
            LogFormatArg::Json => Self::Json,
            LogFormatArg::Journal => Self::Journal,
        }
    }
}
