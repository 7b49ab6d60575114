//! The crates' `tracing` events, written to standard error where the settings ask for it.

use std::io::{self, IsTerminal};
use std::sync::Once;

use nix::fcntl::{FcntlArg, fcntl};
use nnburst_hal::{FileStatus, VlogMask, VlogTag, environment, setting};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::journal::Journal;
use crate::log_format::LogFormat;

/// How a program begins to log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions<'a> {
    /// The name of the process in the file of spans.
    pub process: &'a str,
    /// The form, where the program chooses instead of the setting `log-format`.
    pub format: Option<LogFormat>,
    /// The events that are written where no setting names any, as `NNBURST_LOG` names them; none by
    /// default.
    pub events: Option<&'a str>,
}

/// Begins to write events and spans as the settings ask, once in a process; without these settings
/// it does nothing. For programs, and for libraries whose programs know nothing of `tracing`; who
/// installs a subscriber of their own needs it not.
///
/// Events go to standard error: those that `NNBURST_LOG` names (`debug`, `nnburst_burst=trace`), or
/// else those of the tags that the setting `vlog` names, and all warnings. Spans of `process` go to
/// the file that `NNBURST_TRACE` names.
///
/// # Errors
/// A name in the setting `vlog` is no tag, or the file of `NNBURST_TRACE` can't be opened; all else
/// that the settings ask for is done.
pub fn start_logging(process: &str) -> Result<(), LoggingError> {
    start_logging_with(&LogOptions { process, ..LogOptions::default() })
}

/// As [`start_logging`], in a form and with events of the program's choice.
///
/// # Errors
/// As there, and where the journal that was asked for can't be reached: standard error has plain
/// lines then.
pub fn start_logging_with(options: &LogOptions<'_>) -> Result<(), LoggingError> {
    static BEGUN: Once = Once::new();
    let mut result = Ok(());
    BEGUN.call_once(|| {
        let named = setting("log").map(|filter| filter.to_string_lossy().into_owned());
        let vlog = setting("vlog").unwrap_or_default();
        let vlog = vlog.to_string_lossy();
        let (mask, unknown) = VlogMask::parse(&vlog);
        // A library has nobody but the log to report a wrong tag to.
        let of_mistake = || (!unknown.is_empty()).then(|| "warn".to_owned());
        let by_default = || options.events.map(str::to_owned);
        let filter = named.or_else(|| filter_of_tags(mask)).or_else(of_mistake);
        if let Some(filter) = filter.or_else(by_default) {
            let by_setting = || LogFormat::from_name(&setting("log-format")?.to_string_lossy());
            let format = options.format.or_else(by_setting).unwrap_or_default();
            result = write_events(&filter, format);
        }
        if let Err(error) = nnburst_hal::start_tracing_from_env(options.process) {
            result = Err(LoggingError::Trace(error));
        }
        if !unknown.is_empty() {
            let unknown = unknown.into_iter().map(str::to_owned).collect();
            result = Err(LoggingError::UnknownTags(unknown));
        }
    });
    result
}

/// Writes the events that a filter lets through from now on.
fn write_events(filter: &str, format: LogFormat) -> Result<(), LoggingError> {
    let filter = targets(filter);
    let wants_journal = format == LogFormat::Journal || format == LogFormat::Auto && is_journal();
    let (journal, result) = match wants_journal.then(Journal::new) {
        None => (None, Ok(())),
        Some(Ok(journal)) => (Some(journal), Ok(())),
        Some(Err(error)) if format == LogFormat::Journal => {
            (None, Err(LoggingError::Journal(error)))
        }
        // Plain lines get there as well.
        Some(Err(_)) => (None, Ok(())),
    };
    // A program that listens already keeps its subscriber.
    let registry = tracing_subscriber::registry();
    if let Some(journal) = journal {
        let _ = registry.with(journal.with_filter(filter)).try_init();
    } else if fcntl(io::stderr(), FcntlArg::F_GETFD).is_ok() {
        // Where standard error is closed its number goes to whatever is opened next.
        let _ = registry.with(lines(format == LogFormat::Json).with_filter(filter)).try_init();
    }
    result
}

/// Levels, each for all events or for those of a target, of which those that are none are left out.
/// (A filter by the fields of spans as well would bring an engine of regular expressions into the C
/// library.)
fn targets(filter: &str) -> Targets {
    let valid = filter.split(',').map(str::trim).filter(|part| part.parse::<Targets>().is_ok());
    valid.collect::<Vec<_>>().join(",").parse().unwrap_or_default()
}

/// Lines on standard error.
fn lines(is_json: bool) -> Box<dyn Layer<Registry> + Send + Sync> {
    let colours = io::stderr().is_terminal();
    // Saying that a full disk or a closed pipe takes nothing would panic, within a call of C's.
    let lines = fmt::layer().log_internal_errors(false).with_writer(io::stderr);
    if is_json {
        lines.json().flatten_event(true).boxed()
    } else {
        lines.with_ansi(colours).boxed()
    }
}

/// Returns whether standard error is what systemd connected to its journal: the device and inode in
/// `JOURNAL_STREAM` are its.
fn is_journal() -> bool {
    let (Some(named), Ok(stderr)) = (environment("JOURNAL_STREAM"), FileStatus::of(io::stderr()))
    else {
        return false;
    };
    named.to_string_lossy() == format!("{}:{}", stderr.identity.device(), stderr.identity.inode)
}

/// A setting of the log that can't be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// Names in the setting `vlog` that are no tags.
    #[error("NNBURST_VLOG names {}: the tags are all, {}", .0.join(", "), tag_names().join(", "))]
    UnknownTags(Vec<String>),
    /// The file of the setting `trace` can't be opened.
    #[error("NNBURST_TRACE: {0}")]
    Trace(io::Error),
    /// The journal can't be reached.
    #[error("the journal: {0}")]
    Journal(io::Error),
}

fn tag_names() -> [&'static str; VlogTag::ALL.len()] {
    VlogTag::ALL.map(VlogTag::name)
}

/// Lets through the events of the tags, and warnings of all; `None` without tags.
fn filter_of_tags(mask: VlogMask) -> Option<String> {
    let named = VlogTag::ALL.into_iter().filter(|&tag| mask.contains(tag));
    let tags: Vec<_> = named.map(|tag| format!("{}=debug", tag.target())).collect();
    (!tags.is_empty()).then(|| format!("warn,{}", tags.join(",")))
}
