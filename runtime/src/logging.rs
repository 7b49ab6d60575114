//! The crates' `tracing` events, written to standard error where the settings ask for it.

use std::io::{self, IsTerminal};
use std::sync::Once;

use nix::fcntl::{FcntlArg, fcntl};
use nnburst_hal::{VlogMask, VlogTag, setting};

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
    static BEGUN: Once = Once::new();
    let mut result = Ok(());
    BEGUN.call_once(|| {
        let named = setting("log").map(|filter| filter.to_string_lossy().into_owned());
        let vlog = setting("vlog").unwrap_or_default();
        let vlog = vlog.to_string_lossy();
        let (mask, unknown) = VlogMask::parse(&vlog);
        // Where standard error is closed its number goes to whatever is opened next.
        let has_stderr = fcntl(io::stderr(), FcntlArg::F_GETFD).is_ok();
        // A library has nobody but the log to report a wrong tag to.
        let of_mistake = || (!unknown.is_empty()).then(|| "warn".to_owned());
        let filter = named.or_else(|| filter_of_tags(mask)).or_else(of_mistake);
        if let Some(filter) = filter.filter(|_| has_stderr) {
            let colours = io::stderr().is_terminal();
            let events = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
            // Saying that a full disk or a closed pipe takes nothing would panic, within a call of
            // C's.
            let events = events.log_internal_errors(false);
            // A program that listens already keeps its subscriber.
            let _ = events.with_writer(io::stderr).try_init();
        }
        result = nnburst_hal::start_tracing_from_env(process).map_err(LoggingError::Trace);
        if !unknown.is_empty() {
            let unknown = unknown.into_iter().map(str::to_owned).collect();
            result = Err(LoggingError::UnknownTags(unknown));
        }
    });
    result
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
